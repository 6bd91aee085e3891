//! `exec::run`: a program that `allow.exec` names, without a shell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Array, Dynamic, Engine, FuncRegistration, Map, Module};
use serde_json::Value;
use tracing::Instrument as _;

use crate::script::bytes::Bytes;
use crate::script::context::{Context, wait_in};
use crate::script::functions::options::{placed, text};
use crate::script::functions::support::{self, Native, Thrown, may_have_bytes};
use crate::script::outside::files::FilePattern;
use crate::script::outside::programs::{AllowedProgram, Finished, ProgramError, ProgramRequest};
use crate::script::script_error::Failure;
use crate::script::{allocator, bounded, convert, time};

/// The kind of its errors.
const KIND: &str = "exec";

/// The name of the function, for messages.
const NAME: &str = "exec::run";

/// The options.
const OPTIONS: [&str; 7] = ["stdin", "files", "env", "timeout", "outputs", "check", "binary"];

/// The length of standard error in the message of a failed program, in characters from its end.
const SHOWN_ERRORS: usize = 400;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    FuncRegistration::new("run").set_into_module(&mut module, |native: Native<'_>, name: Dynamic, arguments: Dynamic| {
        placed(&native, run(&native, &name, &arguments, Dynamic::UNIT))
    });
    FuncRegistration::new("run").set_into_module(&mut module, |native: Native<'_>, name: Dynamic, arguments: Dynamic, options: Dynamic| {
        placed(&native, run(&native, &name, &arguments, options))
    });
    engine.register_static_module("exec", module.into());
}

/// `exec::run(name, arguments, [options])`: runs a program to its end, and returns a map with `code`, `stdout`, `stderr` and `files`.
fn run(native: &Native<'_>, name: &Dynamic, arguments: &Dynamic, options: Dynamic) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    context.acts(NAME)?;
    let name = text(NAME, "the name of the program", name)?;
    let Some(allowed) = context.allow().exec.get(&name) else {
        return Err(refused(format!("the program {name} is not listed under `allow.exec`")).into());
    };
    let arguments = arguments_of(arguments)?;
    allowed.admit(&arguments).map_err(|wrong| refused(format!("`{NAME}`: {name} is not allowed with these arguments: {wrong}")))?;
    let options = Options::read(options)?;
    let programs = context.outside().programs.clone();
    let programs = programs.ok_or_else(|| Failure::host("unavailable", format!("`{NAME}` cannot run programs here")))?;
    context.budget().count_api_call()?;
    // Copies, which another thread frees: what the call itself holds stays counted.
    let request = allocator::uncounted(|| request(&name, allowed, &arguments, &options));
    let ran = async move { Arc::clone(&programs).run(request).await }.instrument(context.span().clone());
    match wait_in(&context, ran)? {
        Ok(finished) => {
            let result = returned(native, &name, &finished, &options);
            // The call has copies of its own, and has never counted this.
            allocator::uncounted(|| drop(finished));
            result
        }
        Err(error) => Err(failed(error)?.into()),
    }
}

fn request(name: &str, allowed: &AllowedProgram, arguments: &[String], options: &Options) -> ProgramRequest {
    ProgramRequest {
        name: name.to_owned(),
        path: allowed.path.clone(),
        arguments: arguments.to_vec(),
        stdin: options.stdin.clone(),
        environment: options.env.clone(),
        files: options.files.clone(),
        outputs: options.outputs.clone(),
        time: options.timeout.map_or(allowed.time, |timeout| timeout.min(allowed.time)),
        output: usize::try_from(allowed.output).unwrap_or(usize::MAX),
    }
}

fn refused(message: String) -> Failure {
    Failure { reason: Some("Forbidden".to_owned()), ..Failure::host(KIND, message) }
}

/// Returns the error that scripts catch.
fn failed(error: ProgramError) -> Result<Failure, Thrown> {
    let ProgramError { reason, message, stdout, stderr } = &error;
    bounded::reserve((stdout.len() + stderr.len()).saturating_mul(2))?;
    let failure = Failure { reason: Some(reason.as_str().to_owned()), ..Failure::host(KIND, message.as_str()) };
    let failure = with_output(failure, stdout, stderr);
    allocator::uncounted(|| drop(error));
    Ok(failure)
}

fn with_output(mut failure: Failure, stdout: &[u8], stderr: &[u8]) -> Failure {
    let text = |bytes: &[u8]| Value::String(String::from_utf8_lossy(bytes).into_owned());
    failure.properties.extend([("stdout", text(stdout)), ("stderr", text(stderr))]);
    failure
}

fn returned(native: &Native<'_>, name: &str, finished: &Finished, options: &Options) -> Result<Dynamic, Thrown> {
    let Finished { code, stdout, stderr, files } = finished;
    let size = stdout.len() + stderr.len() + files.values().map(Vec::len).sum::<usize>();
    bounded::reserve(size.saturating_mul(2))?;
    if options.check && *code != 0 {
        let errors = String::from_utf8_lossy(stderr);
        let end = errors.trim().chars().rev().take(SHOWN_ERRORS).collect::<Vec<_>>().into_iter().rev().collect::<String>();
        let colon = if end.is_empty() { "" } else { ": " };
        let message = format!("{name} has ended with the code {code}{colon}{end}");
        let failure = Failure { reason: Some("ExitCode".to_owned()), ..Failure::host(KIND, message) };
        let mut failure = with_output(failure, stdout, stderr);
        failure.properties.insert("code", (*code).into());
        return Err(failure.into());
    }
    may_have_bytes(native, stdout.len().max(stderr.len()))?;
    let text = |bytes: &[u8]| Dynamic::from(String::from_utf8_lossy(bytes).into_owned());
    let bytes = |bytes: &[u8]| Dynamic::from(Bytes(bytes.into()));
    let files = files.iter().map(|(path, contents)| (path.as_str().into(), bytes(contents))).collect::<Map>();
    let entries: [(&str, Dynamic); 4] = [
        ("code", i64::from(*code).into()),
        ("stdout", if options.binary { bytes(stdout) } else { text(stdout) }),
        ("stderr", text(stderr)),
        ("files", files.into()),
    ];
    Ok(entries.into_iter().map(|(key, value)| (key.into(), value)).collect::<Map>().into())
}

/// Returns the arguments: texts, and numbers as texts.
fn arguments_of(given: &Dynamic) -> Result<Vec<String>, Thrown> {
    let items = list(given, "the arguments")?;
    let argument = |item: Dynamic| {
        if item.is_int() || item.is_float() {
            return Ok(convert::shown(&item));
        }
        let argument = text(NAME, "an argument", &item)?;
        if argument.contains('\0') { Err(wrong("an argument has a zero character")) } else { Ok(argument) }
    };
    items.into_iter().map(argument).collect()
}

/// The options of a call.
struct Options {
    stdin: Vec<u8>,
    files: BTreeMap<String, Vec<u8>>,
    env: BTreeMap<String, String>,
    timeout: Option<Duration>,
    outputs: Vec<FilePattern>,
    check: bool,
    binary: bool,
}

impl Options {
    fn read(given: Dynamic) -> Result<Self, Thrown> {
        let given = if given.is_unit() { Map::new() } else { map(&given, "the options")? };
        if let Some(unknown) = given.keys().find(|key| !OPTIONS.contains(&key.as_str())) {
            return Err(wrong(format!("there is no option `{unknown}`: there are {}", OPTIONS.join(", "))));
        }
        let option = |key: &str| given.get(key).filter(|value| !value.is_unit());
        let switch = |key: &str| match option(key) {
            None => Ok(false),
            Some(value) => value.as_bool().map_err(|_| wrong(format!("the option `{key}` must be a boolean"))),
        };
        let bytes = |what: &str, value: &Dynamic| Bytes::of(NAME, what, value).map(|bytes| bytes.0.to_vec());
        let files = option("files").map_or_else(|| Ok(Map::new()), |files| map(files, "the option `files`"))?;
        let file = |(path, contents): (rhai::Identifier, Dynamic)| {
            FilePattern::relative(&path).map_err(|problem| wrong(format!("the file {path:?}: {problem}")))?;
            Ok((path.to_string(), bytes("the contents of a file", &contents)?))
        };
        let variables = option("env").map_or_else(|| Ok(Map::new()), |env| map(env, "the option `env`"))?;
        let timeout = option("timeout").map(time::duration).transpose()?;
        if timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(wrong("the option `timeout` must be more than zero"));
        }
        let outputs = option("outputs").map_or_else(|| Ok(Array::new()), |outputs| list(outputs, "the option `outputs`"))?;
        Ok(Self {
            stdin: option("stdin").map(|stdin| bytes("the option `stdin`", stdin)).transpose()?.unwrap_or_default(),
            files: files.into_iter().map(file).collect::<Result<_, Thrown>>()?,
            env: variables.into_iter().filter(|(_, value)| !value.is_unit()).map(variable).collect::<Result<_, Thrown>>()?,
            timeout,
            outputs: outputs.iter().map(output).collect::<Result<_, Thrown>>()?,
            check: switch("check")?,
            binary: switch("binary")?,
        })
    }
}

fn variable((name, value): (rhai::Identifier, Dynamic)) -> Result<(String, String), Thrown> {
    let value = text(NAME, "a variable of `env`", &value).map_err(|_| wrong(format!("the variable {name} must be a text")))?;
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(wrong(format!("{name:?} cannot be a variable of the environment")));
    }
    Ok((name.to_string(), value))
}

fn output(pattern: &Dynamic) -> Result<FilePattern, Thrown> {
    let pattern = text(NAME, "a pattern of `outputs`", pattern)?;
    FilePattern::relative(&pattern).map_err(|problem| wrong(format!("the pattern {pattern:?} of `outputs`: {problem}")))
}

/// Returns a list, or the copy of a list of the object.
fn list(given: &Dynamic, what: &str) -> Result<Array, Thrown> {
    if let Ok(items) = given.as_array_ref() {
        return Ok(items.clone());
    }
    plain(given)?.into_array().map_err(|_| wrong(format!("{what} must be a list")))
}

/// Returns a map, or the copy of a map of the object. The values are as they are: bytes stay bytes.
fn map(given: &Dynamic, what: &str) -> Result<Map, Thrown> {
    if let Ok(entries) = given.as_map_ref() {
        return Ok(entries.clone());
    }
    plain(given)?.try_cast::<Map>().ok_or_else(|| wrong(format!("{what} must be a map")))
}

/// Returns the copy of a view.
fn plain(given: &Dynamic) -> Result<Dynamic, Thrown> {
    convert::to_plain(given).map_err(|error| wrong(error.to_string()))
}

fn wrong(what: impl std::fmt::Display) -> Thrown {
    support::wrong(NAME, what)
}
