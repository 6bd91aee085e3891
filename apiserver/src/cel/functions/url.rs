//! URLs, read as Go does: more leniently than browsers, and without changing them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::{Function, Outcome, failed, no_such_overload};
use crate::cel::evaluate::Error;
use crate::cel::value::Value;

/// A URL in its parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    /// What follows the scheme, if that is no path.
    opaque: String,
    user: String,
    host: String,
    /// As it was written.
    path: String,
    query: String,
    fragment: String,
}

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |arguments| {
            let url =
                Url::parse(text(arguments)?).map_err(|why| failed(format!("URL parse error during conversion from string: {why}")))?;
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

impl Url {
    /// Reads a URL with a scheme, or an absolute path.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("parse {text:?}: {why}");
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(wrong("net/url: invalid control character in URL"));
        }
        if text.is_empty() {
            return Err(wrong("empty url"));
        }
        let (whole, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = scheme(whole).ok_or_else(|| wrong("missing protocol scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self { scheme, query: query.to_owned(), fragment: fragment.to_owned(), ..Self::default() };
        if !rest.starts_with('/') {
            if url.scheme.is_empty() && rest != "*" {
                return Err(wrong("invalid URI for request"));
            }
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//").filter(|_| !url.scheme.is_empty()) {
            let (authority, below) = after.split_at(after.find('/').unwrap_or(after.len()));
            let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
            (url.user, url.host) = (user.to_owned(), host_of(host).map_err(|why| wrong(&why))?);
            path = below;
        }
        if let Some(escape) = bad_escape(path) {
            return Err(wrong(&format!("invalid URL escape {escape:?}")));
        }
        path.clone_into(&mut url.path);
        Ok(url)
    }

    fn host_and_port(&self) -> (&str, &str) {
        let (host, port) = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
            _ => (&*self.host, ""),
        };
        (host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host), port)
    }
}

/// Returns the scheme, which may be missing, and the rest. None if there is nothing before the colon.
fn scheme(text: &str) -> Option<(String, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((text[..at].to_lowercase(), &text[at + 1..])),
            _ => break,
        }
    }
    Some((String::new(), text))
}

fn host_of(host: &str) -> Result<String, String> {
    let port = match host.rfind(']') {
        Some(end) if host.starts_with('[') => &host[end + 1..],
        None if host.starts_with('[') => return Err("missing ']' in host".to_owned()),
        _ => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let is_port = port.strip_prefix(':').map_or(port.is_empty(), |port| port.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {port:?} after host"));
    }
    let is_allowed = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"".contains(c);
    if let Some(c) = host.chars().find(|c| !is_allowed(*c)) {
        return Err(format!("invalid character {:?} in host name", c.to_string()));
    }
    Ok(host.to_owned())
}

fn bad_escape(text: &str) -> Option<String> {
    let is_whole = |escape: &str| escape.len() == 3 && escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit());
    let mut escapes = text.match_indices('%').map(|(at, _)| text[at..].chars().take(3).collect::<String>());
    escapes.find(|escape| !is_whole(escape))
}

/// Returns the path as it was written, if that is a valid form; otherwise with all that has to be escaped.
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
