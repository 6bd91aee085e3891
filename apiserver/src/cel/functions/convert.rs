//! Conversions between types.

use super::time::{in_range, parse_duration, parse_timestamp, print_seconds, print_timestamp};
use crate::cel::error::{Error, failed, no_such_overload};
use crate::cel::function::{Function, Outcome};
use crate::cel::value::Value;

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "dyn" => |arguments| Ok(arguments[0].clone()),
        "type" => |arguments| Ok(Value::Type(arguments[0].type_name().into())),
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "uint" => to_uint,
        _ => return None,
    })
}

fn impossible(from: &Value, to: &str) -> Error {
    failed(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

fn to_bool(arguments: &[Value]) -> Outcome {
    match &arguments[0] {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        from @ Value::String(text) => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(impossible(from, "bool")),
        },
        _ => Err(no_such_overload()),
    }
}

fn to_bytes(arguments: &[Value]) -> Outcome {
    match &arguments[0] {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(no_such_overload()),
    }
}

fn to_double(arguments: &[Value]) -> Outcome {
    Ok(Value::Double(match &arguments[0] {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        from @ Value::String(text) => text.parse().map_err(|_| impossible(from, "double"))?,
        _ => return Err(no_such_overload()),
    }))
}

fn to_duration(arguments: &[Value]) -> Outcome {
    match &arguments[0] {
        Value::Duration(nanoseconds) => Ok(Value::Duration(*nanoseconds)),
        // Kubernetes declares this conversion, but does not implement it.
        from @ Value::Int(_) => Err(impossible(from, "google.protobuf.Duration")),
        from @ Value::String(text) => {
            parse_duration(text).map(Value::Duration).map_err(|_| impossible(from, "google.protobuf.Duration"))
        }
        _ => Err(no_such_overload()),
    }
}

fn to_int(arguments: &[Value]) -> Outcome {
    let overflow = || failed("integer overflow");
    Ok(Value::Int(match &arguments[0] {
        Value::Int(number) | Value::Duration(number) => *number,
        Value::Uint(number) => i64::try_from(*number).map_err(|_| overflow())?,
        // Both limits themselves are refused, since they may result from rounding.
        Value::Double(number) if number.abs() < 2_f64.powi(63) => *number as i64,
        Value::Double(_) => return Err(overflow()),
        Value::Timestamp(moment) => moment.as_nanosecond().div_euclid(1_000_000_000) as i64,
        from @ Value::String(text) => text.parse().map_err(|_| impossible(from, "int"))?,
        _ => return Err(no_such_overload()),
    }))
}

fn to_uint(arguments: &[Value]) -> Outcome {
    let overflow = || failed("unsigned integer overflow");
    Ok(Value::Uint(match &arguments[0] {
        Value::Uint(number) => *number,
        Value::Int(number) => u64::try_from(*number).map_err(|_| overflow())?,
        Value::Double(number) if *number >= 0.0 && *number < 2_f64.powi(64) => *number as u64,
        Value::Double(_) => return Err(overflow()),
        from @ Value::String(text) => text.parse().map_err(|_| impossible(from, "uint"))?,
        _ => return Err(no_such_overload()),
    }))
}

fn to_timestamp(arguments: &[Value]) -> Outcome {
    let moment = match &arguments[0] {
        Value::Timestamp(moment) => *moment,
        Value::Int(seconds) => jiff::Timestamp::from_second(*seconds).map_err(|_| failed("timestamp overflow"))?,
        from @ Value::String(text) => {
            parse_timestamp(text).map_err(|_| impossible(from, "google.protobuf.Timestamp"))?
        }
        _ => return Err(no_such_overload()),
    };
    if in_range(moment) { Ok(Value::Timestamp(moment)) } else { Err(failed("timestamp overflow")) }
}

fn to_string(arguments: &[Value]) -> Outcome {
    print(&arguments[0]).map(|text| Value::text(&text))
}

/// Returns a value as a text.
pub(super) fn print(value: &Value) -> Result<String, Error> {
    Ok(match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes)
            .map_err(|_| failed("invalid UTF-8 in bytes, cannot convert to string"))?
            .to_owned(),
        Value::Double(number) => print_double(*number),
        Value::Duration(nanoseconds) => print_seconds(*nanoseconds),
        Value::Timestamp(moment) => print_timestamp(*moment),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(network) => network.to_string(),
        Value::Type(name) => name.to_string(),
        Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => value.to_string(),
        _ => return Err(no_such_overload()),
    })
}

/// Prints like Go's `%g`: very large and very small numbers have an exponent.
fn print_double(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..21).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}
