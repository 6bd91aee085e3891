//! Validation rules that the server cannot check: the warnings of its answers, and its log.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]

use std::fmt::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::BodyExt as _;
use kopfd_apiserver::storage::journal::Journal;
use kopfd_apiserver::{ApiServer, Settings};
use kopfd_base::kit::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/ex.dev/v1/namespaces/default/widgets";

/// The warnings in the log of the current thread, each with its fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().push(text.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

impl Log {
    /// Returns the lines, and forgets them.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// Collects the log of the current thread while the guard is held.
fn logged() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    (log.clone(), tracing::subscriber::set_default(log))
}

fn clock() -> Clock {
    Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap())
}

fn server() -> ApiServer {
    ApiServer::new(Settings { seed: Some(1), has_control: true, ..Settings::default() }, clock())
}

/// Returns a definition with versions that have one rule.
fn definition(versions: &[&str], rule: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "x-kubernetes-validations": [{"rule": rule}]});
    let version = |name: &&str| json!({"name": name, "served": true, "storage": *name == "v1", "schema": {"openAPIV3Schema": schema}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.ex.dev", "uid": "u", "resourceVersion": "5"},
        "spec": {"group": "ex.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

fn new(definition: &Value) -> Value {
    let mut new = definition.clone();
    new["metadata"] = json!({"name": definition["metadata"]["name"]});
    new
}

fn widget() -> Value {
    json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}})
}

/// Sends a request, and returns the status and the warnings of the answer.
async fn send(api: &ApiServer, method: &str, uri: &str, body: &Value) -> (u16, Vec<String>) {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, media);
    let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
    let response = api.respond(request.body(body).unwrap()).await.unwrap();
    let warnings = response
        .headers()
        .get_all(header::WARNING)
        .iter()
        .map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap());
    let answer = (response.status().as_u16(), warnings.collect());
    response.into_body().collect().await.unwrap();
    answer
}

/// Returns a header with a warning.
fn warning(text: &str) -> String {
    format!("299 - \"{}\"", text.replace('\\', r"\\").replace('"', "\\\""))
}

#[cfg(feature = "cel")]
#[tokio::test(start_paused = true)]
async fn a_rule_with_a_message_of_protocol_buffers_is_accepted_with_a_warning_that_each_write_repeats() {
    for rule in ["google.protobuf.Int32Value{value: 1} == 1", "google.protobuf.StringValue{value: 'ü'} == 'ü'"] {
        let (log, _guard) = logged();
        let api = server();
        let text = format!(
            "openAPIV3Schema.x-kubernetes-validations[0].rule: {rule:?} is not enforced: messages of protocol buffers are not supported"
        );
        let of_definition = format!("spec.validation.{text}");
        let created = send(&api, "POST", DEFINITIONS, &new(&definition(&["v1"], rule))).await;
        assert_eq!(created, (201, vec![warning(&of_definition)]));
        let line =
            format!("WARN message=A validation rule is not enforced. definition=widgets.ex.dev rule={of_definition}");
        assert_eq!(log.take(), [line]);
        let (one, repeated) = (format!("{WIDGETS}/a"), vec![warning(&text)]);
        assert_eq!(send(&api, "POST", WIDGETS, &widget()).await, (201, repeated.clone()));
        assert_eq!(send(&api, "PATCH", &one, &json!({"spec": {"size": 2}})).await, (200, repeated));
        assert_eq!(send(&api, "GET", &one, &Value::Null).await, (200, Vec::new()));
    }
}

/// The rule is checked by newer servers, or was not by older ones.
#[cfg(feature = "cel")]
const WRONG: &str = "self.spec.nope == 1 || self.other == 'a\\nb'";

/// Returns the message about the wrong rule.
#[cfg(feature = "cel")]
fn about_the_wrong_rule() -> String {
    let rule = json!(WRONG);
    let shown = format!(
        "{{\"Rule\":{rule},\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}}"
    );
    let error =
        "compilation failed: ERROR: <input>:1:10: undefined field 'nope'; ERROR: <input>:1:28: undefined field 'other'";
    format!(
        "openAPIV3Schema.x-kubernetes-validations[0].rule: the rule is not enforced: Invalid value: {shown}: {error}"
    )
}

#[cfg(feature = "cel")]
#[tokio::test(start_paused = true)]
async fn loaded_rules_that_do_not_compile_are_logged_once_each_and_cause_warnings() {
    let (log, _guard) = logged();
    let api = server();
    assert_eq!(send(&api, "POST", DEFINITIONS, &new(&definition(&["v1"], WRONG))).await.0, 422);
    let loaded = json!({"objects": [definition(&["v1", "v2"], WRONG)]});
    assert_eq!(send(&api, "POST", "/_dev/load", &loaded).await.0, 200);
    let text = about_the_wrong_rule();
    let line = |version: &str| {
        format!(
            "WARN message=A stored schema is not fully enforced. definition=widgets.ex.dev version={version} reason={text}"
        )
    };
    assert_eq!(log.take(), [line("v1"), line("v2")]);
    assert_eq!(send(&api, "POST", WIDGETS, &widget()).await, (201, vec![warning(&text)]));
    assert_eq!(log.take(), [""; 0]);
}

#[cfg(feature = "cel")]
#[tokio::test]
async fn rules_in_the_journal_that_do_not_compile_are_logged_at_the_start() {
    let (log, _guard) = logged();
    let folder = tempfile::tempdir().unwrap();
    let (journal, ..) = Journal::open(folder.path()).unwrap();
    let api =
        ApiServer::with_journal(Settings::default(), clock(), Some((journal, vec![definition(&["v1"], WRONG)], 5)));
    let text = about_the_wrong_rule();
    let line = format!(
        "WARN message=A stored schema is not fully enforced. definition=widgets.ex.dev version=v1 reason={text}"
    );
    assert_eq!(log.take(), [line]);
    assert_eq!(send(&api, "POST", WIDGETS, &widget()).await, (201, vec![warning(&text)]));
}

#[tokio::test(start_paused = true)]
async fn a_loaded_schema_that_cannot_be_read_is_logged() {
    let (log, _guard) = logged();
    let api = server();
    let mut unreadable = definition(&["v1"], "true");
    unreadable["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "array"});
    assert_eq!(send(&api, "POST", "/_dev/load", &json!({"objects": [unreadable]})).await.0, 200);
    let reason =
        "openAPIV3Schema.type: the schema is not enforced: Invalid value: \"array\": must be object at the root";
    let line = format!(
        "WARN message=A stored schema is not fully enforced. definition=widgets.ex.dev version=v1 reason={reason}"
    );
    let lines = log.take();
    assert!(lines.contains(&line), "{lines:?}");
    assert_eq!(send(&api, "POST", WIDGETS, &widget()).await, (201, Vec::new()));
}

#[cfg(not(feature = "cel"))]
#[tokio::test(start_paused = true)]
async fn a_server_without_expressions_warns_of_all_rules() {
    let (log, _guard) = logged();
    let api = server();
    let text =
        "openAPIV3Schema: x-kubernetes-validations are not enforced: this server was built without the feature cel";
    let of_definition = format!("spec.validation.{text}");
    let created = send(&api, "POST", DEFINITIONS, &new(&definition(&["v1"], "self.spec.size == 2"))).await;
    assert_eq!(created, (201, vec![warning(&of_definition)]));
    assert_eq!(
        log.take(),
        [format!("WARN message=A validation rule is not enforced. definition=widgets.ex.dev rule={of_definition}")]
    );
    assert_eq!(send(&api, "POST", WIDGETS, &widget()).await, (201, vec![warning(text)]));
    let folder = tempfile::tempdir().unwrap();
    let (journal, ..) = Journal::open(folder.path()).unwrap();
    drop(ApiServer::with_journal(Settings::default(), clock(), Some((journal, vec![definition(&["v1"], "false")], 5))));
    let line = format!(
        "WARN message=A stored schema is not fully enforced. definition=widgets.ex.dev version=v1 reason={text}"
    );
    assert_eq!(log.take(), [line]);
}
