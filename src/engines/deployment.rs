//! Finds the Deployment that this process belongs to: pod, ReplicaSet, Deployment, by their owner references.

use std::time::Duration;

use serde_json::Value;
use tracing::debug;

use crate::cluster::{Client, Error, Request, address};
use crate::handling::Level;
use crate::object::Resource;
use crate::object::hierarchy::build_object_reference;

use super::posting::{KubernetesEvent, Poster};

/// Time limit of the look-up: nothing depends on it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Posts an Event about the Deployment of a pod in the operator's namespace. Without one, or without the permission to
/// read its owners, nothing is posted.
pub(crate) async fn report(client: &Client, pod: &str, poster: &Poster, level: Level, reason: &str, message: &str) {
    match tokio::time::timeout(TIMEOUT, find(client, pod)).await {
        Ok(Ok(Some(deployment))) => {
            let event_type = if level == Level::Info { "Normal" } else { "Warning" }.to_owned();
            let reference = build_object_reference(&deployment);
            poster.post(
                KubernetesEvent { reference, event_type, reason: reason.to_owned(), message: message.to_owned() },
                Some(level),
            );
        }
        Ok(Ok(None)) => {
            debug!(target: "kopfd::reload", pod, "The pod belongs to no Deployment, so no Event is posted.");
        }
        Ok(Err(error)) => {
            debug!(target: "kopfd::reload", pod, error = error.chain(), "The Deployment of the pod cannot be read.");
        }
        Err(_) => debug!(target: "kopfd::reload", pod, "The Deployment of the pod could not be read in time."),
    }
}

async fn find(client: &Client, pod: &str) -> Result<Option<Value>, Error> {
    let pod = get(client, &resource("", "pods", "Pod"), pod).await?;
    let Some(replicas) = owner(&pod, "ReplicaSet") else { return Ok(None) };
    let replicas = get(client, &resource("apps", "replicasets", "ReplicaSet"), replicas).await?;
    let Some(deployment) = owner(&replicas, "Deployment") else { return Ok(None) };
    get(client, &resource("apps", "deployments", "Deployment"), deployment).await.map(Some)
}

async fn get(client: &Client, resource: &Resource, name: &str) -> Result<Value, Error> {
    let path = address::object(resource, Some(&client.default_namespace()), name)?;
    let mut object = client.request(&Request::get(path)).await?.json()?;
    // Server answers to requests for one object name both, but a reference without them would be useless.
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.clone().into();
    Ok(object)
}

/// Returns the name of the controlling owner of a kind.
fn owner<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array)?;
    owners.iter().find(|owner| owner["kind"] == kind && owner["controller"] == true)?["name"].as_str()
}

fn resource(group: &str, plural: &str, kind: &str) -> Resource {
    let text = |text: &str| text.to_owned();
    Resource {
        group: text(group),
        version: text("v1"),
        plural: text(plural),
        kind: text(kind),
        namespaced: true,
        ..Resource::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_owner_is_the_controller_of_the_kind() {
        let owners = json!([{"kind": "ReplicaSet", "name": "a"}, {"kind": "Job", "name": "b", "controller": true}]);
        let mut pod = json!({"metadata": {"ownerReferences": owners}});
        assert_eq!(owner(&pod, "ReplicaSet"), None);
        pod["metadata"]["ownerReferences"][0]["controller"] = json!(true);
        assert_eq!(owner(&pod, "ReplicaSet"), Some("a"));
        assert_eq!(owner(&json!({}), "ReplicaSet"), None);
    }
}
