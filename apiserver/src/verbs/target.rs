//! The target object of a request: its key, and checks of the body against it.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::api::Api;
use crate::http::api_error::ApiError;
use crate::http::reply::Reply;
use crate::kinds::registry::ServedKind;
use crate::storage::resource::Key;
use crate::storage::store::Stored;
use crate::verbs::request_context::RequestContext;

/// Returns the key of a request's object.
pub(crate) fn key(context: &RequestContext) -> Key {
    (
        context.resource_path.namespace.clone().unwrap_or_default(),
        context.resource_path.name.clone().unwrap_or_default(),
    )
}

/// Returns the object of a request.
pub(crate) fn existing(api: &Api, served: &ServedKind, context: &RequestContext) -> Result<Arc<Stored>, ApiError> {
    let key = key(context);
    api.read(&served.resource, &key).ok_or_else(|| ApiError::not_found(&served.kind.group, &served.kind.plural, &key.1))
}

/// Refuses a request for a feature that a built-in kind lacks.
pub(crate) fn not_served_here() -> Result<Reply, ApiError> {
    Err(ApiError::no_resource())
}

/// Checks the namespace and name of a body against the path, and fills in missing ones.
pub(crate) fn check_against_path(
    served: &ServedKind,
    context: &RequestContext,
    value: &mut Value,
    is_update: bool,
) -> Result<(), ApiError> {
    if let Some(name) = &context.resource_path.name {
        match value["metadata"]["name"].as_str().unwrap_or_default() {
            "" if is_update => {
                let text =
                    format!("the name of the object ({name} based on URL) was undeterminable: name must be provided");
                return Err(ApiError::bad_request(text));
            }
            "" => value["metadata"]["name"] = json!(name),
            sent if sent != name => {
                let text = format!("the name of the object ({sent}) does not match the name on the URL ({name})");
                return Err(ApiError::bad_request(text));
            }
            _ => {}
        }
    }
    let wanted = context.resource_path.namespace.clone().unwrap_or_default();
    match value["metadata"]["namespace"].as_str().unwrap_or_default() {
        sent if sent == wanted => {}
        "" if served.kind.namespaced => value["metadata"]["namespace"] = json!(wanted),
        // Cluster-scoped objects lose it.
        _ if !served.kind.namespaced => {
            value["metadata"].as_object_mut().map(|metadata| metadata.remove("namespace"));
        }
        _ => return Err(ApiError::other_namespace()),
    }
    Ok(())
}

/// Checks that an object posted to a subresource of a pod is for this pod.
///
/// # Errors
/// If it names another one.
pub(crate) fn check_name(context: &RequestContext, posted: &Value) -> Result<(), ApiError> {
    let name = context.resource_path.name.as_deref().unwrap_or_default();
    let namespace = posted["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    if posted["metadata"]["name"] != name {
        let (kind, sent) =
            (posted["kind"].as_str().unwrap_or("object"), posted["metadata"]["name"].as_str().unwrap_or_default());
        return Err(ApiError::bad_request(format!("name in URL ({name}) does not match name in {kind} ({sent})")));
    }
    if namespace.is_some() && namespace != context.resource_path.namespace.as_deref() {
        return Err(ApiError::other_namespace());
    }
    Ok(())
}
