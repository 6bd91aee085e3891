//! Parameters for PostgreSQL: as text, which the server reads by the type that it expects.

use std::error::Error;

use bytes::BytesMut;
use tokio_postgres::types::{Format, IsNull, Kind, ToSql, Type};

use crate::script::outside::sql::SqlValue;

/// A parameter.
pub(super) struct Param<'a>(pub &'a SqlValue);

impl std::fmt::Debug for Param<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // It may be a secret.
        formatter.write_str("a parameter")
    }
}

impl ToSql for Param<'_> {
    fn to_sql(&self, expected: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match text(self.0, expected) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, expected: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(expected, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

/// Returns the text of a value where a type is expected; `None` for null.
fn text(value: &SqlValue, expected: &Type) -> Option<String> {
    let is_json = *expected == Type::JSON || *expected == Type::JSONB;
    Some(match value {
        SqlValue::Null => return None,
        SqlValue::Bool(flag) => flag.to_string(),
        SqlValue::Int(number) => number.to_string(),
        SqlValue::Float(number) => number.to_string(),
        SqlValue::Text(text) if *expected == Type::BYTEA => bytea(text.as_bytes()),
        SqlValue::Text(text) => text.clone(),
        SqlValue::Bytes(bytes) if is_json || *expected != Type::BYTEA => {
            value.to_json().as_str().map_or_else(|| bytea(bytes), str::to_owned)
        }
        SqlValue::Bytes(bytes) => bytea(bytes),
        SqlValue::Time(time) => time.to_string(),
        SqlValue::Json(value) => value.to_string(),
        SqlValue::List(_) if is_json => value.to_json().to_string(),
        SqlValue::List(items) => {
            let member = if let Kind::Array(member) = expected.kind() { member } else { expected };
            array(items, member)
        }
    })
}

fn bytea(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the text of an array, with all members in quotes.
fn array(items: &[SqlValue], member: &Type) -> String {
    let one = |item: &SqlValue| match item {
        SqlValue::List(items) if *member != Type::JSON && *member != Type::JSONB => array(items, member),
        item => text(item, member).map_or_else(
            || "NULL".to_owned(),
            |text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        ),
    };
    format!("{{{}}}", items.iter().map(one).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_arrays_are_quoted() {
        let list = SqlValue::List(vec![
            SqlValue::Text(r#"a"b\c,}"#.to_owned()),
            SqlValue::Null,
            SqlValue::Text(String::new()),
        ]);
        assert_eq!(text(&list, &Type::TEXT_ARRAY).unwrap(), r#"{"a\"b\\c,}",NULL,""}"#);
        let nested =
            SqlValue::List(vec![SqlValue::List(vec![SqlValue::Int(1)]), SqlValue::List(vec![SqlValue::Int(2)])]);
        assert_eq!(text(&nested, &Type::INT4_ARRAY).unwrap(), r#"{{"1"},{"2"}}"#);
        assert_eq!(text(&nested, &Type::JSONB).unwrap(), "[[1],[2]]");
        assert_eq!(text(&SqlValue::Bytes(vec![1, 255]), &Type::BYTEA).unwrap(), r"\x01ff");
    }
}
