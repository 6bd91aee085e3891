//! The actions of fault rules, and the requests that they apply to.

use serde::{Deserialize, Serialize};

use super::request::Request;

/// The fault. Numbers of milliseconds have `ms` in their names.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
#[expect(missing_docs, reason = "the fields are the words of the rules; the variants say what they do")]
pub enum Action {
    /// The request gets this answer and is not carried out.
    Status {
        code: u16,
        #[serde(default)]
        reason: String,
        #[serde(default)]
        message: String,
        #[serde(default)]
        retry_after: Option<u64>,
        #[serde(default)]
        body: AnswerBody,
    },
    /// The request is carried out, and the answer is an error.
    StatusAfter { code: u16 },
    /// The answer is delayed.
    Delay {
        ms: u64,
        #[serde(default)]
        jitter: u64,
        #[serde(default)]
        phase: Phase,
    },
    /// The connection breaks.
    Reset {
        #[serde(default)]
        phase: Phase,
    },
    /// A watch ends.
    WatchDrop {
        #[serde(default)]
        after_events: Option<u64>,
        #[serde(default)]
        after_ms: Option<u64>,
        #[serde(default)]
        how: Drop,
    },
    /// A watch gets 410 Gone.
    WatchExpire {
        #[serde(default)]
        how: Expiry,
    },
    /// A watch gets another error event.
    WatchError {
        code: u16,
        #[serde(default)]
        reason: String,
    },
    /// A watch stays open and silent.
    WatchStall {
        #[serde(default)]
        ms: Option<u64>,
    },
    /// A watch gets the event before its start again.
    WatchDuplicate {},
    /// The events of a watch come late.
    WatchDelay { ms: u64 },
    /// A watch gets no bookmarks.
    WatchNoBookmarks {},
    /// The answer is sent slowly.
    SlowBody { bytes_per_sec: u64 },
    /// Reads return a state that is some revisions, or some time, old.
    StaleRead {
        #[serde(default)]
        revisions: Option<u64>,
        #[serde(default)]
        ms: Option<u64>,
    },
    /// Another client writes the object before each matching write.
    Conflict {
        #[serde(default)]
        times: Option<u64>,
    },
    /// Limits the requests per second of each user, with a burst.
    Throttle {
        qps: f64,
        #[serde(default)]
        burst: u64,
        #[serde(default)]
        retry_after: Option<u64>,
    },
    /// All tokens expire some time after the rule was added.
    Unauthorized {
        #[serde(default)]
        after_ms: u64,
    },
    /// Webhooks cannot be called: admission webhooks by their name, conversion webhooks by that of their definition.
    WebhookFail {
        #[serde(default)]
        name: Option<String>,
        kind: WebhookFailure,
    },
    /// The storage is not ready for some time after a definition has changed.
    NotReady { ms: u64 },
    /// A group is broken in discovery.
    DiscoveryFail { group: String, code: u16 },
}

impl Action {
    /// Answers with a failure with this status code, without carrying the request out.
    pub fn status(code: u16) -> Self {
        Self::Status {
            code,
            reason: String::new(),
            message: String::new(),
            retry_after: None,
            body: AnswerBody::Status,
        }
    }
}

/// The body of an injected answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AnswerBody {
    /// A `Status` object.
    #[default]
    Status,
    /// Plain text.
    Text,
    /// An HTML page, as proxies send it.
    Html,
    /// Nothing.
    Empty,
}

/// When the fault happens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Before it is carried out.
    #[default]
    Before,
    /// After it was carried out.
    After,
    /// In the middle of the answer.
    MidBody,
}

/// How a watch ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drop {
    /// Normally, as at its timeout.
    #[default]
    Clean,
    /// By a reset of the connection.
    Rst,
    /// In the middle of a line.
    MidLine,
}

/// How a watch gets 410 Gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Expiry {
    /// By an event.
    #[default]
    Event,
    /// By the status of the answer.
    Http,
}

/// How the call of a webhook fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WebhookFailure {
    /// No answer in time.
    Timeout,
    /// No connection.
    Refused,
    /// An internal error.
    #[serde(rename = "500")]
    Internal,
}

impl Action {
    /// Tells whether the action makes the conversion webhook of a request's resource fail, by the name of its
    /// definition.
    pub fn is_conversion_of(&self, request: &Request<'_>) -> bool {
        matches!(self, Self::WebhookFail { name: Some(name), .. } if *name == request.full_resource())
    }

    /// Tells whether the action applies to a request. A rule ignores other requests without counting them.
    pub fn is_for(&self, request: &Request<'_>) -> bool {
        match self {
            Self::WatchDrop { .. }
            | Self::WatchExpire { .. }
            | Self::WatchError { .. }
            | Self::WatchStall { .. }
            | Self::WatchDuplicate {}
            | Self::WatchDelay { .. }
            | Self::WatchNoBookmarks {} => request.verb == "watch",
            Self::StaleRead { .. } => !request.resource.is_empty() && matches!(request.verb, "get" | "list" | "watch"),
            Self::Conflict { .. } => !request.name.is_empty() && matches!(request.verb, "update" | "patch" | "delete"),
            Self::WebhookFail { .. } => {
                !request.resource.is_empty() && !matches!(request.verb, "get" | "list" | "watch")
            }
            Self::DiscoveryFail { group, .. } => {
                request.resource.is_empty() && !request.group.is_empty() && group == request.group
            }
            Self::NotReady { .. } => request.defined_at.is_some(),
            _ => true,
        }
    }
}
