//! `toml::`: TOML both ways.

use rhai::{Dynamic, Engine, Module};
use serde_json::Value;
use toml::Value as Toml;

use crate::script::functions::options::{json, text};
use crate::script::functions::support::{Given, Native, one, unreadable, wrong};
use crate::script::language::convert;
use crate::script::runtime::bounded::{self, Text};

/// The memory of a parsed text for each of its bytes: the parser keeps events and a tree.
const BYTES_PER_BYTE: usize = 48;

/// Limit of the bytes of a text: nothing interrupts its parser.
const MAX_TEXT: usize = 1 << 20;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    one(&mut module, "parse", |_, given| parse(given));
    one(&mut module, "dump", dump);
    engine.register_static_module("toml", module.into());
}

/// `toml::parse(text)`: the map. Dates and times are texts.
fn parse(given: &Dynamic) -> Given {
    let written = text("toml::parse", "the TOML", given)?;
    if written.len() > MAX_TEXT {
        return Err(wrong("toml::parse", format!("a text has at most {MAX_TEXT} bytes")));
    }
    bounded::reserve(written.len().saturating_mul(BYTES_PER_BYTE))?;
    let table: toml::Table = toml::from_str(&written).map_err(|error| {
        let place = error.span().map(|span| written[..span.start.min(written.len())].matches('\n').count() + 1);
        let place = place.map(|line| format!(" (line {line})")).unwrap_or_default();
        unreadable("toml::parse", bounded::shortened(error.message()) + &place)
    })?;
    bounded::pause()?;
    Ok(convert::to_dynamic(&plain(Toml::Table(table))))
}

/// The parser limits the nesting.
fn plain(value: Toml) -> Value {
    match value {
        Toml::String(text) => Value::String(text),
        Toml::Integer(integer) => integer.into(),
        Toml::Float(float) => float.into(),
        Toml::Boolean(flag) => flag.into(),
        Toml::Datetime(time) => Value::String(time.to_string()),
        Toml::Array(items) => items.into_iter().map(plain).collect(),
        Toml::Table(entries) => entries.into_iter().map(|(key, value)| (key, plain(value))).collect(),
    }
}

/// `toml::dump(map)`: the map as TOML. `()` has no form in it.
fn dump(native: &Native<'_>, given: &Dynamic) -> Given {
    let value = json("toml::dump", given)?;
    if !value.is_object() {
        return Err(wrong("toml::dump", "TOML is always a map"));
    }
    // The whole text is made before it is known to fit.
    crate::script::functions::support::may_have_bytes(native, 0)?;
    bounded::reserve(crate::script::values::json::size(&value).saturating_mul(3))?;
    let dumped = toml::to_string(&value)
        .map_err(|error| wrong("toml::dump", format!("the value has no form in TOML: {error}")))?;
    let mut text = Text::up_to(native.engine().max_string_size());
    if text.push(dumped.as_bytes()) {
        Ok(text.into_string().into())
    } else {
        Err(bounded::refused(crate::script::limits::Limit::StringSize))
    }
}
