//! Bytes in scripts: `to_bytes`, and the methods of bytes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Array, Dynamic, Engine, EvalAltResult, NativeCallContext, Position};

use super::options::placed;
use crate::kit::hexadecimal;
use crate::script::language::bytes::Bytes;
use crate::script::limits::Limit;
use crate::script::runtime::bounded;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;

impl Bytes {
    fn to_text(&self, native: &Native<'_>) -> Result<String, Thrown> {
        may_be_text(native, self.0.len())?;
        let text = std::str::from_utf8(&self.0);
        text.map(str::to_owned).map_err(|_| Failure::host("parse", "`to_text`: the bytes are not UTF-8 text").into())
    }

    fn to_base64(&self, native: &Native<'_>) -> Result<String, Thrown> {
        may_be_text(native, self.0.len().saturating_mul(4) / 3 + 4)?;
        Ok(STANDARD.encode(&self.0))
    }

    fn to_hex(&self, native: &Native<'_>) -> Result<String, Thrown> {
        may_be_text(native, self.0.len().saturating_mul(2))?;
        Ok(hexadecimal(&self.0))
    }

    fn get_at(&self, index: i64) -> Result<i64, Thrown> {
        let length = self.0.len();
        let position = if index < 0 { length as i64 + index } else { index };
        let byte = usize::try_from(position).ok().and_then(|position| self.0.get(position));
        byte.map(|byte| i64::from(*byte))
            .ok_or_else(|| EvalAltResult::ErrorArrayBounds(length, index, Position::NONE).into())
    }

    fn extract(&self, start: i64, length: i64) -> Result<Self, Thrown> {
        let start = if start < 0 { self.0.len() as i64 + start } else { start };
        let start = usize::try_from(start).unwrap_or_default().min(self.0.len());
        let end = start.saturating_add(usize::try_from(length).unwrap_or_default()).min(self.0.len());
        bounded::reserve(end - start)?;
        Ok(Self(self.0[start..end].into()))
    }

    fn followed_by(&self, other: &Self) -> Result<Self, Thrown> {
        bounded::reserve(2 * (self.0.len() + other.0.len()))?;
        Ok(Self([&self.0[..], &other.0[..]].concat().into()))
    }
}

/// Checks that a text may have this many bytes.
fn may_be_text(native: &Native<'_>, length: usize) -> Result<(), Thrown> {
    if length > native.engine().max_string_size() {
        Err(bounded::refused(Limit::StringSize))
    } else {
        bounded::reserve(length)
    }
}

/// Registers the function `to_bytes`, and the methods.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Bytes>("Bytes");
    engine.register_fn("to_bytes", |native: Native<'_>, given: Dynamic| placed(&native, to_bytes(&given)));
    pure!(engine, "len", |bytes: &mut Bytes| bytes.0.len() as i64);
    pure!(engine, "is_empty", |bytes: &mut Bytes| bytes.0.is_empty());
    pure!(engine, "to_text", |native: Native<'_>, bytes: &mut Bytes| placed(&native, bytes.to_text(&native)));
    pure!(engine, "to_base64", |native: Native<'_>, bytes: &mut Bytes| placed(&native, bytes.to_base64(&native)));
    pure!(engine, "to_hex", |native: Native<'_>, bytes: &mut Bytes| placed(&native, bytes.to_hex(&native)));
    pure!(engine, "extract", |native: Native<'_>, bytes: &mut Bytes, start: i64, length: i64| {
        placed(&native, bytes.extract(start, length))
    });
    pure!(engine, "to_string", |bytes: &mut Bytes| bytes.to_string());
    pure!(engine, "to_debug", |bytes: &mut Bytes| bytes.to_string());
    pure!(get engine, |bytes: &mut Bytes, index: i64| bytes.get_at(index));
    pure!(engine, "==", |a: &mut Bytes, b: Bytes| *a == b);
    pure!(engine, "!=", |a: &mut Bytes, b: Bytes| *a != b);
    pure!(engine, "+", |native: Native<'_>, a: &mut Bytes, b: Bytes| placed(&native, a.followed_by(&b)));
}

/// `to_bytes(value)`: the bytes of a text in UTF-8, or of a list of integers.
fn to_bytes(given: &Dynamic) -> Result<Bytes, Thrown> {
    let Ok(items) = given.as_array_ref() else { return Bytes::of("to_bytes", "the value", given) };
    bounded::reserve(items.len())?;
    of_integers(&items).map(Bytes::from)
}

fn of_integers(items: &Array) -> Result<Vec<u8>, Thrown> {
    let byte = |item: &Dynamic| item.as_int().ok().and_then(|integer| u8::try_from(integer).ok());
    let bytes = items.iter().map(|item| {
        byte(item).ok_or_else(|| Failure::argument("`to_bytes`: the items must be integers from 0 to 255").into())
    });
    bytes.collect()
}
