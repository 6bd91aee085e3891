//! `url::`: the parts of addresses, and percent-encoding.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rhai::{Dynamic, Engine, Map, Module};
use url::Url;

use super::lists::{items_of, plain};
use crate::script::functions::options::text;
use crate::script::functions::support::{Given, Native, Thrown, may_have_bytes, one, shown, two, unreadable, wrong};
use crate::script::language::convert;
use crate::script::runtime::bounded;

/// All signs but those that RFC 3986 calls unreserved, as `quote(text, safe="")` in Python.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Limit of the bytes of an address.
const MAX_URL: usize = 64 << 10;

/// Registers the module.
pub(super) fn register(engine: &mut Engine) {
    let mut module = Module::new();
    one(&mut module, "parse", |_, given| parse(given));
    two(&mut module, "join", |_, base, reference| join(base, reference));
    one(&mut module, "encode", encode);
    one(&mut module, "decode", |_, given| decode(given));
    one(&mut module, "query", query);
    engine.register_static_module("url", module.into());
}

fn address(function: &str, given: &Dynamic) -> Result<Url, Thrown> {
    let written = text(function, "the address", given)?;
    if written.len() > MAX_URL {
        return Err(wrong(function, format!("an address has at most {MAX_URL} bytes")));
    }
    Url::parse(&written).map_err(|error| unreadable(function, format!("{:?} is no address: {error}", hidden(&written))))
}

/// Returns the beginning of an address for an error message, without a password in it.
fn hidden(address: &str) -> String {
    let (start, rest) = address.split_once("://").unwrap_or(("", address));
    match rest.split_once('@') {
        Some((_, rest)) => bounded::shortened(&format!("{start}://…@{rest}")),
        None => bounded::shortened(address),
    }
}

/// `url::parse(text)`: a map with `scheme`, `username`, `password`, `host`, `port`, `path`, `query`, `fragment`. The
/// port is that of the scheme if none is written, `query` is a map of texts, and of a list if a name occurs several
/// times. Missing parts are `()`.
fn parse(given: &Dynamic) -> Given {
    let url = address("url::parse", given)?;
    let optional = |part: Option<&str>| part.map_or(Dynamic::UNIT, Into::into);
    let decoded = |part: &str| Dynamic::from(percent_decode_str(part).decode_utf8_lossy().into_owned());
    let mut query = Map::new();
    for (name, value) in url.query_pairs() {
        let value: Dynamic = value.into_owned().into();
        match query.get_mut(name.as_ref()) {
            None => drop(query.insert(name.as_ref().into(), value)),
            Some(present) if present.is_array() => {
                if let Ok(mut list) = present.as_array_mut() {
                    list.push(value);
                }
            }
            Some(present) => *present = vec![present.clone(), value].into(),
        }
    }
    // An IPv6 address stands in brackets.
    let host = url.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']'));
    let parts: [(&str, Dynamic); 8] = [
        ("scheme", url.scheme().into()),
        ("username", if url.username().is_empty() { Dynamic::UNIT } else { decoded(url.username()) }),
        ("password", url.password().map_or(Dynamic::UNIT, decoded)),
        ("host", optional(host)),
        ("port", url.port_or_known_default().map_or(Dynamic::UNIT, |port| i64::from(port).into())),
        ("path", url.path().into()),
        ("query", query.into()),
        ("fragment", optional(url.fragment())),
    ];
    Ok(parts.into_iter().map(|(name, part)| (name.into(), part)).collect::<Map>().into())
}

/// `url::join(base, reference)`: the address that a reference means in a document of the base.
fn join(base: &Dynamic, reference: &Dynamic) -> Given {
    let base = address("url::join", base)?;
    let reference = text("url::join", "the reference", reference)?;
    if reference.len() > MAX_URL {
        return Err(wrong("url::join", format!("an address has at most {MAX_URL} bytes")));
    }
    let joined = base.join(&reference);
    joined
        .map(|url| String::from(url).into())
        .map_err(|error| unreadable("url::join", format!("{:?}: {error}", hidden(&reference))))
}

/// `url::encode(text)`: the text with `%20` and the like for all signs but letters, digits and `-._~`.
fn encode(native: &Native<'_>, given: &Dynamic) -> Given {
    let plain = text("url::encode", "the value", given)?;
    may_have_bytes(native, plain.len().saturating_mul(3))?;
    Ok(utf8_percent_encode(&plain, RESERVED).to_string().into())
}

/// `url::decode(text)`: the text without percent-encoding.
fn decode(given: &Dynamic) -> Given {
    let encoded = text("url::decode", "the value", given)?;
    let decoded = percent_decode_str(&encoded).decode_utf8();
    decoded.map(|text| text.into_owned().into()).map_err(|_| unreadable("url::decode", "the bytes are not UTF-8 text"))
}

/// `url::query(map)`: the query of an address, such as `a=1&b=x%20y`. A list gives its name several times; `()` is left
/// out.
fn query(native: &Native<'_>, given: &Dynamic) -> Given {
    let entries = plain("url::query", given)?;
    let entries = entries
        .try_cast::<Map>()
        .ok_or_else(|| wrong("url::query", format!("it needs a map, not {}", shown(given))))?;
    let mut query = String::new();
    for (name, value) in &entries {
        let values = if value.is_array() { items_of("url::query", value)? } else { vec![value.clone()] };
        for value in values.iter().filter(|value| !value.is_unit()) {
            if value.is_array() || value.is_map() {
                return Err(wrong(
                    "url::query",
                    format!("the value of `{name}` is neither a plain value nor a list of them"),
                ));
            }
            let value = convert::shown(value);
            may_have_bytes(native, query.len() + 3 * (name.len() + value.len()) + 2)?;
            let separator = if query.is_empty() { "" } else { "&" };
            query.extend(
                [separator]
                    .into_iter()
                    .chain(utf8_percent_encode(name, RESERVED))
                    .chain(["="])
                    .chain(utf8_percent_encode(&value, RESERVED)),
            );
        }
    }
    Ok(query.into())
}
