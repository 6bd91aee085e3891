//! The events of a timeline.

use serde_json::Value;

use super::super::model::Call;
use crate::manifest::tree::SourceSpan;
use crate::telemetry::credentials;

/// Level of debug lines, which expectations ignore.
pub(crate) const DEBUG: &str = "DEBUG";

/// Identifies the object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Subject {
    /// Returns the identity of an object.
    pub fn of(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let version = text("/apiVersion");
        let group = version.split_once('/').map(|(group, _)| group.to_owned()).unwrap_or_default();
        Self { group, kind: text("/kind"), namespace: text("/metadata/namespace"), name: text("/metadata/name") }
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        write!(formatter, "{} {}{separator}{}", self.kind, self.namespace, self.name)
    }
}

/// An event of the timeline.
#[derive(Debug, Clone)]
pub enum Event {
    /// A step has begun.
    Step {
        /// Position of the step.
        spot: SourceSpan,
        /// Summary of the step.
        title: String,
    },
    /// An event of the operators as a whole, such as a start.
    Operator(String),
    /// The engine has received an object.
    ObjectSeen {
        /// The object.
        subject: Subject,
        /// Kind of the arrival, for the text of the timeline.
        arrival: &'static str,
        /// Resource version.
        version: String,
    },
    /// A handler was called.
    Called {
        /// The object.
        subject: Subject,
        /// The call.
        call: Call,
        /// The cause, or the kind of the call.
        reason: &'static str,
    },
    /// An attempt was judged.
    Ended {
        /// The object.
        subject: Subject,
        /// The call.
        call: Call,
        /// The outcome, in words.
        outcome: String,
    },
    /// A timer or daemon has started, is stopping, or has ended.
    Task {
        /// The object.
        subject: Subject,
        /// Id of the handler.
        handler: String,
        /// Text of the event.
        what: &'static str,
    },
    /// An operator has sent a request.
    Request(SentRequest),
    /// A fault or disturbance has happened.
    Fault(String),
    /// A line was logged.
    Log {
        /// Level of the line, in capitals.
        level: &'static str,
        /// The message without prefix and fields.
        message: String,
        /// The whole line.
        printed: String,
    },
}

impl Event {
    /// Returns the event with texts that are free of credentials.
    pub(super) fn without_credentials(self) -> Self {
        match self {
            Self::Operator(what) => Self::Operator(credentials::hide(what)),
            Self::Ended { subject, call, outcome } => {
                Self::Ended { subject, call, outcome: credentials::hide(outcome) }
            }
            Self::Request(request) => Self::Request(SentRequest {
                answer: credentials::hide(request.answer),
                lines: request.lines.into_iter().map(credentials::hide).collect(),
                ..request
            }),
            Self::Fault(what) => Self::Fault(credentials::hide(what)),
            // The titles of steps are the author's, and log lines have no credentials already.
            other => other,
        }
    }
}

/// A request of an operator.
#[derive(Debug, Clone, Default)]
pub struct SentRequest {
    pub verb: &'static str,
    pub group: String,
    pub plural: String,
    /// Empty if the resource is not served.
    pub kind: String,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
    /// Empty for the object itself.
    pub subresource: String,
    /// Status, with the message of an error.
    pub answer: String,
    /// Changed fields, one per line.
    pub lines: Vec<String>,
    /// Whether the request is counted but not shown.
    pub is_quiet: bool,
}

impl SentRequest {
    /// Returns the resource and name of the object.
    pub fn object(&self) -> String {
        let Self { plural, group, namespace, name, .. } = self;
        let dot = if group.is_empty() { "" } else { "." };
        let namespace = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
        format!("{plural}{dot}{group}/{name}{namespace}")
    }

    /// Tells whether the request is about an object.
    pub fn is_about(&self, subject: &Subject) -> bool {
        let Subject { group, kind, namespace, name } = subject;
        self.group == *group && self.kind == *kind && self.namespace == *namespace && self.name == *name
    }
}

impl std::fmt::Display for SentRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { verb, plural, group, namespace, name, subresource, .. } = self;
        let dot = if group.is_empty() { "" } else { "." };
        write!(formatter, "{verb} {plural}{dot}{group}/{name}")?;
        if !subresource.is_empty() {
            write!(formatter, "/{subresource}")?;
        }
        if namespace.is_empty() { Ok(()) } else { write!(formatter, " in {namespace}") }
    }
}
