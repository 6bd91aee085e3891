//! `k8s::event`, `info`, `warn`, `exception`: Kubernetes Events.

use rhai::{Dynamic, EvalAltResult, FuncRegistration, Module, NativeCallContext};
use serde_json::Value;

use super::options::{json, placed, text};
use crate::handling::Level;
use crate::script::language::convert;
use crate::script::limits::allocator;
use crate::script::outside::api::EventRequest;
use crate::script::runtime::context::Context;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;
type Native<'a> = NativeCallContext<'a>;

/// The functions with a fixed type, and the level that must be posted.
const LEVELS: [(&str, &str, Level); 3] =
    [("info", "Normal", Level::Info), ("warn", "Warning", Level::Warning), ("exception", "Error", Level::Error)];

/// Adds the functions to the module `k8s`.
pub(super) fn register(module: &mut Module) {
    FuncRegistration::new("event").set_into_module(module, |native: Native<'_>, reason: Dynamic, message: Dynamic| {
        post(&native, None, ["Normal".into(), reason, message], None)
    });
    let about = |native: Native<'_>, objects: Dynamic, event_type: Dynamic, reason: Dynamic, message: Dynamic| {
        post(&native, Some(&objects), [event_type, reason, message], None)
    };
    FuncRegistration::new("event").set_into_module(module, about);
    for (name, event_type, level) in LEVELS {
        FuncRegistration::new(name).set_into_module(
            module,
            move |native: Native<'_>, reason: Dynamic, message: Dynamic| {
                post(&native, None, [event_type.into(), reason, message], Some(level))
            },
        );
        let about = move |native: Native<'_>, objects: Dynamic, reason: Dynamic, message: Dynamic| {
            post(&native, Some(&objects), [event_type.into(), reason, message], Some(level))
        };
        FuncRegistration::new(name).set_into_module(module, about);
    }
}

/// Queues the Events of some objects; without objects, of the handled one.
fn post(
    native: &Native<'_>,
    objects: Option<&Dynamic>,
    texts: [Dynamic; 3],
    level: Option<Level>,
) -> Result<(), Thrown> {
    let function = format!("k8s::{}", native.fn_name());
    let queued = Context::of(native).and_then(|context| {
        let api = context.api(&function)?;
        let [event_type, reason, message] = texts;
        let objects = match objects {
            Some(objects) => objects_of(&function, json(&function, objects)?)?,
            None => vec![handled(&context, &function)?],
        };
        let (event_type, reason) = (text(&function, "the type", &event_type)?, text(&function, "the reason", &reason)?);
        let message = convert::shown(&message);
        context.budget().count_output(message.len())?;
        allocator::uncounted(|| api.post(EventRequest { objects, event_type, reason, message, level }));
        Ok(())
    });
    placed(native, queued)
}

fn handled(context: &Context, function: &str) -> Result<Value, Thrown> {
    let body = context.body().map(|body| (*body).clone());
    body.ok_or_else(|| {
        Failure::argument(format!("`{function}`: no object is handled here: name the object as the first argument"))
            .into()
    })
}

/// Returns the objects of nested arrays.
fn objects_of(function: &str, value: Value) -> Result<Vec<Value>, Thrown> {
    match value {
        Value::Array(items) => {
            let nested: Result<Vec<_>, _> = items.into_iter().map(|item| objects_of(function, item)).collect();
            Ok(nested?.concat())
        }
        Value::Object(_) => Ok(vec![value]),
        other => Err(Failure::argument(format!(
            "`{function}`: an Event is about an object or an array of objects, not {other}"
        ))
        .into()),
    }
}
