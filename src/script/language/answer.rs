//! The requests and answers of hooks: `request` as scripts see it, and what their results become.
//!
//! A map or an array is JSON, a text is plain text, bytes are bytes, and `()` is an empty answer; `respond` says the
//! status and headers.

use std::collections::BTreeMap;

use rhai::{Dynamic, Map};
use serde_json::Value;

use super::bytes::Bytes;
use super::convert;
use crate::script::interface::call::HookAnswer;
use crate::script::interface::subject::HookRequest;

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const BYTES: &str = "application/octet-stream";

/// The statuses of answers without and with a body.
const EMPTY: u16 = 204;
const OK: u16 = 200;

/// The result of `respond`.
#[derive(Clone)]
pub(crate) struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers, by lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body, as the script has given it.
    pub body: Dynamic,
}

/// Returns the answer of a function's result.
///
/// # Errors
/// If it cannot be an answer: the reason.
pub(crate) fn of(result: &Dynamic) -> Result<HookAnswer, String> {
    let Some(response) = result.read_lock::<Response>().map(|response| response.clone()) else {
        let (content_type, body) = body_of(result)?;
        let status = if content_type.is_some() { OK } else { EMPTY };
        return Ok(made(status, BTreeMap::new(), content_type, body));
    };
    let (content_type, body) = body_of(&response.body)?;
    Ok(made(response.status, response.headers, content_type, body))
}

fn made(status: u16, mut headers: BTreeMap<String, String>, content_type: Option<&str>, body: Vec<u8>) -> HookAnswer {
    if let Some(content_type) = content_type {
        headers.entry("content-type".to_owned()).or_insert_with(|| content_type.to_owned());
    }
    HookAnswer { status, headers, body }
}

/// Returns the content type and the bytes of a body.
fn body_of(value: &Dynamic) -> Result<(Option<&'static str>, Vec<u8>), String> {
    if value.is_unit() {
        return Ok((None, Vec::new()));
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        return Ok((Some(TEXT), text.as_bytes().to_vec()));
    }
    if let Some(bytes) = value.read_lock::<Bytes>() {
        return Ok((Some(BYTES), bytes.0.to_vec()));
    }
    let json = convert::to_json(value).map_err(|error| format!("the result cannot be an answer: {error}"))?;
    let bytes = serde_json::to_vec(&json).map_err(|error| format!("the result cannot be an answer: {error}"))?;
    Ok((Some(JSON), bytes))
}

/// Returns the argument `request`.
pub(crate) fn request(request: &HookRequest) -> Dynamic {
    let texts = |entries: &BTreeMap<String, String>| -> Dynamic {
        entries.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect::<Map>().into()
    };
    let body = match std::str::from_utf8(&request.body) {
        Ok(text) => text.into(),
        Err(_) => Dynamic::from(Bytes::from(request.body.to_vec())),
    };
    let names = |names: &Vec<String>| -> Dynamic {
        names.iter().map(|name| Dynamic::from(name.clone())).collect::<rhai::Array>().into()
    };
    let entries: [(&str, Dynamic); 7] = [
        ("method", request.method.as_str().into()),
        ("path", request.path.as_str().into()),
        ("query", texts(&request.query)),
        ("headers", texts(&request.headers)),
        ("body", body),
        ("json", request.json.as_ref().map_or(Dynamic::UNIT, |json: &Value| convert::to_dynamic(json))),
        ("certificate", request.certificate.as_ref().map_or(Dynamic::UNIT, names)),
    ];
    entries.into_iter().map(|(key, value)| (key.into(), value)).collect::<Map>().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(value: Dynamic) -> (u16, String, String) {
        let answer = of(&value).unwrap();
        (
            answer.status,
            answer.headers.get("content-type").cloned().unwrap_or_default(),
            String::from_utf8(answer.body).unwrap(),
        )
    }

    #[test]
    fn results_become_answers_by_their_types() {
        assert_eq!(answer(Dynamic::UNIT), (204, String::new(), String::new()));
        assert_eq!(answer("done".into()), (200, TEXT.to_owned(), "done".to_owned()));
        assert_eq!(answer(convert::to_dynamic(&json!({"a": [1]}))), (200, JSON.to_owned(), r#"{"a":[1]}"#.to_owned()));
        assert_eq!(answer(false.into()), (200, JSON.to_owned(), "false".to_owned()));
        assert_eq!(answer(Dynamic::from(Bytes::from(b"x".to_vec()))), (200, BYTES.to_owned(), "x".to_owned()));
        let headers = BTreeMap::from([("content-type".to_owned(), "text/csv".to_owned())]);
        let response = Response { status: 202, headers, body: "a,b".into() };
        assert_eq!(answer(Dynamic::from(response)), (202, "text/csv".to_owned(), "a,b".to_owned()));
        assert!(of(&f64::NAN.into()).unwrap_err().contains("cannot be an answer"));
    }

    #[test]
    fn a_request_has_its_body_as_text_if_it_is_text() {
        let body = |body: &'static [u8]| {
            request(&HookRequest { body: bytes::Bytes::from_static(body), ..HookRequest::default() }).cast::<Map>()
        };
        assert_eq!(body(b"hello")["body"].clone().into_string().as_deref(), Ok("hello"));
        assert!(
            body(b"\xff")["body"].is::<Bytes>() && body(b"")["json"].is_unit() && body(b"")["certificate"].is_unit()
        );
    }
}
