//! The four kinds of patches.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::Api;
use crate::http::api_error::{ApiError, FieldError};
use crate::http::json::{self, Body};
use crate::http::reply::Reply;
use crate::http::request::{self, Options};
use crate::kinds::registry::ServedKind;
use crate::kinds::{builtin, versioning};
use crate::patch::ownership;
use crate::patch::{json_patch, merge_patch, strategic};
use crate::rules::{self, Draft, Writer};
use crate::schema::field_error::FieldPath;
use crate::schema::metadata;
use crate::verbs::admission_chain::AdmissionChain;
use crate::verbs::body::{has_go_types, read_yaml, unsupported_media};
use crate::verbs::request_context::RequestContext;
use crate::verbs::scale::scale_answer;
use crate::verbs::target::{self, check_against_path};
use crate::verbs::{reading, writing};

/// Limit of operations.
const MAX_OPERATIONS: usize = 10_000;

/// A sent patch.
struct Patch {
    form: Form,
    value: Value,
    /// Its duplicate and unknown fields.
    remarks: Vec<String>,
}

enum Form {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Answers a request to patch an object.
pub(crate) async fn patch(
    api: &Api,
    served: &Arc<ServedKind>,
    context: &RequestContext,
    subresource: &str,
) -> Result<Reply, ApiError> {
    let options = Options::read(&context.query, "PatchOptions")?;
    let patch = read(served, context)?;
    if let Form::Apply = patch.form {
        return apply(api, served, context, subresource, &options, patch).await;
    }
    if options.is_forced {
        return Err(options_mistake(
            "FieldValueForbidden",
            "force",
            "Forbidden: may not be specified for non-apply patch",
        ));
    }
    let manager = context.manager(options.field_manager.as_deref());
    let writer = Writer { served, subresource, options: &options, manager: &manager, now: api.now(), is_patch: true };
    if subresource == "scale" {
        let scales = ServedKind::of(versioning::scales());
        return writing::write_scale(api, &writer, context, &patch.remarks, &|scale| {
            // Strategic merges are not supported for the scale of custom kinds.
            patched(if served.kind.is_custom() { served } else { &scales }, scale, &patch)
        })
        .await;
    }
    let change = |old: &Value| {
        let mut new = patched(served, old, &patch)?;
        let warnings = writer.receive(&mut new, &patch.remarks).map_err(rules::no_object)?;
        check_against_path(served, context, &mut new, true)?;
        Ok((writer.draft(old, new).map_err(rules::no_object)?, warnings))
    };
    let (value, warnings) = writing::write(api, &writer, context, change).await?;
    Ok(reading::shape(served, context, value)?.with_warnings(warnings))
}

fn patched(served: &ServedKind, old: &Value, patch: &Patch) -> Result<Value, ApiError> {
    match patch.form {
        Form::Json if has_go_types(served) => json_patch::apply(old, &patch.value),
        Form::Json => json_patch::apply(old, &patch.value).map(json::with_whole_numbers),
        Form::Merge => Ok(merge_patch::apply(old, &patch.value)),
        Form::Strategic => strategic::apply(old, &patch.value, &served.kind),
        Form::Apply => Ok(old.clone()),
    }
}

fn read(served: &ServedKind, context: &RequestContext) -> Result<Patch, ApiError> {
    let undecodable = |error| ApiError::bad_request(format!("error decoding patch: {error}"));
    let object = |value: Value| {
        if value.is_object() {
            return Ok(value);
        }
        let name = json::type_name(&value);
        let text = format!(
            "error decoding patch: json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"
        );
        Err(ApiError::bad_request(text))
    };
    // A merge patch keeps the form of numbers, a strategic one does not.
    let is_as_written = has_go_types(served) || context.resource_path.subresource.as_deref() == Some("scale");
    let parse = |form: Form| {
        let is_as_written = is_as_written && matches!(form, Form::Merge);
        let body = if is_as_written { json::parse_strictly(&context.body) } else { json::parse(&context.body) }
            .map_err(undecodable)?;
        Ok(Patch { form, value: object(body.value)?, remarks: body.remarks })
    };
    match request::media_type(&context.headers).unwrap_or_default().as_str() {
        "application/json-patch+json" => {
            // Numbers keep their form: tests compare the texts.
            let Body { value: operations, remarks: doubled } = json::parse_strictly(&context.body).map_err(undecodable)?;
            let count = operations.as_array().map_or(0, Vec::len);
            if count > MAX_OPERATIONS {
                let text = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
                return Err(ApiError::new(413, "RequestEntityTooLarge", text));
            }
            let doubled = doubled.into_iter().map(|remark| format!("json patch {remark}"));
            let unknown = json_patch::unknown_members(&operations).map(|path| format!("json patch unknown field {path:?}"));
            let remarks = doubled.chain(unknown).collect();
            Ok(Patch { form: Form::Json, value: operations, remarks })
        }
        "application/merge-patch+json" => parse(Form::Merge),
        // An empty patch changes nothing.
        "application/strategic-merge-patch+json" if !served.kind.is_custom() && context.body.trim_ascii() == b"null" => {
            Ok(Patch { form: Form::Strategic, value: json!({}), remarks: Vec::new() })
        }
        "application/strategic-merge-patch+json" if !served.kind.is_custom() => parse(Form::Strategic),
        "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(&context.body).map_err(|error| ApiError::bad_request(error.to_string()))?;
            let body = read_yaml(text).map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            Ok(Patch { form: Form::Apply, value: object(body.value)?, remarks: body.remarks })
        }
        _ if served.kind.is_custom() => {
            Err(unsupported_media("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"))
        }
        _ => Err(unsupported_media(
            "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml",
        )
        .with_details()),
    }
}

/// The annotation with kubectl's last applied object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn options_mistake(reason: &str, field: &str, text: &str) -> ApiError {
    ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![FieldError::new(reason, field, text)])
}

async fn apply(
    api: &Api,
    served: &Arc<ServedKind>,
    context: &RequestContext,
    subresource: &str,
    options: &Options,
    patch: Patch,
) -> Result<Reply, ApiError> {
    let Patch { value: applied, remarks, .. } = patch;
    let Some(manager) = options.field_manager.as_deref() else {
        return Err(options_mistake(
            "FieldValueRequired",
            "fieldManager",
            "Required value: is required for apply patch",
        ));
    };
    if applied["kind"].as_str().is_none_or(str::is_empty) || applied["apiVersion"].as_str().is_none_or(str::is_empty) {
        return Err(ApiError::bad_request("invalid object type: /, Kind="));
    }
    let is_scale = subresource == "scale";
    let shown = if is_scale { &versioning::scales() } else { &served.kind };
    if applied["kind"] != shown.kind.as_str() || applied["apiVersion"] != shown.api_version().as_str() {
        return Err(ApiError::bad_request(format!("the object is no {} of {}", shown.kind, shown.api_version())));
    }
    if is_scale && served.kind.is_custom() {
        // The real server has no type for scales in the types of a definition.
        return Err(ApiError::new(
            500,
            "",
            "failed to create typed patch object: no corresponding type for autoscaling/v1, Kind=Scale",
        ));
    }
    let writer = Writer { served, subresource, options, manager, now: api.now(), is_patch: true };
    let namespace = context.resource_path.namespace.as_deref().unwrap_or_default();
    let mut applied = if is_scale { unscaled(served, &applied, namespace)? } else { applied };
    if !served.kind.is_custom() {
        builtin::wrap_numbers(&served.kind, &mut applied);
    }
    check_typed(served, &applied, namespace)?;
    let is_there = api.read(&served.resource, &target::key(context)).is_some();
    // The name may be omitted for an existing object.
    let is_nameless =
        applied["metadata"]["name"].is_null() && matches!(applied["metadata"], Value::Null | Value::Object(_));
    if is_there && is_nameless {
        applied["metadata"]["name"] = Value::from(target::key(context).1);
    }
    check_against_path(served, context, &mut applied, true)?;
    if !is_there {
        if applied["metadata"]["uid"].as_str().is_some_and(|uid| !uid.is_empty()) {
            let text = "uid mismatch: the provided object specified a uid, and no existing object was found";
            return Err(ApiError::conflict(&served.kind.group, &served.kind.plural, &target::key(context).1, text));
        }
        if !subresource.is_empty() {
            return Err(ApiError::not_found(&served.kind.group, &served.kind.plural, &target::key(context).1));
        }
        let mut value = with_author(&writer, |requester| ownership::apply(None, &applied, requester))?;
        // A created object has no revision to compare.
        value["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        let owners = ownership::take(&mut value);
        // It has no owner, but some kinds keep it at the creation.
        if let Some(status) = applied.get("status") {
            value["status"] = status.clone();
        }
        let mut warnings = writer.receive_applied(&mut value, &remarks)?;
        ownership::give(&mut value, owners);
        let chain = AdmissionChain::new(api, served, "", context.requester(options));
        let (value, more) =
            writing::create_received(api, &writer, &chain, value).await.map_err(|failure| failure.after(&warnings))?;
        warnings.extend(more);
        return Ok(reading::shape(served, context, value)?.with_code(201).with_warnings(warnings));
    }
    let change = |old: &Value| -> Result<(Draft, Vec<String>), ApiError> {
        let mut new = with_author(&writer, |requester| ownership::apply(Some(old), &applied, requester))?;
        note_last_applied(&writer, &mut new, &applied);
        let owners = ownership::take(&mut new);
        let warnings = writer.receive_applied(&mut new, &remarks)?;
        ownership::give(&mut new, owners);
        Ok((writer.draft_applied(old, new)?, warnings))
    };
    let (value, warnings) = writing::write(api, &writer, context, change).await?;
    let answer = if is_scale { scale_answer(served, &value) } else { reading::shape(served, context, value) };
    Ok(answer?.with_warnings(warnings))
}

/// Returns the object to apply for a scale: the number of replicas at its path.
fn unscaled(served: &ServedKind, scale: &Value, namespace: &str) -> Result<Value, ApiError> {
    check_typed(&ServedKind::of(versioning::scales()), scale, namespace)?;
    let mut object =
        json!({"apiVersion": served.kind.api_version(), "kind": served.kind.kind, "metadata": scale["metadata"]});
    if let (Some(paths), Some(replicas)) = (&served.kind.scale, scale.pointer("/spec/replicas")) {
        versioning::set_at(&mut object, &paths.spec_replicas, replicas.clone());
    }
    Ok(object)
}

fn with_author<T>(writer: &Writer<'_>, work: impl FnOnce(&ownership::Manager<'_>) -> T) -> T {
    writer.as_manager(ownership::Operation::Apply, work)
}

/// Updates kubectl's annotation of its last client-side apply, so that users may switch back from server-side apply.
fn note_last_applied(writer: &Writer<'_>, merged: &mut Value, applied: &Value) {
    let Some(note) = merged.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(LAST_APPLIED)) else {
        return;
    };
    if writer.manager != "kubectl" || note.as_str().is_none_or(str::is_empty) {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    *note = Value::String(format!("{applied}\n"));
}

/// Checks that an applied object conforms to the schema exactly.
fn check_typed(served: &ServedKind, applied: &Value, namespace: &str) -> Result<(), ApiError> {
    let kind = &served.kind;
    let name = applied["metadata"]["name"].as_str().unwrap_or_default();
    let refuse = |what: String| {
        let place = format!("({namespace}/{name}; {}, Kind={})", kind.api_version(), kind.kind);
        Err(ApiError::new(500, "", format!("failed to create typed patch object {place}: {what}")))
    };
    if applied["metadata"]["managedFields"].as_array().is_some_and(|all| !all.is_empty()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    if let Some(why) = metadata::type_mistake(&applied["metadata"]).filter(|_| applied["metadata"].is_object()) {
        return refuse(why);
    }
    let unknown = metadata::clean(&mut applied["metadata"].clone(), &FieldPath::Named("metadata"));
    if let Some(path) = unknown.first() {
        return refuse(format!(".{path}: field not declared in schema"));
    }
    let Some(schema) = &served.schema else {
        return match builtin::read(kind, &mut applied.clone()) {
            Ok(unknown) => {
                unknown.first().map_or(Ok(()), |path| refuse(format!(".{path}: field not declared in schema")))
            }
            Err(failure) => refuse(failure.message),
        };
    };
    if let Some(path) = schema.undeclared(applied).first() {
        return refuse(format!(".{path}: field not declared in schema"));
    }
    // Nulls have no type yet: they may become defaults.
    // Field ownership does not distinguish types of numbers.
    let is_untyped =
        |message: &str| message.ends_with("\"null\"") || message.ends_with("must be of type integer: \"number\"");
    let is_type = |cause: &&FieldError| {
        cause.reason == "FieldValueTypeInvalid"
            && cause.message.contains("must be of type")
            && !is_untyped(&cause.message)
    };
    if let Some(cause) = schema.validate(applied, None).iter().find(is_type) {
        return refuse(format!(".{}: {}", cause.field, cause.message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_fields_cannot_be_applied() {
        let served = ServedKind::of(crate::kinds::kind::Kind::default());
        assert_eq!(
            check_typed(&served, &json!({"metadata": {"managedFields": [{"manager": "x"}]}}), "").unwrap_err().code,
            400
        );
        assert!(check_typed(&served, &json!({"metadata": {"name": "a"}}), "").is_ok());
    }

    #[test]
    fn metadata_that_is_not_known_cannot_be_applied() {
        let served = ServedKind::of(crate::kinds::kind::Kind::default());
        assert_eq!(check_typed(&served, &json!({"metadata": {"name": "a", "size": null}}), "").unwrap_err().code, 500);
    }
}
