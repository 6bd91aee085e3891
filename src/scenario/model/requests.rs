//! Requests to the API server and to hooks, and their expected answers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::manifest::tree::SourceSpan;

use super::super::pattern::Pattern;
use super::target::Target;

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
    /// The request.
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
    /// The source of the credentials.
    pub credentials: HookCredentials,
    /// The names in the client's certificate; `None` without one.
    pub certificate: Option<Vec<String>>,
    /// The expected answer.
    pub expected: ExpectedHookAnswer,
}

/// The source of the credentials of a request to a hook.
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
