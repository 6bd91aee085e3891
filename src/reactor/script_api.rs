//! The bridge from the `k8s::` functions of scripts to the client.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _, ready};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::Value;

use crate::cluster::exec::{Command, Output, Problem};
use crate::cluster::guard::Guard;
use crate::cluster::object_client::{Deletion, ObjectAddress, ObjectClient};
use crate::cluster::other::{Guarded, OtherClusters};
use crate::cluster::selection::Selection;
use crate::cluster::{self, ResourceResolver};
use crate::engines::posting::{KubernetesEvent, Poster};
use crate::handling::Level;
use crate::object::hierarchy::build_object_reference;
use crate::object::{Resource, Selector};
use crate::script::outside::api::{
    Api, ApiError, ApiRequest, Change, EventRequest, ExecError, ExecRequest, LogPart, Operation, RawRequest,
    WatchRequest,
};
use crate::script::outside::clusters::ServerRule;
use crate::script::outside::programs::{Finished, ProgramError, ProgramFailure};

use super::change_log::{ChangeLog, Write};
use super::script_watch;
use super::touching::Touches;

/// The cluster access of one operator's scripts.
pub struct ScriptApi {
    objects: ObjectClient,
    kinds: Arc<ResourceResolver>,
    log: Option<Arc<ChangeLog>>,
    poster: Poster,
    of_every_replica: Option<Arc<dyn Api>>,
    others: Arc<OtherClusters>,
    touches: Touches,
}

impl ScriptApi {
    /// Returns the bridge.
    pub fn new(objects: ObjectClient, kinds: Arc<ResourceResolver>, poster: Poster) -> Self {
        Self {
            objects,
            kinds,
            log: None,
            poster,
            of_every_replica: None,
            touches: Touches::default(),
            others: Arc::default(),
        }
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
        let (resource, namespace) =
            (Arc::clone(&request.resource), request.namespace.clone().filter(|_| request.resource.namespaced));
        let is_whole =
            !matches!(&request.operation, Operation::Patch { subresource: Some(name), .. } if name != "status");
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
        let given =
            answered.as_ref().ok().and_then(|object| object.pointer("/metadata/name")?.as_str().map(str::to_owned));
        let name = given.or(name).unwrap_or_default();
        let object = match &namespace {
            Some(namespace) => format!("{} {namespace}/{name}", resource.kind),
            None => format!("{} {name}", resource.kind),
        };
        match &answered {
            Err(error) => log.report_failure(&object, &error.chain()),
            Ok(after) if write == Write::Stored && is_whole => {
                log.report_write(write, &object, before.as_ref(), Some(after));
            }
            Ok(_) => {
                let after = find(&name).await;
                log.report_write(write, &object, before.as_ref(), after.as_ref());
            }
        }
        answered
    }

    async fn log(&self, place: ObjectAddress<'_>, part: &LogPart) -> Result<Value, cluster::Error> {
        let LogPart { container, tail, since, is_previous, has_timestamps, limit } = part;
        let is = |flag: &bool| flag.then(|| "true".to_owned());
        let given = [
            ("container", container.clone()),
            ("tailLines", tail.map(|lines| lines.to_string())),
            // The server counts whole seconds, and refuses zero.
            ("sinceSeconds", since.map(|since| since.as_secs_f64().ceil().max(1.0).to_string())),
            ("previous", is(is_previous)),
            ("timestamps", is(has_timestamps)),
            ("limitBytes", Some(limit.to_string())),
        ];
        let given: Vec<(&str, &str)> =
            given.iter().filter_map(|(key, value)| Some((*key, value.as_deref()?))).collect();
        let text = self.objects.log(place, &given).await?;
        Ok(Value::String(String::from_utf8_lossy(&text).into_owned()))
    }

    async fn answer(&self, request: ApiRequest) -> Result<Value, cluster::Error> {
        let ApiRequest { resource, namespace, operation } = request;
        let place = |name| ObjectAddress {
            resource: &resource,
            namespace: namespace.as_deref().filter(|_| resource.namespaced),
            name,
        };
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
            Operation::Patch { name, subresource, patch } => {
                self.objects.patch(place(&name), subresource.as_deref(), &patch).await
            }
            Operation::CreateSubresource { name, subresource, object } => {
                match self.objects.create_subresource(place(&name), subresource, &object).await {
                    // The eviction of a pod that is gone has nothing to do, as its deletion.
                    Err(error) if error.is_not_found() && subresource == "eviction" => Ok(Value::Null),
                    other => other,
                }
            }
            Operation::Log { name, part } => self.log(place(&name), &part).await,
            Operation::Delete { name, propagation, grace } => {
                let deletion = Deletion { propagation, grace: grace.and_then(|grace| u64::try_from(grace).ok()) };
                Ok(Value::Bool(self.objects.delete(place(&name), &deletion).await?))
            }
        }
    }
}

impl Api for ScriptApi {
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>> {
        async move {
            self.kinds
                .resolve_selector(&selector, &selector.to_string())
                .await
                .map(Arc::new)
                .map_err(|error| api_error(&error))
        }
        .boxed()
    }

    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>> {
        async move {
            match &self.log {
                Some(log) => self.answer_and_report(request, log).await.map_err(|error| api_error(&error)),
                None => self.answer(request).await.map_err(|error| api_error(&error)),
            }
        }
        .boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxStream<'static, Result<Change, ApiError>> {
        let WatchRequest { resource, namespace, labels, fields } = request;
        let namespace = namespace.filter(|_| resource.namespaced);
        match self.objects.watcher(&resource, namespace.as_deref(), Selection { labels, fields }) {
            Ok(watcher) => script_watch::changes(watcher, api_error),
            Err(error) => stream::once(ready(Err(api_error(&error)))).boxed(),
        }
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Finished, ExecError>> {
        async move {
            let ExecRequest { resource, namespace, name, container, arguments, stdin, time, output } = request;
            let place = ObjectAddress { resource: &resource, namespace: namespace.as_deref(), name: &name };
            let (done, Output { stdout, stderr }) =
                self.objects.exec(place, Command { container, arguments, stdin, time, output }).await;
            let problem = match done {
                Ok(code) => return Ok(Finished { code, stdout, stderr, files: BTreeMap::new() }),
                Err(problem) => problem,
            };
            let (reason, message) = match &problem {
                Problem::Timeout(_) => (ProgramFailure::Timeout, problem.to_string()),
                Problem::TooMuchOutput(_) => (ProgramFailure::TooMuchOutput, problem.to_string()),
                // It may have run: its output shows how far it came.
                Problem::Request(error @ (cluster::Error::Connection(_) | cluster::Error::Payload(_))) => {
                    (ProgramFailure::Failed, error.chain())
                }
                Problem::Request(error) => return Err(ExecError::Api(api_error(error))),
            };
            Err(ExecError::Command(ProgramError { reason, message, stdout, stderr }))
        }
        .boxed()
    }

    fn raw(&self, request: RawRequest) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async move {
            let RawRequest { method, path, content_type, body } = request;
            self.objects.raw(method, &path, content_type, body.as_ref()).await.map_err(|error| api_error(&error))
        }
        .boxed()
    }

    fn other_cluster(&self, kubeconfig: &str, rule: ServerRule) -> BoxFuture<'_, Result<Arc<dyn Api>, ApiError>> {
        let guarded = Guarded { name: format!("{:?}", rule.allowed()), guard: Arc::new(OfManifest(rule)) };
        let opened = self.objects.of_other_cluster(&self.others, kubeconfig, &guarded).map(|(objects, kinds)| {
            let poster = self.poster.clone();
            let others = Arc::clone(&self.others);
            Arc::new(Self {
                objects,
                kinds,
                log: self.log.clone(),
                poster,
                others,
                of_every_replica: None,
                touches: Touches::default(),
            }) as Arc<dyn Api>
        });
        ready(opened.map_err(|error| api_error(&error))).boxed()
    }

    fn touch(
        &self,
        resource: Arc<Resource>,
        namespace: Option<String>,
        name: String,
    ) -> BoxFuture<'_, Result<bool, ApiError>> {
        async move {
            self.touches
                .touch(&self.objects, &resource, namespace.as_deref(), &name)
                .await
                .map_err(|error| api_error(&error))
        }
        .boxed()
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

/// The guard of other clusters that the manifest makes.
struct OfManifest(ServerRule);

impl Guard for OfManifest {
    fn refusal_of_server(&self, host: &str, port: u16) -> Option<String> {
        self.0.refusal_of_server(host, port)
    }

    fn refusal_of_address(&self, host: &str, address: IpAddr) -> Option<String> {
        self.0.refusal_of_address(host, address)
    }
}

/// Returns the write of an operation, and the name of its object, if it has one yet.
fn written(operation: &Operation) -> Option<(Write, Option<String>)> {
    match operation {
        Operation::Create { object } => {
            Some((Write::Stored, object.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned)))
        }
        Operation::Update { name, .. } | Operation::Apply { name, .. } | Operation::Patch { name, .. } => {
            Some((Write::Stored, Some(name.clone())))
        }
        Operation::Delete { name, .. } | Operation::CreateSubresource { name, subresource: "eviction", .. } => {
            Some((Write::Deleted, Some(name.clone())))
        }
        // Reviews and tokens change nothing that stays.
        Operation::Get { .. }
        | Operation::List { .. }
        | Operation::Log { .. }
        | Operation::CreateSubresource { .. } => None,
    }
}

/// Returns the parts of an error that scripts may see.
fn api_error(error: &cluster::Error) -> ApiError {
    let message = error.chain();
    match error {
        cluster::Error::Status { status, reason, details, .. } => {
            ApiError { message, status: Some(*status), reason: reason.clone(), details: details.as_deref().cloned() }
        }
        _ => ApiError { message, status: None, reason: None, details: None },
    }
}
