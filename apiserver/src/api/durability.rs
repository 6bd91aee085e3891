//! Connects the journal of a server with its store: commits successful writes, and undoes failed ones.

use std::sync::{Arc, Weak};

use super::{Api, Inner};
use crate::http::api_error::ApiError;
use crate::kinds::definition;
use crate::kinds::registry::Registry;
use crate::storage::journal::{self, Record, WriteError};
use crate::storage::resource::{Key, Resource};
use crate::storage::store::Stored;

impl Api {
    /// Reports the results of journal writes to the store: readers see only durable writes, and failed ones are undone.
    pub(crate) fn follow_journal(&self) {
        if let Some(journal) = &self.0.journal {
            journal.tell(Box::new(Journaled(Arc::downgrade(&self.0))));
        }
    }

    /// Waits until all writes so far are durable.
    ///
    /// # Errors
    /// If they cannot be written to the file: then they were undone.
    pub(crate) async fn persisted(&self) -> Result<(), ApiError> {
        let Some(journal) = &self.0.journal else { return Ok(()) };
        let revision = self.with(|state| state.store.revision());
        journal.written(revision).await.map_err(|error| match error {
            WriteError::Full(_) => ApiError::new(507, "InsufficientStorage", error.to_string()),
            WriteError::Other(_) => ApiError::new(500, "InternalError", error.to_string()),
        })
    }

    pub(super) fn keep(&self, revision: u64, resource: &Resource, key: &Key, old: Option<&Arc<Stored>>, new: Option<&Arc<Stored>>) {
        if let Some(journal) = &self.0.journal {
            journal.write(Record { revision, resource: resource.clone(), key: key.clone(), old: old.cloned(), new: new.cloned() });
        }
    }
}

/// Passes the results of journal writes to the store.
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
        // Writes enter the journal under this lock, so there are no others.
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
