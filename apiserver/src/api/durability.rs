//! Connects the journal of a server with its store: commits successful writes, and undoes failed ones.

use std::cell::RefCell;
use std::sync::{Arc, Weak};

use super::{Api, Inner};
use crate::http::api_error::ApiError;
use crate::kinds::definition;
use crate::kinds::registry::Registry;
use crate::storage::journal::{self, Record, WriteError};
use crate::storage::resource::{Key, Resource};
use crate::storage::store::Stored;

tokio::task_local! {
    /// The revisions that the request of this task has written.
    static WRITTEN: RefCell<Vec<u64>>;
}

/// Runs a request, and returns the revisions that it has written, too.
pub(crate) async fn noting_writes<T>(request: impl Future<Output = T>) -> (T, Vec<u64>) {
    let noting = async {
        let answer = request.await;
        (answer, WRITTEN.with(RefCell::take))
    };
    WRITTEN.scope(RefCell::default(), noting).await
}

impl Api {
    /// Reports the results of journal writes to the store: readers see only durable writes, and failed ones are undone.
    pub(crate) fn follow_journal(&self) {
        if let Some(journal) = &self.0.journal {
            journal.tell(Box::new(Journaled(Arc::downgrade(&self.0))));
        }
    }

    /// Waits until the writes of a request are durable; for a request that has written nothing, until all writes so far
    /// are.
    ///
    /// The last revision of the store would not do for a request that has written: if its write has failed already, the
    /// store has gone on.
    ///
    /// # Errors
    /// If they cannot be written to the file: then they were undone.
    pub(crate) async fn persisted(&self, written: Vec<u64>) -> Result<(), ApiError> {
        let Some(journal) = &self.0.journal else { return Ok(()) };
        let revisions = if written.is_empty() { vec![self.with(|state| state.store.revision())] } else { written };
        for revision in revisions {
            journal.written(revision).await.map_err(|error| match error {
                WriteError::Full(_) => ApiError::new(507, "InsufficientStorage", error.to_string()),
                WriteError::Other(_) => ApiError::new(500, "InternalError", error.to_string()),
            })?;
        }
        Ok(())
    }

    pub(super) fn keep(
        &self,
        revision: u64,
        resource: &Resource,
        key: &Key,
        old: Option<&Arc<Stored>>,
        new: Option<&Arc<Stored>>,
    ) {
        // Controllers write, too, and wait for nothing.
        let _ = WRITTEN.try_with(|written| written.borrow_mut().push(revision));
        if let Some(journal) = &self.0.journal {
            journal.write(Record {
                revision,
                resource: resource.clone(),
                key: key.clone(),
                old: old.cloned(),
                new: new.cloned(),
            });
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
            let definitions =
                Resource { group: "apiextensions.k8s.io".to_owned(), plural: "customresourcedefinitions".to_owned() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_knows_its_own_writes_only() {
        let write = |revision: u64| {
            let _ = WRITTEN.try_with(|written| written.borrow_mut().push(revision));
        };
        let request = async |first: u64, second: u64| {
            write(first);
            tokio::task::yield_now().await;
            write(second);
            "done"
        };
        write(1);
        let (one, other) = tokio::join!(noting_writes(request(2, 4)), noting_writes(request(3, 5)));
        assert_eq!((one, other), (("done", vec![2, 4]), ("done", vec![3, 5])));
    }
}
