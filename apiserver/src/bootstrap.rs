//! Applies initial objects in an order in which each can be accepted.

use http::Method;
use serde_json::Value;

use crate::admin_client;
use crate::server::ApiServer;

/// Their field manager.
const NAME: &str = "kopfd";

/// A refused object.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {message}")]
pub struct Refused {
    /// Its kind and name.
    pub object: String,
    /// The reason.
    pub message: String,
    /// The index of its source in the given objects.
    pub position: usize,
    /// Whether its kind is unknown.
    pub is_unknown: bool,
}

/// Applies objects: definitions and namespaces first, then the others. Lists are split into their items.
///
/// # Errors
/// If one of them is refused. Earlier ones stay applied.
pub async fn apply(server: &ApiServer, objects: Vec<Value>) -> Result<usize, Refused> {
    let mut count = 0;
    for InitialObject { position, object, follows_definitions } in ordered(objects) {
        wait(server, follows_definitions).await;
        apply_one(server, object).await.map_err(|refused| Refused { position, ..refused })?;
        count += 1;
    }
    Ok(count)
}

/// Applies objects in the same order, and continues after refused ones. Passes each with its result to `report`.
pub async fn apply_each(server: &ApiServer, objects: Vec<Value>, mut report: impl FnMut(Value, Result<(), Refused>)) {
    for InitialObject { position, object, follows_definitions } in ordered(objects) {
        wait(server, follows_definitions).await;
        let applied = apply_one(server, object.clone()).await.map_err(|refused| Refused { position, ..refused });
        report(object, applied);
    }
}

/// An object to apply.
struct InitialObject {
    /// The index of its source in the given objects.
    position: usize,
    object: Value,
    /// Whether it follows definitions immediately.
    follows_definitions: bool,
}

/// Returns the objects in the order in which they can be applied.
fn ordered(objects: Vec<Value>) -> Vec<InitialObject> {
    let parts = |(position, object)| {
        items(object).into_iter().map(move |object| InitialObject { position, object, follows_definitions: false })
    };
    let mut all: Vec<InitialObject> = objects.into_iter().enumerate().flat_map(parts).collect();
    all.sort_by_key(|initial| match initial.object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    let definitions = all.iter().filter(|initial| initial.object["kind"] == "CustomResourceDefinition").count();
    if let Some(initial) = all.get_mut(definitions).filter(|_| definitions > 0) {
        initial.follows_definitions = true;
    }
    all
}

/// A new kind is served a little after its definition.
async fn wait(server: &ApiServer, follows_definitions: bool) {
    if follows_definitions {
        let latency = server.latency();
        tokio::time::sleep(latency.unserved + latency.unready).await;
    }
}

/// Returns the items of a list, or the object.
pub fn items(object: Value) -> Vec<Value> {
    match object["items"].as_array() {
        Some(items) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![object],
    }
}

async fn apply_one(server: &ApiServer, object: Value) -> Result<(), Refused> {
    let (path, object) = path_of(server, object)?;
    let path = format!("{path}?fieldManager={NAME}&force=true");
    let sent =
        admin_client::send(server, Method::PATCH, &path, Some("application/apply-patch+yaml"), object.to_string())
            .await;
    sent.map_err(|refused| refusal(&object, refused.message))
}

fn refusal(object: &Value, message: String) -> Refused {
    let (kind, name) =
        (object["kind"].as_str().unwrap_or_default(), object["metadata"]["name"].as_str().unwrap_or_default());
    Refused { object: format!("{kind} {name:?}"), message, position: 0, is_unknown: false }
}

/// Returns the path of an object, and the object with a namespace if its kind has one.
///
/// # Errors
/// If its kind is unknown.
pub fn path_of(server: &ApiServer, mut object: Value) -> Result<(String, Value), Refused> {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let registry = server.registry();
    let served = registry.by_kind(&version, &kind).ok_or_else(|| Refused {
        is_unknown: true,
        ..refusal(&object, format!("there is no such kind in {version:?}"))
    })?;
    if served.kind.namespaced && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        object["metadata"]["namespace"] = "default".into();
    }
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let path = admin_client::path(served, text("namespace"), text("name"));
    Ok((path, object))
}
