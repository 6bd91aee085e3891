//! How a call of a handler ended, and what that means for its next attempt.

use std::time::Duration;

use serde_json::Value;

/// How a call of a handler ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It returned, maybe with a result.
    Returned(Option<Value>),
    /// It asked to be called again after a delay, or at once.
    Temporary {
        /// The text of the error; none if it was thrown without one.
        text: Option<String>,
        /// The time to wait; none for "at once, without any mark".
        delay: Option<Duration>,
    },
    /// It said that it will never succeed.
    Permanent {
        /// The text of the error.
        text: String,
    },
    /// It denied the request of a webhook. For any other handler, that is a permanent error.
    Rejected {
        /// The text of the error, which the user gets.
        text: String,
        /// The HTTP status code of the answer.
        code: u16,
    },
    /// It failed in some other way.
    Failed {
        /// The text of the error, for records and for users who look at the object.
        text: String,
        /// What the log shows if the text is empty.
        representation: String,
        /// The place in the script and the calls that led there.
        trace: Option<String>,
    },
    /// It is to be called again, because of its sub-handlers.
    Unfinished {
        /// The time until the next one of them is due.
        delay: Duration,
    },
}

/// The outcome of an attempt, as records and the plan need it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Outcome {
    /// No further attempt will be made.
    pub is_final: bool,
    /// The time until the next attempt; none for a final outcome, and for "at once".
    pub delay: Option<Duration>,
    /// What the handler returned, if it finished well.
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
