//! `exec::run`: a program that `allow.exec` names, without a shell.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Array, Dynamic, Engine, FuncRegistration, Map, Module};
use tracing::Instrument as _;

use crate::script::functions::finished::{self, Form, KIND};
use crate::script::functions::options::{placed, text};
use crate::script::functions::support::{self, Native, Thrown};
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::limits::allocator;
use crate::script::outside::files::FilePattern;
use crate::script::outside::programs::{AllowedProgram, Finished, ProgramRequest};
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;
use crate::script::values::time;

/// The name of the function, for messages.
const NAME: &str = "exec::run";

/// The options.
const OPTIONS: [&str; 7] = ["stdin", "files", "env", "timeout", "outputs", "check", "binary"];

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    FuncRegistration::new("run").set_into_module(
        &mut module,
        |native: Native<'_>, name: Dynamic, arguments: Dynamic| {
            placed(&native, run(&native, &name, &arguments, Dynamic::UNIT))
        },
    );
    FuncRegistration::new("run").set_into_module(
        &mut module,
        |native: Native<'_>, name: Dynamic, arguments: Dynamic, options: Dynamic| {
            placed(&native, run(&native, &name, &arguments, options))
        },
    );
    engine.register_static_module("exec", module.into());
}

/// `exec::run(name, arguments, [options])`: runs a program to its end, and returns a map with `code`, `stdout`,
/// `stderr` and `files`.
fn run(native: &Native<'_>, name: &Dynamic, arguments: &Dynamic, options: Dynamic) -> Result<Dynamic, Thrown> {
    let context = Context::of(native)?;
    context.acts(NAME)?;
    let name = text(NAME, "the name of the program", name)?;
    let Some(allowed) = context.allow().exec.get(&name) else {
        return Err(refused(format!("the program {name} is not listed under `allow.exec`")).into());
    };
    let arguments = finished::arguments(NAME, arguments)?;
    allowed
        .admit(&arguments)
        .map_err(|wrong| refused(format!("`{NAME}`: {name} is not allowed with these arguments: {wrong}")))?;
    let options = Options::read(options)?;
    let programs = context.outside().programs.clone();
    let programs =
        programs.ok_or_else(|| Failure::host("unavailable", format!("`{NAME}` cannot run programs here")))?;
    context.budget().count_api_call()?;
    // Copies, which another thread frees: what the call itself holds stays counted.
    let request = allocator::uncounted(|| request(&name, allowed, &arguments, &options));
    let ran = async move { Arc::clone(&programs).run(request).await }.instrument(context.span().clone());
    match wait_in(&context, ran)? {
        Ok(ended) => {
            let result = returned(native, &name, &ended, &options);
            // The call has copies of its own, and has never counted this.
            allocator::uncounted(|| drop(ended));
            result
        }
        Err(error) => Err(finished::failed(error)?.into()),
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

fn returned(native: &Native<'_>, name: &str, ended: &Finished, options: &Options) -> Result<Dynamic, Thrown> {
    let mut result = finished::returned(native, name, ended, Form { check: options.check, binary: options.binary })?;
    let files =
        ended.files.iter().map(|(path, contents)| (path.as_str().into(), finished::bytes(contents))).collect::<Map>();
    result.insert("files".into(), files.into());
    Ok(result.into())
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
        let outputs = option("outputs")
            .map_or_else(|| Ok(Array::new()), |outputs| finished::list(NAME, "the option `outputs`", outputs))?;
        Ok(Self {
            stdin: option("stdin").map(|stdin| bytes("the option `stdin`", stdin)).transpose()?.unwrap_or_default(),
            files: files.into_iter().map(file).collect::<Result<_, Thrown>>()?,
            env: variables
                .into_iter()
                .filter(|(_, value)| !value.is_unit())
                .map(variable)
                .collect::<Result<_, Thrown>>()?,
            timeout,
            outputs: outputs.iter().map(output).collect::<Result<_, Thrown>>()?,
            check: switch("check")?,
            binary: switch("binary")?,
        })
    }
}

fn variable((name, value): (rhai::Identifier, Dynamic)) -> Result<(String, String), Thrown> {
    let value =
        text(NAME, "a variable of `env`", &value).map_err(|_| wrong(format!("the variable {name} must be a text")))?;
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(wrong(format!("{name:?} cannot be a variable of the environment")));
    }
    Ok((name.to_string(), value))
}

fn output(pattern: &Dynamic) -> Result<FilePattern, Thrown> {
    let pattern = text(NAME, "a pattern of `outputs`", pattern)?;
    FilePattern::relative(&pattern).map_err(|problem| wrong(format!("the pattern {pattern:?} of `outputs`: {problem}")))
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
