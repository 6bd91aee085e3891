//! Scenarios: files that say what happens to an operator and what is expected of it, run on the embedded API server in virtual time.
//!
//! The operator is the real one, from its manifest to its last worker; only time, chance, and the way to the server are the scenario's.

mod account;
mod chaos;
mod compare;
mod count;
mod crew;
mod document;
mod expectations;
mod faults;
mod find;
mod invariants;
mod judge;
mod pattern;
mod play;
mod run;
mod stage;
mod steps;
mod story;
mod timeline;
mod update;
mod wire;

pub use crew::{Job, Options, Outcome, run_all};
pub use document::{API_VERSION, KIND};
pub use faults::ACTIONS as FAULTS;
pub use find::{Found, find};
pub use invariants::Ends;
pub use judge::Difference;
pub use play::{Failure, Mode};
pub use run::{Ended, run};
pub use steps::WORDS as STEPS;
pub use story::Scenario;
pub use timeline::Timeline;
pub use update::{Fix, Updated, update};
