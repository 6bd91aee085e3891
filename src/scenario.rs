//! Scenarios: tests of operators, written as YAML files of steps and expectations, and run on the embedded API server
//! in virtual time.
//!
//! The operator is the real one, from its manifest to its last worker; only time, randomness and the transport to the
//! server belong to the scenario.

mod answer;
mod chaos;
mod compare;
mod conversion;
mod count;
mod credentials;
mod document;
mod environment;
mod execute;
mod expectations;
mod expressions;
mod faults;
mod find;
mod hook;
mod invariants;
mod metrics;
mod model;
mod operator_run;
mod pattern;
pub(crate) mod peers;
mod pending;
mod pool;
mod problem;
mod read_context;
mod recorder;
mod request;
mod revised_files;
mod rng;
mod run;
mod steps;
mod stubs;
mod target;
mod timeline;
mod transport;
mod update;
mod verify;
pub(crate) mod webhooks;

pub use document::{API_VERSION, KIND};
pub use execute::{Failure, Mode};
pub use expressions::Question;
pub use faults::ACTIONS as FAULTS;
pub use find::{Found, find};
pub use metrics::Sample;
pub use model::{Call, Calls, Downtime, Expectation, InitialObject, ManualPatch, Scenario, Step, StepAction, Target};
pub use pool::{Job, Options, Outcome, run_all};
pub use problem::Problem;
pub use run::{RunResult, run};
pub use steps::WORDS as STEPS;
pub use stubs::{HttpStub, ProgramStub, Stubs};
pub use timeline::{Event, Subject, Timeline};
pub use update::{Updated, update};
pub use verify::{Difference, Exited, Observations, ObservedObject, ProbeAnswer, verify};
