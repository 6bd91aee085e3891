//! `respond`: the answer of a hook with its status and headers. `touch`: has an object handled as if it had changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use rhai::{Dynamic, Engine, FuncRegistration};
use serde_json::Value;
use tracing::Instrument as _;

use super::options::{Options, placed, text};
use super::support::{Native, Thrown, shown, wrong};
use super::targets;
use crate::script::interface::subject::Subject;
use crate::script::language::answer::Response;
use crate::script::outside::api::ApiError;
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;

/// The headers that belong to the connection.
const REFUSED: [&str; 6] = ["connection", "content-length", "keep-alive", "te", "transfer-encoding", "upgrade"];

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<Response>("Response");
    let two =
        |native: Native<'_>, status: Dynamic, body: Dynamic| placed(&native, respond(&native, &status, body, None));
    FuncRegistration::new("respond").register_into_engine(engine, two);
    let one = |native: Native<'_>, status: Dynamic| placed(&native, respond(&native, &status, Dynamic::UNIT, None));
    FuncRegistration::new("respond").register_into_engine(engine, one);
    let three = |native: Native<'_>, status: Dynamic, body: Dynamic, options: Dynamic| {
        placed(&native, respond(&native, &status, body, Some(&options)))
    };
    FuncRegistration::new("respond").register_into_engine(engine, three);
    let named = |native: Native<'_>, kind: Dynamic, name: Dynamic| placed(&native, touch(&native, &kind, None, &name));
    FuncRegistration::new("touch").register_into_engine(engine, named);
    let in_namespace = |native: Native<'_>, kind: Dynamic, namespace: Dynamic, name: Dynamic| {
        placed(&native, touch(&native, &kind, Some(&namespace), &name))
    };
    FuncRegistration::new("touch").register_into_engine(engine, in_namespace);
}

/// `respond(status, [body], [#{headers}])`: an answer, to be returned by a hook.
fn respond(
    native: &Native<'_>,
    status: &Dynamic,
    body: Dynamic,
    options: Option<&Dynamic>,
) -> Result<Response, Thrown> {
    let context = Context::of(native)?;
    if !matches!(context.subject(), Some(Subject::Hook { .. })) {
        return Err(Failure::host("unavailable", "`respond` is available in hooks only").into());
    }
    let code = status.as_int().ok().and_then(|code| u16::try_from(code).ok()).filter(|code| (200..600).contains(code));
    let status = code.ok_or_else(|| {
        wrong("respond", format!("the status must be a number from 200 to 599, not {}", shown(status)))
    })?;
    let options = Options::read("respond", &["headers"], options)?;
    let headers = match options.value("headers") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(entries)) => {
            entries.iter().map(|(name, value)| header(name, value)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(options.wrong("headers", "a map")),
    };
    Ok(Response { status, headers, body })
}

fn header(name: &str, value: &Value) -> Result<(String, String), Thrown> {
    let lower = name.to_ascii_lowercase();
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if lower.is_empty() || !lower.chars().all(is_token) || REFUSED.contains(&lower.as_str()) {
        return Err(wrong("respond", format!("{name:?} cannot be a header of an answer")));
    }
    let value = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return Err(wrong("respond", format!("the header {name:?} must be a text or a number"))),
    };
    // A line break would begin another header.
    if value.chars().any(|c| c != '\t' && (c.is_control() || !c.is_ascii())) {
        return Err(wrong("respond", format!("the header {name:?} has characters that headers cannot have")));
    }
    Ok((lower, value))
}

/// `touch(kind, [namespace,] name)`: has an object handled as if it had changed. Returns whether the operator handles
/// such an object.
fn touch(native: &Native<'_>, kind: &Dynamic, namespace: Option<&Dynamic>, name: &Dynamic) -> Result<bool, Thrown> {
    const TOUCH: &str = "touch";
    let context = Context::of(native)?;
    context.acts(TOUCH)?;
    let name = text(TOUCH, "the name", name)?;
    if name.is_empty() {
        return Err(wrong(TOUCH, "the name is empty"));
    }
    let namespace =
        namespace.filter(|namespace| !namespace.is_unit()).map(|namespace| text(TOUCH, "the namespace", namespace));
    let target = targets::of_kind(&context, None, TOUCH, &text(TOUCH, "the kind", kind)?)?;
    let target = target.within(&context, TOUCH, namespace.transpose()?)?.named(&name);
    if is_handled(&context, &target, &name) {
        let hint = "an object that is being handled does not touch itself: throw `temporary(…)`, or use a timer";
        return Err(wrong(TOUCH, hint));
    }
    let api = context.api(TOUCH)?;
    let (resource, namespace) = (Arc::clone(&target.resource), target.namespace.clone());
    let touched = async move { api.touch(resource, namespace, name).await }.instrument(context.span().clone());
    let failed =
        |error: ApiError| Failure::from(ApiError { message: format!("{TOUCH} {target}: {}", error.message), ..error });
    Ok(wait_in(&context, touched)?.map_err(failed)?)
}

/// Tells whether the object is that of the running cycle. Its own touch would begin the next cycle, and so on without
/// an end.
fn is_handled(context: &Context, target: &targets::Target, name: &str) -> bool {
    let Some(
        subject @ (Subject::Change { .. } | Subject::Event { .. } | Subject::Index { .. } | Subject::Reconcile { .. }),
    ) = context.subject()
    else {
        return false;
    };
    let (Some(resource), Some(body)) = (subject.resource(), subject.body()) else { return false };
    let is_same_kind = resource.group == target.resource.group && resource.plural == target.resource.plural;
    is_same_kind && body.name() == name && body.namespace() == target.namespace.as_deref()
}
