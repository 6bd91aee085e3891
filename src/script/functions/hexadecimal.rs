//! `hex::`: bytes as hexadecimal digits.

use rhai::{Dynamic, Engine, Module};

use super::options::text;
use super::support::{Given, Native, may_have_bytes, one, unreadable};
use crate::kit::hexadecimal;
use crate::script::language::bytes::Bytes;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    one(&mut module, "encode", encode);
    one(&mut module, "decode", |_, given| decode(given));
    engine.register_static_module("hex", module.into());
}

/// `hex::encode(value)`: a text or bytes in hexadecimal digits.
fn encode(native: &Native<'_>, value: &Dynamic) -> Given {
    let bytes = Bytes::of("hex::encode", "the value", value)?;
    may_have_bytes(native, bytes.0.len().saturating_mul(2))?;
    Ok(hexadecimal(&bytes.0).into())
}

/// `hex::decode(text)`: the bytes of hexadecimal digits.
fn decode(given: &Dynamic) -> Given {
    let digits = text("hex::decode", "the digits", given)?;
    let wrong = || unreadable("hex::decode", "the text is not an even number of hexadecimal digits");
    let digit = |c: u8| (c as char).to_digit(16).map(|digit| digit as u8);
    if !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let pairs = digits.as_bytes().chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?));
    let bytes: Option<Vec<u8>> = pairs.collect();
    bytes.map(|bytes| Dynamic::from(Bytes::from(bytes))).ok_or_else(wrong)
}
