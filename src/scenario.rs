//! Scenarios: files that say what happens to an operator and what is expected of it, run on the embedded API server in virtual time.
//!
//! The operator is the real one, from its manifest to its last worker; only time, chance, and the way to the server are the scenario's.

mod account;
mod chaos;
mod compare;
mod count;
mod crew;
mod document;
mod dues;
mod expectations;
mod expressions;
mod faults;
mod find;
mod invariants;
mod judge;
mod life;
mod pattern;
mod play;
mod problem;
mod run;
mod stage;
mod steps;
mod story;
mod timeline;
mod update;
mod wire;

pub use crew::{Job, Options, Outcome, run_all};
pub use document::{API_VERSION, KIND};
pub use expressions::Question;
pub use faults::ACTIONS as FAULTS;
pub use find::{Found, find};
pub use invariants::Ends;
pub use judge::{Difference, Seen, Witness, judge};
pub use play::{Failure, Mode};
pub use problem::Problem;
pub use run::{Ended, run};
pub use steps::WORDS as STEPS;
pub use story::{Absence, Act, Call, Calls, Change, Expectation, Given, Scenario, Step, Target};
pub use timeline::{Event, Subject, Timeline};
pub use update::{Fix, Updated, update};
