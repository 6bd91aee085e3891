//! Admission reviews over HTTP with scripted webhooks, and the webhook configurations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopfd::engines::admission::memos::NothingWatched;
use kopfd::engines::admission::reviewer::{ReviewRevision, ReviewedBody, ReviewerParts};
use kopfd::engines::admission::server::{ClientVerification, Route, Server, ServerOptions};
use kopfd::engines::admission::{RequestPeer, Reviewer, Reviewers, client_config};
use kopfd::engines::{EventStream, Scripts};
use kopfd::handling::admission::configuration::{self, ConfigurationKind, Naming, Situation};
use kopfd::handling::admission::{SideEffects, Webhook};
use kopfd::handling::{Handler, On, Policy, Verdict};
use kopfd::kit::{Clock, Stop};
use kopfd::manifest;
use kopfd::object::{Body, LateBody, Resource, diff};
use kopfd::script::{Call, Evaluation, Returned, Subject};
use kopfd::telemetry::Metrics;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::compare::{same, same_diff};
use super::selecting::{resource, selector};
use super::world::declare::{self, Declared};
use super::world::scripted::{diff_item, transform};

/// Runs one case.
pub(crate) fn run(case: &Value) -> Result<(), String> {
    let (input, expected) = (&case["input"], &case["expected"]);
    match input["op"].as_str().unwrap_or_default() {
        "review" => {
            // Sockets need real time.
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("the system has sockets");
            runtime.block_on(review(input, expected))
        }
        "webhooks" if expected.get("error").is_some() => refused(input),
        "webhooks" => configurations(input, expected),
        "webhook_name" => {
            let name = configuration::webhook_name(text(&input["id"]), text(&input["suffix"]));
            same("name", &expected["name"], &json!(name))
        }
        "client_config" => {
            let found = client_config::with_id(input["client_config"].clone(), text(&input["id"]));
            same("client_config", &expected["client_config"], &found)
        }
        other => panic!("the operation {other:?} is unknown"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The webhooks of a case. They do what the case says, and record their arguments.
struct Scripted {
    specs: Vec<Value>,
    calls: Arc<Mutex<Vec<Value>>>,
}

impl Scripts for Scripted {
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.calls.lock().push(arguments(&self.specs[handler.target], handler, &call));
        let effect = &self.specs[handler.target]["effect"];
        let mut patch = call.patch;
        patch.merge.extend(effect["patch"].as_object().cloned().unwrap_or_default());
        patch.transforms.extend(effect["fns"].as_array().into_iter().flatten().map(|spec| transform(&named(spec))));
        let warnings = effect["warnings"].as_array().into_iter().flatten().map(|one| text(one).to_owned()).collect();
        let returned = Returned { warnings, ..Returned::new(verdict(effect), patch) };
        std::future::ready(returned).boxed()
    }

    fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        std::future::ready(Err("the cases have no expressions".to_owned())).boxed()
    }
}

/// Returns a function over the body in the form of other vectors.
fn named(spec: &Value) -> Value {
    let mut named = spec.clone();
    named["fn"] = spec["op"].clone();
    named
}

fn verdict(effect: &Value) -> Verdict {
    let Some(raised) = effect.get("raise") else { return Verdict::Returned(effect.get("result").cloned()) };
    let message = text(&raised["message"]).to_owned();
    match text(&raised["type"]) {
        "admission" => {
            let code = raised["code"].as_u64().map_or(500, |code| u16::try_from(code).expect("a status code"));
            Verdict::Rejected { text: message, code }
        }
        "permanent" => Verdict::Permanent { text: message },
        "temporary" => Verdict::Temporary { text: Some(message), delay: Some(Duration::from_mins(1)) },
        _ => Verdict::Failed { text: message, representation: "an error".to_owned(), trace: None },
    }
}

/// Returns the arguments that a call gets, in the form of the vectors.
fn arguments(spec: &Value, handler: &Handler, call: &Call) -> Value {
    let Subject::Review { object, old, new, request } = &call.subject else {
        panic!("{:?} is no review", call.subject)
    };
    let side = |body: Option<&Body>| body.map_or(Value::Null, |body| (**body).clone());
    let before = old.as_ref().and_then(LateBody::get);
    let difference = diff::diff(&side(before), &side(new.as_ref()), diff::Scope::Full);
    json!({
        "id": handler.id,
        "operation": request.operation,
        "subresource": request.subresource,
        "dryrun": request.dryrun,
        "name": object.body.name(),
        "namespace": object.body.namespace(),
        "uid": object.body.uid(),
        "param": spec["param"],
        "username": request.userinfo["username"],
        "has_old": old.is_some(),
        "has_new": new.is_some(),
        "diff": difference.iter().map(diff_item).collect::<Vec<_>>(),
    })
}

/// Returns the declared webhooks of a case.
fn declared(input: &Value) -> Vec<Webhook> {
    let specs = input["handlers"].as_array().into_iter().flatten().enumerate();
    specs.map(|(target, spec)| webhook(target, spec)).collect()
}

fn webhook(target: usize, spec: &Value) -> Webhook {
    let mut options = with_filters(spec);
    options["on"] = json!("event");
    let handler = Declared::default().declare(&options).expect("the options do not contradict each other");
    let selectors =
        if spec.get("args").is_some() { vec![selector(spec).expect("a selector")] } else { handler.selectors.clone() };
    let suffix = spec["field"].as_str().map(|field| format!("/{field}")).unwrap_or_default();
    let id = format!("{}{suffix}", text(&spec["id"]));
    let handler = Handler { id, target, on: On::Review, selectors, policy: Policy::default(), ..handler };
    Webhook {
        operations: spec["operations"].as_array().into_iter().flatten().map(|one| text(one).to_owned()).collect(),
        subresource: spec["subresource"].as_str().map(str::to_owned),
        is_persistent: spec["persistent"] == true,
        side_effects: if spec["side_effects"] == true { SideEffects::NoneOnDryRun } else { SideEffects::None },
        ignores_failures: spec["ignore_failures"] == true,
        ..Webhook::simple(handler, spec["on"] == "mutate")
    }
}

/// Returns a declaration whose markers have the form of other vectors.
fn with_filters(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let key = |key: &str| if key == "$marker" { "$filter".to_owned() } else { key.to_owned() };
            map.iter().map(|(name, value)| (key(name), with_filters(value))).collect()
        }
        other => other.clone(),
    }
}

async fn review(input: &Value, expected: &Value) -> Result<(), String> {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let specs = input["handlers"].as_array().cloned().unwrap_or_default();
    let scripts = Arc::new(Scripted { specs, calls: Arc::clone(&calls) });
    let kinds = watch::Sender::new(Some(Arc::new(BTreeSet::from([declare::resource(&json!(["status"]))]))));
    let reviewer = Arc::new(Reviewer::new(ReviewerParts {
        operator: "operator".into(),
        revision: ReviewRevision { scripts, webhooks: declared(input), conversions: Vec::new() },
        kinds: kinds.subscribe(),
        watched: Arc::new(NothingWatched),
        clock: Clock::system(),
        events: EventStream::default(),
        metrics: Metrics::default().operator("operator"),
        stop: Stop::new(),
    }));
    let (status, answer) = if let Some(path) = input["path"].as_str() {
        ask(reviewer, path, input).await
    } else {
        let reviewed =
            reviewer.review(input["webhook"].as_str(), input["request"].clone(), RequestPeer::default()).await;
        let ReviewedBody::Review(review) = reviewed.body else { return Err(format!("refused: {reviewed:?}")) };
        (reviewed.status, Some(review))
    };
    same("http_status", &expected["http_status"], &json!(status))?;
    same_calls(&expected["handlers_called"], &calls.lock())?;
    match (expected.get("review"), answer) {
        (Some(expected_review), Some(answer)) => {
            same_review(expected_review, expected.get("patched_object"), &answer, input)
        }
        (None, None) => Ok(()),
        (expected, answer) => Err(format!("expected the review {expected:?}\n  found {answer:?}")),
    }
}

/// Sends a review to a server with a socket. Returns the status, and the review in the answer.
async fn ask(reviewer: Arc<Reviewer>, path: &str, input: &Value) -> (u16, Option<Value>) {
    let reviewers = Reviewers::default();
    let _listed = reviewers.add(reviewer);
    let options = ServerOptions {
        addr: Some("127.0.0.1".to_owned()),
        port: None,
        path: String::new(),
        route: Route::Host("localhost".to_owned()),
        dump: None,
        verification: ClientVerification::None,
    };
    let server = Server::start(options, None, reviewers).await.expect("a free port");
    let body = input["raw"].as_str().map_or_else(|| input["request"].to_string(), str::to_owned);
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server.address()).await.expect("the server listens");
    stream.write_all(format!("{head}{body}").as_bytes()).await.expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server answers");
    server.close().await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
    (status, serde_json::from_str(body).ok())
}

fn same_calls(expected: &Value, found: &[Value]) -> Result<(), String> {
    let expected = expected.as_array().map_or(&[][..], Vec::as_slice);
    same("number of calls", &json!(expected.len()), &json!(found.len()))?;
    for (expected, found) in expected.iter().zip(found) {
        let without_diff = |call: &Value| {
            let mut call = call.clone();
            call.as_object_mut().map(|call| call.remove("diff"));
            call
        };
        same("call", &without_diff(expected), &without_diff(found))?;
        same_diff("diff", &expected["diff"], &found["diff"])?;
    }
    Ok(())
}

/// Checks the answer: its patch by the patched object, and texts that stand for a class only by their presence.
fn same_review(expected: &Value, patched: Option<&Value>, found: &Value, input: &Value) -> Result<(), String> {
    let (mut expected, mut found) = (expected.clone(), found.clone());
    let patch = found["response"].as_object_mut().and_then(|response| response.remove("patch"));
    let message = &mut expected["response"]["status"]["message"];
    if text(message).ends_with("('')") || text(message).ends_with("()") {
        if text(&found["response"]["status"]["message"]).is_empty() {
            return Err("expected a text of the error".to_owned());
        }
        *message = found["response"]["status"]["message"].clone();
    }
    if expected["response"]["status"]["message"].is_null() {
        // Indexing has made it.
        expected["response"].as_object_mut().map(|response| response.remove("status"));
    }
    same("review", &expected, &found)?;
    let request = &input["request"]["request"];
    let base = if request["object"].is_null() { &request["oldObject"] } else { &request["object"] };
    match (patched, patch) {
        (Some(expected), Some(patch)) => {
            let operations = STANDARD.decode(text(&patch)).map_err(|error| error.to_string())?;
            let operations: Value = serde_json::from_slice(&operations).map_err(|error| error.to_string())?;
            let mut object = base.clone();
            for operation in operations.as_array().into_iter().flatten() {
                change(&mut object, operation)?;
            }
            same("patched_object", expected, &object)
        }
        (None, None) => Ok(()),
        (expected, patch) => Err(format!("expected the patched object {expected:?}\n  found the patch {patch:?}")),
    }
}

/// Applies an operation of a JSON patch.
fn change(object: &mut Value, operation: &Value) -> Result<(), String> {
    let path = text(&operation["path"]);
    let (parent, key) =
        path.rsplit_once('/').ok_or_else(|| format!("the operation {operation} replaces everything"))?;
    let key = key.replace("~1", "/").replace("~0", "~");
    let parent = object.pointer_mut(parent).ok_or_else(|| format!("the operation {operation} has no parent"))?;
    let value = operation["value"].clone();
    match (text(&operation["op"]), parent) {
        ("add" | "replace", Value::Object(map)) => drop(map.insert(key, value)),
        ("remove", Value::Object(map)) => {
            map.remove(&key).ok_or_else(|| format!("nothing to remove: {operation}"))?;
        }
        (op, Value::Array(items)) => {
            let index =
                if key == "-" { items.len() } else { key.parse().map_err(|_| format!("no index: {operation}"))? };
            match op {
                "add" => items.insert(index, value),
                "replace" => items[index] = value,
                "remove" => drop(items.remove(index)),
                _ => return Err(format!("unknown: {operation}")),
            }
        }
        _ => return Err(format!("unknown: {operation}")),
    }
    Ok(())
}

/// Checks that the manifest refuses a declaration.
fn refused(input: &Value) -> Result<(), String> {
    let webhooks: Vec<Value> = input["handlers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|spec| json!({"on": spec["on"], "id": spec["id"], "run": "()", "operations": spec["operations"]}))
        .collect();
    let manifest = json!({
        "apiVersion": "kopfd.dev/v1", "kind": "Operator", "metadata": {"name": "demo"},
        "spec": {"resources": [{"resource": "kopfexamples.kopf.dev", "webhooks": webhooks}]},
    });
    let loaded = manifest::load::read("operator.yaml", &manifest.to_string());
    let messages: Vec<&str> =
        loaded.diagnostics.iter().filter(|one| one.is_error()).map(|one| one.message.as_str()).collect();
    if messages == ["`operations` is empty"] {
        Ok(())
    } else {
        Err(format!("expected an error about the operations\n  found {messages:?}"))
    }
}

fn configurations(input: &Value, expected: &Value) -> Result<(), String> {
    let resources: Vec<Arc<Resource>> = match input["resources"].as_array() {
        Some(specs) => specs.iter().map(preferred).collect(),
        None => vec![declare::resource(&json!(["status"]))],
    };
    let resources: Vec<&Resource> = resources.iter().map(AsRef::as_ref).collect();
    let config = input.get("client_config").cloned().unwrap_or_else(|| json!({"url": "https://host/path"}));
    let situation = Situation {
        managed: input["managed"].as_str().unwrap_or("auto.kopf.dev"),
        naming: Naming::Kopf,
        resources: &resources,
        client_config: &|id| client_config::with_id(config.clone(), id),
        derives_conditions: false,
    };
    let webhooks: Vec<Webhook> =
        declared(input).into_iter().filter(|webhook| input["exiting"] != true || webhook.is_persistent).collect();
    for (kind, key) in [(ConfigurationKind::Validating, "validating"), (ConfigurationKind::Mutating, "mutating")] {
        let found = configuration::webhooks(kind, &webhooks, situation);
        same(key, &with_sorted_selectors(&expected[key]), &with_sorted_selectors(&found))?;
    }
    Ok(())
}

/// Returns a resource, which is preferred by default.
fn preferred(spec: &Value) -> Arc<Resource> {
    let mut spec = spec.clone();
    if spec.get("preferred").is_none() {
        spec["preferred"] = json!(true);
    }
    resource(&spec)
}

/// Returns webhooks with sorted conditions on labels: the order of declared labels is not kept when a case is read.
fn with_sorted_selectors(webhooks: &Value) -> Value {
    let mut webhooks = webhooks.clone();
    for webhook in webhooks.as_array_mut().into_iter().flatten() {
        if let Some(Value::Array(conditions)) = webhook.pointer_mut("/objectSelector/matchExpressions") {
            conditions.sort_by_key(|condition| condition["key"].to_string());
        }
    }
    webhooks
}
