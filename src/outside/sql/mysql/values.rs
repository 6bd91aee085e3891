//! The values of MySQL and MariaDB.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use mysql_async::consts::ColumnType;
use mysql_async::{Column, Value};

use crate::script::outside::sql::SqlValue;

/// The character set of bytes.
const BINARY: u16 = 63;

/// Returns the value of a parameter. Moments are in UTC, the time zone of the connection.
pub(super) fn param(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::NULL,
        SqlValue::Bool(flag) => Value::Int((*flag).into()),
        SqlValue::Int(number) => Value::Int(*number),
        SqlValue::Float(number) => Value::Double(*number),
        SqlValue::Text(text) => Value::Bytes(text.as_bytes().to_vec()),
        SqlValue::Bytes(bytes) => Value::Bytes(bytes.clone()),
        SqlValue::Time(time) => {
            let time = TimeZone::UTC.to_datetime(*time).to_string().replace('T', " ");
            Value::Bytes(time.into_bytes())
        }
        SqlValue::Json(_) | SqlValue::List(_) => Value::Bytes(value.to_json().to_string().into_bytes()),
    }
}

/// Returns the value of a column. A column of the type `TIMESTAMP` is a moment, and all other dates and times are
/// texts.
pub(super) fn value(value: Value, column: &Column) -> SqlValue {
    match value {
        Value::NULL => SqlValue::Null,
        Value::Int(number) => SqlValue::Int(number),
        Value::UInt(number) => i64::try_from(number).map_or_else(|_| SqlValue::Text(number.to_string()), SqlValue::Int),
        Value::Float(number) => SqlValue::Float(number.into()),
        Value::Double(number) => SqlValue::Float(number),
        Value::Bytes(bytes) => bytes_of(bytes, column),
        Value::Date(year, month, day, hour, minute, second, micros) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            if column.column_type() == ColumnType::MYSQL_TYPE_DATE {
                return SqlValue::Text(date);
            }
            let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
            let text = format!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}");
            let moment = || TimeZone::UTC.to_timestamp(text.parse::<DateTime>().ok()?).ok();
            match column.column_type() {
                ColumnType::MYSQL_TYPE_TIMESTAMP => {
                    moment().map_or_else(|| SqlValue::Text(text.clone()), SqlValue::Time)
                }
                _ => SqlValue::Text(text),
            }
        }
        Value::Time(is_negative, days, hours, minutes, seconds, micros) => {
            let sign = if is_negative { "-" } else { "" };
            let fraction = if micros == 0 { String::new() } else { format!(".{micros:06}") };
            SqlValue::Text(format!("{sign}{:02}:{minutes:02}:{seconds:02}{fraction}", days * 24 + u32::from(hours)))
        }
    }
}

fn bytes_of(bytes: Vec<u8>, column: &Column) -> SqlValue {
    match column.column_type() {
        ColumnType::MYSQL_TYPE_JSON => serde_json::from_slice(&bytes).map_or(SqlValue::Bytes(bytes), SqlValue::Json),
        ColumnType::MYSQL_TYPE_BIT if bytes.len() < 8 => {
            SqlValue::Int(bytes.iter().fold(0, |number, byte| (number << 8) | i64::from(*byte)))
        }
        ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => text_of(bytes),
        _ if column.character_set() == BINARY => SqlValue::Bytes(bytes),
        _ => text_of(bytes),
    }
}

fn text_of(bytes: Vec<u8>) -> SqlValue {
    String::from_utf8(bytes).map_or_else(|error| SqlValue::Bytes(error.into_bytes()), SqlValue::Text)
}
