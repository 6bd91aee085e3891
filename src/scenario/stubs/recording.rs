//! Recordings: what real servers have answered, in files beside the scenarios.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tokio::runtime::Builder;

use crate::object::yaml;
use crate::outside::http::{Client, Options};
use crate::script::outside::{HttpAnswer, HttpClient as _, HttpError, HttpProblem, HttpRequest};

/// The time limit of a real request. The time of the scenario stands still meanwhile.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Headers that differ each time, or are secrets of the session.
const LEFT_OUT: [&str; 6] = ["connection", "content-length", "date", "set-cookie", "transfer-encoding", "keep-alive"];

/// A file and its contents.
#[derive(Debug, Clone)]
pub(super) struct Recording {
    pub file: PathBuf,
    pub exchanges: Vec<Exchange>,
}

/// A request and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    pub method: String,
    pub url: String,
    pub answer: HttpAnswer,
}

/// Reads a file; one that does not exist is empty.
///
/// # Errors
/// If it is no recording.
pub(super) fn read(file: &Path) -> Result<Vec<Exchange>, String> {
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.to_string()),
    };
    let documents = yaml::parse_as::<Value>(&text).map_err(|error| error.to_string())?;
    let entries =
        documents.first().and_then(|document| document["exchanges"].as_array()).ok_or("it has no list `exchanges`")?;
    entries.iter().map(|entry| of_value(entry).ok_or_else(|| format!("this is no exchange: {entry}"))).collect()
}

/// Writes a file.
///
/// # Errors
/// If the system refuses it.
pub(super) fn write(file: &Path, exchanges: &[Exchange]) -> Result<(), String> {
    let document = json!({ "exchanges": exchanges.iter().map(to_value).collect::<Vec<_>>() });
    let text = yaml::dump(&document).map_err(|error| error.to_string())?;
    std::fs::write(file, format!("# Written by `kopfd test --record-http`.\n{text}")).map_err(|error| error.to_string())
}

fn of_value(entry: &Value) -> Option<Exchange> {
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    let header = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
    let headers =
        entry["headers"].as_object().map(|headers| headers.iter().filter_map(header).collect()).unwrap_or_default();
    let body = match (&entry["json"], text("body"), text("bytes")) {
        (Value::Null, Some(body), _) => body.into_bytes(),
        (Value::Null, None, Some(bytes)) => STANDARD.decode(bytes).ok()?,
        (Value::Null, None, None) => Vec::new(),
        (value, ..) => value.to_string().into_bytes(),
    };
    let status = entry["status"].as_u64().and_then(|status| u16::try_from(status).ok())?;
    Some(Exchange { method: text("method")?, url: text("url")?, answer: HttpAnswer { status, headers, body } })
}

fn to_value(exchange: &Exchange) -> Value {
    let Exchange { method, url, answer } = exchange;
    let mut entry = json!({ "method": method, "url": url, "status": answer.status });
    let kept = answer.headers.iter().filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()));
    let headers: Map<String, Value> = kept.map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    entry["headers"] = headers.into();
    match (serde_json::from_slice::<Value>(&answer.body), String::from_utf8(answer.body.clone())) {
        (Ok(value @ (Value::Object(_) | Value::Array(_))), _) => entry["json"] = value,
        (_, Ok(text)) if text.is_empty() => {}
        (_, Ok(text)) => entry["body"] = text.into(),
        (_, Err(_)) => entry["bytes"] = STANDARD.encode(&answer.body).into(),
    }
    entry
}

/// Sends a request to the real server, on a thread of its own: the thread of the scenario has no network, and its time
/// stands still until the answer is there.
///
/// # Errors
/// If there is no answer.
pub(super) fn ask(request: HttpRequest) -> Result<HttpAnswer, HttpError> {
    let broken = |message: String| HttpError { problem: HttpProblem::Broken, message };
    let run = move || {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| broken(error.to_string()))?;
        let client = Client::new(Options::of_process(Arc::new(String::new)));
        runtime.block_on(async { tokio::time::timeout(TIMEOUT, client.send(request)).await }).unwrap_or_else(|_| {
            Err(HttpError {
                problem: HttpProblem::Timeout,
                message: format!("no answer within {} seconds", TIMEOUT.as_secs()),
            })
        })
    };
    std::thread::spawn(run).join().unwrap_or_else(|_| Err(broken("the client has failed".to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("api.yaml");
        assert_eq!(read(&file), Ok(Vec::new()));
        let exchange = |body: &[u8]| Exchange {
            method: "GET".to_owned(),
            url: "https://api.example.com/x?page=1".to_owned(),
            answer: HttpAnswer {
                status: 200,
                headers: vec![("content-type".to_owned(), "a/b".to_owned())],
                body: body.to_vec(),
            },
        };
        let exchanges = [&b"{\"a\":[1]}"[..], b"", b"plain: text\n", b"7", b"\xff\x00"].map(exchange);
        write(&file, &exchanges).unwrap();
        assert_eq!(read(&file).unwrap(), exchanges);
        std::fs::write(&file, "[]").unwrap();
        assert!(read(&file).is_err());
    }
}
