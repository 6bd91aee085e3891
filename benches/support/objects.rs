//! Objects of a given size, in the form of API servers.

use serde_json::{Value, json};

/// The group of the generated kind.
pub(crate) const GROUP: &str = "bench.kopfd.dev";

/// The usual bytes of an object.
pub(crate) const SIZE: usize = 5 << 10;

/// The state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No handler concerns it.
    Unmatched,
    /// A handler concerns it, and has not handled it.
    New,
    /// A handler concerns it, and has handled it.
    Handled,
}

/// Returns an object as JSON text, about so many bytes long.
pub(crate) fn object(number: usize, state: State, size: usize) -> String {
    let bare = build(number, state, 0);
    // The handled state is repeated in the annotation.
    let copies = if state == State::Handled { 2 } else { 1 };
    build(number, state, size.saturating_sub(bare.len()) / copies)
}

/// Returns a specification with this many bytes of filling.
pub(crate) fn spec(filling: usize) -> Value {
    let text = "The quick brown fox jumps over the lazy dog. ";
    let parts: Vec<Value> =
        (0..filling / 64).map(|part| json!({"name": format!("part-{part:04}"), "text": text[..32]})).collect();
    json!({"size": 3, "image": "registry.example.com/images/thing:1.2.3", "mode": "fast", "parts": parts})
}

fn build(number: usize, state: State, filling: usize) -> String {
    let name = format!("thing-{number:06}");
    let spec = spec(filling);
    let app = if state == State::Unmatched { "other" } else { "chosen" };
    let mut metadata = json!({
        "name": name, "namespace": "default", "uid": uid(number), "resourceVersion": (1000 + number).to_string(),
        "generation": 1, "creationTimestamp": "2024-01-01T00:00:00Z", "labels": {"app": app, "tier": "backend"},
        "managedFields": [{
            "manager": "kubectl-create", "operation": "Update", "apiVersion": format!("{GROUP}/v1"), "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:tier": {}}}, "f:spec": {".": {}, "f:size": {}, "f:image": {}}},
        }],
    });
    if state == State::Handled {
        let essence = json!({"spec": spec, "metadata": {"labels": {"app": app, "tier": "backend"}}});
        metadata["annotations"] = json!({"kopf.zalando.org/last-handled-configuration": format!("{essence}\n")});
    }
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": metadata, "spec": spec, "status": {"phase": "Ready"}})
        .to_string()
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}
