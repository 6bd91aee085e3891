//! The state behind all requests: the store, the kinds, the settings, and the clock.
//!
//! It is below the verbs and the controllers. [`crate::server`] receives requests and chooses the verb.

mod definitions;
pub(crate) mod durability;
pub(crate) mod latency;
mod restore;
mod settings;
pub(crate) mod work_queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::admission::Caller;
use crate::auth::access::{Authentication, User};
use crate::faults::injection::Injection;
use crate::kinds::registry::{Registry, ServedKind};
use crate::rules::Decision;
use crate::storage::ids::Ids;
use crate::storage::journal::Journal;
use crate::storage::resource::{Key, Resource, key_of};
use crate::storage::store::{Conflict, Expected, Store, Stored};
use crate::storage::work_item::WorkItem;
use kopfd_base::kit::Clock;
use latency::Latency;
use restore::restore;
pub use settings::Settings;

/// The state of an API server, with its settings and its clock. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    clock: Clock,
    settings: Settings,
    /// Changes with every write, for the controllers.
    activity: watch::Sender<u64>,
    /// Changes whenever the kinds change, for open watches.
    kinds: watch::Sender<u64>,
    journal: Option<Journal>,
    /// Delayed work of the controllers.
    later: Mutex<Vec<(Instant, WorkItem)>>,
    /// The expiring events, with their times and revisions, in the order of the times.
    expiring: Mutex<BTreeSet<(Timestamp, Key, u64)>>,
    /// Number of work items in progress.
    busy: AtomicUsize,
    injection: Injection,
    /// Offset of the server's time to the clock, in milliseconds.
    offset: AtomicI64,
    /// The generator of audit ids: a separate one, so object ids stay reproducible.
    audit: Mutex<Ids>,
}

/// The state of the server. It is locked only briefly.
pub(crate) struct State {
    /// The objects.
    pub store: Store,
    /// The kinds.
    pub registry: Arc<Registry>,
    /// The generator of ids.
    pub ids: Ids,
    /// The tokens that were issued to service accounts.
    pub issued: BTreeMap<String, User>,
}

impl Api {
    /// Returns the state of a server: empty, or with the objects of a journal, which records all further writes.
    pub(crate) fn new(settings: Settings, clock: Clock, journal: Option<(Journal, Vec<Value>, u64)>) -> Self {
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
            activity: watch::Sender::new(0),
            kinds: watch::Sender::new(0),
            journal,
            later: Mutex::new(Vec::new()),
            expiring: Mutex::default(),
            busy: AtomicUsize::new(0),
            injection: Injection::new(settings.seed.unwrap_or_default(), settings.requests),
            offset: AtomicI64::new(0),
            audit: Mutex::new(audit),
            settings,
        };
        Self(Arc::new(inner))
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Timestamp {
        let now = self.0.clock.now();
        let offset = self.0.offset.load(Ordering::Relaxed);
        // A time out of range is ignored.
        if offset == 0 { now } else { now.checked_add(SignedDuration::from_millis(offset)).unwrap_or(now) }
    }

    /// Sets the offset of the server's time to the clock. Delays and timeouts are not affected.
    pub(crate) fn shift_time(&self, offset: SignedDuration) {
        self.0.offset.store(i64::try_from(offset.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        // Events may have expired.
        self.notify_controllers();
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the faults and the record of requests.
    pub(crate) fn injection(&self) -> &Injection {
        &self.0.injection
    }

    /// Returns a channel that changes with every write.
    pub(crate) fn activity(&self) -> watch::Receiver<u64> {
        self.0.activity.subscribe()
    }

    fn notify_controllers(&self) {
        self.0.activity.send_modify(|count| *count += 1);
    }

    /// Returns the delays of controllers and new definitions.
    pub(crate) fn latency(&self) -> Latency {
        self.0.settings.latency
    }

    /// Returns the caller of webhooks.
    pub(crate) fn caller(&self) -> &Caller {
        &self.0.settings.webhooks
    }

    /// Tells whether the objects survive restarts.
    pub(crate) fn is_durable(&self) -> bool {
        self.0.journal.is_some()
    }

    /// Reads or changes the state under its lock.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.state.lock())
    }

    /// Returns the kinds.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.0.state.lock().registry)
    }

    /// Returns a channel that changes whenever the kinds change.
    pub(crate) fn kinds_changed(&self) -> watch::Receiver<u64> {
        self.0.kinds.subscribe()
    }

    /// Reads an object.
    pub(crate) fn read(&self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        self.with(|state| state.store.get(resource, key))
    }

    /// Returns a new audit id.
    pub(crate) fn new_audit_id(&self) -> String {
        self.0.audit.lock().uid()
    }

    /// Returns the user of a token.
    pub(crate) fn user_of(&self, token: &str) -> Option<User> {
        let issued = self.with(|state| state.issued.get(token).cloned());
        let Authentication::Tokens(tokens) = &self.0.settings.authentication else { return issued };
        tokens.get(token).cloned().or(issued)
    }

    /// Commits a decision on an object that was read before. Returns the stored object.
    ///
    /// # Errors
    /// If another client has written the object in the meantime.
    pub(crate) fn commit(
        &self,
        served: &ServedKind,
        old: Option<&Arc<Stored>>,
        decision: Decision,
    ) -> Result<Option<Arc<Stored>>, Conflict> {
        let expected = old.map_or(Expected::Nothing, |old| Expected::Revision(old.revision));
        let now = self.now();
        let mut state = self.0.state.lock();
        let (stored, key, revision) = match decision {
            Decision::Unchanged => return Ok(old.cloned()),
            Decision::Store(value) => {
                let stored = state.store.put(&served.resource, value, expected, now)?;
                let key = key_of(&stored.value);
                let revision = stored.revision;
                if old.is_none() {
                    state.ids.note_creation(&served.resource, &key);
                }
                (Some(stored), key, revision)
            }
            Decision::Remove(value) => {
                let key = key_of(&value);
                let revision = state.store.remove(&served.resource, &key, expected, now)?;
                (None, key, revision)
            }
        };
        self.keep(revision, &served.resource, &key, old, stored.as_ref());
        if served.kind.kind == "CustomResourceDefinition" {
            self.update_registry(&mut state, served, old.map(|old| &*old.value), stored.as_ref(), &key);
        }
        drop(state);
        self.notify_controllers();
        Ok(stored)
    }

    /// Replaces all objects by these, unchanged: open watches end, and there is no history.
    pub(crate) fn replace_objects(&self, objects: Vec<Value>, revision: u64) {
        let now = self.now();
        self.with(|state| {
            let mut store = state.store.emptied();
            let mut registry = Registry::new();
            restore(&mut store, &mut registry, objects, revision, now);
            state.store = store;
            state.registry = Arc::new(registry);
        });
    }

    /// Ends open watches of changed kinds, and wakes the controllers.
    pub(crate) fn notify_replaced(&self) {
        self.0.kinds.send_modify(|count| *count += 1);
        self.notify_controllers();
    }
}
