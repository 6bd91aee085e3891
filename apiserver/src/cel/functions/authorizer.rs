//! The functions of authorization checks.

use std::sync::Arc;

use crate::cel::error::no_such_overload;
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;
use crate::cel::value::access::{Authorizer, Check, Decision};

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "path" => |arguments| begin(arguments, |check, text| check.path = Some(text)),
        "group" => |arguments| begin(arguments, |check, text| check.group = text),
        "resource" => |arguments| narrow(arguments, |check, text| check.resource = Some(text)),
        "subresource" => |arguments| narrow(arguments, |check, text| check.subresource = text),
        "namespace" => |arguments| narrow(arguments, |check, text| check.namespace = text),
        "name" => |arguments| narrow(arguments, |check, text| check.name = text),
        // Selectors would restrict a check; the server ignores them.
        "fieldSelector" | "labelSelector" => |arguments| narrow(arguments, |_, _| {}),
        "serviceAccount" => |arguments| match arguments {
            [Value::Authorizer(authorizer), Value::String(namespace), Value::String(name)] => {
                let account = Some((Arc::clone(namespace), Arc::clone(name)));
                Ok(Value::Authorizer(Arc::new(Authorizer { account, ..(**authorizer).clone() })))
            }
            _ => Err(no_such_overload()),
        },
        "check" => |arguments| match arguments {
            [Value::Check(check), Value::String(verb)] => {
                Ok(Value::Decision(Decision { is_allowed: (check.authorizer.decide)(check, verb) }))
            }
            _ => Err(no_such_overload()),
        },
        "allowed" => |arguments| decision(arguments, |decision| Value::Bool(decision.is_allowed)),
        "errored" => |arguments| decision(arguments, |_| Value::Bool(false)),
        "error" | "reason" => |arguments| decision(arguments, |_| Value::text("")),
        _ => return None,
    })
}

fn begin(arguments: &[Value], set: fn(&mut Check, Arc<str>)) -> Outcome {
    let [Value::Authorizer(authorizer), Value::String(text)] = arguments else { return Err(no_such_overload()) };
    let mut check = Check::new((**authorizer).clone());
    set(&mut check, Arc::clone(text));
    Ok(Value::Check(Arc::new(check)))
}

fn narrow(arguments: &[Value], set: fn(&mut Check, Arc<str>)) -> Outcome {
    let [Value::Check(check), Value::String(text)] = arguments else { return Err(no_such_overload()) };
    let mut check = (**check).clone();
    set(&mut check, Arc::clone(text));
    Ok(Value::Check(Arc::new(check)))
}

fn decision(arguments: &[Value], part: fn(Decision) -> Value) -> Outcome {
    match arguments {
        [Value::Decision(decision)] => Ok(part(*decision)),
        _ => Err(no_such_overload()),
    }
}
