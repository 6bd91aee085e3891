//! Field errors in the words of Kubernetes: one constructor for each reason.

use std::fmt::{self, Display};

use serde_json::Value;

use crate::http::api_error::FieldError;

/// Returns the error of a missing field.
pub(crate) fn required(field: impl Display, text: &str) -> FieldError {
    let message = if text.is_empty() { "Required value".to_owned() } else { format!("Required value: {text}") };
    FieldError::new("FieldValueRequired", field.to_string(), message)
}

/// Returns the error of an invalid value.
pub(crate) fn invalid(field: impl Display, value: &Value, text: impl Display) -> FieldError {
    FieldError::new("FieldValueInvalid", field.to_string(), format!("Invalid value: {value}: {text}"))
}

/// Returns the error of a value of a wrong type.
pub(crate) fn type_invalid(field: impl Display, value: &Value, text: impl Display) -> FieldError {
    FieldError::new("FieldValueTypeInvalid", field.to_string(), format!("Invalid value: {value}: {text}"))
}

/// Returns the error of a duplicate value.
pub(crate) fn duplicate(field: impl Display, value: &Value) -> FieldError {
    FieldError::new("FieldValueDuplicate", field.to_string(), format!("Duplicate value: {value}"))
}

/// Returns the error of a reference to something that does not exist.
pub(crate) fn not_found(field: impl Display, value: &Value) -> FieldError {
    FieldError::new("FieldValueNotFound", field.to_string(), format!("Not found: {value}"))
}

/// Returns the error of a value that is not among the supported ones.
pub(crate) fn not_supported<T: Display>(
    field: impl Display,
    value: &Value,
    supported: impl IntoIterator<Item = T>,
) -> FieldError {
    let supported: Vec<String> = supported.into_iter().map(|one| format!("\"{one}\"")).collect();
    let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
    FieldError::new("FieldValueNotSupported", field.to_string(), message)
}

/// Returns the error of a forbidden field.
pub(crate) fn forbidden(field: impl Display, text: impl Display) -> FieldError {
    FieldError::new("FieldValueForbidden", field.to_string(), format!("Forbidden: {text}"))
}

/// Returns the error of a text that is too long.
pub(crate) fn too_long(field: impl Display, limit: u64) -> FieldError {
    FieldError::new("FieldValueTooLong", field.to_string(), format!("Too long: may not be more than {limit} bytes"))
}

/// Returns the error of a list or map with too many members.
pub(crate) fn too_many(field: impl Display, count: usize, limit: u64) -> FieldError {
    FieldError::new(
        "FieldValueTooMany",
        field.to_string(),
        format!("Too many: {count}: must have at most {limit} items"),
    )
}

/// The path of a value in an object. Formatted only for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldPath<'a> {
    /// The whole object.
    Root,
    /// A path given as text.
    Named(&'a str),
    /// A member of an object.
    Member(&'a FieldPath<'a>, &'a str),
    /// An item of a list.
    Item(&'a FieldPath<'a>, usize),
    /// An entry of a map with arbitrary keys, shown in brackets.
    Key(&'a FieldPath<'a>, &'a str),
}

impl<'a> FieldPath<'a> {
    /// Returns the path of a member.
    pub(crate) fn member(&'a self, name: &'a str) -> FieldPath<'a> {
        FieldPath::Member(self, name)
    }

    /// Returns the path of an item.
    pub(crate) fn item(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath::Item(self, index)
    }

    /// Returns the path of a map entry.
    pub(crate) fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath::Key(self, key)
    }

    /// Returns the field of an error. The whole object has no name, which Kubernetes prints as `<nil>`.
    pub(crate) fn field(&self) -> String {
        let text = self.to_string();
        if text.is_empty() { "<nil>".to_owned() } else { text }
    }
}

impl Display for FieldPath<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root | FieldPath::Named("") => Ok(()),
            FieldPath::Named(name) | FieldPath::Member(FieldPath::Root | FieldPath::Named(""), name) => {
                formatter.write_str(name)
            }
            FieldPath::Member(parent, name) => write!(formatter, "{parent}.{name}"),
            FieldPath::Item(parent, index) => write!(formatter, "{parent}[{index}]"),
            FieldPath::Key(parent, key) => write!(formatter, "{parent}[{key}]"),
        }
    }
}
