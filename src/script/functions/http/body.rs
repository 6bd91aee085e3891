//! The bodies of requests: JSON, text, bytes, forms, and forms with files.

use percent_encoding::utf8_percent_encode;
use rhai::{Array, Dynamic, Map};

use super::given::Given;
use super::hosts::Thrown;
use crate::kit::hexadecimal;
use crate::script::functions::library::RESERVED;
use crate::script::functions::options::json;
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::runtime::bounded;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

/// A body, and the type of its content.
#[derive(Debug, Default)]
pub(super) struct Body {
    pub bytes: Vec<u8>,
    pub content_type: Option<String>,
}

impl Body {
    fn new(bytes: Vec<u8>, content_type: &str) -> Self {
        Self { bytes, content_type: Some(content_type.to_owned()) }
    }

    /// Returns the body of a request: of its argument, or of the options `body`, `form` or `multipart`.
    ///
    /// # Errors
    /// If there are several, or one has no form.
    pub(super) fn of(
        function: &str,
        argument: Option<&Dynamic>,
        options: &Given,
        context: &Context,
    ) -> Result<Self, Thrown> {
        let argument = argument.filter(|argument| !argument.is_unit());
        let given = [argument, options.value("body"), options.value("form"), options.value("multipart")];
        if given.iter().flatten().count() > 1 {
            let text = format!(
                "`{function}` has one body: the argument, or one of the options `body`, `form` and `multipart`"
            );
            return Err(Failure::argument(text).into());
        }
        match given {
            [Some(value), ..] | [_, Some(value), ..] => plain(function, value),
            [.., Some(_), _] => form(function, &options.map("form")?.unwrap_or_default()),
            [.., Some(_)] => multipart(function, &options.map("multipart")?.unwrap_or_default(), context),
            _ => Ok(Self::default()),
        }
    }
}

fn plain(function: &str, value: &Dynamic) -> Result<Body, Thrown> {
    if value.is_string() {
        return Ok(Body::new(Bytes::of(function, "the body", value)?.0.to_vec(), "text/plain; charset=utf-8"));
    }
    if value.is::<Bytes>() {
        let bytes = Bytes::of(function, "the body", value)?;
        bounded::reserve(bytes.0.len())?;
        return Ok(Body::new(bytes.0.to_vec(), "application/octet-stream"));
    }
    let text = bounded::json_text(&json(function, value)?);
    bounded::reserve(0)?;
    Ok(Body::new(text.into_bytes(), "application/json"))
}

fn form(function: &str, entries: &Map) -> Result<Body, Thrown> {
    Ok(Body::new(encoded(function, entries)?.into_bytes(), "application/x-www-form-urlencoded"))
}

/// Returns the names and values of a map as in a query. A list gives its name several times; `()` is left out.
///
/// # Errors
/// If a value is neither plain nor a list of plain values.
pub(super) fn encoded(function: &str, entries: &Map) -> Result<String, Thrown> {
    let mut pairs = Vec::new();
    for (name, value) in entries {
        for value in items(value) {
            let value = field(function, name, &value)?;
            bounded::reserve(3 * (name.len() + value.len()))?;
            pairs.push(format!("{}={}", utf8_percent_encode(name, RESERVED), utf8_percent_encode(&value, RESERVED)));
        }
    }
    Ok(pairs.join("&"))
}

fn items(value: &Dynamic) -> Vec<Dynamic> {
    let items = value.read_lock::<Array>().map_or_else(|| vec![value.clone()], |items| items.clone());
    items.into_iter().filter(|item| !item.is_unit()).collect()
}

fn field(function: &str, name: &str, value: &Dynamic) -> Result<String, Thrown> {
    if value.is_map() || value.is_array() || value.is::<Bytes>() {
        return Err(Failure::argument(format!(
            "`{function}`: the field `{name}` of the form must be a plain value, or a list of them"
        ))
        .into());
    }
    Ok(convert::shown(value))
}

/// A part is a plain value, bytes, or a map with `content`, and optionally `filename` and `type`.
fn multipart(function: &str, entries: &Map, context: &Context) -> Result<Body, Thrown> {
    let boundary = hexadecimal(&context.environment().rng.bytes());
    let mut bytes = Vec::new();
    for (name, value) in entries {
        for value in items(value) {
            let part = match value.as_map_ref().ok().map(|map| map.clone()) {
                Some(part) => part,
                None => Map::from([("content".into(), value.clone())]),
            };
            let part = Given::options(function, &["content", "filename", "type"], Some(&part.into()))?;
            let content = match part.value("content") {
                Some(content) if content.is_string() || content.is::<Bytes>() => {
                    part.bytes("content")?.unwrap_or_default()
                }
                Some(content) => field(function, name, content)?.into_bytes(),
                None => return Err(part.wrong("content", "given for each part of `multipart`")),
            };
            let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", quoted(name));
            if let Some(filename) = part.text("filename")? {
                head.extend(["; filename=\"", &quoted(&filename), "\""]);
            }
            if let Some(content_type) = part.text("type")? {
                if content_type.contains(|c: char| c.is_control()) {
                    return Err(part.wrong("type", "without line breaks"));
                }
                head.extend(["\r\nContent-Type: ", &content_type]);
            }
            head += "\r\n\r\n";
            bounded::reserve(2 * (bytes.len() + head.len() + content.len()))?;
            bytes.extend_from_slice(head.as_bytes());
            bytes.extend_from_slice(&content);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    Ok(Body::new(bytes, &format!("multipart/form-data; boundary={boundary}")))
}

/// Quotes a name as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}
