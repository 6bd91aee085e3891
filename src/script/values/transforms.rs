//! The transformations of bodies registered by scripts. They run when the patch is sent, and again after a conflict.
//!
//! The closure stays on its script thread; the patch has only a number and a sender.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use futures::future::LocalBoxFuture;
use rhai::Engine;
use serde_json::Value;

use crate::object::{BodyFunction, Reply, Transform};

/// Returns a changed body, or the text of the script's error.
pub(crate) type Apply = Rc<dyn Fn(Rc<Engine>, Value) -> LocalBoxFuture<'static, Result<Value, String>>>;

/// A job of a script thread for its transformations.
pub(crate) enum TransformJob {
    /// Change a body.
    Apply {
        /// The number of the transformation.
        number: u64,
        /// The body.
        body: Value,
        /// The receiver of the answer.
        reply: Reply,
    },
    /// Drop a transformation.
    Forget(u64),
}

/// Sends jobs to the script thread, or drops them if it has ended.
pub(crate) type Jobs = Arc<dyn Fn(TransformJob) + Send + Sync>;

/// The transformations of one thread's scripts, as long as their patches exist.
pub(crate) struct Transforms {
    jobs: Jobs,
    known: RefCell<HashMap<u64, Apply>>,
    next: Cell<u64>,
}

impl Transforms {
    /// Returns an empty table; its transformations send their jobs to `jobs`.
    pub(crate) fn new(jobs: Jobs) -> Self {
        Self { jobs, known: RefCell::default(), next: Cell::new(0) }
    }

    /// Stores a transformation until it is forgotten. Returns the part that belongs to the patch.
    pub(crate) fn keep(&self, apply: Apply) -> Transform {
        let number = self.next.replace(self.next.get() + 1);
        self.known.borrow_mut().insert(number, apply);
        Transform::Function(Arc::new(StoredTransform { number, jobs: Arc::clone(&self.jobs) }))
    }

    /// Returns the number of stored transformations.
    pub(crate) fn len(&self) -> usize {
        self.known.borrow().len()
    }

    /// Drops a transformation whose patch no longer exists.
    pub(crate) fn forget(&self, number: u64) {
        self.known.borrow_mut().remove(&number);
    }

    /// Returns the changed body.
    ///
    /// # Errors
    /// The text of the script's error.
    pub(crate) async fn apply(&self, number: u64, engine: Rc<Engine>, body: Value) -> Result<Value, String> {
        let apply = self.known.borrow().get(&number).cloned();
        let apply = apply.ok_or_else(|| "the transformation was forgotten".to_owned())?;
        apply(engine, body).await
    }
}

/// The part of a transformation that belongs to the patch.
struct StoredTransform {
    number: u64,
    jobs: Jobs,
}

impl BodyFunction for StoredTransform {
    fn start(&self, body: Value, reply: Reply) {
        (self.jobs)(TransformJob::Apply { number: self.number, body, reply });
    }
}

impl Drop for StoredTransform {
    fn drop(&mut self) {
        (self.jobs)(TransformJob::Forget(self.number));
    }
}

impl fmt::Debug for StoredTransform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "transformation {}", self.number)
    }
}
