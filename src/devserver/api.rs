//! The API: what answers requests, with the store, the kinds, and the clock that it answers from.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, Response, header};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::access::{self, Attributes, Authentication, User};
use super::chores::Chore;
use super::definition::{self, conditions};
use super::failure::Failure;
use super::ids::Ids;
use super::journal::{Journal, Record};
use super::registry::{Registry, Served};
use super::reply::{self, Reply};
use super::request::{Accept, Path, Place, Query, verb};
use super::rules::Decision;
use super::store::{Expected, Key, Limits, Raced, Resource, Store, Stored};
use super::{controllers, discovery, handlers, rules, view};
use crate::kit::{Clock, Stop};

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How users are told apart.
    pub authentication: Authentication,
    /// How much history is kept.
    pub limits: Limits,
    /// The seed of unique ids and generated names; none for ids that nobody has seen before.
    pub seed: Option<u64>,
}

impl Default for Settings {
    fn default() -> Self {
        Self { authentication: Authentication::Nobody, limits: Limits::default(), seed: None }
    }
}

/// The API server without its sockets. Cheap to clone.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    clock: Clock,
    authentication: Authentication,
    /// Ticks with every write, for the controllers.
    activity: watch::Sender<u64>,
    /// Ticks whenever the kinds change, for open watches.
    kinds: watch::Sender<u64>,
    journal: Option<Journal>,
}

/// What the server knows. It is locked for moments only.
pub struct State {
    /// The objects.
    pub store: Store,
    /// The kinds.
    pub registry: Arc<Registry>,
    /// Where ids come from.
    pub ids: Ids,
    /// The tokens that were issued to service accounts.
    pub issued: BTreeMap<String, User>,
}

/// One request, with who asks.
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// What it is about.
    pub place: Place,
    /// The parameters.
    pub query: Query,
    /// The headers.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Who asks.
    pub user: User,
    /// How the answer is to be written.
    pub accept: Accept,
    /// When it came.
    pub now: Timestamp,
}

impl Call {
    /// Returns the request without its body, for what goes on after the answer has begun.
    pub fn copy(&self) -> Self {
        Self {
            method: self.method.clone(),
            place: self.place.clone(),
            query: self.query.clone(),
            headers: self.headers.clone(),
            body: Bytes::new(),
            user: self.user.clone(),
            accept: self.accept,
            now: self.now,
        }
    }

    /// Returns who writes, in managed fields: as the request says, or the beginning of the user agent.
    pub fn manager(&self, named: Option<&str>) -> String {
        let agent = || self.headers.get(header::USER_AGENT)?.to_str().ok()?.split('/').next().map(str::to_owned);
        named.map(str::to_owned).or_else(agent).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    }
}

impl Api {
    /// Returns a server with the namespaces that are always there.
    pub fn new(settings: Settings, clock: Clock) -> Self {
        Self::with_journal(settings, clock, None)
    }

    /// Returns a server that writes everything into a journal, and begins with what is there.
    pub fn with_journal(settings: Settings, clock: Clock, journal: Option<(Journal, Vec<Value>, u64)>) -> Self {
        let mut store = Store::new(settings.limits);
        let mut registry = Registry::new();
        let journal = journal.map(|(journal, objects, revision)| {
            restore(&mut store, &mut registry, objects, revision);
            journal
        });
        let ids = settings.seed.map_or_else(Ids::random, Ids::seeded);
        let state = State { store, registry: Arc::new(registry), ids, issued: BTreeMap::new() };
        let inner = Inner {
            state: Mutex::new(state),
            clock,
            authentication: settings.authentication,
            activity: watch::Sender::new(0),
            kinds: watch::Sender::new(0),
            journal,
        };
        let api = Self(Arc::new(inner));
        controllers::begin(&api);
        api.settle();
        api
    }

    /// Returns the present moment.
    pub fn now(&self) -> Timestamp {
        self.0.clock.now()
    }

    /// Looks at, or changes, what the server knows.
    pub fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.state.lock())
    }

    /// Returns the kinds.
    pub fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.0.state.lock().registry)
    }

    /// Returns what ticks whenever the kinds change.
    pub fn kinds_changed(&self) -> watch::Receiver<u64> {
        self.0.kinds.subscribe()
    }

    /// Does what writes have left to be done: garbage collection, namespaces, definitions.
    pub fn settle(&self) {
        while let Some(chore) = self.with(|state| state.store.take_chore()) {
            controllers::attend(self, &chore);
        }
    }

    /// Does what writes leave to be done, until the stop. Without it, nothing is done after the answers.
    pub async fn attend(&self, stop: Stop) {
        let mut activity = self.0.activity.subscribe();
        loop {
            self.settle();
            tokio::select! {
                () = stop.requested() => return,
                changed = activity.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        let issued = self.with(|state| state.issued.clone());
        match self.0.authentication.user(request.headers(), &issued) {
            Ok(user) => self.answer_as(user, request).await,
            Err(_) => reply::refuse(Failure::new(401, "Unauthorized", "Unauthorized")),
        }
    }

    /// Answers a request of somebody who is known.
    pub async fn answer_as(&self, user: User, request: Request<Bytes>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let path = Path::parse(head.uri.path());
        let query = Query::parse(head.uri.query().unwrap_or_default());
        let wanted = wanted(&head.method, &path, head.uri.path(), &query);
        if !self.with(|state| access::is_allowed(&state.store, &user, &wanted)) {
            return reply::refuse(forbidden(&user, &wanted));
        }
        if body.len() > super::request::MAX_BODY {
            let text = format!("Request entity too large: limit is {}", super::request::MAX_BODY);
            return reply::refuse(Failure::new(413, "RequestEntityTooLarge", text));
        }
        let accept = match Accept::negotiate(&head.headers) {
            Ok(accept) => accept,
            Err(failure) => return reply::refuse(failure),
        };
        let answered = match path {
            Path::Objects(place) => {
                let call = Call { method: head.method, place, query, headers: head.headers, body, user, accept, now: self.now() };
                handlers::answer(self, call).await
            }
            path if matches!(head.method, Method::GET | Method::HEAD) => {
                Ok(discovery::answer(&self.registry(), &path, &query, head.uri.path()))
            }
            Path::Other(_) => Ok(Reply::no_page()),
            _ => Err(Failure::no_method()),
        };
        match answered {
            Ok(answer) => answer.into_response(accept),
            Err(failure) => reply::refuse(failure),
        }
    }

    /// Commits a decision on an object that was read before. Returns what is stored afterwards.
    ///
    /// # Errors
    /// If somebody else has written the object meanwhile.
    pub fn commit(&self, served: &Served, old: Option<&Arc<Stored>>, decision: Decision) -> Result<Option<Arc<Stored>>, Raced> {
        let expected = old.map_or(Expected::Nothing, |old| Expected::Revision(old.revision));
        let now = self.now();
        let mut state = self.0.state.lock();
        let (stored, key, revision) = match decision {
            Decision::Unchanged => return Ok(old.cloned()),
            Decision::Store(mut value) => {
                view::store(served, &mut value);
                let stored = state.store.put(&served.resource, value, expected, now)?;
                let key = super::store::key_of(&stored.value);
                let revision = stored.revision;
                (Some(stored), key, revision)
            }
            Decision::Remove(value) => {
                let key = super::store::key_of(&value);
                let revision = state.store.remove(&served.resource, &key, expected, now)?;
                (None, key, revision)
            }
        };
        self.keep(revision, &served.resource, &key, stored.as_ref());
        if served.kind.kind == "CustomResourceDefinition" {
            self.learn(&mut state, served, old.map(|old| &*old.value), stored.as_ref(), &key);
        }
        drop(state);
        self.0.activity.send_modify(|count| *count += 1);
        Ok(stored)
    }

    /// Waits until all that was written so far would survive the end of the process.
    pub async fn persisted(&self) {
        if let Some(journal) = &self.0.journal {
            let revision = self.with(|state| state.store.revision());
            journal.written(revision).await;
        }
    }

    fn keep(&self, revision: u64, resource: &Resource, key: &Key, stored: Option<&Arc<Stored>>) {
        if let Some(journal) = &self.0.journal {
            let value = stored.map(|stored| Arc::clone(&stored.value));
            journal.write(Record { revision, resource: resource.clone(), key: key.clone(), value });
        }
    }

    /// Judges the names of a definition, and serves what it defines, if that is different from before.
    fn learn(&self, state: &mut State, served: &Served, old: Option<&Value>, new: Option<&Arc<Stored>>, key: &Key) {
        let Some(new) = new else {
            Arc::make_mut(&mut state.registry).forget(&key.1);
            self.0.kinds.send_modify(|count| *count += 1);
            return;
        };
        let now = self.now();
        let others = state.store.list(&served.resource, None);
        let judged = conditions(&new.value, others.iter().map(|(_, other)| &*other.value), &rules::time(now));
        let mut new = Arc::clone(new);
        if judged != *new.value
            && let Ok(stored) = state.store.put(&served.resource, judged, Expected::Revision(new.revision), now)
        {
            self.keep(stored.revision, &served.resource, key, Some(&stored));
            new = stored;
        }
        let is_leaving = |value: &Value| value["metadata"]["deletionTimestamp"].is_string();
        let is_known = old.is_some_and(|old| {
            old["spec"] == new.value["spec"]
                && is_leaving(old) == is_leaving(&new.value)
                && definition::is_established(old) == definition::is_established(&new.value)
        });
        if !is_known && definition::is_established(&new.value) {
            Arc::make_mut(&mut state.registry).define(&new.value, new.revision);
            self.0.kinds.send_modify(|count| *count += 1);
        }
    }

    /// Reads an object.
    pub fn read(&self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        self.with(|state| state.store.get(resource, key))
    }

    /// Returns whose token it is.
    pub fn user_of(&self, token: &str) -> Option<User> {
        let issued = self.with(|state| state.issued.get(token).cloned());
        let Authentication::Tokens(tokens) = &self.0.authentication else { return issued };
        tokens.get(token).cloned().or(issued)
    }

    /// Leaves a chore for the controllers.
    pub fn leave(&self, chore: Chore) {
        self.with(|state| state.store.leave_chore(chore));
    }
}

fn restore(store: &mut Store, registry: &mut Registry, objects: Vec<Value>, revision: u64) {
    let is_definition = |value: &Value| value["kind"] == "CustomResourceDefinition";
    for definition in objects.iter().filter(|value| is_definition(value)) {
        registry.define(definition, revision);
    }
    let placed = objects.into_iter().filter_map(|value| {
        let served = registry.by_kind(value["apiVersion"].as_str()?, value["kind"].as_str()?);
        let resource = served.map(|served| served.resource.clone())?;
        Some((resource, super::store::key_of(&value), value))
    });
    let placed: Vec<_> = placed.collect();
    store.restore(revision, placed);
}

fn wanted(method: &Method, path: &Path, text: &str, query: &Query) -> Attributes {
    let Path::Objects(place) = path else {
        return Attributes { verb: method.as_str().to_lowercase(), path: Some(text.to_owned()), ..Attributes::default() };
    };
    let resource = place.subresource.as_ref().map_or_else(|| place.plural.clone(), |sub| format!("{}/{sub}", place.plural));
    let is_namespace = place.group.is_empty() && place.plural == "namespaces";
    let namespace = if is_namespace { place.name.clone() } else { place.namespace.clone() };
    Attributes {
        verb: verb(method, place, query).to_owned(),
        group: place.group.clone(),
        resource,
        namespace: namespace.unwrap_or_default(),
        name: place.name.clone().unwrap_or_default(),
        path: None,
    }
}

fn forbidden(user: &User, wanted: &Attributes) -> Failure {
    let Attributes { verb, group, resource, namespace, name, path } = wanted;
    if let Some(path) = path {
        return Failure::plain(403, "Forbidden", format!("forbidden: User {:?} cannot {verb} path {path:?}", user.name));
    }
    let plural = resource.split('/').next().unwrap_or_default();
    let full = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    let place = if namespace.is_empty() { "at the cluster scope".to_owned() } else { format!("in the namespace {namespace:?}") };
    let text =
        format!("{full}{named} is forbidden: User {:?} cannot {verb} resource {resource:?} in API group {group:?} {place}", user.name);
    let mut failure = Failure::new(403, "Forbidden", text);
    failure.details.name.clone_from(name);
    failure.details.group.clone_from(group);
    plural.clone_into(&mut failure.details.kind);
    failure
}

/// Returns the body of the answer to the question for the version.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "32", "gitVersion": format!("v1.32.0+kopfd-{}", env!("CARGO_PKG_VERSION")), "gitCommit": "",
        "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc", "platform": "linux/amd64",
    })
}
