//! What the tasks of an operator follow of its newest revision: each attempt reads it once.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::options::BackgroundOptions;

/// The newest revision.
pub(super) struct TaskRevisions<W> {
    newest: RwLock<(u32, Weak<W>, Arc<BackgroundOptions>)>,
}

impl<W> TaskRevisions<W> {
    /// Begins with a revision.
    pub(super) fn new(world: Weak<W>, options: BackgroundOptions) -> Self {
        Self { newest: RwLock::new((0, world, Arc::new(options))) }
    }

    /// Replaces the revision. Returns its options.
    pub(super) fn replace(&self, number: u32, world: Weak<W>, options: BackgroundOptions) -> Arc<BackgroundOptions> {
        let options = Arc::new(options);
        *self.newest.write() = (number, world, Arc::clone(&options));
        options
    }

    /// Returns the effects and the options; `None` if the operator is gone.
    pub(super) fn newest(&self) -> Option<(Arc<W>, Arc<BackgroundOptions>)> {
        let newest = self.newest.read();
        Some((newest.1.upgrade()?, Arc::clone(&newest.2)))
    }

    /// Returns the number of the revision.
    pub(super) fn number(&self) -> u32 {
        self.newest.read().0
    }
}
