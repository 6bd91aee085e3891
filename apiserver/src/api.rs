//! The API: what answers requests, with the store, the kinds, and the clock that it answers from.

pub mod latency;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::Caller;
use crate::api::latency::Pace;
use crate::auth::access::{self, Authentication, User};
use crate::auth::impersonation::{Refusal, impersonated};
use crate::discovery::openapi;
use crate::faults::Fault;
use crate::faults::injection::Injection;
use crate::http::api_error::Failure;
use crate::http::deadline::{self, Deadline};
use crate::http::reply::{self, Reply};
use crate::http::request::{Accept, Options, Path, Question};
use crate::kinds::definition::{self, conditions};
use crate::kinds::registry::{Registry, Served};
use crate::rules;
use crate::rules::{Decision, Writer};
use crate::storage::ids::Ids;
use crate::storage::journal::{self, Journal, Record, WriteError};
use crate::storage::resource::{Key, Resource};
use crate::storage::store::{Expected, Limits, Raced, Store, Stored};
use crate::storage::work_item::Chore;
use crate::verbs::dispatch;
use crate::verbs::request_context::Call;
use crate::{controllers, discovery};
use kopfd_base::kit::Clock;

/// The header with the id of a request, in requests and answers.
pub const AUDIT_ID: &str = "audit-id";
/// Ids of clients that are longer are not taken.
const LONGEST_AUDIT_ID: usize = 64;
/// As whom the server itself writes.
const OWN_NAME: &str = "kube-apiserver";

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How users are told apart.
    pub authentication: Authentication,
    /// How much history is kept.
    pub limits: Limits,
    /// The seed of unique ids and generated names; none for ids that nobody has seen before.
    pub seed: Option<u64>,
    /// How many requests are kept on record that came from clients; none by default.
    pub requests: usize,
    /// Whether administrators may control the server under `/_dev`.
    pub has_control: bool,
    /// How webhooks are called.
    pub webhooks: Caller,
    /// How promptly things are done.
    pub pace: Pace,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            authentication: Authentication::Nobody,
            limits: Limits::default(),
            seed: None,
            requests: 0,
            has_control: false,
            webhooks: Caller::default(),
            pace: Pace::default(),
        }
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
    /// What the controllers have put off.
    later: Mutex<Vec<(Instant, Chore)>>,
    expiring: Mutex<BTreeSet<(Timestamp, Key, u64)>>,
    /// How many chores the controllers are at.
    at_work: AtomicUsize,
    injection: Injection,
    has_control: bool,
    webhooks: Caller,
    pace: Pace,
    /// By how many milliseconds the server's time is ahead of the clock.
    offset: AtomicI64,
    /// Where the ids of requests come from: apart, so that they change none of those of objects.
    audit: Mutex<Ids>,
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
            restore(&mut store, &mut registry, objects, revision, clock.now());
            store.hide_writes();
            journal
        });
        let ids = settings.seed.map_or_else(Ids::random, Ids::seeded);
        let audit = settings.seed.map_or_else(Ids::random, |seed| Ids::seeded(!seed));
        let state = State { store, registry: Arc::new(registry), ids, issued: BTreeMap::new() };
        let inner = Inner {
            state: Mutex::new(state),
            clock,
            authentication: settings.authentication,
            activity: watch::Sender::new(0),
            kinds: watch::Sender::new(0),
            journal,
            later: Mutex::new(Vec::new()),
            expiring: Mutex::default(),
            at_work: AtomicUsize::new(0),
            injection: Injection::new(settings.seed.unwrap_or_default(), settings.requests),
            has_control: settings.has_control,
            webhooks: settings.webhooks,
            pace: settings.pace,
            offset: AtomicI64::new(0),
            audit: Mutex::new(audit),
        };
        let api = Self(Arc::new(inner));
        if let Some(journal) = &api.0.journal {
            journal.tell(Box::new(Journaled(Arc::downgrade(&api.0))));
        }
        controllers::begin(&api);
        api.settle();
        api
    }

    /// Returns the present moment.
    pub fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        let offset = self.0.offset.load(Ordering::Relaxed);
        // A moment out of the range of time is as good as none.
        if offset == 0 { now } else { now.checked_add(SignedDuration::from_millis(offset)).unwrap_or(now) }
    }

    /// Moves the time of the server, but not that of delays and time-outs.
    pub fn shift_time(&self, offset: SignedDuration) {
        self.0.offset.store(i64::try_from(offset.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        // What was to come later may be due.
        self.0.activity.send_modify(|count| *count += 1);
    }

    /// Returns the faults and the record of requests.
    pub fn injection(&self) -> &Injection {
        &self.0.injection
    }

    /// Tells whether administrators may control the server.
    pub fn has_control(&self) -> bool {
        self.0.has_control
    }

    /// Returns what the controllers have put off.
    pub fn later(&self) -> &Mutex<Vec<(Instant, Chore)>> {
        &self.0.later
    }

    /// Returns the number of chores that the controllers are at.
    pub fn at_work(&self) -> &AtomicUsize {
        &self.0.at_work
    }

    /// Returns the events that are to go, with when and in which revision, in the order of these moments.
    pub fn expiring(&self) -> &Mutex<BTreeSet<(Timestamp, Key, u64)>> {
        &self.0.expiring
    }

    /// Returns what ticks with every write.
    pub fn activity(&self) -> &watch::Sender<u64> {
        &self.0.activity
    }

    /// Returns how promptly things are done.
    pub fn pace(&self) -> Pace {
        self.0.pace
    }

    /// Returns how webhooks are called.
    pub fn caller(&self) -> &Caller {
        &self.0.webhooks
    }

    /// Tells whether the objects are kept over restarts.
    pub fn is_durable(&self) -> bool {
        self.0.journal.is_some()
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

    /// Returns for whom a request is answered: who asks, or who is to be impersonated.
    ///
    /// # Errors
    /// If there is a token that is not known, nobody to be impersonated, or no right to it.
    pub fn authenticate(&self, question: &Question) -> Result<User, Failure> {
        let unknown = |_| Failure::new(401, "Unauthorized", "Unauthorized");
        self.with(|state| {
            let user = self.0.authentication.user(&question.headers, &state.issued).map_err(unknown)?;
            impersonated(&state.store, user, &question.headers).map_err(|refusal| match refusal {
                Refusal::Nobody => Failure::bad_request("requested groups, a uid or more of a user, without a user to impersonate"),
                // It is the request that is refused.
                Refusal::Right(user, missing) => Failure {
                    details: access::refusal(&user, &access::Attributes::of_request(question)).details,
                    ..access::refusal(&user, &missing)
                },
            })
        })
    }

    /// Returns the id of a request: that which the client has given it, or a new one.
    pub fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(AUDIT_ID).filter(|id| (1..=LONGEST_AUDIT_ID).contains(&id.len()));
        given.cloned().unwrap_or_else(|| HeaderValue::try_from(self.0.audit.lock().uid()).expect("an id fits into a header"))
    }

    /// Answers a request, without faults and without a record.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        let question = Question::read(request);
        let deadline = match Deadline::of(&question) {
            Ok(deadline) => deadline,
            Err(failure) => return reply::refuse(failure),
        };
        match self.authenticate(&question) {
            Ok(user) => deadline.wait(Box::pin(self.carry_out(user, question, None))).await.unwrap_or_else(deadline::passed),
            Err(failure) => reply::refuse(failure),
        }
    }

    /// Answers a request of somebody who is known, without faults and without a record.
    pub async fn answer_as(&self, user: User, request: Request<Bytes>) -> Response<Body> {
        self.carry_out(user, Question::read(request), None).await
    }

    /// Carries out a request. The fault is for those who read, watch, or call webhooks on the way.
    pub async fn carry_out(&self, user: User, question: Question, fault: Option<Fault>) -> Response<Body> {
        let wanted = access::Attributes::of_request(&question);
        let Question { method, path, text, query, headers, body, .. } = question;
        if !self.with(|state| access::is_allowed(&state.store, &user, &wanted)) {
            return reply::refuse(access::refusal(&user, &wanted));
        }
        if body.len() > crate::http::request::MAX_BODY {
            let text = format!("Request entity too large: limit is {}", crate::http::request::MAX_BODY);
            return reply::refuse(Failure::new(413, "RequestEntityTooLarge", text));
        }
        if openapi::is_version_two(&text, &headers) {
            return reply::message(openapi::VERSION_TWO, openapi::VERSION_TWO_ANSWER);
        }
        let accept = match Accept::negotiate(&headers) {
            Ok(accept) => accept,
            Err(failure) => return reply::refuse(failure),
        };
        let answered = match path {
            Path::Objects(place) => {
                let call = Call { method, place, query, headers, body, user, accept, now: self.now(), fault };
                dispatch::answer(self, call).await
            }
            path if matches!(method, Method::GET | Method::HEAD) => Ok(discovery::answer(&self.registry(), &path, &query, &text)),
            Path::Other(other) if other != "/version" => Ok(Reply::no_page()),
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
            Decision::Store(value) => {
                let stored = state.store.put(&served.resource, value, expected, now)?;
                let key = crate::storage::resource::key_of(&stored.value);
                let revision = stored.revision;
                if old.is_none() {
                    state.ids.note_creation(&served.resource, &key);
                }
                (Some(stored), key, revision)
            }
            Decision::Remove(value) => {
                let key = crate::storage::resource::key_of(&value);
                let revision = state.store.remove(&served.resource, &key, expected, now)?;
                (None, key, revision)
            }
        };
        self.keep(revision, &served.resource, &key, old, stored.as_ref());
        if served.kind.kind == "CustomResourceDefinition" {
            self.learn(&mut state, served, old.map(|old| &*old.value), stored.as_ref(), &key);
        }
        drop(state);
        self.0.activity.send_modify(|count| *count += 1);
        Ok(stored)
    }

    /// Waits until all that was written so far would survive the end of the process.
    ///
    /// # Errors
    /// If it cannot be written to the file: then it was undone.
    pub async fn persisted(&self) -> Result<(), Failure> {
        let Some(journal) = &self.0.journal else { return Ok(()) };
        let revision = self.with(|state| state.store.revision());
        journal.written(revision).await.map_err(|error| match error {
            WriteError::Full(_) => Failure::new(507, "InsufficientStorage", error.to_string()),
            WriteError::Other(_) => Failure::new(500, "InternalError", error.to_string()),
        })
    }

    fn keep(&self, revision: u64, resource: &Resource, key: &Key, old: Option<&Arc<Stored>>, new: Option<&Arc<Stored>>) {
        if let Some(journal) = &self.0.journal {
            journal.write(Record { revision, resource: resource.clone(), key: key.clone(), old: old.cloned(), new: new.cloned() });
        }
    }

    /// Judges the names of a definition, and serves what it defines, if that is different from before.
    fn learn(&self, state: &mut State, served: &Served, old: Option<&Value>, new: Option<&Arc<Stored>>, key: &Key) {
        let Some(new) = new else {
            Arc::make_mut(&mut state.registry).forget(&key.1);
            self.0.kinds.send_modify(|count| *count += 1);
            // Its names are free for others that have wanted them.
            for (key, other) in state.store.list(&served.resource, None) {
                if !definition::has_its_names(&other.value) {
                    self.judge(state, served, Some(&other.value), &other, &key);
                }
            }
            return;
        };
        self.judge(state, served, old, new, key);
    }

    fn judge(&self, state: &mut State, served: &Served, old: Option<&Value>, new: &Arc<Stored>, key: &Key) {
        let now = self.now();
        let others = state.store.list(&served.resource, None);
        let mut judged = conditions(&new.value, others.iter().map(|(_, other)| &*other.value), &rules::time(now));
        let options = Options::default();
        let author = Writer { served, subresource: "status", options: &options, manager: OWN_NAME, now, is_patch: false };
        author.record(Some(&new.value), &mut judged);
        let mut new = Arc::clone(new);
        if judged != *new.value
            && let Ok(stored) = state.store.put(&served.resource, judged, Expected::Revision(new.revision), now)
        {
            self.keep(stored.revision, &served.resource, key, Some(&new), Some(&stored));
            new = stored;
        }
        let is_leaving = |value: &Value| value["metadata"]["deletionTimestamp"].is_string();
        let is_known = old.is_some_and(|old| {
            old["spec"] == new.value["spec"]
                && is_leaving(old) == is_leaving(&new.value)
                && definition::is_established(old) == definition::is_established(&new.value)
        });
        if !is_known && definition::is_established(&new.value) {
            Arc::make_mut(&mut state.registry).define(&new.value, new.revision, now);
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let spec = &new.value["spec"];
            state.store.leave_chore(Chore::Kind { group: text(&spec["group"]), kind: text(&spec["names"]["kind"]) });
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

    /// Begins anew with these objects, as they are: open watches end, and there is no history.
    pub fn begin_with(&self, objects: Vec<Value>, revision: u64) {
        let now = self.now();
        self.with(|state| {
            let mut store = state.store.emptied();
            let mut registry = Registry::new();
            restore(&mut store, &mut registry, objects, revision, now);
            state.store = store;
            state.registry = Arc::new(registry);
        });
        controllers::begin(self);
        self.0.kinds.send_modify(|count| *count += 1);
        self.0.activity.send_modify(|count| *count += 1);
    }
}

/// How the writes to the journal end for the store.
struct Journaled(Weak<Inner>);

impl journal::Writer for Journaled {
    fn committed(&self, revision: u64) {
        if let Some(inner) = self.0.upgrade() {
            inner.state.lock().store.make_durable(revision);
        }
    }

    fn failed(&self, mut records: Vec<Record>, rest: &mut dyn FnMut() -> Vec<Record>) -> u64 {
        let Some(inner) = self.0.upgrade() else { return u64::MAX };
        let now = inner.clock.now();
        let mut state = inner.state.lock();
        // Writes go into the journal under this lock, so that there are no others.
        records.extend(rest());
        let mut has_definitions = false;
        for record in records.iter().rev() {
            state.store.undo(&record.resource, &record.key, record.revision, record.old.as_ref());
            has_definitions |= record.resource.plural == "customresourcedefinitions";
        }
        let settled = state.store.skip_revision();
        if has_definitions {
            let mut registry = Registry::new();
            let definitions = Resource { group: "apiextensions.k8s.io".to_owned(), plural: "customresourcedefinitions".to_owned() };
            for (_, definition) in state.store.list(&definitions, None) {
                if definition::is_established(&definition.value) {
                    registry.define(&definition.value, definition.revision, now);
                }
            }
            state.registry = Arc::new(registry);
        }
        drop(state);
        if has_definitions {
            inner.kinds.send_modify(|count| *count += 1);
        }
        inner.activity.send_modify(|count| *count += 1);
        settled
    }
}

fn restore(store: &mut Store, registry: &mut Registry, objects: Vec<Value>, revision: u64, now: Timestamp) {
    let is_definition = |value: &Value| value["kind"] == "CustomResourceDefinition";
    for definition in objects.iter().filter(|value| is_definition(value)) {
        registry.define(definition, revision, now);
    }
    let placed = objects.into_iter().filter_map(|value| {
        let served = registry.by_object(&value);
        let resource = served.map(|served| served.resource.clone())?;
        Some((resource, crate::storage::resource::key_of(&value), value))
    });
    let placed: Vec<_> = placed.collect();
    store.restore(revision, placed);
}
