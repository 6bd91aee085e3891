//! The expectations of a step.

use std::time::Duration;

use crate::handling::message::seconds;
use crate::manifest::tree::{Node, SourceSpan};

use super::super::count::Count;
use super::super::metrics::MetricExpectation;
use super::super::pattern::Pattern;
use super::target::Target;

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
