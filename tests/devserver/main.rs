//! The embedded API server gives the answers that real ones were seen to give, in a row of requests on an empty store.
//!
//! Compared are the status, the reason, the causes with their fields, the warnings, and the kind of what comes back; never the texts.

#[path = "../differ/mod.rs"]
mod differ;
mod in_process;
mod sameness;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, header};
use http_body_util::BodyExt as _;
use kopfd::devserver::access::{Authentication, User};
use kopfd::devserver::{Api, Settings};
use kopfd::kit::Clock;
use serde::Deserialize;
use serde_json::{Value, json};

/// What differs from the real server, and why.
const DIFFERENCES: &[(u32, &str)] =
    &[(36, "a body of another version is refused before its fields are looked at, so that nobody is warned of them")];

/// One request, and the answer of a real server.
#[derive(Debug, Deserialize)]
struct Case {
    n: u32,
    request: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    media: Option<String>,
    #[serde(default)]
    accept: Option<String>,
    #[serde(default)]
    token: Option<String>,
    status: u16,
    result: String,
    #[serde(default)]
    causes: Vec<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// What came back.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: String,
    value: Value,
    warnings: Vec<String>,
}

struct World {
    api: Api,
}

impl World {
    fn new() -> Self {
        let tokens =
            [("admintoken".to_owned(), User::new("admin", &["system:masters"])), ("alicetoken".to_owned(), User::new("alice", &[]))];
        let authentication = Authentication::Tokens(BTreeMap::from(tokens));
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().expect("cases and answers are well-formed"));
        Self { api: Api::new(Settings { authentication, seed: Some(1), ..Settings::default() }, clock) }
    }

    async fn ask(&self, case: &Case) -> Answer {
        let (method, uri) = case.request.split_once(' ').expect("cases and answers are well-formed");
        let media = case.media.as_deref().unwrap_or("application/json");
        let mut request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, media);
        if let Some(accept) = &case.accept {
            request = request.header(header::ACCEPT, accept);
        }
        match case.token.as_deref().unwrap_or("admintoken") {
            "none" => {}
            token => request = request.header(header::AUTHORIZATION, format!("Bearer {token}")),
        }
        let body = Bytes::from(case.body.clone().unwrap_or_default());
        let response = self.api.answer(request.body(body).expect("cases and answers are well-formed")).await;
        let status = response.status().as_u16();
        let warnings = response
            .headers()
            .get_all(header::WARNING)
            .iter()
            .map(|value| text_of(value.to_str().expect("cases and answers are well-formed")))
            .collect();
        let body = response.into_body().collect().await.expect("cases and answers are well-formed").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("cases and answers are well-formed");
        Answer { status, value: serde_json::from_str(&body).unwrap_or_default(), body, warnings }
    }

    async fn send(&self, request: &str, media: &str, body: Value) -> Answer {
        let case = json!({"n": 0, "request": request, "media": media, "body": body.to_string(), "status": 0, "result": ""});
        self.ask(&serde_json::from_value(case).expect("cases and answers are well-formed")).await
    }

    async fn remove_all(&self, path: &str) {
        let list = self.send(&format!("GET {path}"), "application/json", json!({})).await;
        for item in list.value["items"].as_array().expect("cases and answers are well-formed") {
            let path = format!("{path}/{}", item["metadata"]["name"].as_str().expect("cases and answers are well-formed"));
            self.send(&format!("PATCH {path}"), "application/merge-patch+json", json!({"metadata": {"finalizers": null}})).await;
            self.send(&format!("DELETE {path}"), "application/json", json!({})).await;
        }
    }
}

/// Returns the text of a warning without its number and quotes.
fn text_of(warning: &str) -> String {
    let quoted = warning.strip_prefix("299 - \"").and_then(|rest| rest.strip_suffix('"'));
    quoted.unwrap_or(warning).replace("\\\"", "\"")
}

/// Returns what is wrong with an answer.
fn mistakes(case: &Case, answer: &Answer) -> Option<String> {
    let mut found = String::new();
    if answer.status != case.status {
        let _ = write!(found, " status {} not {};", answer.status, case.status);
    }
    let causes: Vec<String> = answer.value["details"]["causes"].as_array().into_iter().flatten().map(cause).collect();
    // The causes of failures inside of the server are texts only.
    if case.status != 500 && causes != case.causes {
        let _ = write!(found, " causes {causes:?} not {:?};", case.causes);
    }
    if answer.warnings != case.warnings {
        let _ = write!(found, " warnings {:?} not {:?};", answer.warnings, case.warnings);
    }
    let (kind, reason) = (answer.value["kind"].as_str().unwrap_or_default(), answer.value["reason"].as_str().unwrap_or_default());
    let is_right = match case.result.as_str() {
        "obj" => kind == "Widget" || case.request.contains("jobs") || case.request.contains("leases"),
        "list" => kind.ends_with("List"),
        "Success" => answer.value["status"] == "Success",
        "Table" => kind == "Table",
        "(no reason)" => reason.is_empty(),
        "version info" => answer.value["minor"].is_string(),
        "empty stream" => answer.body.is_empty(),
        text if text.starts_with("text ") => answer.body.starts_with(text.trim_start_matches("text ")),
        text if text.starts_with("stream: ") => answer.value["type"] == text.trim_start_matches("stream: "),
        text if text.starts_with("obj ") => kind == text.trim_start_matches("obj "),
        reason_wanted => reason == reason_wanted,
    };
    if !is_right {
        let _ = write!(found, " {} not {};", answer.body.chars().take(300).collect::<String>().trim_end(), case.result);
    }
    (!found.is_empty()).then_some(found)
}

fn cause(cause: &Value) -> String {
    format!("{}@{}", cause["reason"].as_str().unwrap_or_default(), cause["field"].as_str().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_as_real_servers_answer_them() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("cases.json")).unwrap();
    let world = World::new();
    let mut report = String::new();
    for case in &cases {
        let answer = world.ask(case).await;
        let widgets = "/apis/ex.dev/v1/namespaces/default/widgets";
        // The real controllers were too slow to remove a namespace between two requests.
        if case.n != 143 {
            world.api.settle();
        }
        if case.n == 87 {
            world.remove_all(widgets).await;
        }
        let excuse = DIFFERENCES.iter().find(|(number, _)| *number == case.n);
        match (mistakes(case, &answer), excuse) {
            (Some(found), None) => writeln!(report, "{}. {}:{found}", case.n, case.request).unwrap(),
            (None, Some((_, reason))) => writeln!(report, "{}. is right by now, though {reason}", case.n).unwrap(),
            _ => {}
        }
    }
    assert!(report.is_empty(), "\n{report}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_of_what_comes_changes_and_goes() {
    let world = World::new();
    let path = "/api/v1/namespaces/default/configmaps";
    let request = Request::get(format!("{path}?watch=true&timeoutSeconds=60&labelSelector=a%3Db&allowWatchBookmarks=true"));
    let request = request.header(header::AUTHORIZATION, "Bearer admintoken").body(Bytes::new()).unwrap();
    let mut lines = world.api.answer(request).await.into_body().into_data_stream();
    let body = |labels: Value| json!({"metadata": {"name": "x", "labels": labels}});
    world.send(&format!("POST {path}"), "application/json", body(json!({"a": "b"}))).await;
    world.send(&format!("PATCH {path}/x"), "application/merge-patch+json", json!({"data": {"k": "v"}})).await;
    world.send(&format!("PATCH {path}/x"), "application/merge-patch+json", json!({"data": {"k": "v"}})).await;
    let last = world.send(&format!("PATCH {path}/x"), "application/merge-patch+json", body(json!({"a": "c"}))).await;
    world.send(&format!("DELETE {path}/x"), "application/json", json!({})).await;
    let mut text = String::new();
    while let Some(piece) = lines.next().await {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let words: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(words, ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]);
    let gone = &events[2]["object"]["metadata"];
    assert_eq!((&gone["labels"]["a"], &gone["resourceVersion"]), (&json!("b"), &last.value["metadata"]["resourceVersion"]));
}
