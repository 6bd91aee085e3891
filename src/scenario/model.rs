//! A scenario read from a file: initial objects, steps and expectations.

mod conversions;
mod expectations;
mod requests;
mod steps;
mod target;

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::manifest::Operator;
use crate::manifest::source::Source;
use crate::manifest::tree::SourceSpan;
use crate::object::namespace;

use super::expressions::Expressions;
use super::stubs::Stubs;

pub(super) use conversions::{ConversionStep, ExpectedConversion, RoundTrip};
pub(super) use expectations::{
    BackgroundExpectation, Events, ExpectedExit, ExpectedProbes, IndexExpectation, LogPattern, Logs, ObjectExpectation,
    Requests,
};
pub use expectations::{Call, Calls, Expectation};
pub use requests::ManualPatch;
pub(super) use requests::{
    CheckedRequest, ExpectedAnswer, ExpectedDenial, ExpectedHookAnswer, HookCredentials, HookStep, UserRequest,
};
pub use steps::{Downtime, Step, StepAction};
pub(super) use steps::{Fault, PeerChange, PeerRecord};
pub use target::Target;

/// User name of the operators on the API server.
pub(super) const OPERATOR_USER: &str = "kopfd-operator";

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Unique within its file.
    pub name: String,
    /// The file that contains it.
    pub source: Source,
    /// Line of its document in the file.
    pub line: usize,
    /// The operators under test.
    pub operators: Arc<Vec<Operator>>,
    /// Definitions and objects that exist before the operators start.
    pub given: Vec<InitialObject>,
    /// The stubs for the world outside of the cluster.
    pub stubs: Stubs,
    /// Namespaces that the operators serve; all if empty.
    pub namespaces: Vec<namespace::Pattern>,
    /// Virtual time at which it starts.
    pub start: Timestamp,
    /// The options of runs with `--seeds`.
    pub seeds: Seeds,
    /// Expressions of its matchers; predicates are indices.
    pub expressions: Expressions,
    /// Whether the operators have exactly the derived rights, and not all.
    pub has_derived_rights: bool,
    /// Whether real servers answer the stubs with recordings, which are written anew.
    pub records_http: bool,
    /// In the order of execution.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Tells whether a step expects the operators to exit, so that an exit is no failure of the scenario.
    pub(super) fn expects_exit(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(&step.action, StepAction::Expect(expectation) if expectation.exit.is_some()))
    }

    /// Returns the file as the user named it.
    pub fn file(&self) -> &PathBuf {
        &self.source.name
    }

    /// Returns all steps, with those that are executed while the operators are stopped.
    pub(super) fn all_steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().flat_map(|step| match &step.action {
            StepAction::Restart(downtime) | StepAction::Kill(downtime) => downtime.meanwhile.as_slice(),
            _ => std::slice::from_ref(step),
        })
    }

    /// Returns all objects that the scenario applies, initially or in a step, including the items of lists.
    pub fn applied_objects(&self) -> Vec<&Value> {
        let mut all: Vec<&Value> = self.given.iter().map(|given| &given.object).collect();
        all.extend(self.all_steps().flat_map(|step| match &step.action {
            StepAction::Apply(objects) => objects.as_slice(),
            StepAction::Request(checked) => match &checked.request {
                UserRequest::Apply(object) => std::slice::from_ref(object),
                _ => &[],
            },
            _ => &[],
        }));
        let listed: Vec<&Value> = all.iter().filter_map(|object| object["items"].as_array()).flatten().collect();
        all.into_iter().chain(listed).collect()
    }
}

/// An object that exists before the operators start.
#[derive(Debug, Clone)]
pub struct InitialObject {
    /// The whole object.
    pub object: Value,
    /// Position of the item of `given`.
    pub spot: SourceSpan,
    /// The file that contains it, unless it is written inline.
    pub file: Option<PathBuf>,
}

/// The options of a scenario's runs with disturbances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeds {
    /// The reason why the scenario is skipped, if it is.
    pub skip: Option<String>,
    /// Fields of objects that may differ from the undisturbed run.
    pub ignore: Vec<String>,
    /// Resources whose objects may differ, such as `events`, or `jobs.batch` with a group.
    pub ignore_resources: Vec<String>,
}
