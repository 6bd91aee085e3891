//! Admission webhooks: which are called for a request, the reviews they get, and the effects of their answers.
//!
//! All decisions are made in this module; only [`call`] waits.

mod attributes;
#[cfg(feature = "cel")]
mod authorizer;
pub mod call;
#[cfg(feature = "cel")]
pub mod conditions;
mod matching;
mod review;
mod webhook;

use futures::future::join_all;
use serde_json::Value;

use crate::http::api_error::ApiError;
pub use attributes::{Attributes, Authorizer, Operation, WebhookError};
pub use call::{CallWebhook, Caller, FaultyCaller, Hook, HookError, Target, fail};
pub use review::{Answer, read, review};
pub use webhook::{Client, Webhook};

/// The result of the webhooks for a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Admitted {
    /// The patched object; `None` for a deletion.
    pub object: Option<Value>,
    /// The warnings for the client.
    pub warnings: Vec<String>,
}

/// Calls the mutating webhooks one after another, in the order of the names of their configurations.
///
/// `unique` returns ids for the calls. A webhook with `reinvocationPolicy: IfNeeded` is called again if a later one
/// changed the object.
pub async fn mutate<C: CallWebhook>(
    client: &C,
    configurations: &[&Value],
    attributes: &Attributes<'_>,
    mut unique: impl FnMut() -> String,
) -> Result<Admitted, ApiError> {
    let webhooks = Webhook::all(configurations);
    let mut admitted = Admitted { object: attributes.object.cloned(), warnings: Vec::new() };
    let mut called_at = vec![None; webhooks.len()];
    let mut changes = 0_usize;
    for round in 0..2 {
        for (webhook, called_at) in webhooks.iter().zip(&mut called_at) {
            let is_due = round == 0 || webhook.reinvoke && called_at.is_some_and(|at| at < changes);
            let current = Attributes { object: admitted.object.as_ref(), ..*attributes };
            if !is_due || !is_called(webhook, &current)? {
                continue;
            }
            let Some(answer) = ask(client, webhook, &current, &unique(), true).await? else { continue };
            admitted.warnings.extend(answer.warnings);
            if let Some(object) = answer.object {
                changes += usize::from(admitted.object.as_ref() != Some(&object));
                admitted.object = Some(object);
            }
            *called_at = Some(changes);
        }
    }
    Ok(admitted)
}

/// Calls all validating webhooks at once. The first denial in their order wins. Returns the warnings.
pub async fn validate<C: CallWebhook>(
    client: &C,
    configurations: &[&Value],
    attributes: &Attributes<'_>,
    mut unique: impl FnMut() -> String,
) -> Result<Vec<String>, ApiError> {
    let mut selected = Vec::new();
    for webhook in &Webhook::all(configurations) {
        if is_called(webhook, attributes)? {
            selected.push((webhook.clone(), unique()));
        }
    }
    let answers = join_all(selected.iter().map(|(webhook, uid)| ask(client, webhook, attributes, uid, false))).await;
    let mut warnings = Vec::new();
    for answer in answers {
        warnings.extend(answer?.map(|answer| answer.warnings).unwrap_or_default());
    }
    Ok(warnings)
}

/// Tells whether the webhook is called for the request.
///
/// # Errors
///
/// 400 for a dry run through a webhook with side effects; 403 for a condition that cannot be evaluated, unless failures
/// are ignored.
pub fn is_called(webhook: &Webhook, attributes: &Attributes<'_>) -> Result<bool, ApiError> {
    if !matching::is_for(webhook, attributes) {
        return Ok(false);
    }
    #[cfg(feature = "cel")]
    if !conditions::hold(webhook, attributes)? {
        return Ok(false);
    }
    if attributes.dry_run && webhook.has_side_effects {
        return Err(ApiError::bad_request(format!("admission webhook {:?} does not support dry run", webhook.name)));
    }
    Ok(true)
}

/// Calls one webhook. `None` if it failed and failures are ignored.
async fn ask<C: CallWebhook>(
    client: &C,
    webhook: &Webhook,
    attributes: &Attributes<'_>,
    uid: &str,
    may_patch: bool,
) -> Result<Option<Answer>, ApiError> {
    let review = review(webhook, attributes, uid);
    let answer = client.call(webhook, review).await.map_err(WebhookError::Failed);
    match answer.and_then(|answer| read(webhook, attributes, uid, &answer, may_patch)) {
        Ok(answer) => Ok(Some(answer)),
        Err(WebhookError::Refused(failure)) => Err(failure),
        Err(WebhookError::Failed(_)) if webhook.ignores_failures => Ok(None),
        Err(WebhookError::Failed(text)) => {
            Err(ApiError::internal(format!("failed calling webhook {:?}: {text}", webhook.name)))
        }
    }
}

#[cfg(test)]
mod tests;
