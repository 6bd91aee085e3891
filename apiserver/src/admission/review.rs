//! The review for a webhook, and its answer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::attributes::{Attributes, Operation, WebhookError};
use super::matching::version;
use super::webhook::Webhook;
use crate::http::api_error::ApiError;
use crate::patch::json_patch;

/// The answer of a webhook that allows a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The patched object; `None` without a patch.
    pub object: Option<Value>,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

/// Returns the review.
pub fn review(webhook: &Webhook, attributes: &Attributes<'_>, uid: &str) -> Value {
    let kind = attributes.kind;
    let version = version(webhook, attributes).unwrap_or(&kind.version);
    let in_version = |object: Option<&Value>| object.map(|object| in_version(object, attributes, version));
    let of_kind = |version: &str| match attributes.subresource_kind {
        Some(subresource_kind) => {
            json!({"group": subresource_kind.group, "version": subresource_kind.version, "kind": subresource_kind.kind})
        }
        None => json!({"group": kind.group, "version": version, "kind": kind.kind}),
    };
    let of_resource = |version: &str| json!({"group": kind.group, "version": version, "resource": kind.plural});
    let mut request = json!({
        "uid": uid,
        "kind": of_kind(version),
        "resource": of_resource(version),
        "requestKind": of_kind(&kind.version),
        "requestResource": of_resource(&kind.version),
        "operation": attributes.operation.name(),
        "userInfo": attributes.user,
        "object": in_version(attributes.object),
        "oldObject": in_version(attributes.old),
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    });
    let texts = [
        ("subResource", attributes.subresource),
        ("requestSubResource", attributes.subresource),
        ("name", attributes.name),
        ("namespace", attributes.namespace),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        request[key] = json!(text);
    }
    json!({"kind": "AdmissionReview", "apiVersion": api_version(webhook), "request": request})
}

fn api_version(webhook: &Webhook) -> String {
    format!("admission.k8s.io/{}", webhook.review_version)
}

/// Returns an object of the resource in another version; objects of other kinds are not converted.
fn in_version(object: &Value, attributes: &Attributes<'_>, version: &str) -> Value {
    if attributes.subresource_kind.is_some() {
        object.clone()
    } else {
        converted(object, &attributes.kind.group, version)
    }
}

/// Versions of a kind without a conversion webhook differ only in the `apiVersion`.
fn converted(object: &Value, group: &str, version: &str) -> Value {
    let mut object = object.clone();
    if let Some(stated) = object.get_mut("apiVersion") {
        *stated = json!(if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") });
    }
    object
}

/// Reads the answer to a review with this id. Only mutating webhooks may patch.
pub fn read(
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    uid: &str,
    answer: &Value,
    may_patch: bool,
) -> Result<Answer, WebhookError> {
    let invalid = |text: String| WebhookError::Failed(format!("received invalid webhook response: {text}"));
    let wanted = api_version(webhook);
    if webhook.review_version == "v1"
        && (answer["apiVersion"] != wanted.as_str() || answer["kind"] != "AdmissionReview")
    {
        let found = format!(
            "{}, Kind={}",
            answer["apiVersion"].as_str().unwrap_or("/"),
            answer["kind"].as_str().unwrap_or_default()
        );
        return Err(invalid(format!("expected webhook response of {wanted}, Kind=AdmissionReview, got {found}")));
    }
    let Some(response) = answer["response"].as_object() else {
        return Err(invalid("webhook response was absent".to_owned()));
    };
    let found = response.get("uid").and_then(Value::as_str).unwrap_or_default();
    if webhook.review_version == "v1" && found != uid {
        return Err(invalid(format!("expected response.uid={uid:?}, got {found:?}")));
    }
    let patch = patch_of(&answer["response"], may_patch).map_err(invalid)?;
    if response.get("allowed") != Some(&Value::Bool(true)) {
        return Err(WebhookError::Refused(denied(webhook, &answer["response"]["status"])));
    }
    let warnings = response.get("warnings").and_then(Value::as_array).into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    let object = patch.map(|patch| patched(webhook, attributes, &patch)).transpose().map_err(WebhookError::Refused)?;
    Ok(Answer { object, warnings })
}

fn patch_of(response: &Value, may_patch: bool) -> Result<Option<Vec<u8>>, String> {
    let patch = response["patch"].as_str().filter(|patch| !patch.is_empty() && may_patch);
    let form = response["patchType"].as_str().filter(|_| may_patch);
    match (patch, form) {
        (None, None) => Ok(None),
        (Some(patch), Some("JSONPatch")) => STANDARD.decode(patch).map(Some).map_err(|error| error.to_string()),
        (Some(_), None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (None, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (_, Some(other)) => Err(format!("invalid response.patchType {other:?}")),
    }
}

fn patched(webhook: &Webhook, attributes: &Attributes<'_>, patch: &[u8]) -> Result<Value, ApiError> {
    let kind = attributes.kind;
    let operations: Value = serde_json::from_slice(patch).map_err(|error| ApiError::internal(error.to_string()))?;
    let Some(object) = attributes.object.filter(|_| attributes.operation != Operation::Delete) else {
        let text = "attempted to modify the object, which is not supported for this operation";
        return Err(ApiError::internal(format!("admission webhook {:?} {text}", webhook.name)));
    };
    let version = version(webhook, attributes).unwrap_or(&kind.version);
    let seen = in_version(object, attributes, version);
    let patched = json_patch::apply(&seen, &operations).map_err(|failure| ApiError::internal(failure.message))?;
    Ok(if version == kind.version { patched } else { in_version(&patched, attributes, &kind.version) })
}

/// A denial has the webhook's code and reason, if the code is an error.
fn denied(webhook: &Webhook, status: &Value) -> ApiError {
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let why = [text("message"), text("reason")].into_iter().find(|text| !text.is_empty());
    let message = match why {
        Some(why) => format!("admission webhook {:?} denied the request: {why}", webhook.name),
        None => format!("admission webhook {:?} denied the request without explanation", webhook.name),
    };
    let code =
        status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code));
    ApiError::new(code.unwrap_or(400), text("reason").to_owned(), message)
}
