//! What requests for objects lead to: which handler takes them, and the writes among them.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::api::{Api, Call};
use super::failure::{Cause, Failure};
use super::registry::{Registry, Served};
use super::reply::Reply;
use super::request::{self, Body, Options};
use super::rules::{Decision, Deletion, Propagation, Writer};
use super::store::{Key, Stored};
use super::{json, patching, protobuf, reading, reviews, rules, view, watch};
use crate::object::yaml;

/// How often a write is tried anew that does not say what it is based on.
const ATTEMPTS: usize = 5;
/// How often a generated name is generated anew when there is such an object.
const NAMES: usize = 8;
/// Objects that are larger are not stored.
const MAX_OBJECT: usize = 3 << 19;

/// Answers a request for objects.
pub async fn answer(api: &Api, call: Call) -> Result<Reply, Failure> {
    let place = &call.place;
    let registry = api.registry();
    let Some(served) = registry.find(&place.group, &place.version, &place.plural).cloned() else {
        return not_served(&registry, &call);
    };
    let mut answer = dispatch(api, &served, &call).await?;
    answer.warnings.extend(served.deprecation.clone());
    if call.method != Method::GET {
        api.persisted().await;
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
        ("GET", _) if is_watch(call) => watch::answer(api, served, call),
        ("GET", true) => reading::get(api, served, call).await,
        ("GET", false) => reading::list(api, served, call).await,
        ("POST", false) if served.kind.namespaced && place.namespace.is_none() => {
            if is_custom {
                Ok(Reply::no_page())
            } else {
                Err(Failure::no_method())
            }
        }
        ("POST", false) => create(api, served, call),
        ("POST", true) if is_custom => create(api, served, call),
        ("PUT", true) => update(api, served, call, ""),
        ("PATCH", true) => patching::patch(api, served, call, ""),
        ("DELETE", true) => delete(api, served, call),
        ("DELETE", false) if served.kind.verbs.iter().any(|verb| verb == "deletecollection") => {
            if served.kind.namespaced && place.namespace.is_none() && !is_custom {
                return Err(Failure::no_method());
            }
            delete_all(api, served, call)
        }
        ("PUT" | "PATCH", false) if is_custom => Err(Failure::bad_request("name must be provided")),
        _ => Err(Failure::no_method()),
    }
}

fn not_served_here() -> Result<Reply, Failure> {
    Err(Failure::no_resource())
}

/// A single custom object cannot be watched by its own path.
fn is_watch(call: &Call) -> bool {
    call.place.is_watch || (call.place.name.is_none() && call.query.is_on("watch"))
}

async fn below(api: &Api, served: &Arc<Served>, call: &Call, subresource: &str) -> Result<Reply, Failure> {
    let kind = &served.kind;
    let is_core = |plural: &str| kind.group.is_empty() && kind.plural == plural;
    let is_there = match subresource {
        "status" => kind.has_status,
        "scale" => kind.scale.is_some(),
        "finalize" => is_core("namespaces"),
        "log" | "eviction" | "binding" => is_core("pods"),
        _ => false,
    };
    if !is_there {
        let name = call.place.name.as_deref().unwrap_or_default();
        return if kind.is_custom() { Err(Failure::not_found(&kind.group, &kind.plural, name)) } else { not_served_here() };
    }
    match (subresource, call.method.as_str()) {
        ("log", "GET") => existing(api, served, call).map(|_| Reply::text(200, "")),
        ("eviction", "POST") => {
            delete(api, served, call)?;
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
            Ok(Reply::object(status).with_code(201))
        }
        ("binding", "POST") => bind(api, served, call),
        ("scale", "GET") => {
            let stored = existing(api, served, call)?;
            scale_answer(served, &view::see(served, &stored))
        }
        (_, "GET") => reading::get(api, served, call).await,
        (_, "PUT") => update(api, served, call, subresource),
        (_, "PATCH") => patching::patch(api, served, call, subresource),
        _ if kind.is_custom() => {
            let text = format!(
                "{} is not supported on resources of kind {:?}",
                request::verb(&call.method, &call.place, &call.query),
                served.full_name()
            );
            let mut failure = Failure::new(405, "MethodNotAllowed", text);
            failure.details.group.clone_from(&kind.group);
            failure.details.kind.clone_from(&kind.plural);
            Err(failure)
        }
        _ => Err(Failure::no_method()),
    }
}

fn bind(api: &Api, served: &Served, call: &Call) -> Result<Reply, Failure> {
    let node = read_body(served, call)?.value["target"]["name"].clone();
    let stored = existing(api, served, call)?;
    let mut value = (*stored.value).clone();
    value["spec"]["nodeName"] = node;
    let raced = |_| Failure::conflict("", "pods", call.place.name.as_deref().unwrap_or_default(), "the object has been modified");
    api.commit(served, Some(&stored), Decision::Store(value)).map_err(raced)?;
    Ok(Reply::object(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})).with_code(201))
}

/// Returns the `Scale` of an object as an answer.
pub fn scale_answer(served: &Served, value: &Value) -> Result<Reply, Failure> {
    let path = served.kind.scale.as_ref().map(|scale| scale.spec_replicas.clone()).unwrap_or_default();
    view::scale_of(served, value).map(Reply::object).ok_or_else(|| {
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

/// Reads the body of a request by its media type.
pub fn read_body(served: &Served, call: &Call) -> Result<Body, Failure> {
    let media = request::media_type(&call.headers).unwrap_or("application/json");
    let name = &served.kind.kind;
    match media {
        "application/json" => json::parse(&call.body).map_err(|error| {
            let version = &served.kind.version;
            Failure::bad_request(format!(
                "{name} in version {version:?} cannot be handled as a {name}: couldn't get version/kind; json parse error: {error}"
            ))
        }),
        "application/yaml" => {
            let text = std::str::from_utf8(&call.body).map_err(|error| Failure::bad_request(error.to_string()))?;
            let mut documents = yaml::parse(text).map_err(|error| Failure::bad_request(error.to_string()))?;
            let value = if documents.is_empty() { Value::Null } else { documents.swap_remove(0) };
            Ok(Body { value, duplicates: Vec::new() })
        }
        "application/vnd.kubernetes.protobuf" if !served.kind.is_custom() => {
            protobuf::decode(&call.body).map(|value| Body { value, duplicates: Vec::new() })
        }
        _ => Err(unsupported_media("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
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
        _ => {
            let text = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(text));
        }
    }
    Ok(())
}

fn create(api: &Api, served: &Arc<Served>, call: &Call) -> Result<Reply, Failure> {
    let options = Options::read(&call.query, "CreateOptions")?;
    let mut body = read_body(served, call)?;
    let manager = call.manager(options.field_manager.as_deref());
    let writer = Writer { served, subresource: "", options: &options, manager: &manager, now: api.now(), is_patch: false };
    let remarks = body.remarks();
    let warnings = writer.receive(&mut body.value, &remarks)?;
    place_body(served, call, &mut body.value, false)?;
    let (value, more) = create_received(api, &writer, body.value)?;
    Ok(reading::shape(served, call, value)?.with_code(201).with_warnings([warnings, more].concat()))
}

/// Creates an object that was received, and returns it as it is seen.
pub fn create_received(api: &Api, writer: &Writer<'_>, value: Value) -> Result<(Value, Vec<String>), Failure> {
    let served = writer.served;
    let kind = &served.kind;
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let is_generated = value["metadata"]["name"].as_str().is_none_or(str::is_empty);
    let mut attempts = if is_generated && value["metadata"]["generateName"].is_string() { NAMES } else { 1 };
    loop {
        let mut named = value.clone();
        api.with(|state| state.ids.identify(&mut named));
        let name = named["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let uid = named["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        check_place(api, served, &namespace, &name)?;
        let (mut new, warnings) = writer.create(named, &uid)?;
        check_size(&new)?;
        attempts -= 1;
        let taken = api.read(&served.resource, &(namespace.clone(), name.clone()));
        if taken.is_none() && writer.options.is_dry_run {
            return Ok((new, warnings));
        }
        if taken.is_none() {
            view::store(served, &mut new);
            if let Ok(Some(stored)) = api.commit(served, None, Decision::Store(new)) {
                return Ok(((*view::see(served, &stored)).clone(), warnings));
            }
        }
        if attempts == 0 {
            let mut failure = Failure::new(409, "AlreadyExists", format!("{} {name:?} already exists", served.full_name()));
            failure.details.name = name;
            failure.details.group.clone_from(&kind.group);
            failure.details.kind.clone_from(&kind.plural);
            return Err(failure);
        }
    }
}

fn check_size(value: &Value) -> Result<(), Failure> {
    if serde_json::to_vec(value).is_ok_and(|text| text.len() > MAX_OBJECT) {
        return Err(Failure::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

/// New objects need a namespace that is there to stay, and a definition too.
fn check_place(api: &Api, served: &Served, namespace: &str, name: &str) -> Result<(), Failure> {
    if served.is_leaving {
        return Err(rules::forbidden(served, name, "create not allowed while custom resource definition is terminating"));
    }
    if namespace.is_empty() {
        return Ok(());
    }
    let namespaces = super::store::Resource { group: String::new(), plural: "namespaces".to_owned() };
    let Some(found) = api.read(&namespaces, &(String::new(), namespace.to_owned())) else {
        return Err(Failure::not_found("", "namespaces", namespace));
    };
    if !found.value["metadata"]["deletionTimestamp"].is_string() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = rules::forbidden(served, name, &why);
    let text = format!("namespace {namespace} is being terminated");
    failure.details.causes.push(Cause::new("NamespaceTerminating", "metadata.namespace", text));
    Err(failure)
}

fn update(api: &Api, served: &Arc<Served>, call: &Call, subresource: &str) -> Result<Reply, Failure> {
    let options = Options::read(&call.query, "UpdateOptions")?;
    let manager = call.manager(options.field_manager.as_deref());
    let writer = Writer { served, subresource, options: &options, manager: &manager, now: api.now(), is_patch: false };
    let body = read_body(served, call)?;
    if subresource == "scale" {
        return write_scale(api, &writer, call, &|_| Ok(body.value.clone()));
    }
    let remarks = body.remarks();
    let mut value = body.value;
    let warnings = writer.receive(&mut value, &remarks)?;
    place_body(served, call, &mut value, true)?;
    if api.read(&served.resource, &key(call)).is_none() && subresource.is_empty() && is_created_by_put(served) {
        let (value, more) = create_received(api, &writer, value)?;
        return Ok(reading::shape(served, call, value)?.with_code(201).with_warnings([warnings, more].concat()));
    }
    let decide = |old: &Value| {
        if subresource != "finalize" {
            return writer.update(old, value.clone());
        }
        let mut new = old.clone();
        new["spec"]["finalizers"] = value["spec"]["finalizers"].clone();
        writer.finish(old, new).map(|decision| (decision, Vec::new()))
    };
    let (value, more) = write(api, &writer, call, decide)?;
    Ok(reading::shape(served, call, value)?.with_warnings([warnings, more].concat()))
}

/// Tells whether an update of what is not there creates it.
fn is_created_by_put(served: &Served) -> bool {
    const KINDS: &[&str] = &[
        "Lease",
        "Event",
        "Endpoints",
        "LimitRange",
        "Service",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
        "RuntimeClass",
    ];
    !served.kind.is_custom() && KINDS.contains(&served.kind.kind.as_str())
}

/// Decides on the present object and commits, again if somebody was faster. Returns the object as it is seen.
pub fn write(
    api: &Api,
    writer: &Writer<'_>,
    call: &Call,
    decide: impl Fn(&Value) -> Result<(Decision, Vec<String>), Failure>,
) -> Result<(Value, Vec<String>), Failure> {
    let served = writer.served;
    for _ in 0..ATTEMPTS {
        let old = existing(api, served, call)?;
        let (decision, warnings) = decide(&view::see(served, &old))?;
        match &decision {
            Decision::Unchanged => return Ok(((*view::see(served, &old)).clone(), warnings)),
            Decision::Store(value) | Decision::Remove(value) => {
                check_size(value)?;
                if writer.options.is_dry_run {
                    return Ok((value.clone(), warnings));
                }
            }
        }
        let last = if let Decision::Remove(value) = &decision { Some(value.clone()) } else { None };
        match api.commit(served, Some(&old), decision) {
            Ok(Some(stored)) => return Ok(((*view::see(served, &stored)).clone(), warnings)),
            Ok(None) => return Ok((last.unwrap_or_default(), warnings)),
            Err(_) => {}
        }
    }
    let text = "the object has been modified; please apply your changes to the latest version and try again";
    Err(Failure::conflict(&served.kind.group, &served.kind.plural, call.place.name.as_deref().unwrap_or_default(), text))
}

/// Writes the number of an object through its `Scale`.
pub fn write_scale(
    api: &Api,
    writer: &Writer<'_>,
    call: &Call,
    change: &dyn Fn(&Value) -> Result<Value, Failure>,
) -> Result<Reply, Failure> {
    let served = writer.served;
    let Some(paths) = served.kind.scale.clone() else { return not_served_here() };
    let decide = |old: &Value| {
        let scale = view::scale_of(served, old).unwrap_or_else(
            || json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": old["metadata"], "spec": {}, "status": {}}),
        );
        let changed = change(&scale)?;
        if let Some(sent) =
            changed["metadata"]["name"].as_str().filter(|sent| !sent.is_empty() && Some(*sent) != call.place.name.as_deref())
        {
            return Err(Failure::bad_request(format!("the name of the object ({sent}) does not match the name on the URL")));
        }
        let mut new = old.clone();
        match &changed["spec"]["replicas"] {
            Value::Null => view::set_at(&mut new, &paths.spec_replicas, json!(0)),
            number if number.as_i64().is_some_and(|number| number < 0) => {
                let text = format!("Invalid value: {number}: should be a non-negative integer");
                let field = if served.kind.is_custom() { &paths.spec_replicas } else { "spec.replicas" };
                let cause = Cause::new("FieldValueInvalid", field, text);
                let name = call.place.name.as_deref().unwrap_or_default();
                return Err(Failure::invalid(&served.kind.group, &served.kind.kind, name, vec![cause]));
            }
            number if number.is_i64() => view::set_at(&mut new, &paths.spec_replicas, number.clone()),
            number => return Err(Failure::bad_request(format!("Scale cannot be handled: {number} is no number of replicas"))),
        }
        if let Some(sent) = changed["metadata"]["resourceVersion"].as_str().filter(|sent| !sent.is_empty()) {
            new["metadata"]["resourceVersion"] = json!(sent);
        }
        writer.update(old, new)
    };
    let (value, warnings) = write(api, writer, call, decide)?;
    Ok(scale_answer(served, &value)?.with_warnings(warnings))
}

fn delete(api: &Api, served: &Arc<Served>, call: &Call) -> Result<Reply, Failure> {
    let deletion = read_deletion(served, call)?;
    let old = existing(api, served, call)?;
    let mut warnings = Vec::new();
    if served.kind.group == "batch" && served.kind.kind == "Job" && deletion.propagation.is_none() {
        warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning"
                .to_owned(),
        );
    }
    let seen = delete_one(api, served, old, &deletion)?;
    let answer = match seen {
        Deleted::Leaving(value) => reading::shape(served, call, value)?,
        Deleted::Gone(value) if answers_with_the_object(served) => reading::shape(served, call, value)?,
        Deleted::Gone(value) => {
            let (name, uid) = (value["metadata"]["name"].as_str().unwrap_or_default(), super::store::uid_of(&value));
            Reply::success(&served.kind.group, &served.kind.plural, name, uid)
        }
    };
    Ok(answer.with_warnings(warnings))
}

/// What a deletion has come to.
pub enum Deleted {
    /// The object is marked, and waits for its finalizers.
    Leaving(Value),
    /// The object is removed.
    Gone(Value),
}

/// Deletes an object, again if somebody else has written it meanwhile.
pub fn delete_one(api: &Api, served: &Arc<Served>, mut old: Arc<Stored>, deletion: &Deletion) -> Result<Deleted, Failure> {
    let options = Options { is_dry_run: deletion.is_dry_run, ..Options::default() };
    let writer = Writer { served, subresource: "", options: &options, manager: "", now: api.now(), is_patch: false };
    for _ in 0..ATTEMPTS {
        let decision = writer.delete(&old.value, deletion)?;
        let is_removal = matches!(decision, Decision::Remove(_));
        if deletion.is_dry_run {
            let seen = (*view::see(served, &old)).clone();
            return Ok(if is_removal { Deleted::Gone(seen) } else { Deleted::Leaving(seen) });
        }
        match api.commit(served, Some(&old), decision) {
            Ok(Some(stored)) => return Ok(Deleted::Leaving((*view::see(served, &stored)).clone())),
            Ok(None) => return Ok(Deleted::Gone(last_form(api, served, &view::see(served, &old), writer.now))),
            Err(_) => {}
        }
        let key = super::store::key_of(&old.value);
        old = api.read(&served.resource, &key).ok_or_else(|| Failure::not_found(&served.kind.group, &served.kind.plural, &key.1))?;
    }
    Err(Failure::conflict(&served.kind.group, &served.kind.plural, &super::store::key_of(&old.value).1, "the object has been modified"))
}

/// Returns an object as it was removed: at a revision of its own; pods were marked first.
fn last_form(api: &Api, served: &Served, value: &Value, now: jiff::Timestamp) -> Value {
    let mut value = value.clone();
    value["metadata"]["resourceVersion"] = json!(api.with(|state| state.store.revision()).to_string());
    if served.kind.kind == "Pod" && served.kind.group.is_empty() && !value["metadata"]["deletionTimestamp"].is_string() {
        rules::mark(&mut value, now);
    }
    value
}

fn answers_with_the_object(served: &Served) -> bool {
    const KINDS: &[&str] =
        &["Pod", "Service", "ServiceAccount", "PersistentVolume", "PersistentVolumeClaim", "Namespace", "ResourceQuota", "PodTemplate"];
    let group = served.kind.group.as_str();
    group == "storage.k8s.io" || (group.is_empty() && KINDS.contains(&served.kind.kind.as_str()))
}

fn read_deletion(served: &Served, call: &Call) -> Result<Deletion, Failure> {
    let body = if call.body.is_empty() { Value::Null } else { read_body_of_options(served, call)? };
    let body = if body["kind"] == "Eviction" { body["deleteOptions"].clone() } else { body };
    call.query.number("gracePeriodSeconds")?;
    let seconds = &body["gracePeriodSeconds"];
    if !(body.is_null() || body.is_object()) || !(seconds.is_null() || seconds.is_i64()) {
        return Err(Failure::bad_request("DeleteOptions cannot be handled: json: cannot unmarshal into Go value of type v1.DeleteOptions"));
    }
    let text = |field: &str| body[field].as_str().or_else(|| call.query.text(field)).map(str::to_owned);
    let mut causes = Vec::new();
    let mut propagation = match text("propagationPolicy").as_deref() {
        None | Some("") => None,
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some("Orphan") => Some(Propagation::Orphan),
        Some(other) => {
            let text = format!("Unsupported value: {other:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"");
            causes.push(Cause::new("FieldValueNotSupported", "propagationPolicy", text));
            None
        }
    };
    let orphans = body["orphanDependents"].as_bool().or_else(|| call.query.text("orphanDependents").map(|text| text == "true"));
    if let Some(orphans) = orphans {
        if propagation.is_some() {
            let text = "Invalid value: orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::new("FieldValueInvalid", "propagationPolicy", text));
        }
        propagation = Some(if orphans { Propagation::Orphan } else { Propagation::Background });
    }
    let dry_run = body["dryRun"].as_array().and_then(|all| all.first()).and_then(Value::as_str).or_else(|| call.query.text("dryRun"));
    match dry_run {
        None | Some("All") => {}
        Some(other) => {
            let text = format!("Unsupported value: {other:?}: supported values: \"All\"");
            causes.push(Cause::new("FieldValueNotSupported", "dryRun", text));
        }
    }
    if !causes.is_empty() {
        return Err(Failure::invalid("meta.k8s.io", "DeleteOptions", "", causes));
    }
    let condition = |field: &str| body["preconditions"][field].as_str().map(str::to_owned);
    Ok(Deletion { propagation, uid: condition("uid"), resource_version: condition("resourceVersion"), is_dry_run: dry_run.is_some() })
}

fn read_body_of_options(served: &Served, call: &Call) -> Result<Value, Failure> {
    if request::media_type(&call.headers) == Some("application/vnd.kubernetes.protobuf") {
        return protobuf::decode(&call.body);
    }
    read_body(served, call).map(|body| body.value)
}

fn delete_all(api: &Api, served: &Arc<Served>, call: &Call) -> Result<Reply, Failure> {
    let deletion = read_deletion(served, call)?;
    let interest = reading::Interest::read(served, call)?;
    let found = api.with(|state| state.store.list(&served.resource, call.place.namespace.as_deref()));
    let mut seen = Vec::new();
    for (_, stored) in found {
        if !interest.covers(&view::see(served, &stored)) {
            continue;
        }
        seen.push((*view::see(served, &stored)).clone());
        match delete_one(api, served, stored, &deletion) {
            Err(failure) if failure.code != 404 => return Err(failure),
            _ => {}
        }
    }
    let revision = api.with(|state| state.store.revision());
    reading::shape(served, call, reading::list_of(served, seen, json!({"resourceVersion": revision.to_string()})))
}
