//! Objects that are there from the beginning: applied in the order in which they can be.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::Value;

use super::api::Api;
use super::registry::Served;

/// Who applies them, in managed fields.
const NAME: &str = "kopfd";

/// An object that was not accepted.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {message}")]
pub struct Refused {
    /// Its kind and name.
    pub object: String,
    /// Why.
    pub message: String,
}

/// Applies objects: definitions and namespaces first, then the others. Lists are taken apart.
///
/// # Errors
/// If one of them is not accepted. Those before it are there.
pub async fn apply(api: &Api, objects: Vec<Value>) -> Result<usize, Refused> {
    let mut objects: Vec<Value> = objects.into_iter().flat_map(items).collect();
    objects.sort_by_key(|object| match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    let count = objects.len();
    let mut was_definition = false;
    for object in objects {
        let is_definition = object["kind"] == "CustomResourceDefinition";
        if was_definition && !is_definition {
            let pace = api.pace();
            tokio::time::sleep(pace.unserved + pace.unready).await;
        }
        was_definition = is_definition;
        apply_one(api, object).await?;
    }
    Ok(count)
}

fn items(object: Value) -> Vec<Value> {
    match object["items"].as_array() {
        Some(items) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![object],
    }
}

async fn apply_one(api: &Api, mut object: Value) -> Result<(), Refused> {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let (version, kind, name) = (text(&object["apiVersion"]), text(&object["kind"]), text(&object["metadata"]["name"]));
    let refuse = |message: String| Refused { object: format!("{kind} {name:?}"), message };
    let registry = api.registry();
    let served = registry.by_kind(&version, &kind).ok_or_else(|| refuse(format!("there is no such kind in {version:?}")))?;
    if served.kind.namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        object["metadata"]["namespace"] = "default".into();
    }
    let path = path(served, &object["metadata"]);
    let request = Request::builder()
        .method(Method::PATCH)
        .uri(format!("{path}?fieldManager={NAME}&force=true"))
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(Bytes::from(object.to_string()))
        .map_err(|error| refuse(error.to_string()))?;
    let response = api.answer_as(super::access::User::administrator(), request).await;
    if response.status().is_success() {
        return Ok(());
    }
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    Err(refuse(status["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned)))
}

fn path(served: &Served, metadata: &Value) -> String {
    let kind = &served.kind;
    let root = if kind.group.is_empty() { format!("/api/{}", kind.version) } else { format!("/apis/{}/{}", kind.group, kind.version) };
    let name = metadata["name"].as_str().unwrap_or_default();
    match metadata["namespace"].as_str().filter(|_| kind.namespaced) {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}/{name}", kind.plural),
        None => format!("{root}/{}/{name}", kind.plural),
    }
}
