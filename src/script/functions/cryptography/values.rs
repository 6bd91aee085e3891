//! Arguments, results and errors of the functions.

use rhai::Dynamic;

use crate::cryptography::{CryptoError, PrivateKey};
use crate::script::functions::support::{Native, Thrown, wrong};
use crate::script::language::bytes::Bytes;
use crate::script::runtime::bounded;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

/// Limit of the bytes that are encrypted, signed or read at once. Meanwhile no other script of the thread runs.
const MAX_SIZE: usize = 16 << 20;

/// Returns the error of a function.
pub(super) fn failed(function: &str, error: CryptoError) -> Thrown {
    let kind = match error {
        CryptoError::Argument(_) => "argument",
        CryptoError::Unreadable(_) => "parse",
        CryptoError::Refused(_) | CryptoError::Failed(_) => "crypto",
    };
    Failure::host(kind, format!("`{function}`: {error}")).into()
}

/// Returns the bytes of an argument, which may be a text.
pub(super) fn bytes(function: &str, what: &str, value: &Dynamic) -> Result<Bytes, Thrown> {
    let bytes = Bytes::of(function, what, value)?;
    if bytes.0.len() > MAX_SIZE {
        return Err(wrong(function, format!("{what} has more than {} MiB", MAX_SIZE >> 20)));
    }
    // The result is about as large, and some of it is copied once more.
    bounded::reserve(bytes.0.len().saturating_mul(3))?;
    Ok(bytes)
}

/// Returns bytes for the script.
pub(super) fn given(made: Vec<u8>) -> Dynamic {
    Dynamic::from(Bytes::from(made))
}

/// Reads a private key.
pub(super) fn private_key(function: &str, value: &Dynamic, password: Option<&str>) -> Result<PrivateKey, Thrown> {
    PrivateKey::read(&bytes(function, "the key", value)?.0, password).map_err(|error| failed(function, error))
}

/// Returns random bytes, from the operating system unless there is a seed.
pub(super) fn random<const SIZE: usize>(native: &Native<'_>, function: &str) -> Result<[u8; SIZE], Thrown> {
    let context = Context::of(native)?;
    context.varies(function)?;
    let mut random = [0; SIZE];
    context.environment().rng.fill(&mut random)?;
    Ok(random)
}
