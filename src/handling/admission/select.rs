//! Selection of the webhooks of a request.

use super::request::{DELETE, ReviewedRequest};
use super::webhook::Webhook;
use crate::handling::filter::{Predicates, Unsettled, View};
use crate::handling::select;

/// Stands for all subresources, and for the object itself.
const ANY_SUBRESOURCE: &str = "*";

/// Returns the webhooks that are called for a request, in the order of declaration. Without an id, all of them are
/// considered.
///
/// The operation of the request is not compared with those of the webhooks: the API server has done that.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub fn selected<'a>(
    webhooks: &'a [Webhook],
    id: Option<&str>,
    request: &ReviewedRequest,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Webhook>, Unsettled> {
    let candidates =
        webhooks.iter().filter(|webhook| id.is_none_or(|id| webhook.handler.id == id) && is_for(webhook, request));
    let view = View { body: &request.body, change: None };
    select::passing(candidates.map(|webhook| (webhook, &webhook.handler)), view, predicates)
}

fn is_for(webhook: &Webhook, request: &ReviewedRequest) -> bool {
    webhook.handler.concerns(&request.resource)
        && is_for_operation(webhook, request)
        && is_for_subresource(webhook, request)
}

/// A deletion cannot be changed, so mutating webhooks must be declared for deletions only to be called at all.
fn is_for_operation(webhook: &Webhook, request: &ReviewedRequest) -> bool {
    !webhook.is_mutating || request.operation != DELETE || webhook.operations == [DELETE]
}

fn is_for_subresource(webhook: &Webhook, request: &ReviewedRequest) -> bool {
    webhook.subresource.as_deref() == Some(ANY_SUBRESOURCE) || webhook.subresource == request.subresource
}
