//! The parts of the operator's revision that its tasks need: each attempt reads them once.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::options::BackgroundOptions;
use crate::handling::trial::TrialScope;
use crate::object::Resource;

/// The newest revision, and one on trial.
pub(super) struct TaskRevisions<W>(RwLock<InService<W>>);

struct InService<W> {
    newest: TaskRevision<W>,
    trial: Option<(TaskRevision<W>, TrialScope)>,
}

/// One revision.
pub(super) struct TaskRevision<W> {
    /// Its number.
    pub number: u32,
    /// The effects.
    pub effects: Weak<W>,
    /// The options of timers and daemons.
    pub options: Arc<BackgroundOptions>,
}

impl<W> TaskRevisions<W> {
    /// Begins with a revision.
    pub(super) fn new(effects: Weak<W>, options: BackgroundOptions) -> Self {
        let newest = TaskRevision { number: 0, effects, options: Arc::new(options) };
        Self(RwLock::new(InService { newest, trial: None }))
    }

    /// Replaces the revision. A trial ends.
    pub(super) fn replace(&self, revision: TaskRevision<W>) {
        *self.0.write() = InService { newest: revision, trial: None };
    }

    /// Lets a revision serve the tasks of some objects.
    pub(super) fn try_out(&self, revision: TaskRevision<W>, scope: TrialScope) {
        self.0.write().trial = Some((revision, scope));
    }

    /// Ends the trial.
    pub(super) fn withdraw(&self) {
        self.0.write().trial = None;
    }

    /// Returns the effects and the options of the newest revision; `None` if the operator is gone.
    pub(super) fn newest(&self) -> Option<(Arc<W>, Arc<BackgroundOptions>)> {
        self.0.read().newest.upgrade()
    }

    /// Returns the effects and the options for an object, by the key of its memo; `None` if the operator is gone.
    pub(super) fn of(&self, memo: &str, resource: &Resource) -> Option<(Arc<W>, Arc<BackgroundOptions>)> {
        self.0.read().of(memo, resource).upgrade()
    }

    /// Returns the number of the revision of an object, by the key of its memo.
    pub(super) fn number(&self, memo: &str, resource: &Resource) -> u32 {
        self.0.read().of(memo, resource).number
    }
}

impl<W> InService<W> {
    fn of(&self, memo: &str, resource: &Resource) -> &TaskRevision<W> {
        match &self.trial {
            Some((revision, scope)) if scope.includes(uid_of(memo), resource) => revision,
            _ => &self.newest,
        }
    }
}

impl<W> TaskRevision<W> {
    fn upgrade(&self) -> Option<(Arc<W>, Arc<BackgroundOptions>)> {
        Some((self.effects.upgrade()?, Arc::clone(&self.options)))
    }
}

/// Returns the unique id of an object from the key of its memo, which begins with the name of the operator.
fn uid_of(memo: &str) -> &str {
    memo.split_once('/').map_or(memo, |(_, uid)| uid)
}
