//! Converts objects between the storage version and the requested version, with a webhook if their definition has one.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::admission::{self, Client, Target};
use crate::api::Api;
use crate::faults::{Request, WebhookFailure};
use crate::http::api_error::ApiError;
use crate::kinds::registry::ServedKind;
use crate::kinds::versioning::{self, webhook};
use crate::storage::store::Stored;

/// The user agent of calls to conversion webhooks.
const AGENT: &str = "kube-apiserver";
/// The time limit of an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Returns a stored object in the version of a kind.
///
/// # Errors
/// If a webhook cannot be called, or does not convert.
pub(crate) async fn to_requested_version(
    api: &Api,
    served: &ServedKind,
    stored: &Arc<Stored>,
) -> Result<Arc<Value>, ApiError> {
    if !needs_webhook(served, &stored.value) {
        return Ok(versioning::to_requested_version(served, stored));
    }
    let value = with_defaults(served, &stored.value);
    let mut converted = convert(api, served, vec![&*value], &served.kind.api_version()).await?;
    Ok(Arc::new(pruned(served, converted.pop().unwrap_or_default())))
}

/// Returns a stored object in the version of a kind, if only its metadata has changed since it was converted.
pub(crate) fn with_current_metadata(served: &ServedKind, stored: &Arc<Stored>, seen: &Value) -> Arc<Value> {
    if !needs_webhook(served, &stored.value) {
        return versioning::to_requested_version(served, stored);
    }
    let mut value = seen.clone();
    value["metadata"] = stored.value["metadata"].clone();
    for field in ["labels", "annotations"] {
        match (seen["metadata"].get(field), value["metadata"].as_object_mut()) {
            (Some(map), Some(metadata)) => drop(metadata.insert(field.to_owned(), map.clone())),
            (None, Some(metadata)) => drop(metadata.remove(field)),
            (_, None) => {}
        }
    }
    Arc::new(value)
}

/// Returns stored objects in the version of a kind, in their order. Objects of the same stored version are converted by
/// one call.
///
/// # Errors
/// If a webhook cannot be called, or does not convert one of them.
pub(crate) async fn all_to_requested_version(
    api: &Api,
    served: &ServedKind,
    objects: &[Arc<Stored>],
) -> Result<Vec<Arc<Value>>, ApiError> {
    let mut seen: Vec<Arc<Value>> = objects.iter().map(|stored| Arc::clone(&stored.value)).collect();
    let mut remaining: Vec<usize> = Vec::new();
    for (index, stored) in objects.iter().enumerate() {
        if needs_webhook(served, &stored.value) {
            remaining.push(index);
        } else {
            seen[index] = versioning::to_requested_version(served, stored);
        }
    }
    while let Some(first) = remaining.first() {
        let version = objects[*first].value["apiVersion"].clone();
        let (batch, others): (Vec<usize>, Vec<usize>) =
            remaining.iter().partition(|index| objects[**index].value["apiVersion"] == version);
        let values: Vec<Cow<'_, Value>> =
            batch.iter().map(|index| with_defaults(served, &objects[*index].value)).collect();
        let values = values.iter().map(|value| &**value).collect();
        let converted = convert(api, served, values, &served.kind.api_version()).await?;
        for (index, value) in batch.into_iter().zip(converted) {
            seen[index] = Arc::new(pruned(served, value));
        }
        remaining = others;
    }
    Ok(seen)
}

/// Converts a written object to the storage version.
///
/// # Errors
/// If a webhook cannot be called, or does not convert.
pub(crate) async fn to_storage_version(api: &Api, served: &ServedKind, mut value: Value) -> Result<Value, ApiError> {
    let kind = &served.kind;
    if kind.version == kind.storage_version || webhook(served).is_none() {
        versioning::to_storage_version(served, &mut value);
        return Ok(value);
    }
    let wanted = format!("{}/{}", kind.group, kind.storage_version);
    let converted = convert(api, served, vec![&value], &wanted).await?.pop().unwrap_or_default();
    Ok(with_defaults(served, &converted).into_owned())
}

/// Returns an object of one version of a kind in another one, as it is read after it was written.
///
/// # Errors
/// If a webhook cannot be called, or does not convert.
pub(crate) async fn between_versions(
    api: &Api,
    from: &ServedKind,
    to: &ServedKind,
    mut object: Value,
) -> Result<Value, ApiError> {
    let conform = |served: &ServedKind, value: &mut Value| {
        if let Some(schema) = &served.schema {
            schema.conform(value);
        }
    };
    conform(from, &mut object);
    if from.kind.version != to.kind.version {
        let wanted = to.kind.api_version();
        match webhook(to) {
            Some(_) => object = convert(api, to, vec![&object], &wanted).await?.pop().unwrap_or_default(),
            None => object["apiVersion"] = json!(wanted),
        }
        conform(to, &mut object);
    }
    Ok(object)
}

/// Fills in the defaults of the stored version's schema before a webhook converts the object.
fn with_defaults<'a>(served: &ServedKind, value: &'a Value) -> Cow<'a, Value> {
    let is_stored_version = || {
        let version = value["apiVersion"].as_str().unwrap_or_default();
        version.rsplit_once('/').is_some_and(|(_, version)| version == served.kind.storage_version)
    };
    match &served.stored_schema {
        Some(schema) if is_stored_version() => {
            let mut value = value.clone();
            schema.conform(&mut value);
            Cow::Owned(value)
        }
        _ => Cow::Borrowed(value),
    }
}

/// Tells whether an object needs a conversion by webhook.
pub(crate) fn needs_webhook(served: &ServedKind, value: &Value) -> bool {
    webhook(served).is_some() && value["apiVersion"] != served.kind.api_version().as_str()
}

/// Prunes the result of a webhook by the version's schema, and fills in its defaults.
fn pruned(served: &ServedKind, mut value: Value) -> Value {
    versioning::convert(served, &mut value);
    value
}

/// Converts objects of one version.
async fn convert(api: &Api, served: &ServedKind, objects: Vec<&Value>, wanted: &str) -> Result<Vec<Value>, ApiError> {
    let from =
        objects.first().map(|first| first["apiVersion"].as_str().unwrap_or_default().to_owned()).unwrap_or_default();
    let fail = |text: String| {
        ApiError::new(500, "", format!("conversion webhook for {from}, Kind={} failed: {text}", served.kind.kind))
    };
    let Some(webhook) = webhook(served) else { return Ok(objects.into_iter().cloned().collect()) };
    let client = Client::read(&webhook["clientConfig"]);
    let authorities = webhook["clientConfig"]["caBundle"]
        .as_str()
        .and_then(|bundle| STANDARD.decode(bundle).ok())
        .unwrap_or_default();
    let target = Target { client: &client, authorities: &authorities, agent: AGENT, timeout: TIMEOUT };
    let uid = api.with(|state| state.ids.uid());
    let review = json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": objects},
        "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
    });
    if let Some(kind) = failure(api, served, wanted) {
        return Err(fail(admission::fail(kind, &client, TIMEOUT).await));
    }
    let answer = api.caller().post(&target, review).await.map_err(fail)?;
    read(&answer, &uid, &objects, wanted).map_err(fail)
}

/// Decides whether a fault makes the call of a webhook fail.
fn failure(api: &Api, served: &ServedKind, wanted: &str) -> Option<WebhookFailure> {
    let mut faults = api.injection().faults();
    if faults.is_empty() {
        return None;
    }
    let kind = &served.kind;
    faults.decide_about_conversion(&Request {
        verb: "convert",
        group: &kind.group,
        resource: &kind.plural,
        subresource: "",
        namespace: "",
        name: wanted,
        user_agent: AGENT,
        user: "",
        token: "",
        defined_at: None,
        at: api.now(),
    })
}

/// Returns the objects of an answer, with their original metadata except labels and annotations.
fn read(answer: &Value, uid: &str, objects: &[&Value], wanted: &str) -> Result<Vec<Value>, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("no response provided".to_owned());
    }
    if response["uid"] != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response["uid"].as_str().unwrap_or_default()));
    }
    if response["result"]["status"] != "Success" {
        let message = response["result"]["message"].as_str().filter(|message| !message.is_empty());
        return Err(message.unwrap_or("unknown error").to_owned());
    }
    let converted = response["convertedObjects"].as_array().map_or(&[][..], Vec::as_slice);
    if converted.len() != objects.len() {
        return Err(format!("webhook returned {} objects, expected {}", converted.len(), objects.len()));
    }
    objects
        .iter()
        .zip(converted)
        .enumerate()
        .map(|(index, (old, new))| accept_converted(index, old, new, wanted))
        .collect()
}

fn accept_converted(index: usize, old: &Value, new: &Value, wanted: &str) -> Result<Value, String> {
    if new["apiVersion"] != wanted {
        let found = new["apiVersion"].as_str().unwrap_or_default();
        return Err(format!(
            "webhook returned an object at index {index} with an invalid apiVersion {found}, expected {wanted}"
        ));
    }
    if new["kind"] != old["kind"] {
        return Err(format!("webhook returned an object at index {index} with an invalid kind {}", new["kind"]));
    }
    if let Some(field) =
        ["name", "namespace", "uid"].into_iter().find(|field| new["metadata"][*field] != old["metadata"][*field])
    {
        return Err(format!("webhook returned an object at index {index} with another metadata.{field}"));
    }
    let mut value = new.clone();
    let mut metadata = old["metadata"].clone();
    if let Some(members) = metadata.as_object_mut() {
        for field in ["labels", "annotations"] {
            match new["metadata"].get(field) {
                Some(map) => members.insert(field.to_owned(), map.clone()),
                None => members.remove(field),
            };
        }
    }
    value["metadata"] = metadata;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(object: Value) -> Value {
        json!({"response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": [object]}})
    }

    #[test]
    fn a_converted_object_keeps_its_metadata_but_for_labels_and_annotations() {
        let old = json!({"apiVersion": "ex.dev/v1", "kind": "Conv", "metadata": {"name": "a", "uid": "1", "generation": 3, "labels": {"a": "b"}}});
        let new = json!({"apiVersion": "ex.dev/v2", "kind": "Conv", "metadata": {"name": "a", "uid": "1", "generation": 9, "annotations": {"c": "d"}}});
        let read = |answer: &Value| read(answer, "u", &[&old], "ex.dev/v2");
        assert_eq!(
            read(&answer(new.clone())).unwrap()[0]["metadata"],
            json!({"name": "a", "uid": "1", "generation": 3, "annotations": {"c": "d"}})
        );
        let mut renamed = new.clone();
        renamed["metadata"]["name"] = json!("b");
        assert!(read(&answer(renamed)).unwrap_err().contains("metadata.name"));
        assert!(read(&answer(old.clone())).unwrap_err().contains("invalid apiVersion"));
        let failed = json!({"response": {"uid": "u", "result": {"status": "Failure", "message": "conv boom"}}});
        assert_eq!(read(&failed).unwrap_err(), "conv boom");
        assert!(read(&json!({"response": {"uid": "x"}})).unwrap_err().contains("expected response.uid"));
        assert!(read(&json!({})).is_err());
    }
}
