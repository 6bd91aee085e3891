//! Values that may be absent.

use crate::cel::error::{failed, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "optional.of" => |arguments| Ok(Value::optional(Some(arguments[0].clone()))),
        "optional.ofNonZeroValue" => {
            |arguments| Ok(Value::optional(Some(arguments[0].clone()).filter(|value| !value.is_zero())))
        }
        "optional.none" => |_| Ok(Value::Optional(None)),
        "optional.unwrap" | "unwrapOpt" => unwrap,
        "value" => |arguments| match arguments {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            [Value::Optional(None)] => Err(failed("optional.none() dereference")),
            _ => Err(no_such_overload()),
        },
        "hasValue" => |arguments| match arguments {
            [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
            _ => Err(no_such_overload()),
        },
        "first" => |arguments| end(arguments, <[Value]>::first),
        "last" => |arguments| end(arguments, <[Value]>::last),
        // They are evaluated with their arguments: the second one only if needed.
        "or" | "orValue" | "_?._" => |_| Err(no_such_overload()),
        _ => return None,
    })
}

fn unwrap(arguments: &[Value]) -> Outcome {
    let [Value::List(list)] = arguments else { return Err(no_such_overload()) };
    let mut items = Vec::new();
    for item in &list.items {
        let Value::Optional(value) = item else { return Err(no_such_overload()) };
        items.extend(value.as_ref().map(|value| (**value).clone()));
    }
    Ok(Value::list(items))
}

fn end(arguments: &[Value], end: fn(&[Value]) -> Option<&Value>) -> Outcome {
    let [Value::List(list)] = arguments else { return Err(no_such_overload()) };
    Ok(Value::optional(end(&list.items).cloned()))
}
