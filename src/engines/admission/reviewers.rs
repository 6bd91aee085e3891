//! The reviewers of several operators that share a server or a process.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

use super::reviewer::Reviewer;

/// Reviewers by operator. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Reviewers(Arc<RwLock<BTreeMap<Arc<str>, Arc<Reviewer>>>>);

impl fmt::Debug for Reviewers {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.read().keys()).finish()
    }
}

/// A reviewer among others, until it is dropped.
pub struct Listed {
    reviewers: Reviewers,
    operator: Arc<str>,
}

impl Reviewers {
    /// Adds the reviewer of an operator.
    pub fn add(&self, reviewer: Arc<Reviewer>) -> Listed {
        let operator = Arc::clone(reviewer.operator());
        self.0.write().insert(Arc::clone(&operator), reviewer);
        Listed { reviewers: self.clone(), operator }
    }

    /// Returns the reviewer of an operator.
    pub fn of_operator(&self, operator: &str) -> Option<Arc<Reviewer>> {
        self.0.read().get(operator).cloned()
    }

    /// Returns the reviewer of a webhook, by its id. Operators that share a server have different ids.
    pub fn of_webhook(&self, id: &str) -> Option<Arc<Reviewer>> {
        self.0.read().values().find(|reviewer| reviewer.has(id)).cloned()
    }

    /// Returns all reviewers, in the order of their operators' names.
    pub fn all(&self) -> Vec<Arc<Reviewer>> {
        self.0.read().values().cloned().collect()
    }

    /// Tells whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.reviewers.0.write().remove(&self.operator);
    }
}
