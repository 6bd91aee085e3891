//! Statements, and what comes back.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;

/// A statement. It has parameters, which may be secret, and so no form for logs.
#[derive(Clone, Default, PartialEq)]
pub struct Statement {
    /// Its text: one statement.
    pub text: String,
    /// The values of its parameters, by position.
    pub params: Vec<SqlValue>,
    /// The time limit, with the wait for a connection.
    pub timeout: Duration,
    /// More rows are an error.
    pub rows: usize,
    /// More bytes of all rows are an error.
    pub bytes: usize,
}

/// The result of a statement.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reply {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with a value for each column.
    pub rows: Vec<Vec<SqlValue>>,
    /// The number of rows that were written; of a query those that were read.
    pub affected: u64,
}

/// A value of a parameter or of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum SqlValue {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text, and every number that does not fit into the other variants.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A moment.
    Time(Timestamp),
    /// A JSON document.
    Json(Value),
    /// An array of PostgreSQL.
    List(Vec<Self>),
}

impl SqlValue {
    /// Returns about how many bytes it occupies.
    pub fn size(&self) -> usize {
        let own = size_of::<Self>();
        match self {
            Self::Text(text) => own + text.len(),
            Self::Bytes(bytes) => own + bytes.len(),
            Self::Json(value) => own + json_size(value),
            Self::List(items) => own + items.iter().map(Self::size).sum::<usize>(),
            _ => own,
        }
    }

    /// Returns it as JSON: bytes are base64, and moments are RFC 3339.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => (*flag).into(),
            Self::Int(number) => (*number).into(),
            Self::Float(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
            Self::Bytes(bytes) => STANDARD.encode(bytes).into(),
            Self::Time(time) => time.to_string().into(),
            Self::Json(value) => value.clone(),
            Self::List(items) => items.iter().map(Self::to_json).collect(),
        }
    }
}

fn json_size(value: &Value) -> usize {
    let own = size_of::<Value>();
    match value {
        Value::String(text) => own + text.len(),
        Value::Array(items) => own + items.iter().map(json_size).sum::<usize>(),
        Value::Object(entries) => {
            own + entries.iter().map(|(key, value)| own + key.len() + json_size(value)).sum::<usize>()
        }
        _ => own,
    }
}
