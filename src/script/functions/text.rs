//! Texts in other forms: `yaml::`, `json::`, `base64::`, `sha256`, and `quantity`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rhai::{Dynamic, Engine, EvalAltResult, FuncRegistration, ImmutableString, Module, NativeCallContext};
use serde_json::Value;

use super::options::{json, placed, text};
use crate::object::quantity::Quantity;
use crate::object::yaml;
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::runtime::bounded::{self, Parsed};
use crate::script::sources::digest;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// The bytes that are hashed before other scripts may run.
const HASHED: usize = 64 << 10;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    module(engine, "yaml", [("parse", yaml_parse as Function), ("parse_all", yaml_parse_all), ("dump", yaml_dump)]);
    module(engine, "json", [("parse", json_parse as Function), ("dump", json_dump)]);
    let base64 = [
        ("encode", base64_encode as Function),
        ("decode", base64_decode),
        ("decode_bytes", base64_bytes),
        ("decode_values", base64_values),
    ];
    module(engine, "base64", base64);
    // The language's own function would read any text.
    engine.register_fn("parse_json", |native: NativeCallContext<'_>, text: ImmutableString| {
        placed(&native, json_parse(&text.into()))
    });
    engine.register_fn("sha256", |text: Dynamic| sha256(&text));
    engine.register_fn("quantity", |text: Dynamic| quantity(&text));
}

type Function = fn(&Dynamic) -> Result<Dynamic, Thrown>;

fn module<const N: usize>(engine: &mut Engine, name: &str, functions: [(&str, Function); N]) {
    let mut module = Module::new();
    for (name, function) in functions {
        FuncRegistration::new(name)
            .set_into_module(&mut module, move |native: NativeCallContext<'_>, value: Dynamic| {
                placed(&native, function(&value))
            });
    }
    engine.register_static_module(name, module.into());
}

/// `yaml::parse(text)`: the value of the only document; `()` for an empty text. Several documents, and invalid YAML,
/// are errors.
fn yaml_parse(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let values = read_yaml("yaml::parse", given)?;
    match values.as_slice() {
        [] => Ok(Dynamic::UNIT),
        [value] => Ok(convert::to_dynamic(value)),
        more => {
            let count = more.len();
            Err(Failure::argument(format!("`yaml::parse`: there are {count} documents, use `yaml::parse_all`")).into())
        }
    }
}

/// `yaml::parse_all(text)`: an array of the values of all documents; empty ones are dropped.
fn yaml_parse_all(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let values = read_yaml("yaml::parse_all", given)?;
    Ok(values.iter().map(convert::to_dynamic).collect::<rhai::Array>().into())
}

fn read_yaml(function: &str, given: &Dynamic) -> Result<Vec<serde_json::Value>, Thrown> {
    let values = yaml::parse_as::<Parsed<false>>(&text(function, "the YAML", given)?)
        .map(|values| values.into_iter().map(|Parsed(value)| value));
    values.map(Iterator::collect).map_err(|error| Failure::host("parse", format!("`{function}`: {error}")).into())
}

/// `yaml::dump(value)`: the value as one document. Values without a JSON form are errors.
fn yaml_dump(value: &Dynamic) -> Result<Dynamic, Thrown> {
    let dumped = yaml::dump(&json("yaml::dump", value)?);
    dumped.map(Into::into).map_err(|error| Failure::argument(format!("`yaml::dump`: {error}")).into())
}

/// `json::parse(text)`: the value. Invalid JSON is an error with line and column.
fn json_parse(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let parsed: Result<Parsed<true>, _> = serde_json::from_str(&text("json::parse", "the JSON", given)?);
    parsed
        .map(|Parsed(value)| convert::to_dynamic(&value))
        .map_err(|error| Failure::host("parse", format!("`json::parse`: {error}")).into())
}

/// `json::dump(value)`: the value on one line. Values without a JSON form are errors.
fn json_dump(value: &Dynamic) -> Result<Dynamic, Thrown> {
    Ok(bounded::json_text(&json("json::dump", value)?).into())
}

/// `base64::encode(value)`: a text or bytes in the standard alphabet, with padding, as Secrets have them.
fn base64_encode(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let bytes = Bytes::of("base64::encode", "the value", given)?;
    bounded::reserve(bytes.0.len().saturating_mul(4) / 3)?;
    Ok(STANDARD.encode(&bytes.0).into())
}

/// `base64::decode_bytes(text)`: the bytes. Invalid base64 is an error.
fn base64_bytes(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let encoded = text("base64::decode_bytes", "the value", given)?;
    let decoded = STANDARD.decode(encoded.trim());
    let bytes =
        decoded.map_err(|error| Thrown::from(Failure::host("parse", format!("`base64::decode_bytes`: {error}"))))?;
    Ok(Dynamic::from(Bytes::from(bytes)))
}

/// `base64::decode_values(map)`: the bytes of each value of a map, as of a Secret's `data`; `()` is a map without
/// entries.
fn base64_values(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let wrong = |what: String| Thrown::from(Failure::host("parse", format!("`base64::decode_values`: {what}")));
    let entries = match json("base64::decode_values", given)? {
        Value::Null => serde_json::Map::new(),
        Value::Object(entries) => entries,
        _ => return Err(Failure::argument("`base64::decode_values` takes a map").into()),
    };
    let mut decoded = rhai::Map::new();
    for (key, value) in entries {
        let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
        let bytes = bytes.ok_or_else(|| wrong(format!("the value of {key:?} is not base64")))?;
        bounded::reserve(bytes.len())?;
        decoded.insert(key.into(), Dynamic::from(Bytes::from(bytes)));
    }
    Ok(decoded.into())
}

/// `base64::decode(text)`: the text. Invalid base64 or UTF-8 is an error.
fn base64_decode(given: &Dynamic) -> Result<Dynamic, Thrown> {
    let encoded = text("base64::decode", "the value", given)?;
    let wrong = |why: String| Thrown::from(Failure::host("parse", format!("`base64::decode`: {why}")));
    let bytes = STANDARD.decode(encoded.trim()).map_err(|error| wrong(error.to_string()))?;
    String::from_utf8(bytes).map(Into::into).map_err(|_| wrong("the bytes are not UTF-8 text".to_owned()))
}

/// `sha256(text)`: the digest of the text's bytes, as 64 hexadecimal digits.
fn sha256(given: &Dynamic) -> Result<String, Thrown> {
    let text = text("sha256", "the value", given)?;
    let mut pieces = text.as_bytes().chunks(HASHED).map(|piece| bounded::pause().map(|()| piece));
    digest::sha256_of(&mut pieces)
}

/// `quantity(text)`: the number of a quantity such as `500Mi` or `100m`; an integer if possible, else a float.
/// Numbers are returned unchanged. Other values are errors.
fn quantity(given: &Dynamic) -> Result<Dynamic, Thrown> {
    if given.is_int() || given.is_float() {
        return Ok(given.clone());
    }
    match Quantity::parse(&text("quantity", "the quantity", given)?) {
        Ok(Quantity::Whole(number)) => Ok(number.into()),
        Ok(Quantity::Fraction(number)) => Ok(number.into()),
        Err(error) => Err(Failure::argument(error.to_string()).into()),
    }
}
