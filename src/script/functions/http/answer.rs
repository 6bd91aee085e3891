//! The answer of a server as a value of scripts.

use rhai::{Dynamic, Map, NativeCallContext};
use serde_json::{Value, json};

use super::exchange::Answered;
use super::hosts::{Thrown, shown};
use super::request::Request;
use crate::script::functions::support::may_have_bytes;
use crate::script::language::bytes::Bytes;
use crate::script::language::convert;
use crate::script::outside::{HttpAnswer, HttpProblem};
use crate::script::runtime::bounded::{self, Parsed};
use crate::script::values::script_error::{Failure, Meaning};

/// The part of a body that errors have.
const EXCERPT: usize = 2_000;

/// Returns `#{status, headers, body, json, url}`.
///
/// # Errors
/// If the status is that of an error and the request raises it, or the call may not hold the answer.
pub(super) fn value(native: &NativeCallContext<'_>, request: &Request, answered: Answered) -> Result<Dynamic, Thrown> {
    let Answered { answer, url } = answered;
    if request.raises && answer.status >= 400 {
        return Err(raised(request, &answer));
    }
    let mut headers = Map::new();
    for (name, value) in &answer.headers {
        let joined = match headers.get(name.as_str()) {
            Some(earlier) => format!("{earlier}, {value}"),
            None => value.clone(),
        };
        headers.insert(name.as_str().into(), joined.into());
    }
    let json = json_of(&answer)?;
    let (status, url) = (i64::from(answer.status), shown(&url));
    let body = body(native, answer.body, request.wants_bytes)?;
    let entries: [(&str, Dynamic); 5] =
        [("status", status.into()), ("headers", headers.into()), ("body", body), ("json", json), ("url", url.into())];
    Ok(entries.into_iter().map(|(name, value)| (name.into(), value)).collect::<Map>().into())
}

/// Text, or bytes if they are wanted or the body is not UTF-8.
fn body(native: &NativeCallContext<'_>, body: Vec<u8>, wants_bytes: bool) -> Result<Dynamic, Thrown> {
    bounded::reserve(body.len())?;
    let body =
        if wants_bytes { Err(body) } else { String::from_utf8(body).map_err(std::string::FromUtf8Error::into_bytes) };
    match body {
        Ok(text) => {
            may_have_bytes(native, text.len())?;
            Ok(text.into())
        }
        Err(bytes) => Ok(Dynamic::from(Bytes::from(bytes))),
    }
}

/// Returns the content of a JSON document; `()` if the answer is no such document.
fn json_of(answer: &HttpAnswer) -> Result<Dynamic, Thrown> {
    let content_type = answer.header("content-type").unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !(media == "application/json" || media.ends_with("+json")) || answer.body.is_empty() {
        return Ok(Dynamic::UNIT);
    }
    let parsed = serde_json::from_slice::<Parsed<true>>(&answer.body);
    // A document that the call may not hold ends it.
    bounded::pause()?;
    Ok(parsed.map_or(Dynamic::UNIT, |Parsed(value)| convert::to_dynamic(&value)))
}

/// Returns the error of an answer with the status of an error.
pub(super) fn raised(request: &Request, answer: &HttpAnswer) -> Thrown {
    let excerpt = String::from_utf8_lossy(&answer.body[..answer.body.len().min(EXCERPT)]).into_owned();
    let body = serde_json::from_slice::<Value>(&answer.body).ok().filter(|_| answer.body.len() <= EXCERPT);
    let details = json!({ "body": body.unwrap_or(Value::String(excerpt)) });
    let message = format!("{}: the server has answered with the status {}", request.title(), answer.status);
    let reason = Some(HttpProblem::Status.as_str().to_owned());
    Failure {
        status: Some(answer.status),
        reason,
        details: Some(details),
        ..Failure::new(Meaning::Host("http"), message)
    }
    .into()
}
