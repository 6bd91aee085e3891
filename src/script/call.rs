//! One call of a script: what goes in, and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::handling::{Candidate, Change, Handler, Lifecycle, Outcome, Policy, Predicate, Reason, Record, Records, Telling, Verdict};
use crate::kit::Stop;
use crate::object::{Body, Patch, Resource, Sighting};

/// A call of one binding for one object.
#[derive(Clone)]
pub struct Call {
    /// The number of the binding.
    pub target: usize,
    /// What the function may see.
    pub arguments: Arguments,
    /// The changes made so far in this cycle; the call adds to them.
    pub patch: Patch,
    /// The attempts made before this one.
    pub retry: u64,
    /// When the handler was selected first.
    pub started: Timestamp,
    /// What is passed as is: the handler's own `param`.
    pub param: Value,
    /// What sub-handlers need; none outside of handlers of changes, where they are errors.
    pub subhandling: Option<Subhandling>,
    /// Ends the call early. It cannot be caught by the script.
    pub stop: Stop,
    /// The span that log lines of the call belong to.
    pub span: tracing::Span,
}

/// What the functions and expressions of one cause may see.
#[derive(Debug, Clone)]
pub struct Arguments {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The object.
    pub body: Body,
    /// How the object came to our notice: for handlers of raw events.
    pub sighting: Sighting,
    /// Why the object is handled: for handlers of changes.
    pub reason: Option<Reason>,
    /// What has changed, reduced to the handler's field: for handlers of changes.
    pub change: Arc<Change>,
    /// The name of the object's memory, which all calls of the object share.
    pub memo: Arc<str>,
}

/// What the sub-handlers of a call need.
#[derive(Clone)]
pub struct Subhandling {
    /// The handler whose sub-handlers they are.
    pub parent: Arc<Handler>,
    /// What is stored on the object.
    pub records: Arc<dyn Records>,
    /// The reason of the cycle, which their records are for.
    pub purpose: Reason,
    /// How many are run at once.
    pub lifecycle: Lifecycle,
    /// The seconds between attempts after arbitrary errors, where a handler has none of its own.
    pub default_backoff: f64,
    /// How errors of sub-handlers are taken where their options do not say.
    pub defaults: Policy,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct Returned {
    /// How the function ended.
    pub verdict: Verdict,
    /// The changes, with those of this call; they are kept even if it failed.
    pub patch: Patch,
    /// The records of sub-handlers to store.
    pub records: BTreeMap<String, Record>,
    /// The ids of all sub-handlers of all levels that were seen.
    pub subrefs: Vec<String>,
    /// What was told of the sub-handlers, in order; already logged by the host within the call's span.
    pub tellings: Vec<Telling>,
    /// The attempts of sub-handlers, in order.
    pub attempts: Vec<Attempted>,
    /// Whether the call was ended from outside: the cycle is to be given up, not concluded.
    pub is_cancelled: bool,
}

/// One attempt of a sub-handler.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// The id.
    pub id: String,
    /// The attempts made before.
    pub retry: u64,
    /// What it has come to.
    pub outcome: Outcome,
}

/// An expression to be evaluated for one object.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Which expression.
    pub predicate: Predicate,
    /// About what.
    pub candidate: Candidate,
}
