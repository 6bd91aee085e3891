//! The server for clients: requests in process and from sockets, fault injection, control, controllers.

mod answer;
mod bodies;
mod control;
mod respond;
pub mod restart;
pub mod socket;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::MutexGuard;
use serde_json::Value;

use crate::api::latency::Latency;
use crate::api::{Api, Settings};
use crate::controllers::{self, run_loop};
use crate::faults::requests::RecordedRequest;
use crate::faults::{Faults, Firing, Rule};
use crate::http::api_error::ApiError;
use crate::kinds::registry::Registry;
use crate::storage::journal::Journal;
use crate::storage::resource::{Key, Resource};
use crate::storage::store::{Change, Compacted, Stored};
use crate::verbs::conversion;
use kopfd_base::kit::{Clock, Stop};

/// An API server. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    api: Api,
}

impl ApiServer {
    /// Returns a server with the default namespaces.
    pub fn new(settings: Settings, clock: Clock) -> Self {
        Self::with_journal(settings, clock, None)
    }

    /// Returns a server with the objects of a journal, which records all writes.
    pub fn with_journal(settings: Settings, clock: Clock, journal: Option<(Journal, Vec<Value>, u64)>) -> Self {
        let api = Api::new(settings, clock, journal);
        api.follow_journal();
        controllers::create_namespaces(&api);
        run_loop::settle(&api);
        Self { api }
    }

    /// Returns the current time of the server.
    pub fn now(&self) -> Timestamp {
        self.api.now()
    }

    /// Sets the offset of the server's time to its clock. Delays and timeouts are not affected.
    pub fn shift_time(&self, offset: SignedDuration) {
        self.api.shift_time(offset);
    }

    /// Returns the served kinds.
    pub fn registry(&self) -> Arc<Registry> {
        self.api.registry()
    }

    /// Returns an object in another version of its kind, as it is read after it was written. Nothing is stored.
    ///
    /// # Errors
    /// If its kind does not have one of the versions, or a conversion webhook fails.
    pub async fn convert(&self, object: Value, api_version: &str) -> Result<Value, ApiError> {
        let registry = self.registry();
        let kind = object["kind"].as_str().unwrap_or_default();
        let served = |version: &str| {
            let found = registry.by_kind(version, kind).filter(|served| served.kind.is_custom());
            found.ok_or_else(|| {
                ApiError::new(404, "NotFound", format!("no definition has the kind {kind} in {version}"))
            })
        };
        let (from, to) = (served(object["apiVersion"].as_str().unwrap_or_default())?, served(api_version)?);
        conversion::between_versions(&self.api, from, to, object).await
    }

    /// Reads a stored object.
    pub fn read(&self, resource: &Resource, key: &Key) -> Option<Arc<Stored>> {
        self.api.read(resource, key)
    }

    /// Returns the objects of a namespace, or of all, in the order of their keys.
    pub fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<(Key, Arc<Stored>)> {
        self.api.with(|state| state.store.list(resource, namespace))
    }

    /// Returns the resources that have objects.
    pub fn resources(&self) -> Vec<Resource> {
        self.api.with(|state| state.store.resources().cloned().collect())
    }

    /// Returns the object with a unique id.
    pub fn by_uid(&self, uid: &str) -> Option<(Resource, Key, Arc<Stored>)> {
        self.api.with(|state| state.store.by_uid(uid))
    }

    /// Returns the revision of the last write.
    pub fn revision(&self) -> u64 {
        self.api.with(|state| state.store.revision())
    }

    /// Returns the changes of a resource after a revision, in order.
    ///
    /// # Errors
    /// If the history does not reach back that far.
    pub fn changes_after(&self, resource: &Resource, revision: u64) -> Result<Vec<Arc<Change>>, Compacted> {
        self.api.with(|state| state.store.changes_after(resource, revision, usize::MAX))
    }

    /// Returns the changes of all resources after a revision that are still in the history, in order.
    pub fn all_changes_after(&self, revision: u64) -> Vec<Arc<Change>> {
        self.api.with(|state| state.store.all_changes_after(revision))
    }

    /// Returns the delays of controllers and new definitions.
    pub fn latency(&self) -> Latency {
        self.api.latency()
    }

    /// Runs all queued controller work now, ignoring delays. If there are webhooks, it is left to
    /// [`Self::run_controllers`].
    pub fn settle(&self) {
        run_loop::settle(&self.api);
    }

    /// Tells whether the controllers are idle.
    pub fn is_settled(&self) -> bool {
        self.api.is_settled()
    }

    /// Runs the controllers until the stop: garbage collection, namespaces, definitions, expiry of events. Without
    /// them, only [`Self::settle`] does that work.
    pub async fn run_controllers(&self, stop: Stop) {
        run_loop::run(&self.api, stop).await;
    }

    /// Returns the locked fault rules and firings. The guard must not be held across an `await`.
    pub fn faults(&self) -> MutexGuard<'_, Faults> {
        self.api.injection().faults()
    }

    /// Tells whether no recorded request is in progress.
    pub fn is_idle(&self) -> bool {
        self.api.injection().requests().is_idle()
    }

    /// Adds a rule and returns its id.
    pub fn add_fault(&self, rule: Rule) -> u64 {
        self.api.injection().faults().add(rule, self.api.now())
    }

    /// Replaces all rules and returns the ids of the new ones.
    pub fn replace_faults(&self, rules: Vec<Rule>) -> Vec<u64> {
        let now = self.api.now();
        let mut faults = self.api.injection().faults();
        faults.clear();
        rules.into_iter().map(|rule| faults.add(rule, now)).collect()
    }

    /// Removes a rule. Returns whether it existed.
    pub fn remove_fault(&self, id: u64) -> bool {
        self.api.injection().faults().remove(id)
    }

    /// Returns the firings, in order.
    pub fn firings(&self) -> Vec<Firing> {
        self.api.injection().faults().firings().cloned().collect()
    }

    /// Returns the recorded requests, in the order of arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.api.injection().requests().all()
    }
}
