//! Operators, and the functions for loops.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::cel::ast::operator::{ADD, MAP_INSERT};
use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome, whole};
use crate::cel::functions::time::in_range;
use crate::cel::value::checked::{item, order, usable};
use crate::cel::value::{Key, List, Map, Value};

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        ADD => |arguments| accumulate(ADD, arguments.to_vec()),
        MAP_INSERT => |arguments| accumulate(MAP_INSERT, arguments.to_vec()),
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "!_" => |arguments| match arguments {
            [Value::Bool(value)] => Ok(Value::Bool(!value)),
            _ => Err(no_such_overload()),
        },
        "_==_" => |arguments| Ok(Value::Bool(arguments[0].equals(&arguments[1]))),
        "_!=_" => |arguments| Ok(Value::Bool(!arguments[0].equals(&arguments[1]))),
        "_<_" => |arguments| compare(arguments, std::cmp::Ordering::is_lt),
        "_<=_" => |arguments| compare(arguments, std::cmp::Ordering::is_le),
        "_>_" => |arguments| compare(arguments, std::cmp::Ordering::is_gt),
        "_>=_" => |arguments| compare(arguments, std::cmp::Ordering::is_ge),
        "_[_]" => index,
        "_[?_]" => optional_index,
        "@in" => is_in,
        "size" => size,
        _ => return None,
    })
}

/// Appends to the first argument, in place if it is not shared: lists and maps grow item by item in loops.
pub(crate) fn accumulate(function: &str, arguments: Vec<Value>) -> Outcome {
    let mut arguments = arguments.into_iter();
    let (Some(first), Some(second), third) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err(no_such_overload());
    };
    match (first, second) {
        (Value::List(mut list), Value::List(other)) => {
            Arc::make_mut(&mut list).add(&other);
            Ok(Value::List(list))
        }
        (Value::Map(mut map), Value::Map(other)) if third.is_none() && function == MAP_INSERT => {
            for (key, value) in &other.entries {
                insert(Arc::make_mut(&mut map), key.clone(), value.clone())?;
            }
            Ok(Value::Map(map))
        }
        (Value::Map(mut map), key) if function == MAP_INSERT => {
            let key = Key::of(&key).ok_or_else(no_such_overload)?;
            insert(Arc::make_mut(&mut map), key, third.ok_or_else(no_such_overload)?)?;
            Ok(Value::Map(map))
        }
        (first, second) => add(&first, &second),
    }
}

fn insert(map: &mut Map, key: Key, value: Value) -> Result<(), Error> {
    if map.get(&key.value()).is_some() {
        return Err(failed(format!("insert failed: key {} already exists", key.value())));
    }
    map.entries.insert(key, value);
    Ok(())
}

fn int_overflow() -> Error {
    failed("integer overflow")
}

fn uint_overflow() -> Error {
    failed("unsigned integer overflow")
}

fn duration_overflow() -> Error {
    failed("duration overflow")
}

pub(super) fn add(one: &Value, other: &Value) -> Outcome {
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => Value::Int(one.checked_add(*other).ok_or_else(int_overflow)?),
        (Value::Uint(one), Value::Uint(other)) => Value::Uint(one.checked_add(*other).ok_or_else(uint_overflow)?),
        (Value::Double(one), Value::Double(other)) => Value::Double(one + other),
        (Value::String(one), Value::String(other)) => Value::String(format!("{one}{other}").into()),
        (Value::Bytes(one), Value::Bytes(other)) => Value::Bytes([&one[..], &other[..]].concat().into()),
        (Value::Duration(one), Value::Duration(other)) => {
            Value::Duration(one.checked_add(*other).ok_or_else(duration_overflow)?)
        }
        (Value::Timestamp(moment), Value::Duration(duration))
        | (Value::Duration(duration), Value::Timestamp(moment)) => later(*moment, i128::from(*duration))?,
        _ => return Err(no_such_overload()),
    })
}

fn later(moment: Timestamp, nanoseconds: i128) -> Outcome {
    let overflow = || failed("timestamp overflow");
    let moment = Timestamp::from_nanosecond(moment.as_nanosecond() + nanoseconds).map_err(|_| overflow())?;
    if in_range(moment) { Ok(Value::Timestamp(moment)) } else { Err(overflow()) }
}

fn subtract(arguments: &[Value]) -> Outcome {
    Ok(match arguments {
        [Value::Int(one), Value::Int(other)] => Value::Int(one.checked_sub(*other).ok_or_else(int_overflow)?),
        [Value::Uint(one), Value::Uint(other)] => Value::Uint(one.checked_sub(*other).ok_or_else(uint_overflow)?),
        [Value::Double(one), Value::Double(other)] => Value::Double(one - other),
        [Value::Duration(one), Value::Duration(other)] => {
            Value::Duration(one.checked_sub(*other).ok_or_else(duration_overflow)?)
        }
        [Value::Timestamp(moment), Value::Duration(duration)] => later(*moment, -i128::from(*duration))?,
        [Value::Timestamp(one), Value::Timestamp(other)] => {
            let between = SignedDuration::as_nanos(&one.duration_since(*other));
            Value::Duration(i64::try_from(between).map_err(|_| duration_overflow())?)
        }
        _ => return Err(no_such_overload()),
    })
}

fn multiply(arguments: &[Value]) -> Outcome {
    Ok(match arguments {
        [Value::Int(one), Value::Int(other)] => Value::Int(one.checked_mul(*other).ok_or_else(int_overflow)?),
        [Value::Uint(one), Value::Uint(other)] => Value::Uint(one.checked_mul(*other).ok_or_else(uint_overflow)?),
        [Value::Double(one), Value::Double(other)] => Value::Double(one * other),
        _ => return Err(no_such_overload()),
    })
}

fn divide(arguments: &[Value]) -> Outcome {
    Ok(match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => return Err(failed("division by zero")),
        [Value::Int(one), Value::Int(other)] => Value::Int(one.checked_div(*other).ok_or_else(int_overflow)?),
        [Value::Uint(one), Value::Uint(other)] => Value::Uint(one / other),
        [Value::Double(one), Value::Double(other)] => Value::Double(one / other),
        _ => return Err(no_such_overload()),
    })
}

fn modulo(arguments: &[Value]) -> Outcome {
    Ok(match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => return Err(failed("modulus by zero")),
        [Value::Int(one), Value::Int(other)] => Value::Int(one.checked_rem(*other).ok_or_else(int_overflow)?),
        [Value::Uint(one), Value::Uint(other)] => Value::Uint(one % other),
        _ => return Err(no_such_overload()),
    })
}

fn negate(arguments: &[Value]) -> Outcome {
    Ok(match arguments {
        [Value::Int(number)] => Value::Int(number.checked_neg().ok_or_else(int_overflow)?),
        [Value::Double(number)] => Value::Double(-number),
        [Value::Duration(nanoseconds)] => Value::Duration(nanoseconds.checked_neg().ok_or_else(duration_overflow)?),
        _ => return Err(no_such_overload()),
    })
}

fn compare(arguments: &[Value], holds: fn(std::cmp::Ordering) -> bool) -> Outcome {
    let [one, other] = arguments else { return Err(no_such_overload()) };
    order(one, other).map(|order| Value::Bool(holds(order)))
}

fn index(arguments: &[Value]) -> Outcome {
    match arguments {
        [Value::List(list), at] => {
            let found = item(list, at)?.cloned();
            usable(found.ok_or_else(|| failed(format!("index out of bounds: {at}")))?)
        }
        [Value::Map(map), key] => usable(map.get(key).cloned().ok_or_else(|| failed(format!("no such key: {key}")))?),
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), at] => optional_index(&[(**inner).clone(), at.clone()]),
        _ => Err(no_such_overload()),
    }
}

fn optional_index(arguments: &[Value]) -> Outcome {
    match arguments {
        [Value::List(list), at] => item(list, at)?.cloned().map(usable).transpose().map(Value::optional),
        [Value::Map(map), key] => map.get(key).cloned().map(usable).transpose().map(Value::optional),
        [Value::Optional(None), _] => Ok(Value::Optional(None)),
        [Value::Optional(Some(inner)), at] => optional_index(&[(**inner).clone(), at.clone()]),
        _ => Err(no_such_overload()),
    }
}

fn is_in(arguments: &[Value]) -> Outcome {
    Ok(Value::Bool(match arguments {
        [value, Value::List(list)] => List::contains(list, value),
        [key, Value::Map(map)] => map.get(key).is_some(),
        _ => return Err(no_such_overload()),
    }))
}

fn size(arguments: &[Value]) -> Outcome {
    Ok(match arguments {
        [Value::String(text)] => whole(text.chars().count()),
        [Value::Bytes(bytes)] => whole(bytes.len()),
        [Value::List(list)] => whole(list.items.len()),
        [Value::Map(map)] => whole(map.len()),
        _ => return Err(no_such_overload()),
    })
}
