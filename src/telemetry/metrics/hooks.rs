//! The metrics of hooks.

use std::time::Duration;

use super::{OperatorMetrics, labels, table};

/// The outcome of a request to a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookOutcome {
    /// The function has answered.
    Answered,
    /// The request has no credentials.
    Unauthenticated,
    /// The credentials are wrong.
    Forbidden,
    /// The request is too large, too slow, or has another mistake.
    Invalid,
    /// Too many requests are answered at the same time.
    Limited,
    /// The operator does not serve, or a Secret cannot be read.
    Unavailable,
    /// The function has failed.
    Failed,
}

impl HookOutcome {
    /// Returns the value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unauthenticated => "unauthenticated",
            Self::Forbidden => "forbidden",
            Self::Invalid => "invalid",
            Self::Limited => "limited",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }
}

impl OperatorMetrics {
    /// Counts a request to a hook, and observes its duration.
    pub fn hook(&self, hook: &str, outcome: HookOutcome, duration: Duration) {
        let families = &self.metrics.0;
        families.hooks.get_or_create(&labels(table::HOOKS, [&self.operator, hook, outcome.as_str()])).inc();
        let seconds = labels(table::HOOK_SECONDS, [&self.operator, hook]);
        families.hook_seconds.get_or_create(&seconds).observe(duration.as_secs_f64());
    }
}
