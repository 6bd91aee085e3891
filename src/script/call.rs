//! One call of a script: what goes in, and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::subject::Subject;
use crate::handling::{Candidate, Handler, Lifecycle, Message, Outcome, Policy, Predicate, Reason, Record, Records, Verdict};
use crate::kit::Stop;
use crate::object::Patch;

/// A call of one binding.
#[derive(Clone)]
pub struct Call {
    /// The number of the binding.
    pub target: usize,
    /// What it is called for, which decides the arguments.
    pub subject: Subject,
    /// The changes made so far in this cycle; the call adds to them, if its subject has a patch.
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
    /// The pause between attempts after arbitrary errors, where a handler has none of its own.
    pub default_backoff: Duration,
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
    pub messages: Vec<Message>,
    /// The attempts of sub-handlers, in order.
    pub attempts: Vec<Attempted>,
    /// What a review tells the user.
    pub warnings: Vec<String>,
    /// The settings as a startup activity has left them; none for anything else.
    pub settings: Option<Value>,
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

impl Returned {
    /// Returns what a call has come to, with nothing else to report.
    pub fn new(verdict: Verdict, patch: Patch) -> Self {
        let (records, subrefs, messages, attempts) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        Self { verdict, patch, records, subrefs, messages, attempts, warnings: Vec::new(), settings: None, is_cancelled: false }
    }
}

/// An expression to be evaluated for one subject.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// Which expression.
    pub predicate: Predicate,
    /// About what.
    pub candidate: Candidate,
}
