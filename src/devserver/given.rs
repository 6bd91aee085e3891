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
}

/// Applies objects: definitions and namespaces first, then the others. Lists are taken apart.
///
/// # Errors
/// If one of them is not accepted. Those before it are there.
pub async fn apply(api: &Api, objects: Vec<Value>) -> Result<usize, Refused> {
    let mut count = 0;
    for (object, is_late) in in_order(objects) {
        wait(api, is_late).await;
        apply_one(api, object).await?;
        count += 1;
    }
    Ok(count)
}

/// Applies objects in the same order, also after one that is not accepted. Hands each over with what has become of it.
pub async fn apply_each(api: &Api, objects: Vec<Value>, mut told: impl FnMut(Value, Result<(), Refused>)) {
    for (object, is_late) in in_order(objects) {
        wait(api, is_late).await;
        let applied = apply_one(api, object.clone()).await;
        told(object, applied);
    }
}

/// Returns the objects in the order in which they can be applied, and whether one comes right after definitions.
fn in_order(objects: Vec<Value>) -> Vec<(Value, bool)> {
    let mut objects: Vec<Value> = objects.into_iter().flat_map(items).collect();
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    objects.sort_by_key(|object| match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    let definitions = objects.iter().filter(|object| is_definition(object)).count();
    objects.into_iter().enumerate().map(|(index, object)| (object, definitions > 0 && index == definitions)).collect()
}

/// A new kind is served a little after its definition.
async fn wait(api: &Api, is_late: bool) {
    if is_late {
        let pace = api.pace();
        tokio::time::sleep(pace.unserved + pace.unready).await;
    }
}

/// Takes a list apart.
pub fn items(object: Value) -> Vec<Value> {
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
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let path = format!("{}?fieldManager={NAME}&force=true", hand::path(served, text("namespace"), text("name")));
    let sent = hand::send(api, Method::PATCH, &path, Some("application/apply-patch+yaml"), object.to_string()).await;
    sent.map_err(|refused| refuse(refused.message))
}
