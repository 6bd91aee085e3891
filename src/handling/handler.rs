//! Declared handlers: what they are for, whom they concern, and how their errors are taken.

use std::time::Duration;

use serde_json::Value;

use crate::object::{FieldPath, Resource, Selector};

use super::cause::Reason;
use super::matcher::{Matcher, Predicate};

/// One declared handler.
#[derive(Debug, Clone)]
pub struct Handler {
    /// The id, with the field's suffix where it has one. It names the stored progress and the result.
    pub id: String,
    /// What tells two functions apart: within one cause a function is called once per id.
    pub function: String,
    /// The number of the binding that the script host calls.
    pub target: usize,
    /// What it is for.
    pub on: On,
    /// The kinds it concerns; empty for sub-handlers, which concern whatever their parent does.
    pub selectors: Vec<Selector>,
    /// The field it looks at.
    pub field: Option<FieldPath>,
    /// Which objects it concerns.
    pub filters: Filters,
    /// How its errors are taken.
    pub policy: Policy,
    /// What is passed to it as is.
    pub param: Value,
}

/// What a handler is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// Creations.
    Create,
    /// Updates, of the field if there is one.
    Update,
    /// Deletions. An optional handler does not demand the finalizer.
    Delete {
        /// Whether it is optional.
        optional: bool,
    },
    /// The first sight of an object that was handled before.
    Resume {
        /// Whether it may take part in deletions.
        deleted: bool,
    },
    /// Changes of a field, whatever the reason.
    Field,
    /// Raw watch events.
    Event,
    /// What is known of all objects of the kind.
    Index,
    /// Whatever the parent of the sub-handler is for.
    Sub {
        /// Whether the parent needs a change of its field, so that this one does too.
        needs_change: bool,
    },
    /// The life of an object, as a function that runs along.
    Daemon,
    /// The life of an object, as a function that is called at intervals.
    Timer,
    /// Admission requests about objects.
    Review,
    /// Objects in other versions than the stored one.
    Conversion,
    /// The desired state of an object, whatever has changed.
    Reconcile,
    /// The operator itself, when it starts, stops, logs in, or is probed.
    Activity,
    /// The operator itself, at the ticks of a clock.
    Schedule,
}

impl On {
    /// Tells whether it takes part in handling changes.
    pub fn is_changing(self) -> bool {
        matches!(self, Self::Create | Self::Update | Self::Delete { .. } | Self::Resume { .. } | Self::Field | Self::Sub { .. })
    }

    /// Tells whether it runs along with the object.
    pub fn is_spawning(self) -> bool {
        matches!(self, Self::Daemon | Self::Timer)
    }

    /// Returns the only reason it is called for, if there is only one.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Create => Some(Reason::Create),
            Self::Update => Some(Reason::Update),
            Self::Delete { .. } => Some(Reason::Delete),
            _ => None,
        }
    }

    /// Tells whether it is called only if its field has changed.
    pub fn needs_change(self) -> bool {
        matches!(self, Self::Update | Self::Field | Self::Sub { needs_change: true })
    }
}

/// Which objects a handler concerns.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// By labels.
    pub labels: Vec<(String, Matcher)>,
    /// By annotations.
    pub annotations: Vec<(String, Matcher)>,
    /// By the field's value, on either side of a change.
    pub value: Option<Matcher>,
    /// By the field's value before a change.
    pub old: Option<Matcher>,
    /// By the field's value after a change.
    pub new: Option<Matcher>,
    /// By an expression over the arguments.
    pub when: Option<Predicate>,
}

/// How errors of a handler are taken. What is not set follows the defaults of its kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The number of attempts.
    pub retries: Option<u64>,
    /// The time since the start after which no attempt is made.
    pub timeout: Option<Duration>,
    /// The pause between attempts after arbitrary errors.
    pub backoff: Option<Duration>,
    /// What arbitrary errors mean.
    pub errors: Option<ErrorMode>,
}

impl Policy {
    /// Returns the policy with the defaults for what is not set.
    pub fn or(self, defaults: &Self) -> Self {
        Self {
            retries: self.retries.or(defaults.retries),
            timeout: self.timeout.or(defaults.timeout),
            backoff: self.backoff.or(defaults.backoff),
            errors: self.errors.or(defaults.errors),
        }
    }
}

/// What arbitrary errors mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorMode {
    /// They count as successes.
    Ignored,
    /// They are retried after the back-off.
    Temporary,
    /// They fail the handler for good.
    Permanent,
}

impl Handler {
    /// Returns a handler that concerns everything, with all options left to their defaults.
    pub fn simple(id: &str, on: On) -> Self {
        Self {
            id: id.to_owned(),
            function: id.to_owned(),
            target: 0,
            on,
            selectors: Vec::new(),
            field: None,
            filters: Filters::default(),
            policy: Policy::default(),
            param: Value::Null,
        }
    }

    /// Tells whether the handler is declared for a kind.
    pub fn concerns(&self, resource: &Resource) -> bool {
        self.selectors.is_empty() || self.selectors.iter().any(|selector| selector.matches(resource))
    }

    /// Returns the handler's name for messages.
    pub fn title(&self) -> String {
        let noun = match self.on {
            On::Daemon => "Daemon",
            On::Timer => "Timer",
            On::Index => "Indexer",
            On::Review | On::Conversion => "Webhook",
            On::Reconcile => "Reconciliation",
            On::Activity => "Activity",
            On::Schedule => "Schedule",
            _ => "Handler",
        };
        format!("{noun} '{}'", self.id)
    }

    /// Returns what arbitrary errors mean to this handler.
    pub fn error_mode(&self) -> ErrorMode {
        let default = if matches!(self.on, On::Event | On::Index) { ErrorMode::Ignored } else { ErrorMode::Temporary };
        self.policy.errors.unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_a_handler_is() {
        let title = |on| Handler::simple("fn", on).title();
        let titles = [
            (On::Create, "Handler 'fn'"),
            (On::Event, "Handler 'fn'"),
            (On::Daemon, "Daemon 'fn'"),
            (On::Timer, "Timer 'fn'"),
            (On::Index, "Indexer 'fn'"),
            (On::Review, "Webhook 'fn'"),
            (On::Conversion, "Webhook 'fn'"),
            (On::Reconcile, "Reconciliation 'fn'"),
            (On::Activity, "Activity 'fn'"),
            (On::Schedule, "Schedule 'fn'"),
        ];
        for (on, expected) in titles {
            assert_eq!(title(on), expected);
        }
    }
}
