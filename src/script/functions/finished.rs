//! The results of commands: of programs of this machine, and of commands in containers.

use rhai::{Array, Dynamic, Map};
use serde_json::Value;

use super::options::text;
use super::support::{Native, Thrown, may_have_bytes, wrong};
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::limits::allocator;
use crate::script::outside::programs::{Finished, ProgramError};
use crate::script::runtime::bounded;
use crate::script::values::script_error::Failure;

/// The kind of errors of commands.
pub(super) const KIND: &str = "exec";

/// The length of standard error in the message of a failed command, in characters from its end.
const SHOWN_ERRORS: usize = 400;

/// The requested form of a result.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Whether an exit code other than zero is an error.
    pub check: bool,
    /// Whether standard output is given as bytes.
    pub binary: bool,
}

/// Returns the result as a map with `code`, `stdout` and `stderr`.
///
/// # Errors
/// If it is too large, or the exit code is to be checked and is not zero.
pub(super) fn returned(native: &Native<'_>, name: &str, finished: &Finished, form: Form) -> Result<Map, Thrown> {
    let Finished { code, stdout, stderr, files } = finished;
    let size = stdout.len() + stderr.len() + files.values().map(Vec::len).sum::<usize>();
    bounded::reserve(size.saturating_mul(2))?;
    if form.check && *code != 0 {
        let errors = String::from_utf8_lossy(stderr);
        let end =
            errors.trim().chars().rev().take(SHOWN_ERRORS).collect::<Vec<_>>().into_iter().rev().collect::<String>();
        let colon = if end.is_empty() { "" } else { ": " };
        let message = format!("{name} has ended with the code {code}{colon}{end}");
        let failure = Failure { reason: Some("ExitCode".to_owned()), ..Failure::host(KIND, message) };
        let mut failure = with_output(failure, stdout, stderr);
        failure.properties.insert("code", (*code).into());
        return Err(failure.into());
    }
    may_have_bytes(native, stdout.len().max(stderr.len()))?;
    let text = |bytes: &[u8]| Dynamic::from(String::from_utf8_lossy(bytes).into_owned());
    let entries: [(&str, Dynamic); 3] = [
        ("code", i64::from(*code).into()),
        ("stdout", if form.binary { bytes(stdout) } else { text(stdout) }),
        ("stderr", text(stderr)),
    ];
    Ok(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
}

/// Returns bytes as scripts have them.
pub(super) fn bytes(bytes: &[u8]) -> Dynamic {
    Dynamic::from(Bytes(bytes.into()))
}

/// Returns the error that scripts catch.
///
/// # Errors
/// If the output of the command is too large.
pub(super) fn failed(error: ProgramError) -> Result<Failure, Thrown> {
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

/// Returns the arguments of a command: texts, and numbers as texts.
///
/// # Errors
/// If they are not a list of them, or have a zero character.
pub(super) fn arguments(function: &str, given: &Dynamic) -> Result<Vec<String>, Thrown> {
    let items = list(function, "the arguments", given)?;
    let argument = |item: Dynamic| {
        if item.is_int() || item.is_float() {
            return Ok(convert::shown(&item));
        }
        let argument = text(function, "an argument", &item)?;
        if argument.contains('\0') { Err(wrong(function, "an argument has a zero character")) } else { Ok(argument) }
    };
    items.into_iter().map(argument).collect()
}

/// Returns a list, or the copy of a list of the object.
///
/// # Errors
/// If it has another type.
pub(super) fn list(function: &str, what: &str, given: &Dynamic) -> Result<Array, Thrown> {
    if let Ok(items) = given.as_array_ref() {
        return Ok(items.clone());
    }
    let plain = convert::to_plain(given).map_err(|error| wrong(function, error.to_string()))?;
    plain.into_array().map_err(|_| wrong(function, format!("{what} must be a list")))
}
