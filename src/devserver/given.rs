//! Objects that are there from the beginning: applied in the order in which they can be.

use http::Method;
use serde_json::Value;

use super::api::Api;
use super::hand;

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
    /// The place of what it came from in what was given.
    pub position: usize,
    /// Whether its kind is not known.
    pub is_unknown: bool,
}

/// Applies objects: definitions and namespaces first, then the others. Lists are taken apart.
///
/// # Errors
/// If one of them is not accepted. Those before it are there.
pub async fn apply(api: &Api, objects: Vec<Value>) -> Result<usize, Refused> {
    let given = objects.into_iter().enumerate();
    let mut objects: Vec<(usize, Value)> =
        given.flat_map(|(position, object)| items(object).into_iter().map(move |item| (position, item))).collect();
    objects.sort_by_key(|(_, object)| match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    let count = objects.len();
    let mut was_definition = false;
    for (position, object) in objects {
        let is_definition = object["kind"] == "CustomResourceDefinition";
        if was_definition && !is_definition {
            let pace = api.pace();
            tokio::time::sleep(pace.unserved + pace.unready).await;
        }
        was_definition = is_definition;
        apply_one(api, object).await.map_err(|refused| Refused { position, ..refused })?;
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
    let refuse = |message: String| Refused { object: format!("{kind} {name:?}"), message, position: 0, is_unknown: false };
    let registry = api.registry();
    let served = registry
        .by_kind(&version, &kind)
        .ok_or_else(|| Refused { is_unknown: true, ..refuse(format!("there is no such kind in {version:?}")) })?;
    if served.kind.namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        object["metadata"]["namespace"] = "default".into();
    }
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let path = format!("{}?fieldManager={NAME}&force=true", hand::path(served, text("namespace"), text("name")));
    let sent = hand::send(api, Method::PATCH, &path, Some("application/apply-patch+yaml"), object.to_string()).await;
    sent.map_err(|refused| refuse(refused.message))
}
