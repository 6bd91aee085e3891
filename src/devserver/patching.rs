//! Patches of all four kinds.

use std::sync::Arc;

use serde_json::Value;

use super::api::{Api, Call};
use super::failure::{Cause, Failure};
use super::handlers::{self, unsupported_media};
use super::ownership;
use super::registry::Served;
use super::reply::Reply;
use super::request::{self, Options};
use super::rules::{Decision, Writer};
use super::{json, json_patch, merge_patch, reading, strategic};
use crate::object::yaml;

/// A list of more operations is refused.
const MAX_OPERATIONS: usize = 10_000;

/// A patch as it was sent.
struct Patch {
    form: Form,
    value: Value,
    /// What stands in it twice, or has no meaning.
    remarks: Vec<String>,
}

enum Form {
    Json,
    Merge,
    Strategic,
    Apply,
}

/// Answers a request to patch an object.
pub fn patch(api: &Api, served: &Arc<Served>, call: &Call, subresource: &str) -> Result<Reply, Failure> {
    let options = Options::read(&call.query, "PatchOptions")?;
    let patch = read(served, call)?;
    if let Form::Apply = patch.form {
        return apply(api, served, call, subresource, &options, patch.value);
    }
    if options.is_forced {
        return Err(options_mistake("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch"));
    }
    let manager = call.manager(options.field_manager.as_deref());
    let writer = Writer { served, subresource, options: &options, manager: &manager, now: api.now(), is_patch: true };
    if subresource == "scale" {
        return handlers::write_scale(api, &writer, call, &|scale| patched(served, scale, &patch));
    }
    let decide = |old: &Value| {
        let mut new = patched(served, old, &patch)?;
        let warnings = writer.receive(&mut new, &patch.remarks).map_err(no_object)?;
        handlers::place_body(served, call, &mut new, true)?;
        let (decision, more) = writer.update(old, new).map_err(no_object)?;
        Ok((decision, [warnings, more].concat()))
    };
    let (value, warnings) = handlers::write(api, &writer, call, decide)?;
    Ok(reading::shape(served, call, value)?.with_warnings(warnings))
}

fn patched(served: &Served, old: &Value, patch: &Patch) -> Result<Value, Failure> {
    match patch.form {
        Form::Json => json_patch::apply(old, &patch.value).map(json::with_whole_numbers),
        Form::Merge => Ok(merge_patch::apply(old, &patch.value)),
        Form::Strategic => strategic::apply(old, &patch.value, &served.kind),
        Form::Apply => Ok(old.clone()),
    }
}

/// A patch may be in order, and yet make something that is no object of the kind.
fn no_object(failure: Failure) -> Failure {
    if failure.code != 400 {
        return failure;
    }
    let mut refused = Failure::new(422, "Invalid", format!(" \"\" is invalid: patch: Invalid value: {}", failure.message));
    refused.details.causes.push(Cause::new("FieldValueInvalid", "patch", format!("Invalid value: {}", failure.message)));
    refused
}

fn read(served: &Served, call: &Call) -> Result<Patch, Failure> {
    let undecodable = |error| Failure::bad_request(format!("error decoding patch: {error}"));
    let object = |value: Value| {
        if value.is_object() { Ok(value) } else { Err(Failure::bad_request("error decoding patch: json: cannot unmarshal into an object")) }
    };
    let parse = |form: Form| {
        let body = json::parse(&call.body).map_err(undecodable)?;
        let remarks = body.remarks();
        Ok(Patch { form, value: object(body.value)?, remarks })
    };
    match request::media_type(&call.headers).unwrap_or_default() {
        "application/json-patch+json" => {
            // Numbers stay as they are written: tests compare the texts.
            let operations = json::parse_as_written(&call.body).map_err(undecodable)?;
            let count = operations.as_array().map_or(0, Vec::len);
            if count > MAX_OPERATIONS {
                let text = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
                return Err(Failure::new(413, "RequestEntityTooLarge", text));
            }
            let remarks = json_patch::unknown_members(&operations).map(|path| format!("json patch unknown field {path:?}")).collect();
            Ok(Patch { form: Form::Json, value: operations, remarks })
        }
        "application/merge-patch+json" => parse(Form::Merge),
        "application/strategic-merge-patch+json" if !served.kind.is_custom() => parse(Form::Strategic),
        "application/apply-patch+yaml" => {
            let text = std::str::from_utf8(&call.body).map_err(|error| Failure::bad_request(error.to_string()))?;
            let mut documents = yaml::parse(text).map_err(|error| Failure::bad_request(format!("error decoding YAML: {error}")))?;
            let value = if documents.is_empty() { Value::Null } else { documents.swap_remove(0) };
            Ok(Patch { form: Form::Apply, value: object(value)?, remarks: Vec::new() })
        }
        _ if served.kind.is_custom() => {
            Err(unsupported_media("application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"))
        }
        _ => Err(unsupported_media(
            "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml",
        )),
    }
}

fn options_mistake(reason: &str, field: &str, text: &str) -> Failure {
    Failure::invalid("meta.k8s.io", "PatchOptions", "", vec![Cause::new(reason, field, text)])
}

fn apply(api: &Api, served: &Arc<Served>, call: &Call, subresource: &str, options: &Options, applied: Value) -> Result<Reply, Failure> {
    let Some(manager) = options.field_manager.as_deref() else {
        return Err(options_mistake("FieldValueRequired", "fieldManager", "Required value: is required for apply patch"));
    };
    if applied["kind"].as_str().is_none_or(str::is_empty) || applied["apiVersion"].as_str().is_none_or(str::is_empty) {
        return Err(Failure::bad_request("invalid object type: /, Kind="));
    }
    if applied["kind"] != served.kind.kind.as_str() || applied["apiVersion"] != served.kind.api_version().as_str() {
        let text = format!("the object is no {} of {}", served.kind.kind, served.kind.api_version());
        return Err(Failure::bad_request(text));
    }
    let writer = Writer { served, subresource, options, manager, now: api.now(), is_patch: true };
    check_typed(served, &applied)?;
    let mut applied = applied;
    handlers::place_body(served, call, &mut applied, true)?;
    if api.read(&served.resource, &handlers::key(call)).is_none() {
        if !subresource.is_empty() {
            return Err(Failure::not_found(&served.kind.group, &served.kind.plural, &handlers::key(call).1));
        }
        let mut value = with_author(&writer, |by| ownership::apply(None, &applied, by))?;
        // What is applied to nothing has no revision to be based on.
        value["metadata"].as_object_mut().map(|metadata| metadata.remove("resourceVersion"));
        let owners = value["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
        let mut warnings = writer.receive(&mut value, &[])?;
        if let Some(owners) = owners {
            value["metadata"]["managedFields"] = owners;
        }
        let (value, more) = handlers::create_received(api, &writer, value)?;
        warnings.extend(more);
        return Ok(reading::shape(served, call, value)?.with_code(201).with_warnings(warnings));
    }
    let decide = |old: &Value| -> Result<(Decision, Vec<String>), Failure> {
        let mut new = with_author(&writer, |by| ownership::apply(Some(old), &applied, by))?;
        let owners = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
        let warnings = writer.receive(&mut new, &[])?;
        if let Some(owners) = owners {
            new["metadata"]["managedFields"] = owners;
        }
        let (decision, more) = writer.apply(old, new)?;
        Ok((decision, [warnings, more].concat()))
    };
    let (value, warnings) = handlers::write(api, &writer, call, decide)?;
    Ok(reading::shape(served, call, value)?.with_warnings(warnings))
}

fn with_author<T>(writer: &Writer<'_>, work: impl FnOnce(&ownership::Manager<'_>) -> T) -> T {
    writer.as_manager(ownership::Operation::Apply, work)
}

/// What is applied must fit the schema exactly.
fn check_typed(served: &Served, applied: &Value) -> Result<(), Failure> {
    let kind = &served.kind;
    let name = applied["metadata"]["name"].as_str().unwrap_or_default();
    let refuse = |what: String| {
        let place = format!("(/{name}; {}, Kind={})", kind.api_version(), kind.kind);
        Err(Failure::new(500, "", format!("failed to create typed patch object {place}: {what}")))
    };
    if applied["metadata"]["managedFields"].as_array().is_some_and(|all| !all.is_empty()) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    let Some(schema) = &served.schema else { return Ok(()) };
    let unknown = schema.prune(&mut applied.clone());
    if let Some(path) = unknown.first() {
        return refuse(format!(".{path}: field not declared in schema"));
    }
    let is_type = |cause: &&Cause| cause.reason == "FieldValueTypeInvalid" && cause.message.contains("must be of type");
    if let Some(cause) = schema.validate(applied, None).iter().find(is_type) {
        return refuse(format!(".{}: {}", cause.field, cause.message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn owners_of_fields_cannot_be_applied() {
        let served = Served::of(super::super::kind::Kind::default());
        assert_eq!(check_typed(&served, &json!({"metadata": {"managedFields": [{"manager": "x"}]}})).unwrap_err().code, 400);
        assert!(check_typed(&served, &json!({"metadata": {"name": "a"}})).is_ok());
    }
}
