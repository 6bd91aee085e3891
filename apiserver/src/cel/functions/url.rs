//! The functions of URLs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;
use crate::go::Url;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |arguments| {
            let url = Url::parse(text(arguments)?)
                .map_err(|why| failed(format!("URL parse error during conversion from string: {why}")))?;
            Ok(Value::Url(Arc::new(url)))
        },
        "isURL" => |arguments| text(arguments).map(|text| Value::Bool(Url::parse(text).is_ok())),
        "getScheme" => |arguments| part(arguments, |url| url.scheme.clone()),
        "getHost" => |arguments| part(arguments, |url| url.host.clone()),
        "getHostname" => |arguments| part(arguments, |url| url.host_and_port().0.to_owned()),
        "getPort" => |arguments| part(arguments, |url| url.host_and_port().1.to_owned()),
        "getEscapedPath" => |arguments| part(arguments, |url| escaped_path(&url.path)),
        "getQuery" => query,
        _ => return None,
    })
}

fn text(arguments: &[Value]) -> Result<&str, Error> {
    match arguments {
        [Value::String(text)] => Ok(text),
        _ => Err(no_such_overload()),
    }
}

fn part(arguments: &[Value], part: fn(&Url) -> String) -> Outcome {
    match arguments {
        [Value::Url(url)] => Ok(Value::text(&part(url))),
        _ => Err(no_such_overload()),
    }
}

fn query(arguments: &[Value]) -> Outcome {
    let [Value::Url(url)] = arguments else { return Err(no_such_overload()) };
    let mut parameters: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for parameter in url.query.split('&').filter(|parameter| !parameter.is_empty() && !parameter.contains(';')) {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        if let (Some(key), Some(value)) = (decoded(&key.replace('+', " ")), decoded(&value.replace('+', " "))) {
            parameters.entry(key).or_default().push(Value::text(&value));
        }
    }
    Ok(Value::map(parameters.into_iter().map(|(key, values)| (key.into(), Value::list(values)))))
}

/// Returns the original path, if its escaping is valid; otherwise the escaped path.
fn escaped_path(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@".contains(c);
    if path.chars().all(|c| is_plain(c) || "!'()*[]%".contains(c)) {
        return path.to_owned();
    }
    let mut escaped = String::new();
    for byte in decoded_bytes(path).unwrap_or_default() {
        if is_plain(char::from(byte)) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

fn decoded(text: &str) -> Option<String> {
    decoded_bytes(text).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

fn decoded_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            decoded.push((high * 16 + low) as u8);
        } else {
            decoded.push(byte);
        }
    }
    Some(decoded)
}
