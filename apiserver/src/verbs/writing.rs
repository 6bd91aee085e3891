//! Creations and updates: from a request through the webhooks to the store, with retries after conflicts.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::Operation;
use crate::api::Api;
use crate::http::api_error::{ApiError, FieldError};
use crate::http::reply::Reply;
use crate::http::request::Options;
use crate::kinds::registry::ServedKind;
use crate::kinds::versioning;
use crate::rules::{self, ATTEMPTS, Decision, Draft, Writer};
use crate::verbs::admission_chain::{AdmissionChain, AdmissionRequest};
use crate::verbs::body::read_body;
use crate::verbs::pod_classes;
use crate::verbs::request_context::RequestContext;
use crate::verbs::scale::scale_answer;
use crate::verbs::target::{check_against_path, check_name, existing, key, not_served_here};
use crate::verbs::{conversion, reading};

/// Attempts to generate an unused name.
const NAMES: usize = 8;
/// Limit of the size of stored objects.
const MAX_OBJECT: usize = 3 << 19;

/// Answers a request to create an object.
pub(crate) async fn create(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<Reply, ApiError> {
    let options = Options::read(&context.query, "CreateOptions")?;
    let mut body = read_body(served, context)?;
    let manager = context.manager(options.field_manager.as_deref());
    let writer =
        Writer { served, subresource: "", options: &options, manager: &manager, now: api.now(), is_patch: false };
    let warnings = writer.receive(&mut body.value, &body.remarks)?;
    check_against_path(served, context, &mut body.value, false)?;
    let chain = AdmissionChain::new(api, served, "", context.requester(&options));
    let (value, more) =
        create_received(api, &writer, &chain, body.value).await.map_err(|failure| failure.after(&warnings))?;
    Ok(reading::shape(served, context, value)?.with_code(201).with_warnings([warnings, more].concat()))
}

/// Creates a received object, and returns it in the version of the request.
///
/// # Errors
/// If it exists, it is invalid, its namespace is missing, or a webhook denies it.
pub(crate) async fn create_received(
    api: &Api,
    writer: &Writer<'_>,
    chain: &AdmissionChain<'_>,
    value: Value,
) -> Result<(Value, Vec<String>), ApiError> {
    let served = writer.served;
    let kind = &served.kind;
    let namespace = value["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let is_generated = value["metadata"]["name"].as_str().is_none_or(str::is_empty);
    let mut attempts = if is_generated && value["metadata"]["generateName"].is_string() { NAMES } else { 1 };
    loop {
        let mut named = value.clone();
        api.with(|state| state.ids.identify(&served.resource, &mut named, writer.options.is_dry_run));
        let name = named["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        check_place(api, served, &namespace, &name)?;
        let priority = pod_classes::find_classes(api, served, &named)?;
        let (mut new, warnings) = admit_new(writer, chain, named, is_generated).await?;
        if let Some(priority) = priority {
            priority.assign(&mut new);
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        check_size(&new)?;
        attempts -= 1;
        let taken = api.read(&served.resource, &(namespace.clone(), name.clone()));
        if taken.is_none() && writer.options.is_dry_run {
            versioning::complete(served, &mut new);
            return Ok((new, warnings));
        }
        if taken.is_none() {
            let new = conversion::to_storage_version(api, served, new).await?;
            if let Ok(Some(stored)) = api.commit(served, None, Decision::Store(new)) {
                return Ok(((*conversion::to_requested_version(api, served, &stored).await?).clone(), warnings));
            }
        }
        if attempts == 0 {
            let mut failure =
                ApiError::new(409, "AlreadyExists", format!("{} {name:?} already exists", served.full_name()));
            failure.details.name = name;
            failure.details.group.clone_from(&kind.group);
            failure.details.kind.clone_from(&kind.plural);
            return Err(failure);
        }
    }
}

/// Passes a new object through the admission chain. It has its name and its unique id, which mutating webhooks do not
/// get if they are generated.
async fn admit_new(
    writer: &Writer<'_>,
    chain: &AdmissionChain<'_>,
    mut named: Value,
    is_generated: bool,
) -> Result<(Value, Vec<String>), ApiError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, uid) = (text(&named["metadata"]["namespace"]), text(&named["metadata"]["uid"]));
    let mut writer = writer.clone();
    let mut warnings = Vec::new();
    if chain.may_mutate() {
        let given_name = named["metadata"]["name"].clone();
        // Webhooks get an invalid object as sent: they may fix it.
        let mut shown = writer.create(named.clone(), &uid).map_or_else(|_| named.clone(), |(shown, _)| shown);
        if let Some(metadata) = shown["metadata"].as_object_mut() {
            for field in ["uid", "creationTimestamp", "generation"] {
                metadata.remove(field);
            }
            if is_generated {
                metadata.remove("name");
            }
        }
        let name = if is_generated { String::new() } else { text(&given_name) };
        let request = AdmissionRequest {
            operation: Operation::Create,
            name: &name,
            namespace: &namespace,
            object: Some(&shown),
            old: None,
        };
        let (changed, more) = chain.mutate(request).await?;
        warnings.extend(more);
        if let Some(changed) = changed {
            named = writer.readmit(changed)?;
            rules::check_namespace(&Value::from(namespace.as_str()), &named)?;
            if named["metadata"]["name"].as_str().is_none_or(str::is_empty) {
                named["metadata"]["name"] = given_name;
            }
            // Fields set by webhooks have no owner.
            if shown["metadata"]["managedFields"].is_array() {
                named["metadata"]["managedFields"] = shown["metadata"]["managedFields"].clone();
                writer.is_patch = true;
            }
        }
    }
    let (new, more) = writer.create(named, &uid).map_err(|failure| failure.after(&warnings))?;
    warnings.extend(more);
    let name = text(&new["metadata"]["name"]);
    // Updates and applies may also create.
    chain.check_creation(&namespace, &name)?;
    let request = AdmissionRequest {
        operation: Operation::Create,
        name: &name,
        namespace: &namespace,
        object: Some(&new),
        old: None,
    };
    warnings.extend(chain.validate(request).await.map_err(|failure| failure.after(&warnings))?);
    Ok((new, warnings))
}

/// Answers a request to replace an object, or its subresource.
pub(crate) async fn update(
    api: &Api,
    served: &Arc<ServedKind>,
    context: &RequestContext,
    subresource: &str,
) -> Result<Reply, ApiError> {
    let options = Options::read(&context.query, "UpdateOptions")?;
    let manager = context.manager(options.field_manager.as_deref());
    let writer = Writer { served, subresource, options: &options, manager: &manager, now: api.now(), is_patch: false };
    let body = read_body(served, context)?;
    if subresource == "scale" {
        return write_scale(api, &writer, context, &body.remarks, &|_| Ok(body.value.clone())).await;
    }
    let mut value = body.value;
    let warnings = writer.receive(&mut value, &body.remarks)?;
    check_against_path(served, context, &mut value, true)?;
    if api.read(&served.resource, &key(context)).is_none() && subresource.is_empty() && is_created_by_put(served) {
        let chain = AdmissionChain::new(api, served, "", context.requester(&options));
        if value["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()) {
            let text = "Precondition failed: the object with this uid is not there";
            return Err(ApiError::conflict(
                &served.kind.group,
                &served.kind.plural,
                context.resource_path.name.as_deref().unwrap_or_default(),
                text,
            ));
        }
        // A given revision is ignored if the object does not exist.
        value["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        let (value, more) =
            create_received(api, &writer, &chain, value).await.map_err(|failure| failure.after(&warnings))?;
        return Ok(reading::shape(served, context, value)?.with_code(201).with_warnings([warnings, more].concat()));
    }
    let change = |old: &Value| {
        let mut new = value.clone();
        if subresource == "finalize" {
            new.clone_from(old);
            new["spec"]["finalizers"] = value["spec"]["finalizers"].clone();
        }
        writer.draft(old, new).map(|draft| (draft, Vec::new()))
    };
    let (value, more) = write(api, &writer, context, change).await.map_err(|failure| failure.after(&warnings))?;
    Ok(reading::shape(served, context, value)?.with_warnings([warnings, more].concat()))
}

/// Tells whether an update of a missing object creates it.
fn is_created_by_put(served: &ServedKind) -> bool {
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

/// Changes the current object and commits, with retries after conflicts. Returns the object in the requested version.
///
/// # Errors
/// If the object does not exist or is invalid, a webhook denies it, or the retries are used up.
pub(crate) async fn write(
    api: &Api,
    writer: &Writer<'_>,
    context: &RequestContext,
    change: impl Fn(&Value) -> Result<(Draft, Vec<String>), ApiError>,
) -> Result<(Value, Vec<String>), ApiError> {
    let served = writer.served;
    let chain = AdmissionChain::new(api, served, writer.subresource, context.requester(writer.options));
    for _ in 0..ATTEMPTS {
        let stored = existing(api, served, context)?;
        let old = conversion::to_requested_version(api, served, &stored).await?;
        let (draft, mut warnings) = change(&old)?;
        let (decision, more) =
            admit_changed(writer, &chain, &old, draft).await.map_err(|failure| failure.after(&warnings))?;
        warnings.extend(more);
        let (decision, last) = match decision {
            Decision::Unchanged => return Ok(((*old).clone(), warnings)),
            Decision::Store(value) | Decision::Remove(value) if writer.options.is_dry_run => {
                check_size(&value)?;
                return Ok((value, warnings));
            }
            Decision::Store(value) => {
                check_size(&value)?;
                (Decision::Store(conversion::to_storage_version(api, served, value).await?), None)
            }
            Decision::Remove(value) => (Decision::Remove(value.clone()), Some(value)),
        };
        match api.commit(served, Some(&stored), decision) {
            Ok(Some(stored)) => {
                return Ok(((*conversion::to_requested_version(api, served, &stored).await?).clone(), warnings));
            }
            Ok(None) => return Ok((last.unwrap_or_default(), warnings)),
            Err(_) => {}
        }
    }
    let text = "the object has been modified; please apply your changes to the latest version and try again";
    Err(ApiError::conflict(
        &served.kind.group,
        &served.kind.plural,
        context.resource_path.name.as_deref().unwrap_or_default(),
        text,
    ))
}

/// Passes a changed object through the admission chain.
async fn admit_changed(
    writer: &Writer<'_>,
    chain: &AdmissionChain<'_>,
    old: &Value,
    draft: Draft,
) -> Result<(Decision, Vec<String>), ApiError> {
    if !chain.has_webhooks() {
        return writer.settle(old, draft);
    }
    let (namespace, name) = crate::storage::resource::key_of(old);
    let scale = |value: &Value| versioning::scale_of(writer.served, value).unwrap_or_default();
    let shown_as = |value: &Value| if writer.subresource == "scale" { scale(value) } else { value.clone() };
    let seen = writer.present(old, &draft);
    let (shown, shown_old) = (shown_as(&seen), shown_as(old));
    let request = AdmissionRequest {
        operation: Operation::Update,
        name: &name,
        namespace: &namespace,
        object: Some(&shown),
        old: Some(&shown_old),
    };
    let (changed, mut warnings) = chain.mutate(request).await?;
    let draft = match changed {
        None => draft,
        Some(changed) if writer.subresource == "scale" => rescaled(writer, draft, &changed),
        Some(changed) => writer.redraft(old, &seen, changed)?,
    };
    let (decision, more) = writer.settle(old, draft).map_err(|failure| failure.after(&warnings))?;
    warnings.extend(more);
    let after = match &decision {
        Decision::Unchanged => old,
        Decision::Store(value) | Decision::Remove(value) => value,
    };
    let validated = chain.validate(AdmissionRequest { object: Some(&shown_as(after)), ..request }).await;
    warnings.extend(validated.map_err(|failure| failure.after(&warnings))?);
    Ok((decision, warnings))
}

/// A webhook may change the number of replicas.
fn rescaled(writer: &Writer<'_>, mut draft: Draft, scale: &Value) -> Draft {
    if let Some(paths) = &writer.served.kind.scale {
        versioning::set_at(&mut draft.value, &paths.spec_replicas, scale["spec"]["replicas"].clone());
    }
    draft
}

/// Writes the number of replicas of an object through its `Scale`.
///
/// # Errors
/// If the object does not exist, or the body is not a scale.
pub(crate) async fn write_scale(
    api: &Api,
    writer: &Writer<'_>,
    context: &RequestContext,
    remarks: &[String],
    change: &(dyn Fn(&Value) -> Result<Value, ApiError> + Sync),
) -> Result<Reply, ApiError> {
    let served = writer.served;
    let Some(paths) = served.kind.scale.clone() else { return not_served_here() };
    let scales = ServedKind::of(versioning::scales());
    let reader = Writer { served: &scales, ..writer.clone() };
    let decide = |old: &Value| {
        let scale = versioning::scale_of(served, old).unwrap_or_else(
            || json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": old["metadata"], "spec": {}, "status": {}}),
        );
        let mut changed = change(&scale)?;
        let refused = |failure| if writer.is_patch { rules::no_object(failure) } else { failure };
        let warnings = reader.receive(&mut changed, remarks).map_err(refused)?;
        check_against_path(served, context, &mut changed, true)?;
        let replicas = changed["spec"]["replicas"].as_i64().unwrap_or_default();
        if replicas < 0 {
            let text = format!("Invalid value: {replicas}: should be a non-negative integer");
            let name = context.resource_path.name.as_deref().unwrap_or_default();
            // For a built-in kind the error is in the scale, for others in the object.
            let (group, kind, field) = if served.kind.is_custom() {
                (served.kind.group.as_str(), served.kind.kind.as_str(), paths.spec_replicas.as_str())
            } else {
                ("autoscaling", "Scale", "spec.replicas")
            };
            return Err(ApiError::invalid(group, kind, name, vec![FieldError::new("FieldValueInvalid", field, text)]));
        }
        let mut new = old.clone();
        versioning::set_at(&mut new, &paths.spec_replicas, json!(replicas));
        let sent = &changed["metadata"]["uid"];
        if sent.is_string() && *sent != old["metadata"]["uid"] {
            let text = format!(
                "Precondition failed: UID in precondition: {sent}, UID in object meta: {}",
                old["metadata"]["uid"]
            );
            return Err(ApiError::conflict(&served.kind.group, &served.kind.plural, &key(context).1, &text));
        }
        if let Some(sent) = changed["metadata"]["resourceVersion"].as_str().filter(|sent| !sent.is_empty()) {
            new["metadata"]["resourceVersion"] = json!(sent);
        }
        writer.draft(old, new).map(|draft| (draft, warnings))
    };
    let (value, warnings) = write(api, writer, context, decide).await?;
    Ok(scale_answer(served, &value)?.with_warnings(warnings))
}

/// Answers a request to bind a pod to a node.
pub(crate) async fn bind(api: &Api, served: &ServedKind, context: &RequestContext) -> Result<Reply, ApiError> {
    let options = Options::default();
    let binding = read_body(served, context)?.value;
    check_name(context, &binding)?;
    let stored = existing(api, served, context)?;
    let chain = AdmissionChain::new(api, served, "binding", context.requester(&options));
    let (namespace, name) = key(context);
    let request = AdmissionRequest {
        operation: Operation::Create,
        name: &name,
        namespace: &namespace,
        object: Some(&binding),
        old: None,
    };
    let (changed, _) = chain.mutate(request).await?;
    let binding = changed.unwrap_or_else(|| binding.clone());
    chain.validate(AdmissionRequest { object: Some(&binding), ..request }).await?;
    let Some(node) = binding["target"]["name"].as_str().filter(|node| !node.is_empty()) else {
        return Err(ApiError::new(500, "", "target.name: Required value"));
    };
    let conflict = |why: &str| ApiError::conflict("", "pods/binding", &name, why);
    if let Some(present) = stored.value["spec"]["nodeName"].as_str().filter(|present| !present.is_empty()) {
        return Err(conflict(&format!("pod {name} is already assigned to node {present:?}")));
    }
    let mut value = (*stored.value).clone();
    value["spec"]["nodeName"] = json!(node);
    let mut conditions = value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "PodScheduled");
    let now = rules::time(api.now());
    conditions
        .push(json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
    value["status"]["conditions"] = json!(conditions);
    api.commit(served, Some(&stored), Decision::Store(value)).map_err(|_| conflict("the object has been modified"))?;
    Ok(Reply::created())
}

fn check_size(value: &Value) -> Result<(), ApiError> {
    if serde_json::to_vec(value).is_ok_and(|text| text.len() > MAX_OBJECT) {
        return Err(ApiError::new(500, "", "etcdserver: request is too large"));
    }
    Ok(())
}

/// Checks that the namespace of a new object exists and is not being deleted, and so does its definition.
fn check_place(api: &Api, served: &ServedKind, namespace: &str, name: &str) -> Result<(), ApiError> {
    if served.is_terminating {
        return Err(rules::forbidden(
            served,
            name,
            "create not allowed while custom resource definition is terminating",
        ));
    }
    if namespace.is_empty() {
        return Ok(());
    }
    let namespaces = crate::storage::resource::Resource { group: String::new(), plural: "namespaces".to_owned() };
    let Some(found) = api.read(&namespaces, &(String::new(), namespace.to_owned())) else {
        return Err(ApiError::not_found("", "namespaces", namespace));
    };
    if !found.value["metadata"]["deletionTimestamp"].is_string() {
        return Ok(());
    }
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = rules::forbidden(served, name, &why);
    let text = format!("namespace {namespace} is being terminated");
    failure.details.causes.push(FieldError::new("NamespaceTerminating", "metadata.namespace", text));
    Err(failure)
}
