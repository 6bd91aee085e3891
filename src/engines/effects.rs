//! The dependencies of a cycle as small capabilities, and the stream of its events.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};

use crate::cluster::{Applied, Confirmation};
use crate::handling::spawning::BackgroundDemand;
use crate::handling::{Change, Handler, IndexingHandlers, Predicate, SpawningHandlers, Verdict};
use crate::kit::tasks::panic_text;
use crate::kit::{Clock, Stop};
use crate::object::{Body, EventKind, Patch, Resource};
use crate::script::{Call, Evaluation, Object, OperatorMemo, Returned, Subject};

use super::Error;
use super::events::EventStream;
use super::readiness::Readiness;

/// Runs scripts.
pub trait Scripts: Send + Sync {
    /// Calls a handler.
    fn call<'a>(&'a self, handler: &'a Handler, call: Call) -> BoxFuture<'a, Returned>;

    /// Evaluates an expression of a filter. The error is a text.
    fn evaluate<'a>(&'a self, subject: &'a Subject, evaluation: Evaluation) -> BoxFuture<'a, Result<bool, String>>;

    /// Evaluates an expression of a delay. The error is a text.
    fn evaluate_delay<'a>(
        &'a self,
        _subject: &'a Subject,
        _delay: Predicate,
    ) -> BoxFuture<'a, Result<Duration, String>> {
        std::future::ready(Err("there are no expressions".to_owned())).boxed()
    }

    /// Returns the present state of the operator's memo.
    fn operator_memo(&self) -> Arc<OperatorMemo> {
        Arc::default()
    }

    /// Drops the memo of a deleted object, by its key.
    fn forget(&self, _memo: &Arc<str>) {}
}

/// Calls a handler. A defect of the engine counts as an arbitrary error of the handler.
pub(super) fn call_safely<'a>(
    scripts: &'a (impl Scripts + ?Sized),
    handler: &'a Handler,
    call: Call,
) -> impl Future<Output = Returned> + Send + 'a {
    let defect = |panic: Box<dyn Any + Send>| Returned::new(Verdict::defect(&panic_text(&*panic)), Patch::default());
    AssertUnwindSafe(scripts.call(handler, call)).catch_unwind().map(move |called| called.unwrap_or_else(defect))
}

/// Sends patches.
pub trait Patcher: Send + Sync {
    /// Sends a patch, and waits before each further request of it for the event of the earlier one.
    fn apply<'a>(
        &'a self,
        resource: &'a Resource,
        body: &'a Body,
        patch: &'a Patch,
        confirmation: &'a dyn Confirmation,
    ) -> BoxFuture<'a, Result<Applied, Error>>;
}

/// Runs daemons and timers. By default there are none.
pub trait Background: Send + Sync {
    /// Starts and stops the daemons and timers of the object, and returns the waits of the cycle.
    fn update_background<'a>(&'a self, _event: ObjectEvent<'a>) -> BoxFuture<'a, Result<BackgroundDemand, Error>> {
        std::future::ready(Ok(BackgroundDemand::default())).boxed()
    }

    /// Tells whether daemons and timers follow an object, by the key of its memo: it was seen, and is not forgotten.
    fn follows(&self, _memo: &str) -> bool {
        false
    }

    /// Tells whether an object has daemons or timers, by the key of its memo.
    fn has_background(&self, _memo: &str) -> bool {
        false
    }

    /// Stops all daemons and timers because of a pause, without waiting for their end.
    fn pause_background(&self) {}

    /// Allows daemons and timers again after a pause.
    fn resume_background(&self) {}

    /// Stops all daemons and timers, since the operator exits, and waits for their end up to their limits.
    fn end_background(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    /// Drops all daemons and timers without waiting.
    fn abandon_background(&self) {}
}

/// An event of an object whose kind has daemons or timers.
#[derive(Debug, Clone, Copy)]
pub struct ObjectEvent<'a> {
    /// The object.
    pub object: &'a Object,
    /// The kind of the event.
    pub event_kind: EventKind,
    /// The change since the last handled state.
    pub change: &'a Change,
    /// The daemons and timers of the kind.
    pub handlers: &'a SpawningHandlers,
}

/// Keeps indexes. By default there are none.
pub trait Indexing: Send + Sync {
    /// Changes the entries of an object. Called at each event of kinds with index handlers, before anything else.
    fn index<'a>(&'a self, _event: IndexEvent<'a>) -> BoxFuture<'a, Result<(), Error>> {
        std::future::ready(Ok(())).boxed()
    }

    /// Tells whether the events of all kinds are indexed, since the indexes of another revision are being filled.
    fn is_filling(&self) -> bool {
        false
    }

    /// Removes an object that is deleted, no longer watched, or unreadable.
    fn unindex(&self, _uid: &str) {}

    /// Returns the readiness of the indexes, which all other handling waits for; `None` if there is nothing to wait
    /// for.
    fn readiness(&self) -> Option<&Arc<Readiness>> {
        None
    }
}

/// An event of an object to be indexed.
#[derive(Clone, Copy)]
pub struct IndexEvent<'a> {
    /// The object.
    pub object: &'a Object,
    /// The kind of the event.
    pub event_kind: EventKind,
    /// The index handlers of the kind.
    pub handlers: &'a IndexingHandlers,
    /// The pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// Ends running calls.
    pub stop: &'a Stop,
    /// The span of log lines.
    pub span: &'a tracing::Span,
}

/// Inputs of decisions besides the object.
pub trait Environment: Send + Sync {
    /// The clock.
    fn clock(&self) -> &Clock;

    /// Returns a random number below the bound; 0 by default.
    fn random_below(&self, _bound: usize) -> usize {
        0
    }
}

/// All dependencies of the cycles of one operator.
pub trait Effects: Scripts + Patcher + Background + Indexing + Environment {
    /// Returns the stream of events.
    fn events(&self) -> &EventStream;
}
