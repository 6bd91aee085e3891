//! One call of a script: its inputs and its result.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::subject::Subject;
use crate::handling::{
    Candidate, Handler, Lifecycle, Message, Outcome, Policy, Predicate, Reason, Record, Records, Verdict,
};
use crate::kit::Stop;
use crate::object::Patch;
use crate::script::limits::Limit;
use crate::script::values::index::IndexEntries;

/// A call of one binding.
#[derive(Clone)]
pub struct Call {
    /// The number of the binding.
    pub target: usize,
    /// The subject, which decides the arguments.
    pub subject: Subject,
    /// The changes made so far in this cycle; the call adds to them, if its subject has a patch.
    pub patch: Patch,
    /// The attempts made before this one.
    pub retry: u64,
    /// When the handler was selected first.
    pub started: Timestamp,
    /// The handler's `param`.
    pub param: Value,
    /// The context of sub-handlers; `None` outside of change handlers, where they are errors.
    pub subhandling: Option<Subhandling>,
    /// Ends the call early. It cannot be caught by the script.
    pub stop: Stop,
    /// The span that log lines of the call belong to.
    pub span: tracing::Span,
}

/// The context of a call's sub-handlers.
#[derive(Clone)]
pub struct Subhandling {
    /// The handler whose sub-handlers they are.
    pub parent: Arc<Handler>,
    /// The records on the object.
    pub records: Arc<dyn Records>,
    /// The reason of the cycle, stored in their records.
    pub purpose: Reason,
    /// Which of the ready sub-handlers run in one pass.
    pub lifecycle: Lifecycle,
    /// The default pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The default error policy of sub-handlers.
    pub defaults: Policy,
}

/// The result of a call.
#[derive(Debug, Clone)]
pub struct Returned {
    /// The outcome of the function.
    pub verdict: Verdict,
    /// The patch with the changes of this call; they are kept even if it failed.
    pub patch: Patch,
    /// The records of sub-handlers to store.
    pub records: BTreeMap<String, Record>,
    /// The ids of all registered sub-handlers on all levels.
    pub subrefs: Vec<String>,
    /// The messages about the sub-handlers, in order; the host has already logged them in the call's span.
    pub messages: Vec<Message>,
    /// The attempts of sub-handlers, in order.
    pub attempts: Vec<Attempted>,
    /// The entries of an index; `None` if the function has returned nothing.
    pub entries: Option<IndexEntries>,
    /// The warnings of a review for the user.
    pub warnings: Vec<String>,
    /// The answer of a hook; `None` for other calls, and for hooks that have failed.
    pub answer: Option<HookAnswer>,
    /// The settings after a startup activity; `None` for other calls.
    pub settings: Option<Value>,
    /// The writes to the handled object by requests of the call itself.
    pub self_writes: Vec<SelfWrite>,
    /// The operations of the interpreter.
    pub operations: u64,
    /// The budget whose overrun has ended the call, if one has.
    pub overrun: Option<Limit>,
    /// Whether the call was cancelled: the cycle has no conclusion.
    pub is_cancelled: bool,
}

/// The answer of a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, by lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

/// One attempt of a sub-handler.
#[derive(Debug, Clone)]
pub struct Attempted {
    /// The id.
    pub id: String,
    /// The attempts made before.
    pub retry: u64,
    /// The outcome.
    pub outcome: Outcome,
}

/// A write to the handled object by a request of a call, and not by its patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfWrite {
    /// The resulting version.
    pub version: String,
    /// The paths of the changed fields, or the name of the function that has written the whole object.
    pub fields: Vec<String>,
}

impl Returned {
    /// Returns the result of a cancelled call.
    pub fn cancelled(text: &str) -> Self {
        let verdict = Verdict::Failed { text: text.to_owned(), representation: text.to_owned(), trace: None };
        Self { is_cancelled: true, ..Self::new(verdict, Patch::default()) }
    }

    /// Returns a result with only a verdict and a patch.
    pub fn new(verdict: Verdict, patch: Patch) -> Self {
        let (records, subrefs, messages, attempts) = (BTreeMap::new(), Vec::new(), Vec::new(), Vec::new());
        let (entries, warnings, answer, settings, self_writes) = (None, Vec::new(), None, None, Vec::new());
        let (operations, overrun, is_cancelled) = (0, None, false);
        Self {
            verdict,
            patch,
            records,
            subrefs,
            messages,
            attempts,
            entries,
            warnings,
            answer,
            settings,
            self_writes,
            operations,
            overrun,
            is_cancelled,
        }
    }
}

/// An expression to be evaluated for one subject.
#[derive(Debug, Clone)]
pub struct Evaluation {
    /// The expression.
    pub predicate: Predicate,
    /// The value that it is evaluated for.
    pub candidate: Candidate,
}
