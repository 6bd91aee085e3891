//! Values with their positions.

use serde_json::{Number, Value};

use crate::kit::source::SourceSpan;

/// A value with its position.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its position.
    pub spot: SourceSpan,
    /// The value: a scalar, a list or a mapping.
    pub kind: Kind,
}

/// The content of a value.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(Text),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// A text and its form.
#[derive(Debug, Clone)]
pub struct Text {
    /// The text.
    pub value: String,
    /// Whether it is quoted.
    pub is_quoted: bool,
    /// The position of its first character, after quotes and block indicators.
    pub start: SourceSpan,
}

/// One entry of a mapping.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub spot: SourceSpan,
    /// The value.
    pub value: Node,
}

impl Node {
    /// Returns a plain value without positions.
    pub fn of_value(value: &Value) -> Self {
        let text = |text: &String| Text { value: text.clone(), is_quoted: true, start: SourceSpan::default() };
        let entry = |(key, value): (&String, &Value)| Entry {
            key: key.clone(),
            spot: SourceSpan::default(),
            value: Self::of_value(value),
        };
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(value) => Kind::Bool(*value),
            Value::Number(number) => Kind::Number(number.clone()),
            Value::String(value) => Kind::Text(text(value)),
            Value::Array(items) => Kind::List(items.iter().map(Self::of_value).collect()),
            Value::Object(entries) => Kind::Map(entries.iter().map(entry).collect()),
        };
        Self { spot: SourceSpan::default(), kind }
    }

    /// Returns the entry of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Kind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the text, if the value is one.
    pub fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(&text.value) } else { None }
    }

    /// Tells whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// Returns the name of its type.
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// Returns the value without positions.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.value.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Map(entries) => {
                Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect())
            }
        }
    }
}
