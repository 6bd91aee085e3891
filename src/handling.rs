//! The pure core: what an event of an object means, which handlers it concerns, what is run, and what follows.
//!
//! Nothing here waits, logs, reads a clock, or fails for reasons outside of its arguments.
//! How a record or an essence is written on an object belongs to `persistence`.
//!
//! One event takes this way: [`cause::detect`] names the reason; [`plan::plan`] selects the handlers and picks those to run;
//! [`attempt`] turns each call into an outcome; [`conclude::conclude`] says what is stored, purged, and waited for.

pub mod attempt;
pub mod cause;
pub mod conclude;
pub mod contradiction;
pub mod echo;
pub mod filter;
pub mod finalizer;
pub mod handler;
pub mod lifecycle;
pub mod lists;
pub mod matcher;
pub mod message;
pub mod outcome;
pub mod plan;
pub mod progress;
pub mod select;
pub mod sequence;
pub mod spawning;
pub mod subhandling;

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
