//! The control API of a server under `/_dev`: faults, the record of requests, history, time, restarts. For
//! administrators only.

use std::time::Duration;

use axum::body::Body;
use http::{Method, Response};
use jiff::SignedDuration;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::ApiServer;
use super::restart::{Restart, refuse_if_durable};
use crate::api::Api;
use crate::auth::access::{MASTERS, User};
use crate::faults::Rule;
use crate::http::api_error::ApiError;
use crate::http::reply::{self, Reply};
use crate::http::request::{Accept, Form, ParsedRequest};
use crate::rules::time;

/// The prefix of the control API.
const ROOT: &str = "/_dev/";

/// The default time limit for controllers, in milliseconds.
const DEFAULT_SETTLE_TIMEOUT_MS: u64 = 5_000;
/// The interval of checks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The state to drop.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Reset {
    objects: bool,
}

/// The amount of history to keep.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Compaction {
    keep: usize,
}

/// The offset of the server's time.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ClockShift {
    offset_ms: i64,
}

/// The body of `settle`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct SettleRequest {
    timeout_ms: Option<u64>,
}

/// Objects with their revisions.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Load {
    #[serde(alias = "items")]
    objects: Vec<Value>,
    revision: Option<u64>,
}

/// Tells whether a request is for the control API.
pub(super) fn is_for(parsed: &ParsedRequest) -> bool {
    parsed.text.starts_with(ROOT)
}

/// Answers a request for the control API.
pub(super) async fn answer(server: &ApiServer, user: Result<User, ApiError>, parsed: &ParsedRequest) -> Response<Body> {
    let allowed = user.and_then(|user| {
        let is_administrator = user.groups.iter().any(|group| group == MASTERS);
        let text = format!("forbidden: User {:?} cannot control the server", user.name);
        if is_administrator { Ok(()) } else { Err(ApiError::new(403, "Forbidden", text)) }
    });
    let answered = match allowed {
        Ok(()) => control(server, parsed).await,
        Err(failure) => Err(failure),
    };
    match answered {
        Ok(reply) => reply.into_response(Accept { form: Form::Plain, is_yaml: false, is_beta: false }),
        Err(failure) => reply::refuse(failure),
    }
}

async fn control(server: &ApiServer, parsed: &ParsedRequest) -> Result<Reply, ApiError> {
    let api = &server.api;
    let parts: Vec<&str> = parsed.text[ROOT.len()..].trim_end_matches('/').split('/').collect();
    let done = || Ok(Reply::object(json!({})));
    match (parsed.method.as_str(), parts.as_slice()) {
        ("GET", ["faults"]) => Ok(Reply::object(json!({"faults": faults(api)}))),
        ("POST", ["faults"]) => Ok(Reply::object(json!({"id": server.add_fault(body(parsed)?)})).with_code(201)),
        ("PUT", ["faults"]) => Ok(Reply::object(json!({"ids": server.replace_faults(body::<Vec<Rule>>(parsed)?)}))),
        ("DELETE", ["faults"]) => {
            server.replace_faults(Vec::new());
            done()
        }
        ("GET", ["faults", id]) => {
            let found = faults(api).into_iter().find(|fault| fault["id"] == id.parse::<u64>().unwrap_or_default());
            found.map(Reply::object).ok_or_else(|| no_fault(id))
        }
        ("DELETE", ["faults", id]) => {
            let is_removed = id.parse().is_ok_and(|id| server.remove_fault(id));
            if is_removed { done() } else { Err(no_fault(id)) }
        }
        ("GET", ["log"]) => Ok(Reply::object(json!({"requests": server.requests(), "firings": server.firings()}))),
        ("DELETE", ["log"]) => {
            api.injection().requests().forget();
            api.injection().faults().forget_firings();
            done()
        }
        ("GET", ["requests"]) => Ok(Reply::object(json!({"requests": server.requests()}))),
        ("GET", ["firings"]) => Ok(Reply::object(json!({"firings": server.firings()}))),
        ("GET", ["watchers"]) => {
            let watchers: Vec<Value> = api.injection().requests().watchers().map(|request| json!(request)).collect();
            Ok(Reply::object(json!({"watchers": watchers})))
        }
        ("POST", ["reset"]) => {
            let reset: Reset = body(parsed)?;
            server.replace_faults(Vec::new());
            if reset.objects {
                server.restart(Restart { keep_objects: false, ..Restart::default() })?;
            }
            done()
        }
        ("POST", ["compact"]) => {
            let compaction: Compaction = body(parsed)?;
            api.with(|state| state.store.compact(compaction.keep));
            done()
        }
        ("POST", ["restart"]) => {
            server.restart(body(parsed)?)?;
            done()
        }
        ("POST", ["clock"]) => {
            let shift: ClockShift = body(parsed)?;
            api.shift_time(SignedDuration::from_millis(shift.offset_ms));
            Ok(Reply::object(json!({"now": time(api.now())})))
        }
        ("POST", ["settle"]) => settle(server, body(parsed)?).await,
        ("GET", ["dump"]) => {
            let (revision, objects) = api.with(|state| (state.store.revision(), state.store.all()));
            let objects: Vec<&Value> = objects.iter().map(|stored| &*stored.value).collect();
            Ok(Reply::object(json!({"revision": revision, "objects": objects})))
        }
        ("POST", ["load"]) => {
            load(server, body(parsed)?)?;
            done()
        }
        _ => Ok(Reply::no_page()),
    }
}

fn no_fault(id: &str) -> ApiError {
    ApiError::new(404, "NotFound", format!("there is no fault {id:?}"))
}

fn faults(api: &Api) -> Vec<Value> {
    api.injection().faults().rules().map(|(id, rule)| json!({"id": id, "rule": rule})).collect()
}

/// Reads the body; an empty one means the defaults.
fn body<T: DeserializeOwned>(parsed: &ParsedRequest) -> Result<T, ApiError> {
    let text: &[u8] = if parsed.body.is_empty() && parsed.method == Method::POST { b"{}" } else { &parsed.body };
    serde_json::from_slice(text).map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Waits until the controllers are idle.
async fn settle(server: &ApiServer, request: SettleRequest) -> Result<Reply, ApiError> {
    let timeout = Duration::from_millis(request.timeout_ms.unwrap_or(DEFAULT_SETTLE_TIMEOUT_MS));
    let settled = async {
        while !server.is_settled() {
            server.settle();
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    match tokio::time::timeout(timeout, settled).await {
        Ok(()) => Ok(Reply::object(json!({}))),
        Err(_) => Err(ApiError::new(504, "Timeout", "the controllers are still at work")),
    }
}

/// Adds objects unchanged, and replaces those with the same names.
fn load(server: &ApiServer, load: Load) -> Result<(), ApiError> {
    let api = &server.api;
    refuse_if_durable(api)?;
    let place = |value: &Value| {
        let group =
            value["apiVersion"].as_str().unwrap_or_default().split_once('/').map_or("", |(group, _)| group).to_owned();
        (group, value["kind"].as_str().unwrap_or_default().to_owned(), crate::storage::resource::key_of(value))
    };
    let loaded: Vec<_> = load.objects.iter().map(place).collect();
    let (present, current) = api.with(|state| (state.store.all(), state.store.revision()));
    let kept = present.iter().map(|stored| (*stored.value).clone()).filter(|value| !loaded.contains(&place(value)));
    let objects: Vec<Value> = kept.chain(load.objects.iter().cloned()).collect();
    let newest = objects.iter().filter_map(|value| value["metadata"]["resourceVersion"].as_str()?.parse().ok()).max();
    let revision = load.revision.unwrap_or(current).max(newest.unwrap_or_default());
    server.replace_objects(objects, revision);
    Ok(())
}
