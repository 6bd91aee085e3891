//! The bridge from the `k8s::` functions of scripts to the client.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::cluster::object_client::{Deletion, ObjectAddress, ObjectClient, Selection};
use crate::cluster::{self, ResourceResolver};
use crate::engines::posting::{KubernetesEvent, Poster};
use crate::handling::Level;
use crate::object::hierarchy::build_object_reference;
use crate::object::{Resource, Selector};
use crate::script::api::{Api, ApiError, ApiRequest, EventRequest, Operation};

use super::change_log::{ChangeLog, Write};
use super::touching::Touches;

/// The cluster access of one operator's scripts.
pub struct ScriptApi {
    objects: ObjectClient,
    kinds: Arc<ResourceResolver>,
    log: Option<Arc<ChangeLog>>,
    poster: Poster,
    of_every_replica: Option<Arc<dyn Api>>,
    touches: Touches,
}

impl ScriptApi {
    /// Returns the bridge.
    pub fn new(objects: ObjectClient, kinds: Arc<ResourceResolver>, poster: Poster) -> Self {
        Self { objects, kinds, log: None, poster, of_every_replica: None, touches: Touches::default() }
    }

    /// Returns the bridge with a log of writes.
    pub fn logged_by(self, log: Option<Arc<ChangeLog>>) -> Self {
        Self { log, ..self }
    }

    /// Returns the bridge that has objects handled once more.
    pub fn touching(self, touches: Touches) -> Self {
        Self { touches, ..self }
    }

    /// Returns the bridge for the calls of the leader, beside the one for calls that every replica makes.
    pub fn beside(self, of_every_replica: Self) -> Self {
        Self { of_every_replica: Some(Arc::new(of_every_replica)), ..self }
    }

    /// Sends a request, and logs its changes.
    async fn answer_and_report(&self, request: ApiRequest, log: &ChangeLog) -> Result<Value, cluster::Error> {
        let Some((write, name)) = written(&request.operation) else { return self.answer(request).await };
        let (resource, namespace) = (Arc::clone(&request.resource), request.namespace.clone().filter(|_| request.resource.namespaced));
        let is_whole = !matches!(&request.operation, Operation::Patch { subresource: Some(name), .. } if name != "status");
        let find = async |name: &str| {
            let place = ObjectAddress { resource: &resource, namespace: namespace.as_deref(), name };
            // If the read fails, the write probably fails, too, and its error is reported.
            self.objects.get(place).await.unwrap_or_default()
        };
        let before = match (&request.operation, &name) {
            (Operation::Create { .. }, _) | (_, None) => None,
            (_, Some(name)) => find(name).await,
        };
        let answered = self.answer(request).await;
        let given = answered.as_ref().ok().and_then(|object| object.pointer("/metadata/name")?.as_str().map(str::to_owned));
        let name = given.or(name).unwrap_or_default();
        let object = match &namespace {
            Some(namespace) => format!("{} {namespace}/{name}", resource.kind),
            None => format!("{} {name}", resource.kind),
        };
        match &answered {
            Err(error) => log.report_failure(&object, &error.chain()),
            Ok(after) if write == Write::Stored && is_whole => log.report_write(write, &object, before.as_ref(), Some(after)),
            Ok(_) => {
                let after = find(&name).await;
                log.report_write(write, &object, before.as_ref(), after.as_ref());
            }
        }
        answered
    }

    async fn answer(&self, request: ApiRequest) -> Result<Value, cluster::Error> {
        let ApiRequest { resource, namespace, operation } = request;
        let place = |name| ObjectAddress { resource: &resource, namespace: namespace.as_deref().filter(|_| resource.namespaced), name };
        match operation {
            Operation::Get { name } => Ok(self.objects.get(place(&name)).await?.unwrap_or(Value::Null)),
            Operation::List { labels, fields } => {
                let selection = Selection { labels, fields };
                let objects = self.objects.list(&resource, namespace.as_deref(), &selection).await?;
                Ok(Value::Array(objects))
            }
            Operation::Create { object } => self.objects.create(&resource, &object).await,
            Operation::Update { object, .. } => self.objects.update(&resource, &object).await,
            Operation::Apply { object, force, .. } => self.objects.apply(&resource, &object, force).await,
            Operation::Patch { name, subresource, patch } => self.objects.patch(place(&name), subresource.as_deref(), &patch).await,
            Operation::Delete { name, propagation, grace } => {
                let deletion = Deletion { propagation, grace: grace.and_then(|grace| u64::try_from(grace).ok()) };
                Ok(Value::Bool(self.objects.delete(place(&name), &deletion).await?))
            }
        }
    }
}

impl Api for ScriptApi {
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>> {
        async move { self.kinds.resolve_selector(&selector, &selector.to_string()).await.map(Arc::new).map_err(api_error) }.boxed()
    }

    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>> {
        async move {
            match &self.log {
                Some(log) => self.answer_and_report(request, log).await.map_err(api_error),
                None => self.answer(request).await.map_err(api_error),
            }
        }
        .boxed()
    }

    fn touch(&self, resource: Arc<Resource>, namespace: Option<String>, name: String) -> BoxFuture<'_, Result<bool, ApiError>> {
        async move { self.touches.touch(&self.objects, &resource, namespace.as_deref(), &name).await.map_err(api_error) }.boxed()
    }

    fn post(&self, event: EventRequest) {
        let EventRequest { objects, event_type, reason, message, level } = event;
        for object in objects {
            let reference = build_object_reference(&object);
            let (event_type, reason, message) = (event_type.clone(), reason.clone(), message.clone());
            self.poster.post(KubernetesEvent { reference, event_type, reason, message }, level);
        }
    }

    fn posts_logs(&self) -> bool {
        self.poster.posts_logs()
    }

    fn post_log(&self, object: &Value, level: Level, message: &str) {
        self.poster.post_log(object, level, message);
    }

    fn of_every_replica(&self) -> Option<Arc<dyn Api>> {
        self.of_every_replica.clone()
    }
}

/// Returns the write of an operation, and the name of its object, if it has one yet.
fn written(operation: &Operation) -> Option<(Write, Option<String>)> {
    match operation {
        Operation::Get { .. } | Operation::List { .. } => None,
        Operation::Create { object } => Some((Write::Stored, object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned))),
        Operation::Update { name, .. } | Operation::Apply { name, .. } | Operation::Patch { name, .. } => {
            Some((Write::Stored, Some(name.clone())))
        }
        Operation::Delete { name, .. } => Some((Write::Deleted, Some(name.clone()))),
    }
}

/// Returns the parts of an error that scripts may see.
fn api_error(error: cluster::Error) -> ApiError {
    let message = error.chain();
    match error {
        cluster::Error::Status { status, reason, details, .. } => {
            ApiError { message, status: Some(status), reason, details: details.map(|details| *details) }
        }
        _ => ApiError { message, status: None, reason: None, details: None },
    }
}
