//! The steps of a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::apiserver::faults::Rule;
use crate::manifest::tree::SourceSpan;

use super::conversions::ConversionStep;
use super::expectations::Expectation;
use super::requests::{CheckedRequest, HookStep, ManualPatch};
use super::target::Target;

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Position in the file.
    pub spot: SourceSpan,
    /// Summary for the timeline.
    pub title: String,
    /// The action of the step.
    pub action: StepAction,
}

/// The action of a step.
#[derive(Debug, Clone)]
pub enum StepAction {
    /// Applies objects.
    Apply(Vec<Value>),
    /// Patches an object.
    Patch(ManualPatch),
    /// Deletes an object, with a propagation policy if one is given.
    Delete(Target, Option<String>),
    /// Sends a request, and checks its answer.
    Request(Box<CheckedRequest>),
    /// Sends a request to a hook, and checks its answer.
    Hook(Box<HookStep>),
    /// Converts objects, and checks the results.
    Convert(Box<ConversionStep>),
    /// Writes or removes the record of another operator.
    Peer(PeerChange),
    /// Injects a fault from now on.
    Fault(Box<Fault>),
    /// Removes all faults.
    ClearFaults,
    /// Advances the time.
    Advance(Duration),
    /// Stops the operators gracefully and starts them again.
    Restart(Downtime),
    /// Kills the operators and starts them again.
    Kill(Downtime),
    /// Changes files of the operators, which are reloaded.
    Reload {
        /// The new contents by path; `None` removes a file.
        files: BTreeMap<String, Option<String>>,
        /// Whether the files must have errors.
        is_refused: bool,
    },
    /// Waits until nothing is pending.
    Settle {
        /// Time limit.
        within: Duration,
        /// Whether objects with failed cycles are accepted.
        despite_errors: bool,
    },
    /// Checks expectations.
    Expect(Box<Expectation>),
}

/// The time between a stop of the operators and their next start.
#[derive(Debug, Clone, Default)]
pub struct Downtime {
    /// Minimum duration.
    pub duration: Duration,
    /// Steps that are executed during it.
    pub meanwhile: Vec<Step>,
}

/// A change of the record of another operator in a peering object.
#[derive(Debug, Clone)]
pub struct PeerChange {
    /// The key of the record.
    pub id: String,
    /// The name of the peering object; `None` is that of the first operator's settings.
    pub peering: Option<String>,
    /// The namespace; `None` for the cluster-wide peering.
    pub namespace: Option<String>,
    /// `None` removes the record.
    pub record: Option<PeerRecord>,
}

/// The record of another operator.
#[derive(Debug, Clone)]
pub struct PeerRecord {
    pub priority: i64,
    /// In seconds.
    pub lifetime: i64,
    /// How long ago it was written.
    pub age: Duration,
}

/// An injected fault.
#[derive(Debug, Clone)]
pub struct Fault {
    pub rule: Rule,
    /// The fault as written in the file.
    pub title: String,
}
