//! New indexes over all objects of the server, which those of a settled operator must equal.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::apiserver::ApiServer;
use crate::engines::{Environment, EventStream, IndexEvent, Indexer, Scripts};
use crate::handling::{Handler, IndexingHandlers};
use crate::kit::{Clock, Stop};
use crate::manifest::Operator;
use crate::object::{Body, EventKind, ObjectKey, namespace};
use crate::scenario::invariants::resource_of;
use crate::scenario::model::Scenario;
use crate::scenario::stubs::{HttpStubs, MachineStubs, SqlStubs};
use crate::scenario::timeline::Timeline;
use crate::script::host::{self, Threads};
use crate::script::{Call, Evaluation, Host, Indexes, Installed, Object, ObjectMemo, Outside, Returned, Subject};

/// Calls index functions outside of an operator.
struct Caller {
    host: Host,
    scripts: Installed,
    clock: Clock,
}

impl Scripts for Caller {
    fn call<'a>(&'a self, _handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned> {
        self.host.call(&self.scripts, call).boxed()
    }

    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        self.host.evaluate(&self.scripts, subject, evaluation).boxed()
    }
}

impl Environment for Caller {
    fn clock(&self) -> &Clock {
        &self.clock
    }
}

/// Returns the differences between the indexes of an operator and new ones.
pub(super) async fn differences(
    api: &ApiServer,
    scenario: &Scenario,
    operator: &Operator,
    indexes: &Indexes,
    clock: &Clock,
) -> Vec<String> {
    if indexes.is_empty() {
        return Vec::new();
    }
    match fresh(api, scenario, operator, clock).await {
        Err(problem) => vec![format!("new indexes cannot be made: {problem}")],
        Ok(fresh) => {
            let pairs = indexes
                .iter()
                .zip(fresh.iter())
                .map(|(found, fresh)| (found.name(), found.to_value(), fresh.to_value()));
            let wrong = pairs.filter(|(_, found, fresh)| found != fresh);
            wrong
                .map(|(name, found, fresh)| {
                    format!("the index `{name}` is outdated: it has {found}, and a new one {fresh}")
                })
                .collect()
        }
    }
}

async fn fresh(
    api: &ApiServer,
    scenario: &Scenario,
    operator: &Operator,
    clock: &Clock,
) -> Result<Arc<Indexes>, String> {
    let messages = |problems: Vec<crate::script::Problem>| {
        problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
    };
    // Their own stubs: the sequences of the operators do not go on.
    let (timeline, unexpected) = (Arc::new(Timeline::new(clock.clone())), Arc::default());
    let http = HttpStubs::new(scenario.stubs.http.clone(), false, Arc::clone(&timeline), Arc::clone(&unexpected));
    let machine = Arc::new(MachineStubs::new(scenario.stubs.clone(), Arc::clone(&timeline), Arc::clone(&unexpected)));
    let sql = SqlStubs::new(scenario.stubs.sql.clone(), timeline, unexpected);
    let outside =
        Outside::new(Arc::new(http), Arc::<MachineStubs>::clone(&machine), machine).with_databases(Arc::new(sql));
    let options =
        host::Options { threads: Threads::Current, clock: clock.clone(), outside, ..host::Options::default() };
    let host = Host::start(options).map_err(|error| error.to_string())?;
    let program = operator.program().map_err(messages)?;
    let scripts = host.install(Arc::new(program)).await.map_err(messages)?;
    let indexes = Arc::clone(scripts.indexes());
    let indexer = Indexer::new(Arc::clone(&indexes));
    let caller = Caller { host, scripts, clock: clock.clone() };
    let handlers: Vec<Arc<Handler>> = operator.indexes.iter().cloned().map(Arc::new).collect();
    for (body, resource) in objects(api, scenario) {
        let of_kind = IndexingHandlers::of(handlers.iter().filter(|handler| handler.concerns(&resource)).cloned());
        let memo = ObjectMemo::empty(format!("{}/{}", operator.name, ObjectKey::of(&body).uid));
        let event = IndexEvent {
            object: &Object { resource: Arc::new(resource), body, memo },
            event_kind: EventKind::Listed,
            handlers: &of_kind,
            default_backoff: operator.settings.execution.default_backoff,
            stop: &Stop::new(),
            span: &tracing::Span::none(),
        };
        indexer.index(&caller, &EventStream::default(), event).await.map_err(|error| error.to_string())?;
    }
    Ok(indexes)
}

/// Returns all objects in the served namespaces, with their resources.
fn objects(api: &ApiServer, scenario: &Scenario) -> Vec<(Body, crate::object::Resource)> {
    let registry = api.registry();
    let is_served = |body: &Body| {
        let patterns = &scenario.namespaces;
        patterns.is_empty() || body.namespace().is_none_or(|name| namespace::any_matches(patterns, name))
    };
    let mut resources: Vec<_> = registry.all().map(|served| served.resource.clone()).collect();
    resources.sort();
    resources.dedup();
    let all = resources.iter().flat_map(|resource| api.list(resource, None));
    let bodies = all.map(|(_, stored)| Body::from((*stored.value).clone())).filter(is_served);
    bodies.filter_map(|body| Some((body.clone(), resource_of(&body, &registry)?))).collect()
}
