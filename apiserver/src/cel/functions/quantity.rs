//! The functions of quantities.

use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::Function;
use crate::cel::value::Value;
use crate::cel::value::quantity::Amount;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |arguments| Amount::parse(text(arguments)?).map(Value::Quantity),
        "isQuantity" => |arguments| Ok(Value::Bool(Amount::parse(text(arguments)?).is_ok())),
        "sign" => |arguments| one(arguments).map(|amount| Value::Int(amount.sign())),
        "asInteger" => {
            |arguments| one(arguments)?.whole().map(Value::Int).ok_or_else(|| failed("cannot convert value to integer"))
        }
        "isInteger" => |arguments| one(arguments).map(|amount| Value::Bool(amount.whole().is_some())),
        "asApproximateFloat" => |arguments| one(arguments).map(|amount| Value::Double(amount.as_f64())),
        "add" => |arguments| two(arguments).and_then(|(one, other)| one.add(other)).map(Value::Quantity),
        "sub" => |arguments| two(arguments).and_then(|(one, other)| one.add(other.negated())).map(Value::Quantity),
        _ => return None,
    })
}

fn text(arguments: &[Value]) -> Result<&str, Error> {
    match arguments {
        [Value::String(text)] => Ok(text),
        _ => Err(no_such_overload()),
    }
}

fn one(arguments: &[Value]) -> Result<Amount, Error> {
    match arguments {
        [Value::Quantity(amount)] => Ok(*amount),
        _ => Err(no_such_overload()),
    }
}

fn two(arguments: &[Value]) -> Result<(Amount, Amount), Error> {
    match arguments {
        [Value::Quantity(one), Value::Quantity(other)] => Ok((*one, *other)),
        [Value::Quantity(one), Value::Int(other)] => Ok((*one, Amount::of(*other))),
        _ => Err(no_such_overload()),
    }
}
