//! The functions of named formats.

use crate::cel::error::no_such_overload;
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;
use crate::cel::value::format::FORMATS;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "validate" => validate,
        "format.named" => |arguments| match arguments {
            [Value::String(name)] => Ok(Value::optional(named(name))),
            _ => Err(no_such_overload()),
        },
        "format.dns1123Label" => |_| constant("dns1123Label"),
        "format.dns1123Subdomain" => |_| constant("dns1123Subdomain"),
        "format.dns1035Label" => |_| constant("dns1035Label"),
        "format.qualifiedName" => |_| constant("qualifiedName"),
        "format.dns1123LabelPrefix" => |_| constant("dns1123LabelPrefix"),
        "format.dns1123SubdomainPrefix" => |_| constant("dns1123SubdomainPrefix"),
        "format.dns1035LabelPrefix" => |_| constant("dns1035LabelPrefix"),
        "format.labelValue" => |_| constant("labelValue"),
        "format.uri" => |_| constant("uri"),
        "format.uuid" => |_| constant("uuid"),
        "format.byte" => |_| constant("byte"),
        "format.date" => |_| constant("date"),
        "format.datetime" => |_| constant("datetime"),
        _ => return None,
    })
}

fn named(name: &str) -> Option<Value> {
    FORMATS.iter().find(|format| format.name == name).map(Value::Format)
}

fn constant(name: &str) -> Outcome {
    named(name).ok_or_else(no_such_overload)
}

fn validate(arguments: &[Value]) -> Outcome {
    let [Value::Format(format), Value::String(text)] = arguments else { return Err(no_such_overload()) };
    let mistake = (format.mistake)(text);
    Ok(Value::optional(mistake.map(|why| Value::list(vec![Value::text(&why)]))))
}
