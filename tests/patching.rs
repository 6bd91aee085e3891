//! The golden vectors of patching, run through the code that sends patches, against a scripted API server.

use std::sync::Arc;

use futures::future::BoxFuture;
use kopfd::cluster::apply::{MERGE_PATCH, apply};
use kopfd::cluster::{Applied, Error, Requests};
use kopfd::object::{BodyFunction, Patch, Resource, Transform};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

const VECTORS: &str = include_str!("conformance/vectors/patching.json");

/// An API server with one object. Its version grows when the object changes; empty stanzas of the metadata vanish.
struct Server {
    state: Mutex<State>,
    failures: Vec<(usize, u16)>,
    pruned: Vec<Vec<String>>,
    has_status: bool,
}

struct State {
    object: Value,
    requests: Vec<Value>,
    /// The object before each request.
    before: Vec<Value>,
}

impl Server {
    fn of(input: &Value) -> Self {
        let object = input.get("server_object").filter(|object| !object.is_null()).unwrap_or(&input["body"]).clone();
        let failures = items(&input["fail"]).map(|failure| (number(&failure["nth"]) as usize, number(&failure["status"]) as u16));
        Self {
            state: Mutex::new(State { object, requests: Vec::new(), before: Vec::new() }),
            failures: failures.collect(),
            pruned: items(&input["server_prunes"]).map(|path| items(path).map(text).collect()).collect(),
            has_status: items(&input["subresources"]).any(|name| name == "status"),
        }
    }

    fn patched(&self, object: &Value, content_type: &str, is_status: bool, payload: &Value) -> Result<Value, Error> {
        let mut patched = object.clone();
        if content_type == MERGE_PATCH {
            json_patch::merge(&mut patched, payload);
        } else {
            let operations: json_patch::Patch = serde_json::from_value(payload.clone()).unwrap();
            json_patch::patch(&mut patched, &operations).map_err(|_| failure(422))?;
        }
        if self.has_status {
            let (mut kept, status) = if is_status { (object.clone(), patched) } else { (patched, object.clone()) };
            match status.get("status") {
                Some(status) => kept["status"] = status.clone(),
                None => drop(kept.as_object_mut().unwrap().remove("status")),
            }
            patched = kept;
        }
        self.pruned.iter().for_each(|path| remove(&mut patched, path));
        for stanza in ["annotations", "labels", "finalizers"] {
            if patched["metadata"].get(stanza).is_some_and(is_empty) {
                patched["metadata"].as_object_mut().unwrap().remove(stanza);
            }
        }
        if patched != *object {
            let version: u64 = text(&object["metadata"]["resourceVersion"]).parse().unwrap();
            patched["metadata"]["resourceVersion"] = json!((version + 1).to_string());
        }
        Ok(patched)
    }
}

impl Requests for Server {
    async fn patch(&self, path: &str, content_type: &'static str, payload: &Value) -> Result<Value, Error> {
        let mut state = self.state.lock().await;
        let is_status = path.ends_with("/status");
        assert_eq!(path.trim_end_matches("/status"), "/apis/kopf.dev/v1/namespaces/ns/kopfexamples/o");
        let number = state.requests.len() + 1;
        let failed = self.failures.iter().find(|(nth, _)| *nth == number);
        let answer = match failed {
            Some((_, status)) => Err(failure(*status)),
            None => self.patched(&state.object, content_type, is_status, payload),
        };
        let before = state.object.clone();
        state.before.push(before);
        state.requests.push(json!({
            "patch": if content_type == MERGE_PATCH { "merge" } else { "json" },
            "subresource": is_status.then_some("status"),
            "payload": payload,
            "response": answer.as_ref().map_or_else(|error| error.status().unwrap(), |_| 200),
        }));
        answer.inspect(|object| state.object = object.clone())
    }
}

#[derive(Debug)]
struct Function(Value);

impl BodyFunction for Function {
    fn call(&self, mut body: Value) -> BoxFuture<'_, Result<Value, String>> {
        let path: Vec<String> = items(&self.0["path"]).map(text).collect();
        let (last, parents) = path.split_last().unwrap();
        let mut parent = &mut body;
        for key in parents {
            parent = parent.as_object_mut().unwrap().entry(key.clone()).or_insert_with(|| json!({}));
        }
        let value = self.0["value"].clone();
        match text(&self.0["fn"]).as_str() {
            "set" => parent[last] = value,
            "delete" => drop(parent.as_object_mut().unwrap().remove(last)),
            function => {
                let list = parent.as_object_mut().unwrap().entry(last.clone()).or_insert_with(|| json!([]));
                let list = list.as_array_mut().unwrap();
                let at = if function == "append" { list.len() } else { 0 };
                list.insert(at, value);
            }
        }
        Box::pin(async { Ok(body) })
    }
}

fn transform(function: &Value) -> Transform {
    match text(&function["fn"]).as_str() {
        "add_finalizer" => Transform::AddFinalizer(text(&function["name"])),
        "remove_finalizer" => Transform::RemoveFinalizer(text(&function["name"])),
        _ => Transform::Function(Arc::new(Function(function.clone()))),
    }
}

fn resource(input: &Value) -> Resource {
    Resource {
        group: "kopf.dev".into(),
        version: "v1".into(),
        plural: "kopfexamples".into(),
        kind: "KopfExample".into(),
        namespaced: true,
        subresources: items(&input["subresources"]).map(text).collect(),
        ..Resource::default()
    }
}

async fn run(input: &Value) -> (State, Result<Applied, Error>) {
    let server = Server::of(input);
    let patch =
        Patch { merge: input["merge"].as_object().cloned().unwrap_or_default(), transforms: items(&input["fns"]).map(transform).collect() };
    let applied = apply(&server, &resource(input), &input["body"].clone().into(), &patch).await;
    (server.state.into_inner(), applied)
}

fn outcome(applied: &Result<Applied, Error>) -> Value {
    match applied {
        Err(error) => json!({"error_status": error.status(), "warned": false}),
        Ok(applied) => json!({
            "resource_version": applied.version, "remaining_fns": applied.remaining.len(), "warned": !applied.inconsistencies.is_empty(),
        }),
    }
}

fn expected_outcome(expected: &Value) -> Value {
    let mut outcome: Map<String, Value> = expected.as_object().unwrap().clone();
    outcome.remove("requests");
    let warnings = outcome.remove("warnings").unwrap();
    outcome.insert("warned".into(), json!(items(&warnings).next().is_some()));
    outcome.into()
}

/// Operations count as equal if they do the same; the leading test must be the same.
fn same_payload(one: &Value, other: &Value, before: &Value) -> bool {
    let (Some(ones), Some(others)) = (one.as_array(), other.as_array()) else { return one == other };
    let after = |operations: &[Value]| {
        let mut object = before.clone();
        let operations: json_patch::Patch = serde_json::from_value(operations.into()).unwrap();
        json_patch::patch(&mut object, &operations).map(|()| object).ok()
    };
    ones.first() == others.first() && after(&ones[1..]) == after(&others[1..])
}

#[tokio::test]
async fn the_golden_vectors_pass() {
    let cases: Vec<Value> = serde_json::from_str(VECTORS).unwrap();
    for case in &cases {
        let (name, expected) = (&case["name"], &case["expected"]);
        let (state, applied) = run(&case["input"]).await;
        assert_eq!(outcome(&applied), expected_outcome(expected), "{name}");
        let requests: Vec<&Value> = items(&expected["requests"]).collect();
        assert_eq!(state.requests.len(), requests.len(), "{name}");
        for ((sent, wanted), before) in state.requests.iter().zip(requests).zip(&state.before) {
            for key in ["patch", "subresource", "response"] {
                assert_eq!(sent[key], wanted[key], "{key} in {name}");
            }
            assert!(same_payload(&sent["payload"], &wanted["payload"], before), "{sent} is not {wanted} in {name}");
        }
    }
    assert_eq!(cases.len(), 37);
}

fn failure(status: u16) -> Error {
    Error::of_answer(status, None, b"")
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}

fn remove(value: &mut Value, path: &[String]) {
    match path {
        [] => {}
        [last] => drop(value.as_object_mut().and_then(|object| object.remove(last))),
        [first, rest @ ..] => value.get_mut(first).into_iter().for_each(|value| remove(value, rest)),
    }
}
