//! Declared handlers: their purpose, filters and error policy.

use std::time::Duration;

use serde_json::Value;

use crate::object::{FieldPath, Resource, Selector};

use super::cause::Reason;
use super::matcher::{Matcher, Predicate};

/// One declared handler.
#[derive(Debug, Clone)]
pub struct Handler {
    /// The id, with the suffix of the field if there is one. It names the stored progress and the result.
    pub id: String,
    /// Identifies the function: within one cause a function is called once per id.
    pub function: String,
    /// The number of the binding that the script host calls.
    pub target: usize,
    /// Its purpose.
    pub on: On,
    /// The kinds it concerns; empty for sub-handlers, which concern the kinds of their parent.
    pub selectors: Vec<Selector>,
    /// The field of the handler.
    pub field: Option<FieldPath>,
    /// Which objects it concerns.
    pub filters: Filters,
    /// Its error policy.
    pub policy: Policy,
    /// The value of its argument `param`.
    pub param: Value,
}

/// The purpose of a handler.
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
    /// The first event of an object that was handled before this start of the operator.
    Resume {
        /// Whether it may take part in deletions.
        deleted: bool,
    },
    /// Changes of a field, for any reason.
    Field,
    /// Raw watch events.
    Event,
    /// Indexes over all objects of the kind.
    Index,
    /// Sub-handlers: the purpose of their parent.
    Sub {
        /// Whether the parent needs a change of its field, and so the sub-handler does, too.
        needs_change: bool,
    },
    /// A function that runs as long as the object exists.
    Daemon,
    /// A function that is called at intervals as long as the object exists.
    Timer,
    /// Admission requests.
    Review,
    /// Conversions between versions.
    Conversion,
    /// Level-triggered reconciliation.
    Reconcile,
    /// Startup, cleanup, login and probes of the operator.
    Activity,
    /// Cron schedules of the operator.
    Schedule,
    /// HTTP requests from outside.
    Hook,
}

impl On {
    /// Tells whether it is a change handler.
    pub fn is_changing(self) -> bool {
        matches!(
            self,
            Self::Create | Self::Update | Self::Delete { .. } | Self::Resume { .. } | Self::Field | Self::Sub { .. }
        )
    }

    /// Tells whether it is a daemon or a timer.
    pub fn is_spawning(self) -> bool {
        matches!(self, Self::Daemon | Self::Timer)
    }

    /// Returns its name in manifests.
    pub fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete { .. } => "delete",
            Self::Resume { .. } => "resume",
            Self::Field => "field",
            Self::Event => "event",
            Self::Index => "index",
            Self::Sub { .. } => "sub-handler",
            Self::Daemon => "daemon",
            Self::Timer => "timer",
            Self::Review => "webhook",
            Self::Conversion => "convert",
            Self::Reconcile => "reconcile",
            Self::Activity => "activity",
            Self::Schedule => "schedule",
            Self::Hook => "hook",
        }
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

/// The error policy of a handler. Unset options have the defaults of its kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The number of attempts.
    pub retries: Option<u64>,
    /// No attempt is made this long after the start.
    pub timeout: Option<Duration>,
    /// The pause between attempts after arbitrary errors.
    pub backoff: Option<Duration>,
    /// The effect of arbitrary errors.
    pub errors: Option<ErrorMode>,
}

impl Policy {
    /// Returns the policy with defaults for unset options.
    pub fn or(self, defaults: &Self) -> Self {
        Self {
            retries: self.retries.or(defaults.retries),
            timeout: self.timeout.or(defaults.timeout),
            backoff: self.backoff.or(defaults.backoff),
            errors: self.errors.or(defaults.errors),
        }
    }
}

/// The effect of arbitrary errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorMode {
    /// They count as successes.
    Ignored,
    /// They are retried after the back-off.
    Temporary,
    /// They fail the handler permanently.
    Permanent,
}

impl Handler {
    /// Returns a handler without filters and with default options.
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
            On::Hook => "Hook",
            _ => "Handler",
        };
        [noun, " '", &self.id, "'"].concat()
    }

    /// Returns the effect of arbitrary errors on this handler.
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
            (On::Hook, "Hook 'fn'"),
        ];
        for (on, expected) in titles {
            assert_eq!(title(on), expected);
        }
    }
}
