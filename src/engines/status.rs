//! The state of the running operators: `/status` answers with it, and `kopfd status` shows it. It has no names of
//! objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::health::Health;

/// The `apiVersion` and `kind` of the document.
pub(crate) const API_VERSION: &str = "kopfd.dev/v1";
/// The `kind` of the document.
pub(crate) const KIND: &str = "Status";

/// The state of a process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessStatus {
    /// Always [`API_VERSION`].
    pub api_version: String,
    /// Always [`KIND`].
    pub kind: String,
    /// The version of kopfd.
    pub version: String,
    /// The reasons why the process is not ready, as at `/readyz`.
    pub unready: Vec<String>,
    /// Conditions that are reported although the process is ready, as at `/readyz`.
    pub notes: Vec<String>,
    /// The operators that have started.
    pub operators: Vec<OperatorStatus>,
}

/// The state of an operator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorStatus {
    /// Its name.
    pub name: String,
    /// The revision in service: a digest of its files.
    pub revision: String,
    /// When the revision took effect.
    pub since: String,
    /// The reasons why the operator is paused; empty if it is not.
    pub paused: Vec<String>,
    /// Whether the files could be loaded at the last attempt.
    pub is_last_load_successful: bool,
    /// The kinds that are watched.
    pub kinds: Vec<KindStatus>,
    /// The functions, by id.
    pub handlers: Vec<HandlerStatus>,
    /// The work that waits or runs.
    pub queues: QueueStatus,
    /// The revision that serves a share of the objects, if there is one.
    pub trial: Option<TrialStatus>,
    /// The revision that was rolled back last, as long as the files are the same.
    pub rolled_back: Option<RolledBack>,
    /// The election of the leader among the replicas, if there is one.
    pub leading: Option<LeadingStatus>,
}

/// The state of an election.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LeadingStatus {
    /// The namespace and the name of the Lease.
    pub lease: String,
    /// The identity of this replica.
    pub identity: String,
    /// `leader` or `standby`.
    pub role: String,
    /// The identity of the leader; empty if there is none.
    pub holder: String,
    /// How often the leader has changed.
    pub transitions: i64,
}

/// The state of a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TrialStatus {
    /// The revision.
    pub revision: String,
    /// Its share of the objects.
    pub percent: u8,
    /// When it began.
    pub since: String,
    /// When the revision takes effect for all objects, if it is not worse.
    pub until: String,
    /// The counts of the revision on trial since then.
    pub new: SideStatus,
    /// The counts of the revision in service since then.
    pub old: SideStatus,
}

/// The counts of one revision during a trial.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SideStatus {
    /// Its calls, and cycles that failed outside of them.
    pub calls: u64,
    /// Those that have failed.
    pub errors: u64,
    /// Changes of objects after its calls.
    pub writes: u64,
    /// The changed objects.
    pub written: u64,
}

/// A revision that was rolled back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RolledBack {
    /// The revision.
    pub revision: String,
    /// The time of the rollback.
    pub at: String,
    /// The reason of the rollback.
    pub reason: String,
}

/// The state of a kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KindStatus {
    /// The kind, such as `configmaps.v1`.
    pub resource: String,
    /// The known objects.
    pub objects: usize,
    /// The known objects by the revision that serves them.
    pub revisions: BTreeMap<String, usize>,
    /// The watches by their state.
    pub watches: WatchCounts,
    /// Events that wait for the worker of their object.
    pub queued: usize,
    /// Objects that have a worker.
    pub workers: usize,
}

/// The watches of a kind by their state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WatchCounts {
    /// They have not listed their objects yet.
    pub listing: usize,
    /// They receive events.
    pub watching: usize,
    /// Their last request failed.
    pub failing: usize,
    /// The operator is paused.
    pub paused: usize,
}

/// The state of a function.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HandlerStatus {
    /// The id.
    pub id: String,
    /// The causes that it is called for, as named in the manifest.
    pub on: Vec<String>,
    /// Attempts that have ended, since the start of the process.
    pub calls: u64,
    /// Those after which another attempt was needed.
    pub retried: u64,
    /// Those that have failed for good.
    pub failed: u64,
    /// Calls that are running.
    pub running: usize,
}

/// The work that waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueStatus {
    /// Events that wait for the worker of their object.
    pub pending: usize,
    /// Objects that have a worker.
    pub workers: usize,
    /// Calls that are running.
    pub running: usize,
    /// Objects with a handler that waits for its next attempt.
    pub waiting: usize,
}

/// A running operator that reports its state.
pub trait StatusSource: Send + Sync {
    /// Returns the state.
    fn status(&self) -> OperatorStatus;
}

/// The running operators of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct StatusBoard(Arc<Mutex<BTreeMap<String, Arc<dyn StatusSource>>>>);

/// An operator on the board, until it is dropped.
pub struct Listed {
    board: StatusBoard,
    operator: String,
}

impl StatusBoard {
    /// Adds an operator.
    pub fn list(&self, operator: &str, source: Arc<dyn StatusSource>) -> Listed {
        self.0.lock().insert(operator.to_owned(), source);
        Listed { board: self.clone(), operator: operator.to_owned() }
    }

    /// Returns the state of the process.
    pub fn status(&self, health: &Health) -> ProcessStatus {
        // A source may take locks of its operator.
        let sources: Vec<Arc<dyn StatusSource>> = self.0.lock().values().map(Arc::clone).collect();
        ProcessStatus {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            unready: health.unready().into_iter().collect(),
            notes: health.notes(),
            operators: sources.iter().map(|source| source.status()).collect(),
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.board.0.lock().remove(&self.operator);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str);

    impl StatusSource for Named {
        fn status(&self) -> OperatorStatus {
            OperatorStatus { name: self.0.to_owned(), ..OperatorStatus::default() }
        }
    }

    #[test]
    fn operators_are_listed_by_name_until_they_end() {
        let (board, health) = (StatusBoard::default(), Health::default());
        let names = || board.status(&health).operators.into_iter().map(|operator| operator.name).collect::<Vec<_>>();
        let (other, one) = (board.list("two", Arc::new(Named("two"))), board.list("one", Arc::new(Named("one"))));
        assert_eq!(names(), ["one", "two"]);
        drop(one);
        assert_eq!(names(), ["two"]);
        drop(other);
        assert!(names().is_empty());
    }

    #[test]
    fn a_document_of_another_version_may_have_other_fields() {
        let text = r#"{"apiVersion": "kopfd.dev/v1", "kind": "Status", "later": 1, "operators": [{"name": "a", "kinds": [{"later": {}}]}]}"#;
        let read: ProcessStatus = serde_json::from_str(text).unwrap();
        assert_eq!((read.operators[0].name.as_str(), read.operators[0].kinds.len()), ("a", 1));
        let status = StatusBoard::default().status(&Health::default());
        assert_eq!(serde_json::from_value::<ProcessStatus>(serde_json::to_value(&status).unwrap()).unwrap(), status);
    }
}
