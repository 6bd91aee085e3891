//! The pure core: detects the cause of an event, selects the handlers, plans the calls, and concludes from their
//! outcomes.
//!
//! Nothing here waits, logs, reads a clock, or fails for reasons outside of its arguments.
//! The stored form of records and essences belongs to `persistence`.
//!
//! The path of one event: [`cause::detect`] detects the reason; [`plan::plan`] selects the handlers and chooses the
//! ones to call; [`attempt`] turns each call into an outcome; [`conclude::conclude`] decides which records are stored
//! and purged, and when the next attempt is due.

pub(crate) mod activity;
pub mod admission;
pub mod attempt;
pub(crate) mod breaker;
pub mod cause;
pub(crate) mod conclude;
pub mod contradiction;
pub(crate) mod conversion;
pub(crate) mod definitions;
pub(crate) mod echo;
pub mod filter;
pub mod finalizer;
pub(crate) mod handler;
pub mod hook;
pub mod index;
pub mod index_key;
pub(crate) mod indexing;
pub mod leading;
pub(crate) mod lifecycle;
pub(crate) mod lists;
pub(crate) mod matcher;
pub(crate) mod message;
pub(crate) mod outcome;
pub mod peering;
pub(crate) mod plan;
pub mod progress;
pub mod rights;
pub(crate) mod schedule;
pub mod select;
pub(crate) mod sequence;
pub mod spawning;
pub(crate) mod subhandling;
pub(crate) mod timer;
pub mod trial;

pub use activity::{ActivityRun, FailedHandler};
pub use cause::{Cause, Change, Reason};
pub use conclude::Decision;
pub use filter::{Answers, Candidate, Predicates, Question, Unsettled};
pub use handler::{ErrorMode, Filters, Handler, On, Policy};
pub use lifecycle::Lifecycle;
pub use lists::{ChangingHandlers, Handlers, IndexingHandlers, SpawningHandlers, WatchingHandlers};
pub use matcher::{Matcher, Predicate};
pub use message::{Level, Message};
pub use outcome::{Outcome, Verdict};
pub use plan::Plan;
pub use progress::{Moment, Record, Records};
