//! The result of a handler's call, and its effect on the next attempt.

use std::time::Duration;

use serde_json::Value;

/// The result of a handler's call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It returned, possibly with a result.
    Returned(Option<Value>),
    /// It asked to be called again after a delay, or at once.
    Temporary {
        /// The text of the error; `None` if it has none.
        text: Option<String>,
        /// The time to wait; `None` for an immediate retry without a stored delay.
        delay: Option<Duration>,
    },
    /// It threw a permanent error.
    Permanent {
        /// The text of the error.
        text: String,
    },
    /// It denied the request of a webhook. For any other handler, that is a permanent error.
    Rejected {
        /// The text of the error, sent to the user.
        text: String,
        /// The HTTP status code of the answer.
        code: u16,
    },
    /// It failed in some other way.
    Failed {
        /// The text of the error, for records and for users who read the object.
        text: String,
        /// The text for the log if `text` is empty.
        representation: String,
        /// The stack trace of the script.
        trace: Option<String>,
    },
    /// It must be called again, because its sub-handlers have not finished.
    Unfinished {
        /// The time until the next sub-handler is due.
        delay: Duration,
    },
}

impl Verdict {
    /// Returns the verdict of a call that a defect of the engine has ended: the text of its panic.
    pub fn defect(panic: &str) -> Self {
        let text = format!("a defect of the engine: {panic}");
        Self::Failed { representation: text.clone(), text, trace: None }
    }
}

/// The outcome of an attempt, for the record and the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// No further attempt will be made.
    pub is_final: bool,
    /// The time until the next attempt; `None` for a final outcome and for an immediate retry.
    pub delay: Option<Duration>,
    /// The result of the handler, if it succeeded.
    pub result: Option<Value>,
    /// The text of the error.
    pub error: Option<String>,
    /// The ids of the sub-handlers seen in this attempt.
    pub subrefs: Vec<String>,
}

impl Outcome {
    pub(super) fn success(result: Option<Value>) -> Self {
        Self { is_final: true, result, ..Self::default() }
    }

    pub(super) fn failure(text: impl Into<String>) -> Self {
        Self { is_final: true, error: Some(text.into()), ..Self::default() }
    }

    pub(super) fn retry(delay: Option<Duration>, text: impl Into<String>) -> Self {
        Self { delay, error: Some(text.into()), ..Self::default() }
    }
}
