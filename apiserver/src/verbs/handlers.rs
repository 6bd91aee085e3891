//! What requests for objects lead to: which handler takes them, and what handlers have in common.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use crate::api::Api;
use crate::controllers::latency::Progress;
use crate::faults::injection;
use crate::http::api_error::{Cause, Failure};
use crate::http::reply::Reply;
use crate::http::request::{self, Body};
use crate::http::{json, protobuf};
use crate::kinds::registry::{Registry, Served};
use crate::kinds::{definition, versioning};
use crate::storage::store::{Key, Stored};
use crate::verbs::request_context::Call;
use crate::verbs::{conversion, deleting, patching, reading, reviews, watch, writing};
use kopfd_base::yaml;

/// Answers a request for objects.
pub async fn answer(api: &Api, call: Call) -> Result<Reply, Failure> {
    let place = &call.place;
    let registry = api.registry();
    let Some(served) = registry.find(&place.group, &place.version, &place.plural).cloned() else {
        return not_served(&registry, &call);
    };
    match api.pace().progress(served.came_at, call.now) {
        Progress::Ready => {}
        Progress::Unserved => return not_served(&registry, &call),
        Progress::Unready => return Err(injection::not_ready()),
    }
    let mut answer = match (dispatch(api, &served, &call).await, &served.deprecation) {
        // Who uses what is old is told so, even if it fails.
        (Err(failure), Some(_)) if failure.details.retry_after.is_none() => Reply::from(failure),
        (answer, _) => answer?,
    };
    answer.warnings.extend(served.deprecation.clone());
    if call.method != Method::GET {
        api.persisted().await?;
    }
    Ok(answer)
}

fn not_served(registry: &Registry, call: &Call) -> Result<Reply, Failure> {
    if registry.is_built_in(&call.place.group, &call.place.version) {
        return Err(Failure::no_resource());
    }
    Ok(Reply::no_page())
}

async fn dispatch(api: &Api, served: &Arc<Served>, call: &Call) -> Result<Reply, Failure> {
    let place = &call.place;
    let is_custom = served.kind.is_custom();
    if served.kind.namespaced != place.namespace.is_some() && (place.name.is_some() || !served.kind.namespaced) {
        return if is_custom { Ok(Reply::no_page()) } else { not_served_here() };
    }
    if place.name.as_deref().is_some_and(|name| matches!(name, "." | "..") || name.contains(['/', '%'])) {
        return Err(Failure::bad_request(format!("invalid resource name {:?}", place.name.as_deref().unwrap_or_default())));
    }
    if let Some(review) = reviews::answer(api, served, call)? {
        return Ok(review);
    }
    if let Some(subresource) = place.subresource.as_deref() {
        return below(api, served, call, subresource).await;
    }
    match (call.method.as_str(), place.name.is_some()) {
        (method, _) if place.is_watch && method != "GET" => Err(Failure::no_method()),
        ("GET", _) if is_watch(call) => watch::answer(api, served, call).await,
        ("GET", true) => reading::get(api, served, call).await,
        ("GET", false) => reading::list(api, served, call).await,
        ("POST", false) if served.kind.namespaced && place.namespace.is_none() => {
            if is_custom {
                Ok(Reply::no_page())
            } else {
                Err(Failure::no_method())
            }
        }
        ("POST", false) => writing::create(api, served, call).await,
        ("POST", true) if is_custom => writing::create(api, served, call).await,
        ("PUT", true) => writing::update(api, served, call, "").await,
        ("PATCH", true) => patching::patch(api, served, call, "").await,
        ("DELETE", true) => deleting::delete(api, served, call).await,
        ("DELETE", false) if served.kind.verbs.iter().any(|verb| verb == "deletecollection") => {
            if served.kind.namespaced && place.namespace.is_none() {
                return if is_custom { Ok(Reply::no_page()) } else { Err(Failure::no_method()) };
            }
            deleting::delete_all(api, served, call).await
        }
        ("PUT" | "PATCH", false) if is_custom => Err(Failure::bad_request("name must be provided")),
        _ if is_custom => Err(not_supported(served, call)),
        _ => Err(Failure::no_method()),
    }
}

/// Returns the failure of a verb that custom objects do not know.
fn not_supported(served: &Served, call: &Call) -> Failure {
    let verb = request::verb(&call.method, &call.place, &call.query);
    let mut failure =
        Failure::new(405, "MethodNotAllowed", format!("{verb} is not supported on resources of kind {:?}", served.full_name()));
    failure.details.group.clone_from(&served.kind.group);
    failure.details.kind.clone_from(&served.kind.plural);
    failure
}

/// Refuses a request for what is not there in a built-in kind.
pub fn not_served_here() -> Result<Reply, Failure> {
    Err(Failure::no_resource())
}

/// A single custom object cannot be watched by its own path.
fn is_watch(call: &Call) -> bool {
    call.place.is_watch || (call.place.name.is_none() && call.query.is_on("watch"))
}

async fn below(api: &Api, served: &Arc<Served>, call: &Call, subresource: &str) -> Result<Reply, Failure> {
    let kind = &served.kind;
    let is_core = |plural: &str| kind.group.is_empty() && kind.plural == plural;
    let is_pods = is_core("pods");
    // What follows the name of a proxy is a path behind it.
    let subresource = if is_pods && subresource.starts_with("proxy/") { "proxy" } else { subresource };
    let is_there = match subresource {
        "status" => kind.has_status,
        "scale" => kind.scale.is_some(),
        "finalize" => is_core("namespaces"),
        "log" | "eviction" | "binding" | "ephemeralcontainers" | "resize" | "exec" | "attach" | "portforward" | "proxy" => is_pods,
        _ => false,
    };
    if !is_there {
        let name = call.place.name.as_deref().unwrap_or_default();
        return if kind.is_custom() { Err(Failure::not_found(&kind.group, &kind.plural, name)) } else { not_served_here() };
    }
    match (subresource, call.method.as_str()) {
        ("log", "GET") => {
            let is_placed = existing(api, served, call)?.value["spec"]["nodeName"].is_string();
            Ok(Reply::text(if is_placed { 200 } else { 204 }, ""))
        }
        ("eviction", "POST") => deleting::evict(api, served, call).await.map(|()| Reply::created()),
        ("binding", "POST") => writing::bind(api, served, call).await,
        ("exec" | "attach" | "portforward", "GET" | "POST") | ("proxy", _) => {
            existing(api, served, call)?;
            let name = call.place.name.as_deref().unwrap_or_default();
            Err(Failure::bad_request(format!("pod {name} is run by nobody: this server has no nodes, so that {subresource} leads nowhere")))
        }
        ("log" | "eviction" | "binding" | "exec" | "attach" | "portforward", _) => Err(Failure::no_method()),
        ("finalize", method) if method != "PUT" => Err(Failure::no_method()),
        ("scale", "GET") => {
            let stored = existing(api, served, call)?;
            reading::shape_scale(call, scale_of(served, &*conversion::see(api, served, &stored).await?)?)
        }
        (_, "GET") => reading::get(api, served, call).await,
        (_, "PUT") => writing::update(api, served, call, subresource).await,
        (_, "PATCH") => patching::patch(api, served, call, subresource).await,
        _ if kind.is_custom() => Err(not_supported(served, call)),
        _ => Err(Failure::no_method()),
    }
}

/// Returns the `Scale` of an object as an answer.
pub fn scale_answer(served: &Served, value: &Value) -> Result<Reply, Failure> {
    scale_of(served, value).map(Reply::object)
}

fn scale_of(served: &Served, value: &Value) -> Result<Value, Failure> {
    let path = served.kind.scale.as_ref().map(|scale| scale.spec_replicas.clone()).unwrap_or_default();
    versioning::scale_of(served, value).ok_or_else(|| {
        let text = format!("Internal error occurred: the spec replicas field {path:?} does not exist");
        let mut failure = Failure::new(500, "InternalError", text.clone());
        failure.details.causes.push(Cause::new("", "", text));
        failure
    })
}

/// Returns where the object of a request is.
pub fn key(call: &Call) -> Key {
    (call.place.namespace.clone().unwrap_or_default(), call.place.name.clone().unwrap_or_default())
}

/// Returns the object that a request is about.
pub fn existing(api: &Api, served: &Served, call: &Call) -> Result<Arc<Stored>, Failure> {
    let key = key(call);
    api.read(&served.resource, &key).ok_or_else(|| Failure::not_found(&served.kind.group, &served.kind.plural, &key.1))
}

/// Tells whether objects of a kind are read into Go's types, for which numbers are whole only if they are written as such. Custom objects,
/// and the schemas of definitions, have no such types.
pub fn has_go_types(served: &Served) -> bool {
    !served.kind.is_custom() && served.kind.group != definition::GROUP
}

/// Reads the body of a request by its media type.
pub fn read_body(served: &Served, call: &Call) -> Result<Body, Failure> {
    let media = request::media_type(&call.headers);
    let name = &served.kind.kind;
    let parse = if has_go_types(served) { json::parse_strictly } else { json::parse };
    match media.as_deref().unwrap_or("application/json") {
        "application/json" => parse(&call.body).map_err(|error| {
            let version = &served.kind.version;
            Failure::bad_request(format!(
                "{name} in version {version:?} cannot be handled as a {name}: couldn't get version/kind; json parse error: {error}"
            ))
        }),
        "application/yaml" => {
            let text = std::str::from_utf8(&call.body).map_err(|error| Failure::bad_request(error.to_string()))?;
            read_yaml(text).map_err(|error| Failure::bad_request(error.to_string()))
        }
        "application/vnd.kubernetes.protobuf" if !served.kind.is_custom() => protobuf::decode(&call.body).map(Body::from),
        _ => Err(unsupported_media("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

/// Reads YAML, of which the first document counts.
///
/// # Errors
/// If it is none.
pub fn read_yaml(text: &str) -> Result<Body, yaml::Error> {
    let Some(mut read) = yaml::parse_leniently(text)? else { return Ok(Body::from(Value::Null)) };
    read.repeated.sort();
    let remarks = read.repeated.iter().map(|(line, key)| format!("line {line}: key {key:?} already set in map")).collect();
    Ok(Body { value: json::with_whole_numbers(read.value), remarks })
}

/// Returns the failure of a body that nobody here can read.
pub fn unsupported_media(accepted: &str) -> Failure {
    let text = format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
    Failure::new(415, "UnsupportedMediaType", text)
}

/// Checks the namespace and name of a body against the path, and fills in what is missing.
pub fn place_body(served: &Served, call: &Call, value: &mut Value, is_update: bool) -> Result<(), Failure> {
    if let Some(name) = &call.place.name {
        match value["metadata"]["name"].as_str().unwrap_or_default() {
            "" if is_update => {
                let text = format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
                return Err(Failure::bad_request(text));
            }
            "" => value["metadata"]["name"] = json!(name),
            sent if sent != name => {
                let text = format!("the name of the object ({sent}) does not match the name on the URL ({name})");
                return Err(Failure::bad_request(text));
            }
            _ => {}
        }
    }
    let wanted = call.place.namespace.clone().unwrap_or_default();
    match value["metadata"]["namespace"].as_str().unwrap_or_default() {
        sent if sent == wanted => {}
        "" if served.kind.namespaced => value["metadata"]["namespace"] = json!(wanted),
        // Objects outside of namespaces lose it.
        _ if !served.kind.namespaced => drop(value["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"))),
        _ => return Err(Failure::other_namespace()),
    }
    Ok(())
}
