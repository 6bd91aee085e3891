//! Runs a case on a server.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderMap, Request, Response, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::case::{Case, Step, StreamRead, definitions};
use super::normal::Normal;

/// Time limit of repeating a step until its expected answer.
const UNTIL_TIMEOUT: Duration = Duration::from_mins(2);
/// Time limit of a stream for the next expected line.
const NEXT_LINE_TIMEOUT: Duration = Duration::from_secs(10);
/// Required silence of a stream after the expected lines.
const SILENCE: Duration = Duration::from_millis(300);

/// The user of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RequestUser {
    /// A user with all permissions.
    Administrator,
    /// A user without permissions.
    Guest,
    /// A client without a token.
    Anonymous,
    /// A client with an unknown token.
    UnknownToken,
}

/// A server on which cases run.
pub(crate) trait Server {
    /// Sends a request.
    async fn send(&self, user: RequestUser, request: Request<Bytes>) -> Response<Body>;

    /// Lets the server finish the controller work of the last request, if possible.
    fn settle(&self) {}
}

/// Time limit of a complete answer; a longer one is a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);
/// The length of the text for `<big>`: above the limit of annotations.
const BIG: usize = 300_000;

type Lines = BoxStream<'static, Bytes>;

/// A running case.
struct CaseRun<'a, S> {
    server: &'a S,
    case: &'a Case,
    group: String,
    kept: BTreeMap<String, Value>,
    open: BTreeMap<String, Lines>,
    normal: Normal,
}

/// Runs a case, and returns the answers in their normal form, one for each step.
pub(crate) async fn run<S: Server>(server: &S, case: &Case) -> Vec<Value> {
    let group = format!("{}.kopfd.test", case.id);
    let normal = Normal::new(&case.id, case.managers);
    let mut run = CaseRun { server, case, group, kept: BTreeMap::new(), open: BTreeMap::new(), normal };
    run.set_up().await;
    let mut answers = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        if step.pause > 0 {
            tokio::time::sleep(Duration::from_millis(step.pause)).await;
        }
        answers.push(run.step(number, step).await);
    }
    run.clean_up().await;
    answers
}

impl<S: Server> CaseRun<'_, S> {
    async fn set_up(&mut self) {
        let namespace = Step {
            ask: Some("POST /api/v1/namespaces".into()),
            body: Some(json!({"metadata": {"name": self.case.id}})),
            ..Step::default()
        };
        self.expect_success(&namespace).await;
        let definitions = definitions(&self.group);
        for kind in &self.case.kinds {
            let definition =
                definitions.get(kind).unwrap_or_else(|| panic!("{}: there is no kind {kind}", self.case.name)).clone();
            let paths = definition["spec"]["versions"].as_array().expect("versions").iter();
            let served = paths.filter(|version| version["served"] == true);
            let paths: Vec<String> = served
                .map(|version| format!("GET /apis/{}/{}/{kind}", self.group, version["name"].as_str().expect("a name")))
                .collect();
            let path = "POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
            self.expect_success(&Step { ask: Some(path), body: Some(definition), ..Step::default() }).await;
            for path in paths {
                let until = Some(json!({"status": 200}));
                self.exchange(&Step { ask: Some(path), until, ..Step::default() }).await;
            }
        }
    }

    async fn expect_success(&self, step: &Step) {
        let answer = self.exchange(step).await;
        assert!(answer.status < 300, "{}: {:?}: {}", self.case.name, step.ask, answer.body);
    }

    /// Deletes the remaining objects, without waiting for their end.
    async fn clean_up(&self) {
        let group = &self.group;
        let mut asks = vec![format!("DELETE /api/v1/namespaces/{}", self.case.id)];
        asks.extend(
            self.case
                .kinds
                .iter()
                .map(|kind| format!("DELETE /apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.{group}")),
        );
        for ask in asks {
            self.exchange(&Step { ask: Some(ask), ..Step::default() }).await;
        }
    }

    async fn step(&mut self, number: usize, step: &Step) -> Value {
        if let Some(read) = &step.read {
            return self.read_stream(number, read).await;
        }
        if let Some(name) = &step.open {
            let response = self.send(step).await;
            let status = response.status().as_u16();
            self.open.insert(name.clone(), lines(response));
            return json!({"status": status});
        }
        let answer = self.exchange(step).await;
        if let Some(name) = &step.keep {
            self.kept.insert(name.clone(), answer.body.clone());
        }
        let mut answer = self.normal.form(answer.to_json());
        if let Some(only) = &step.only {
            let parts = only.iter().map(|path| (path.clone(), at(&answer["body"], path).cloned().unwrap_or_default()));
            answer["body"] = parts.collect();
        }
        answer
    }

    async fn read_stream(&mut self, number: usize, read: &StreamRead) -> Value {
        let lines = self
            .open
            .get_mut(&read.at)
            .unwrap_or_else(|| panic!("{}, step {}: nothing is open as {}", self.case.name, number + 1, read.at));
        let mut seen = Vec::new();
        let end = loop {
            let timeout = if read.lines.is_none_or(|wanted| seen.len() < wanted) { NEXT_LINE_TIMEOUT } else { SILENCE };
            match tokio::time::timeout(timeout, lines.next()).await {
                Ok(Some(line)) => {
                    seen.push(serde_json::from_slice(&line).unwrap_or_else(|_| json!(String::from_utf8_lossy(&line))));
                }
                Ok(None) => break "ended",
                Err(_) => break "open",
            }
        };
        if let Some(Value::Object(last)) = seen.last() {
            self.kept.insert(read.at.clone(), last["object"].clone());
        }
        self.normal.form(json!({"lines": seen, "stream": end}))
    }

    /// Sends the request of a step, repeatedly if an answer is awaited, and returns the last answer.
    async fn exchange(&self, step: &Step) -> Answer {
        let begun = tokio::time::Instant::now();
        loop {
            let answer = Answer::read(self.send(step).await).await;
            let is_expected = step
                .until
                .as_ref()
                .is_none_or(|until| contains(&json!({"status": answer.status, "body": answer.body}), until));
            if is_expected || begun.elapsed() > UNTIL_TIMEOUT {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn send(&self, step: &Step) -> Response<Body> {
        let ask = self.with_values(step.ask.as_deref().expect("a step asks for something"));
        let (method, path) = ask.split_once(' ').unwrap_or_else(|| panic!("{}: {ask:?} has no method", self.case.name));
        let mut request =
            Request::builder().method(method).uri(self.request_path(path)).header(header::USER_AGENT, "differ/1");
        if let Some(accept) = &step.accept {
            request = request.header(header::ACCEPT, form(accept));
        }
        let body = match (&step.body, &step.text) {
            (Some(body), _) => self.with_values(&body.to_string()),
            (None, Some(text)) => self.with_values(text),
            (None, None) => String::new(),
        };
        if !body.is_empty() || step.media.is_some() {
            request = request.header(header::CONTENT_TYPE, media(step.media.as_deref().unwrap_or("application/json")));
        }
        let user = match step.user.as_deref() {
            None => RequestUser::Administrator,
            Some("guest") => RequestUser::Guest,
            Some("anonymous") => RequestUser::Anonymous,
            Some("unknown-token") => RequestUser::UnknownToken,
            Some(other) => panic!("{}: there is no user {other}", self.case.name),
        };
        for (name, value) in &step.headers {
            request = request.header(name, self.with_values(value));
        }
        let request =
            request.body(Bytes::from(body)).unwrap_or_else(|error| panic!("{}: {ask}: {error}", self.case.name));
        let response = self.server.send(user, request).await;
        self.server.settle();
        response
    }

    /// Returns the path of a request, which may begin with the plural of a kind.
    fn request_path(&self, path: &str) -> String {
        if path.starts_with('/') {
            return path.to_owned();
        }
        let end = path.find(['/', '?']).unwrap_or(path.len());
        let (kind, rest) = path.split_at(end);
        let (plural, version) = kind.split_once('@').unwrap_or((kind, "v1"));
        let root = match built_in(plural) {
            Some("") => "/api/v1".to_owned(),
            Some(group) => format!("/apis/{group}/{version}"),
            None => format!("/apis/{}/{version}", self.group),
        };
        format!("{root}/namespaces/{}/{plural}{rest}", self.case.id)
    }

    /// Inserts the namespace, the group, and parts of earlier answers.
    fn with_values(&self, text: &str) -> String {
        let mut text =
            text.replace("<ns>", &self.case.id).replace("<group>", &self.group).replace("<big>", &"x".repeat(BIG));
        for (name, body) in &self.kept {
            while let Some(start) = text.find(&format!("<{name}.")) {
                let end =
                    start + text[start..].find('>').unwrap_or_else(|| panic!("{}: {text} has no end", self.case.name));
                let path = &text[start + name.len() + 2..end];
                let value = at(body, path).unwrap_or_else(|| panic!("{}: no {path} in {body}", self.case.name));
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                text.replace_range(start..=end, &value);
            }
        }
        text
    }
}

/// Returns the group of a built-in kind.
fn built_in(plural: &str) -> Option<&'static str> {
    Some(match plural {
        "configmaps"
        | "secrets"
        | "pods"
        | "services"
        | "serviceaccounts"
        | "events"
        | "endpoints"
        | "persistentvolumeclaims"
        | "limitranges"
        | "resourcequotas"
        | "podtemplates"
        | "replicationcontrollers" => "",
        "horizontalpodautoscalers" => "autoscaling",
        "deployments" | "statefulsets" | "daemonsets" | "replicasets" | "controllerrevisions" => "apps",
        "jobs" | "cronjobs" => "batch",
        "leases" => "coordination.k8s.io",
        "roles" | "rolebindings" => "rbac.authorization.k8s.io",
        "ingresses" | "networkpolicies" => "networking.k8s.io",
        "poddisruptionbudgets" => "policy",
        "endpointslices" => "discovery.k8s.io",
        _ => return None,
    })
}

fn media(word: &str) -> &str {
    match word {
        "merge" => "application/merge-patch+json",
        "json" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => other,
    }
}

fn form(word: &str) -> &str {
    match word {
        "table" => "application/json;as=Table;v=v1;g=meta.k8s.io",
        "metadata" => "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "metadata-list" => "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        other => other,
    }
}

/// Returns the part of a value at a path with dots.
fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

/// Tells whether a value contains another; null matches an absent value.
fn contains(value: &Value, wanted: &Value) -> bool {
    match (value, wanted) {
        (_, Value::Object(members)) => {
            members.iter().all(|(name, wanted)| contains(value.get(name).unwrap_or(&Value::Null), wanted))
        }
        _ => value == wanted,
    }
}

/// A complete answer.
struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    async fn read(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let Ok(body) = tokio::time::timeout(ANSWER_TIMEOUT, body.collect()).await else {
            return Self {
                status: head.status.as_u16(),
                headers: head.headers,
                body: json!("(a stream that stays open)"),
            };
        };
        let bytes = body.expect("the answer comes completely").to_bytes();
        let text = String::from_utf8_lossy(&bytes);
        let lines = || text.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
        let body =
            serde_json::from_slice(&bytes).or_else(|_| lines().map(Value::Array)).unwrap_or_else(|_| json!(text));
        Self { status: head.status.as_u16(), headers: head.headers, body }
    }

    fn to_json(&self) -> Value {
        let texts = |name: header::HeaderName| -> Vec<&str> {
            self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect()
        };
        let mut answer = json!({"status": self.status, "body": self.body, "type": texts(header::CONTENT_TYPE)});
        for (name, values) in [
            ("warnings", texts(header::WARNING)),
            ("retry-after", texts(header::RETRY_AFTER)),
            ("cache", texts(header::CACHE_CONTROL)),
        ] {
            if !values.is_empty() {
                answer[name] = json!(values);
            }
        }
        answer
    }
}

/// Returns the lines of a stream as they arrive.
fn lines(response: Response<Body>) -> Lines {
    let pieces = response.into_body().into_data_stream();
    let lines = futures::stream::unfold((pieces, Vec::new()), |(mut pieces, mut rest): (_, Vec<u8>)| async move {
        loop {
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                return Some((Bytes::from(line), (pieces, rest)));
            }
            match pieces.next().await {
                Some(Ok(piece)) => rest.extend_from_slice(&piece),
                _ => return None,
            }
        }
    });
    lines.boxed()
}
