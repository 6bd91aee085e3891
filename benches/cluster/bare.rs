//! The reference: a kube-rs loop that watches, and sends two patches for each new object, without an engine.

use std::path::Path;

use futures::TryStreamExt as _;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::json;

/// The argument that starts this program as the loop.
pub(crate) const RUN: &str = "bare-loop";

/// The annotation of finished objects.
const DONE: &str = "bare.example.com/last-handled-configuration";

/// Concurrent objects: as many as kopfd has requests in flight.
const AT_ONCE: usize = 64;

/// Runs the loop endlessly.
pub(crate) fn run(kubeconfig: &Path, group: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig can be read");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .expect("the kubeconfig is complete");
        let client = kube::Client::try_from(config).expect("a client");
        let kind = ApiResource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            api_version: format!("{group}/v1"),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
        };
        let all: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
        let events = watcher(all, watcher::Config::default());
        let handled = events.map_err(|error| error.to_string()).try_for_each_concurrent(AT_ONCE, |event| {
            let (client, kind) = (client.clone(), &kind);
            async move {
                match event {
                    Event::Apply(object) | Event::InitApply(object) => handle(client, kind, object).await,
                    Event::Delete(_) | Event::Init | Event::InitDone => Ok(()),
                }
            }
        });
        handled.await.expect("the API server does what it is asked for");
    });
}

async fn handle(client: kube::Client, kind: &ApiResource, object: DynamicObject) -> Result<(), String> {
    if object.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(DONE)) {
        return Ok(());
    }
    let metadata = object.metadata;
    let (name, namespace) = (metadata.name.unwrap_or_default(), metadata.namespace.unwrap_or_default());
    let api: Api<DynamicObject> = Api::namespaced_with(client, &namespace, kind);
    let parameters = PatchParams::default();
    let essence = json!({"spec": object.data["spec"]}).to_string();
    let annotation = json!({"metadata": {"annotations": {DONE: essence}}});
    api.patch(&name, &parameters, &Patch::Merge(annotation)).await.map_err(|error| error.to_string())?;
    let status = json!({"status": {"create": {"size": object.data["spec"]["size"]}}});
    api.patch_status(&name, &parameters, &Patch::Merge(status)).await.map_err(|error| error.to_string())?;
    Ok(())
}
