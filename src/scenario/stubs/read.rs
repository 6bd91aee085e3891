//! Reads the stubs of a scenario.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::declared::{HttpReply, HttpStub, Stubs};
use super::recording::{self, Recording};
use super::sent::SentRequest;
use super::{read_machine, read_pods, read_sql};
use crate::manifest::reader::{Fields, Item, Reader};
use crate::manifest::tree::Kind;
use crate::script::outside::{HttpAnswer, HttpProblem};

/// The failures that a stub may have in place of an answer.
const PROBLEMS: [(&str, HttpProblem); 4] = [
    ("connect", HttpProblem::Connect),
    ("tls", HttpProblem::Tls),
    ("broken", HttpProblem::Broken),
    ("timeout", HttpProblem::Timeout),
];

/// Tells whether `given` is a mapping with stubs, and not a list of objects.
pub(in super::super) fn is_stubbed_given(item: &Item<'_>) -> bool {
    matches!(item.node.kind, Kind::Map(_)) && item.node.get("kind").is_none()
}

/// Reads the stubs in `given`.
pub(in super::super) fn read(reader: &Reader, fields: &Fields<'_>) -> Stubs {
    let http = reader.list_of(fields, "http").iter().filter_map(|item| stub(reader, item)).collect();
    let (programs, files) = read_machine::read(reader, fields);
    Stubs { http, programs, pods: read_pods::read(reader, fields), files, sql: read_sql::read(reader, fields) }
}

fn stub(reader: &Reader, item: &Item<'_>) -> Option<HttpStub> {
    const HINT: &str = "write such as `{method: GET, url: \"https://api.example.com/users\", reply: {json: []}}`";
    let fields = reader.fields(item, "a stub", &["method", "url", "sends", "reply", "sequence", "record"])?;
    let method = reader.string(&fields, "method").map(|method| method.to_ascii_uppercase());
    let url_item = reader.required(&fields, "url", HINT)?;
    let url = reader.owned(&url_item)?;
    if Url::parse(&url.replace('*', "x")).map_or(true, |url| !matches!(url.scheme(), "http" | "https")) {
        reader.error_with(&url_item, format!("`{url}` is no address"), HINT);
        return None;
    }
    let sends = match fields.get("sends") {
        Some(item) => SentRequest::read(reader, &item)?,
        None => SentRequest::default(),
    };
    if let Some(item) = fields.get("record") {
        if fields.get("reply").is_some() || fields.get("sequence").is_some() {
            reader.error_with(&item, "a stub with `record` has no other replies", HINT);
            return None;
        }
        let recording = recording(reader, &item)?;
        return Some(HttpStub {
            method,
            url,
            sends,
            replies: Vec::new(),
            recording: Some(recording),
            line: item.spot().line,
        });
    }
    let replies: Vec<Item<'_>> = match (fields.get("reply"), fields.get("sequence")) {
        (Some(reply), None) => vec![reply],
        (None, Some(sequence)) => reader.list(&sequence),
        (Some(_), Some(_)) => {
            reader.error_with(item, "a stub has either `reply` or `sequence`", HINT);
            return None;
        }
        (None, None) => Vec::new(),
    };
    if replies.is_empty() {
        reader.error_with(item, "the stub has no reply", HINT);
        return None;
    }
    let replies = replies.iter().filter_map(|item| reply(reader, item)).collect();
    Some(HttpStub { method, url, sends, replies, recording: None, line: item.spot().line })
}

/// Reads the file of a recording, which is beside the scenario.
fn recording(reader: &Reader, item: &Item<'_>) -> Option<Recording> {
    let name = reader.owned(item)?;
    let file = reader.source.name.parent().map_or_else(|| name.clone().into(), |folder| folder.join(&name));
    match recording::read(&file) {
        Ok(exchanges) => Some(Recording { file, exchanges }),
        Err(error) => {
            let hint = "remove the file, and write it anew by `kopfd test --record-http`";
            reader.error_with(item, format!("the recording {} cannot be read: {error}", file.display()), hint);
            None
        }
    }
}

fn reply(reader: &Reader, item: &Item<'_>) -> Option<HttpReply> {
    let fields = reader.fields(item, "a reply", &["status", "headers", "json", "body", "bytes", "delay", "error"])?;
    let status = fields.get("status").map_or(Some(200), |item| {
        let status = reader.whole_in(&item, &(100..=599), "write a status of HTTP")?;
        u16::try_from(status).ok()
    })?;
    let mut headers = Vec::new();
    for (name, item) in fields.get("headers").and_then(|item| item.entries()).unwrap_or_default() {
        for item in item.items().unwrap_or_else(|| vec![item.clone()]) {
            let value = item.node.to_value();
            headers.push((name.to_ascii_lowercase(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
    }
    let bodies: Vec<_> =
        ["json", "body", "bytes"].into_iter().filter_map(|key| Some((key, fields.raw(key)?))).collect();
    let body = match bodies.as_slice() {
        [] => Vec::new(),
        [("json", item)] => {
            if !headers.iter().any(|(name, _)| name == "content-type") {
                headers.push(("content-type".to_owned(), "application/json".to_owned()));
            }
            item.node.to_value().to_string().into_bytes()
        }
        [("body", item)] => reader.owned(item)?.into_bytes(),
        [(_, item)] => {
            let text = reader.owned(item)?;
            let Ok(bytes) = STANDARD.decode(text.trim()) else {
                reader.error_with(item, "`bytes` must be base64", "write text under `body`, and values under `json`");
                return None;
            };
            bytes
        }
        _ => {
            reader.error_with(item, "a reply has one of `json`, `body` and `bytes`", "remove the others");
            return None;
        }
    };
    let delay = fields.get("delay").map(|item| reader.duration(&item)).unwrap_or_default().unwrap_or_default();
    let words = PROBLEMS.map(|(word, _)| word);
    let problem = match fields.get("error") {
        None => None,
        Some(item) => {
            let word = reader.word(&item, &words)?;
            PROBLEMS.into_iter().find(|(known, _)| *known == word).map(|(_, problem)| problem)
        }
    };
    Some(HttpReply { answer: HttpAnswer { status, headers, body }, problem, delay })
}
