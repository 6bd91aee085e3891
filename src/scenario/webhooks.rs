//! The webhooks of operators for the embedded API server in the same process.

use std::sync::Arc;

use futures::FutureExt as _;
use http::StatusCode;

use crate::apiserver::admission::{Hook, HookError};
use crate::engines::admission::local::{self, Unanswered};
use crate::reactor::Admission;

/// Returns the hook by which the embedded API server calls the webhooks of operators.
pub(crate) fn hook(admission: &Admission) -> Hook {
    let reviewers = admission.reviewers.clone();
    Arc::new(move |url, review| {
        let answer = local::answer(&reviewers, url, review)?;
        Some(answer.map(|answer| answer.map_err(refusal)).boxed())
    })
}

fn refusal(unanswered: Unanswered) -> HookError {
    match unanswered {
        Unanswered::Refused => HookError::Unreachable("dial tcp: connect: connection refused".to_owned()),
        Unanswered::Status(status) => {
            HookError::Status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        }
    }
}
