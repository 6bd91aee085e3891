//! A scenario as it is understood: what is there, what happens, and what is expected.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::faults::Rule;
use crate::manifest::Operator;
use crate::manifest::source::Source;
use crate::manifest::tree::{Node, Spot};
use crate::object::namespace;
use crate::script::Expression;

use super::count::Count;
use super::pattern::Pattern;

/// One scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// The file that it stands in.
    pub source: Source,
    /// The line that it begins in.
    pub line: usize,
    /// The operators that are tried.
    pub operators: Arc<Vec<Operator>>,
    /// The definitions and objects that are there before the operators start.
    pub given: Vec<Given>,
    /// The namespaces that are served; all if there is no pattern.
    pub namespaces: Vec<namespace::Pattern>,
    /// The moment at which it begins.
    pub start: Timestamp,
    /// Whether, and how, it is run with disturbances.
    pub seeds: Seeds,
    /// The expressions of its matchers.
    pub expressions: Vec<Expression>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

impl Scenario {
    /// Returns the file as the user knows it.
    pub fn file(&self) -> &PathBuf {
        &self.source.name
    }

    /// Returns the objects that it brings, in the beginning or in a step, those of lists included.
    pub fn brought(&self) -> Vec<&Value> {
        let mut all: Vec<&Value> = self.given.iter().map(|given| &given.object).collect();
        for step in &self.steps {
            let inner = match &step.act {
                Act::Restart(absence) | Act::Kill(absence) => absence.meanwhile.as_slice(),
                _ => std::slice::from_ref(step),
            };
            all.extend(inner.iter().flat_map(|step| match &step.act {
                Act::Apply(objects) => objects.as_slice(),
                _ => &[],
            }));
        }
        let listed: Vec<&Value> = all.iter().filter_map(|object| object["items"].as_array()).flatten().collect();
        all.into_iter().chain(listed).collect()
    }
}

/// An object that is there from the beginning.
#[derive(Debug, Clone)]
pub struct Given {
    /// The object.
    pub object: Value,
    /// Where the scenario says so.
    pub spot: Spot,
    /// The file that it is from, if it is not the scenario's.
    pub file: Option<PathBuf>,
}

/// How a scenario is run with disturbances.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seeds {
    /// Why it makes no sense to disturb it, if so.
    pub skip: Option<String>,
    /// The fields of objects that may differ in the end.
    pub ignore: Vec<String>,
}

/// One step.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where it stands.
    pub spot: Spot,
    /// The step in a few words.
    pub title: String,
    /// What is done.
    pub act: Act,
}

/// What is done in a step.
#[derive(Debug, Clone)]
pub enum Act {
    /// Objects are applied.
    Apply(Vec<Value>),
    /// An object is patched.
    Patch(Change),
    /// An object is deleted.
    Delete(Target, Option<String>),
    /// Requests go wrong from now on.
    Fault(Box<Fault>),
    /// No request goes wrong any more.
    EndFaults,
    /// Time passes.
    Advance(Duration),
    /// The operators stop as they do at a signal, and start again.
    Restart(Absence),
    /// The operators end without any notice, and start again.
    Kill(Absence),
    /// Everything that is due is waited for.
    Settle {
        /// The longest that it may take.
        within: Duration,
        /// Whether objects may be left whose last cycles have failed.
        despite_errors: bool,
    },
    /// Something must be as described.
    Expect(Box<Expectation>),
}

/// The time between two lives of the operators.
#[derive(Debug, Clone, Default)]
pub struct Absence {
    /// How long it lasts at least.
    pub downtime: Duration,
    /// What is done meanwhile.
    pub meanwhile: Vec<Step>,
}

/// Which object is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The resource as it was written.
    pub resource: String,
    /// The name.
    pub name: String,
    /// The namespace, if it was said.
    pub namespace: Option<String>,
}

impl std::fmt::Display for Target {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.resource, self.name)?;
        self.namespace.as_ref().map_or(Ok(()), |namespace| write!(formatter, " in {namespace}"))
    }
}

/// Requests that go wrong.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Which requests, and how.
    pub rule: Rule,
    /// The words of the file for it.
    pub title: String,
}

/// A patch by hand.
#[derive(Debug, Clone)]
pub struct Change {
    /// Which object.
    pub target: Target,
    /// The media type of the patch.
    pub media: &'static str,
    /// The patch.
    pub patch: Value,
    /// The subresource that is patched, if it is not the object itself.
    pub subresource: Option<String>,
}

/// What must be so.
#[derive(Debug, Clone, Default)]
pub struct Expectation {
    /// Of an object.
    pub object: Option<Sight>,
    /// Of the calls of handlers.
    pub calls: Option<Calls>,
    /// Of Kubernetes' events.
    pub events: Vec<Events>,
    /// Of what was logged.
    pub logs: Option<Logs>,
    /// Of the requests that the operators have sent.
    pub requests: Vec<Requests>,
}

/// An object as it must be.
#[derive(Debug, Clone)]
pub struct Sight {
    /// Which.
    pub target: Target,
    /// Where it is written.
    pub spot: Spot,
    /// Whether it must not be there.
    pub is_absent: bool,
    /// What it must be like.
    pub matches: Option<Pattern>,
}

/// The calls that must have been made.
#[derive(Debug, Clone)]
pub struct Calls {
    /// The list as it is written.
    pub node: Node,
    /// Whether there must not be others in between.
    pub is_exact: bool,
    /// The calls.
    pub wanted: Vec<Call>,
    /// Only calls about this object count, if one is named, and where it is.
    pub target: Option<(Target, Spot)>,
    /// Only calls of these handlers count, if some are named.
    pub handlers: Vec<String>,
}

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id of the handler.
    pub handler: String,
    /// The attempts before it; any number if it was not said.
    pub retry: Option<u64>,
}

impl std::fmt::Display for Call {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.retry {
            Some(retry) => write!(formatter, "{}#{retry}", self.handler),
            None => formatter.write_str(&self.handler),
        }
    }
}

/// Kubernetes' events that there must be.
#[derive(Debug, Clone)]
pub struct Events {
    /// Where it is written.
    pub spot: Spot,
    /// What they are like: members of the event.
    pub like: Vec<(String, Pattern)>,
    /// Which object they are about, if that matters.
    pub target: Option<Target>,
    /// How many there are.
    pub count: Count,
}

/// Lines of the log.
#[derive(Debug, Clone, Default)]
pub struct Logs {
    /// Those that must be there, in this order.
    pub includes: Vec<Line>,
    /// Those that must not be there.
    pub excludes: Vec<Line>,
}

/// A line of the log, by its message.
#[derive(Debug, Clone)]
pub struct Line {
    /// Where it is written.
    pub spot: Spot,
    /// What the message is like.
    pub like: Pattern,
}

/// Requests that were sent about an object.
#[derive(Debug, Clone)]
pub struct Requests {
    /// Which object.
    pub target: Target,
    /// Where it is written.
    pub spot: Spot,
    /// How many there are for each verb.
    pub counts: Vec<(&'static str, Count)>,
}
