//! The pure core: detects the cause of an event, selects the handlers, plans the calls, and concludes from their outcomes.
//!
//! Nothing here waits, logs, reads a clock, or fails for reasons outside of its arguments.
//! The stored form of records and essences belongs to `persistence`.
//!
//! The path of one event: [`cause::detect`] detects the reason; [`plan::plan`] selects the handlers and chooses the ones to call;
//! [`attempt`] turns each call into an outcome; [`conclude::conclude`] decides which records are stored and purged, and when the next
//! attempt is due.

pub mod activity;
pub mod admission;
pub mod attempt;
pub mod breaker;
pub mod cause;
pub mod conclude;
pub mod contradiction;
pub mod conversion;
pub mod definitions;
pub mod echo;
pub mod filter;
pub mod finalizer;
pub mod handler;
pub mod hook;
pub mod index;
pub mod index_key;
pub mod indexing;
pub mod leading;
pub mod lifecycle;
pub mod lists;
pub mod matcher;
pub mod message;
pub mod outcome;
pub mod peering;
pub mod plan;
pub mod progress;
pub mod rights;
pub mod schedule;
pub mod select;
pub mod sequence;
pub mod spawning;
pub mod subhandling;
pub mod timer;
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
