//! A scenario read from a file: initial objects, steps and expectations.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::faults::Rule;
use crate::handling::message::seconds;
use crate::manifest::Operator;
use crate::manifest::source::Source;
use crate::manifest::tree::{Node, SourceSpan};
use crate::object::namespace;
use crate::script::Expression;

use super::count::Count;
use super::metrics::MetricExpectation;
use super::pattern::Pattern;
use super::stubs::Stubs;

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
    /// What answers in place of the world outside of the cluster.
    pub stubs: Stubs,
    /// Namespaces that the operators serve; all if empty.
    pub namespaces: Vec<namespace::Pattern>,
    /// Virtual time at which it starts.
    pub start: Timestamp,
    /// How it is run with `--seeds`.
    pub seeds: Seeds,
    /// Expressions of its matchers; predicates are indices.
    pub expressions: Vec<Expression>,
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
        self.steps.iter().any(|step| matches!(&step.action, StepAction::Expect(expectation) if expectation.exit.is_some()))
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

/// How a scenario is run with disturbances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeds {
    /// Why the scenario is skipped, if it is.
    pub skip: Option<String>,
    /// Fields of objects that may differ from the undisturbed run.
    pub ignore: Vec<String>,
    /// Resources whose objects may differ, such as `events`, or `jobs.batch` with a group.
    pub ignore_resources: Vec<String>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Position in the file.
    pub spot: SourceSpan,
    /// Summary for the timeline.
    pub title: String,
    /// What it does.
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

/// Names an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The resource as written.
    pub resource: String,
    /// Unique within its file.
    pub name: String,
    /// `None` if the scenario does not say.
    pub namespace: Option<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.resource, self.name)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(formatter, " in {namespace}"))
    }
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

/// A patch by the scenario itself.
#[derive(Debug, Clone)]
pub struct ManualPatch {
    /// The patched object.
    pub target: Target,
    /// Media type of the patch.
    pub media: &'static str,
    /// Content of the patch.
    pub patch: Value,
    /// `None` for the object itself.
    pub subresource: Option<String>,
}

/// A request whose answer is checked.
#[derive(Debug, Clone)]
pub struct CheckedRequest {
    /// What is requested.
    pub request: UserRequest,
    /// Whether nothing is to be stored.
    pub is_dry_run: bool,
    /// The name of the user; the administrator without one.
    pub user: Option<String>,
    /// The expected answer.
    pub answer: ExpectedAnswer,
}

/// A request to a hook.
#[derive(Debug, Clone)]
pub struct HookStep {
    /// The path, maybe with a query.
    pub path: String,
    /// The method.
    pub method: String,
    /// The headers, by lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: String,
    /// Where the credentials come from.
    pub credentials: HookCredentials,
    /// The names in the client's certificate; `None` without one.
    pub certificate: Option<Vec<String>>,
    /// The expected answer.
    pub expected: ExpectedHookAnswer,
}

/// Where the credentials of a request to a hook come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookCredentials {
    /// They are computed from the Secret that the hook names.
    Valid,
    /// The step has given them, if there are any.
    Given,
    /// They are not verified.
    Bypassed,
}

/// The expected answer of a hook.
#[derive(Debug, Clone, Default)]
pub struct ExpectedHookAnswer {
    /// The status, and its position; `None` for any success.
    pub status: Option<(SourceSpan, i64)>,
    /// Pattern of the body as JSON.
    pub json: Option<Pattern>,
    /// Pattern of the body as text.
    pub body: Option<Pattern>,
    /// Patterns of headers, by lower-case names.
    pub headers: Vec<(String, Pattern)>,
}

/// A request of a user.
#[derive(Debug, Clone)]
pub enum UserRequest {
    /// Applies an object.
    Apply(Value),
    /// Patches an object.
    Patch(ManualPatch),
    /// Deletes an object, with a propagation policy if one is given.
    Delete(Target, Option<String>),
}

/// The expected answer to a request.
#[derive(Debug, Clone, Default)]
pub struct ExpectedAnswer {
    /// The expected denial; `None` if the request must be accepted.
    pub denied: Option<ExpectedDenial>,
    /// The expected warnings: exactly these. `None` for any.
    pub warnings: Option<(SourceSpan, Vec<Pattern>)>,
    /// Pattern of the object in the answer.
    pub object: Option<Pattern>,
}

/// An expected denial.
#[derive(Debug, Clone)]
pub struct ExpectedDenial {
    /// Its position.
    pub spot: SourceSpan,
    /// The status code; `None` for any.
    pub code: Option<i64>,
    /// Pattern of the message; `None` for any.
    pub message: Option<Pattern>,
}

/// A conversion of objects.
#[derive(Debug, Clone)]
pub enum ConversionStep {
    /// Converts one object.
    One {
        /// The object.
        object: Value,
        /// The wanted version, with or without the group.
        to: String,
        /// What is expected of it.
        expected: ExpectedConversion,
    },
    /// Converts generated objects there and back.
    RoundTrip(RoundTrip),
}

/// The expected result of a conversion.
#[derive(Debug, Clone)]
pub enum ExpectedConversion {
    /// An object, which matches the pattern if there is one.
    Object(Option<Pattern>),
    /// A failure, whose message matches the pattern if there is one.
    Failure(SourceSpan, Option<Pattern>),
}

/// Conversions of generated objects.
#[derive(Debug, Clone)]
pub struct RoundTrip {
    /// The resource, as kubectl accepts it.
    pub resource: String,
    /// The versions; all that are served if there are none.
    pub versions: Vec<String>,
    /// The number of objects for each pair of versions.
    pub objects: usize,
    /// Fields that may differ afterwards.
    pub ignore: Vec<String>,
}

/// An expectation of a step.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// The state of an object.
    pub object: Option<ObjectExpectation>,
    /// Calls of handlers.
    pub calls: Option<Calls>,
    /// Running timers and daemons.
    pub background: Vec<BackgroundExpectation>,
    /// Kubernetes events.
    pub events: Vec<Events>,
    /// Log lines.
    pub logs: Option<Logs>,
    /// Requests of the operators.
    pub requests: Vec<Requests>,
    /// Contents of indexes.
    pub indexes: Vec<IndexExpectation>,
    /// Metrics.
    pub metrics: Vec<MetricExpectation>,
    /// The last end of the operators.
    pub exit: Option<ExpectedExit>,
    /// The answer of the probes.
    pub probes: Option<ExpectedProbes>,
    /// Whether the operators are paused, with its position.
    pub paused: Option<(SourceSpan, bool)>,
}

/// The expected content of an index.
#[derive(Debug, Clone)]
pub struct IndexExpectation {
    pub name: String,
    pub spot: SourceSpan,
    /// Pattern of its content: a mapping of keys to lists of values.
    pub matches: Pattern,
}

/// An expected end of the operators.
#[derive(Debug, Clone)]
pub struct ExpectedExit {
    pub spot: SourceSpan,
    /// The exit code.
    pub code: i64,
    /// Pattern of the error.
    pub message: Option<Pattern>,
}

/// An expected answer of the probes, as at the liveness endpoint.
#[derive(Debug, Clone)]
pub struct ExpectedProbes {
    pub spot: SourceSpan,
    /// The HTTP status.
    pub status: i64,
    /// Pattern of the results, by the ids of the probes.
    pub results: Option<Pattern>,
    /// Pattern of the text of a failure.
    pub message: Option<Pattern>,
}

/// The expected state of an object.
#[derive(Debug, Clone)]
pub struct ObjectExpectation {
    pub target: Target,
    pub spot: SourceSpan,
    /// Whether the object must not exist.
    pub is_absent: bool,
    /// Pattern of its content.
    pub matches: Option<Pattern>,
}

/// The expected timers and daemons of an object.
#[derive(Debug, Clone)]
pub struct BackgroundExpectation {
    pub target: Target,
    pub spot: SourceSpan,
    /// Ids of the handlers whose tasks run: exactly these.
    pub running: Vec<String>,
}

/// Expected calls.
#[derive(Debug, Clone)]
pub struct Calls {
    /// The list as written, for `--update`.
    pub node: Node,
    /// Whether other calls are an error.
    pub is_exact: bool,
    /// The calls, in order.
    pub wanted: Vec<Call>,
    /// If set, only calls about this object count. With the position of its name.
    pub target: Option<(Target, SourceSpan)>,
    /// If not empty, only calls of these handlers count.
    pub handlers: Vec<String>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Id of the handler.
    pub handler: String,
    /// Number of earlier attempts; `None` matches any.
    pub retry: Option<u64>,
    /// Virtual time since the start of the scenario; `None` matches any.
    pub at: Option<Duration>,
}

impl std::fmt::Display for Call {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.handler)?;
        if let Some(retry) = self.retry {
            write!(formatter, "#{retry}")?;
        }
        self.at.map_or(Ok(()), |at| write!(formatter, "@{}s", seconds(at)))
    }
}

/// Expected Kubernetes events.
#[derive(Debug, Clone)]
pub struct Events {
    pub spot: SourceSpan,
    /// Patterns of the event's fields.
    pub like: Vec<(String, Pattern)>,
    /// The involved object, if it matters.
    pub target: Option<Target>,
    /// Expected number.
    pub count: Count,
}

/// Expected log lines.
#[derive(Debug, Clone, Default)]
pub struct Logs {
    /// Lines that must occur, in this order.
    pub includes: Vec<LogPattern>,
    /// Lines that must not occur.
    pub excludes: Vec<LogPattern>,
}

/// A log line, by its message.
#[derive(Debug, Clone)]
pub struct LogPattern {
    pub spot: SourceSpan,
    /// Pattern of the message.
    pub like: Pattern,
}

/// Expected requests about an object.
#[derive(Debug, Clone)]
pub struct Requests {
    pub target: Target,
    pub spot: SourceSpan,
    /// Expected number for each verb.
    pub counts: Vec<(&'static str, Count)>,
}
