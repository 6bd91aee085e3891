//! The step `request`: a request of a user, and its expected answer.

use serde_json::Value;

use crate::manifest::reader::Item;
use crate::manifest::tree::Kind;

use super::expectations::pattern_of_text;
use super::model::{CheckedRequest, ExpectedAnswer, ExpectedDenial, StepAction, UserRequest};
use super::pattern::Pattern;
use super::read_context::ReadContext;

/// The keys of the step.
pub(super) const KEYS: [&str; 8] = ["apply", "patch", "delete", "dryRun", "user", "denied", "warnings", "object"];

/// The keys of which a request has one.
const KINDS: [&str; 3] = ["apply", "patch", "delete"];

/// Reads a request. `action` reads the steps that change objects.
pub(super) fn read(
    context: &ReadContext<'_>,
    item: &Item<'_>,
    action: impl Fn(&str, &Item<'_>) -> Option<StepAction>,
) -> Option<CheckedRequest> {
    let reader = context.reader;
    let fields = reader.fields(item, "a request", &KEYS)?;
    let given: Vec<_> = KINDS.iter().filter_map(|kind| Some((*kind, fields.get(kind)?))).collect();
    let [(kind, wanted)] = given.as_slice() else {
        if !KINDS.iter().any(|kind| fields.mentions(kind)) || given.len() > 1 {
            reader.error_with(
                item,
                format!("a request does one thing, but this does {}", given.len()),
                "write one of `apply`, `patch` and `delete`",
            );
        }
        return None;
    };
    let request = match action(kind, wanted)? {
        StepAction::Apply(objects) => match <[Value; 1]>::try_from(objects) {
            Ok([object]) => UserRequest::Apply(object),
            Err(objects) => {
                reader.error_with(
                    wanted,
                    format!("a request applies one object, not {}", objects.len()),
                    "make it several steps",
                );
                return None;
            }
        },
        StepAction::Patch(patch) => UserRequest::Patch(patch),
        StepAction::Delete(target, propagation) => UserRequest::Delete(target, propagation),
        _ => return None,
    };
    let denied = fields.get("denied").and_then(|item| denial(context, &item));
    let warnings = fields.get("warnings").map(|item| {
        let patterns = reader.list(&item).iter().filter_map(|item| pattern_of_text(context, item)).collect();
        (item.node.spot, patterns)
    });
    let object = fields.get("object");
    if let (Some(_), Some(item)) = (&denied, &object) {
        reader.key_error(item, "the answer to a denied request has no object", "leave out `object`, or `denied`");
    }
    let object = object.and_then(|item| Pattern::read(reader, &context.expressions, &item));
    Some(CheckedRequest {
        request,
        is_dry_run: reader.flag(&fields, "dryRun").unwrap_or(false),
        user: reader.string(&fields, "user"),
        answer: ExpectedAnswer { denied, warnings, object },
    })
}

/// Reads an expected denial: `true`, or a mapping with its code and message.
fn denial(context: &ReadContext<'_>, item: &Item<'_>) -> Option<ExpectedDenial> {
    let (reader, spot) = (context.reader, item.node.spot);
    if !matches!(item.node.kind, Kind::Map(_)) {
        let is_denied = reader.boolean(item)?;
        return is_denied.then_some(ExpectedDenial { spot, code: None, message: None });
    }
    let fields = reader.fields(item, "a denial", &["code", "message"])?;
    let code = fields.get("code").and_then(|item| reader.whole_in(&item, &(100..=599), "write a status of HTTP"));
    let message = fields.get("message").and_then(|item| pattern_of_text(context, &item));
    Some(ExpectedDenial { spot, code, message })
}
