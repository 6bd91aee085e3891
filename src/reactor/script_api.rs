//! The cluster as scripts see it: the bridge from `k8s::` functions to the client.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::cluster::calls::{Calls, Deletion, Place, Selection};
use crate::cluster::{self, Kinds};
use crate::object::{Resource, Selector};
use crate::script::api::{Api, ApiError, ApiRequest, Operation};

/// The cluster as the scripts of one operator see it.
pub struct ScriptApi {
    calls: Calls,
    kinds: Arc<Kinds>,
}

impl ScriptApi {
    /// Returns the bridge; the operator's name is in the calls.
    pub fn new(calls: Calls, kinds: Arc<Kinds>) -> Self {
        Self { calls, kinds }
    }

    async fn answer(&self, request: ApiRequest) -> Result<Value, cluster::Error> {
        let ApiRequest { resource, namespace, operation } = request;
        let place = |name| Place { resource: &resource, namespace: namespace.as_deref().filter(|_| resource.namespaced), name };
        match operation {
            Operation::Get { name } => Ok(self.calls.get(place(&name)).await?.unwrap_or(Value::Null)),
            Operation::List { labels, fields } => {
                let selection = Selection { labels, fields };
                let objects = self.calls.list(&resource, namespace.as_deref(), &selection).await?;
                Ok(Value::Array(objects))
            }
            Operation::Create { object } => self.calls.create(&resource, &object).await,
            Operation::Update { object, .. } => self.calls.update(&resource, &object).await,
            Operation::Apply { object, force, .. } => self.calls.apply(&resource, &object, force).await,
            Operation::Patch { name, subresource, patch } => self.calls.patch(place(&name), subresource.as_deref(), &patch).await,
            Operation::Delete { name, propagation, grace } => {
                let deletion = Deletion { propagation, grace: grace.and_then(|grace| u64::try_from(grace).ok()) };
                Ok(Value::Bool(self.calls.delete(place(&name), &deletion).await?))
            }
        }
    }
}

impl Api for ScriptApi {
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>> {
        async move { self.kinds.resolve_selector(&selector, &selector.to_string()).await.map(Arc::new).map_err(told) }.boxed()
    }

    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>> {
        async move { self.answer(request).await.map_err(told) }.boxed()
    }
}

/// What a script may see of a failure.
fn told(error: cluster::Error) -> ApiError {
    let message = error.chain();
    match error {
        cluster::Error::Status { status, reason, details, .. } => {
            ApiError { message, status: Some(status), reason, details: details.map(|details| *details) }
        }
        _ => ApiError { message, status: None, reason: None, details: None },
    }
}
