//! The types of PostgreSQL, from the binary form that the server sends.

use std::error::Error;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Kind, Type};
use uuid::Uuid;

use super::numeric;
use crate::script::outside::sql::{SqlError, SqlProblem, SqlValue};

/// The moment from which PostgreSQL counts, in microseconds: the beginning of 2000.
const EPOCH: i64 = 946_684_800_000_000;

/// Types whose binary form is their text.
const TEXTS: [Type; 7] = [Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::NAME, Type::UNKNOWN, Type::JSON, Type::XML];

/// Types with a form of their own.
const FORMS: [Type; 17] = [
    Type::BOOL,
    Type::INT2,
    Type::INT4,
    Type::INT8,
    Type::OID,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::CHAR,
    Type::BYTEA,
    Type::JSONB,
    Type::TIMESTAMP,
    Type::TIMESTAMPTZ,
    Type::DATE,
    Type::TIME,
    Type::UUID,
    Type::NUMERIC,
    Type::VOID,
];

/// Tells whether values of a type are values of scripts.
pub(super) fn is_known(kind: &Type) -> bool {
    match kind.kind() {
        Kind::Array(member) => !matches!(member.kind(), Kind::Array(_)) && is_known(member),
        Kind::Domain(base) => is_known(base),
        Kind::Enum(_) => true,
        _ => TEXTS.contains(kind) || FORMS.contains(kind) || kind.name() == "citext",
    }
}

/// Returns a value of a row.
///
/// # Errors
/// If the server has sent another value.
pub(super) fn value(row: &Row, index: usize) -> Result<SqlValue, SqlError> {
    let wrong =
        || SqlError::new(SqlProblem::Broken, format!("the value of {} cannot be read", row.columns()[index].name()));
    let Raw(bytes) = row.try_get(index).map_err(|_| wrong())?;
    match bytes {
        None => Ok(SqlValue::Null),
        Some(bytes) => read(row.columns()[index].type_(), bytes).ok_or_else(wrong),
    }
}

/// The bytes of any value.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

fn read(kind: &Type, bytes: &[u8]) -> Option<SqlValue> {
    match kind.kind() {
        Kind::Array(member) => return array(member, bytes),
        Kind::Domain(base) => return read(base, bytes),
        Kind::Enum(_) => return text(bytes),
        _ => {}
    }
    Some(match *kind {
        Type::BOOL => SqlValue::Bool(*bytes.first()? != 0),
        Type::INT2 => SqlValue::Int(i16::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::INT4 => SqlValue::Int(i32::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::INT8 => SqlValue::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
        Type::OID => SqlValue::Int(u32::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::FLOAT4 => SqlValue::Float(f32::from_be_bytes(bytes.try_into().ok()?).into()),
        Type::FLOAT8 => SqlValue::Float(f64::from_be_bytes(bytes.try_into().ok()?)),
        Type::CHAR => SqlValue::Text(char::from(*bytes.first()?).to_string()),
        Type::BYTEA => SqlValue::Bytes(bytes.to_vec()),
        Type::JSON => SqlValue::Json(serde_json::from_slice(bytes).ok()?),
        Type::JSONB => SqlValue::Json(serde_json::from_slice(bytes.get(1..)?).ok()?),
        Type::TIMESTAMPTZ => moment(i64::from_be_bytes(bytes.try_into().ok()?), true)?,
        Type::TIMESTAMP => moment(i64::from_be_bytes(bytes.try_into().ok()?), false)?,
        Type::DATE => date(i32::from_be_bytes(bytes.try_into().ok()?))?,
        Type::TIME => time_of_day(i64::from_be_bytes(bytes.try_into().ok()?))?,
        Type::UUID => SqlValue::Text(Uuid::from_slice(bytes).ok()?.to_string()),
        Type::NUMERIC => SqlValue::Text(numeric::text(bytes)?),
        Type::VOID => SqlValue::Null,
        _ => text(bytes)?,
    })
}

fn text(bytes: &[u8]) -> Option<SqlValue> {
    String::from_utf8(bytes.to_vec()).ok().map(SqlValue::Text)
}

/// Returns a moment, or the text of one without a time zone.
fn moment(microseconds: i64, has_zone: bool) -> Option<SqlValue> {
    match microseconds {
        i64::MAX => return Some(SqlValue::Text("infinity".to_owned())),
        i64::MIN => return Some(SqlValue::Text("-infinity".to_owned())),
        _ => {}
    }
    let Ok(time) = Timestamp::from_microsecond(microseconds.checked_add(EPOCH)?) else {
        // A year after 9999.
        return Some(SqlValue::Text(format!("{microseconds} microseconds since 2000")));
    };
    Some(if has_zone { SqlValue::Time(time) } else { SqlValue::Text(TimeZone::UTC.to_datetime(time).to_string()) })
}

fn date(days: i32) -> Option<SqlValue> {
    match days {
        i32::MAX => return Some(SqlValue::Text("infinity".to_owned())),
        i32::MIN => return Some(SqlValue::Text("-infinity".to_owned())),
        _ => {}
    }
    let seconds = i64::from(days).checked_mul(86_400)?.checked_add(EPOCH / 1_000_000)?;
    let time = Timestamp::from_second(seconds).ok()?;
    Some(SqlValue::Text(TimeZone::UTC.to_datetime(time).date().to_string()))
}

fn time_of_day(microseconds: i64) -> Option<SqlValue> {
    let time = Timestamp::from_microsecond(microseconds).ok()?;
    Some(SqlValue::Text(TimeZone::UTC.to_datetime(time).time().to_string()))
}

/// Reads an array: the number of dimensions, flags, the type of members, the length and the first index of each
/// dimension, then the members.
fn array(member: &Type, bytes: &[u8]) -> Option<SqlValue> {
    let mut reader = Reader(bytes);
    let dimensions = usize::try_from(reader.int()?).ok().filter(|count| *count <= 6)?;
    reader.int()?;
    reader.int()?;
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        lengths.push(usize::try_from(reader.int()?).ok()?);
        reader.int()?;
    }
    if lengths.is_empty() { Some(SqlValue::List(Vec::new())) } else { members(member, &lengths, &mut reader) }
}

fn members(member: &Type, lengths: &[usize], reader: &mut Reader<'_>) -> Option<SqlValue> {
    let (count, inner) = lengths.split_first()?;
    let mut items = Vec::new();
    for _ in 0..*count {
        items.push(if inner.is_empty() { one(member, reader)? } else { members(member, inner, reader)? });
    }
    Some(SqlValue::List(items))
}

fn one(member: &Type, reader: &mut Reader<'_>) -> Option<SqlValue> {
    let length = reader.int()?;
    if length < 0 {
        return Some(SqlValue::Null);
    }
    read(member, reader.bytes(usize::try_from(length).ok()?)?)
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn int(&mut self) -> Option<i32> {
        self.bytes(4)?.try_into().ok().map(i32::from_be_bytes)
    }
}
