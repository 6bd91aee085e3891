//! A field of a checked object: its value, its path, and rules for many fields.

use serde_json::Value;

use crate::http::api_error::FieldError;
use crate::schema::field_error::{self, FieldPath};
use crate::schema::metadata::{self, NameRule};

/// The errors of an object.
pub(crate) type FieldErrors = Vec<FieldError>;

/// A field with its path. A missing field is null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field<'p, 'v> {
    /// The value.
    pub value: &'v Value,
    path: FieldPath<'p>,
}

static NULL: Value = Value::Null;

impl<'p, 'v> Field<'p, 'v> {
    /// Returns the field of a whole object.
    pub(crate) fn root(value: &'v Value) -> Self {
        Self { value, path: FieldPath::Root }
    }

    /// Returns a field with a path given as text.
    pub(crate) fn named(value: &'v Value, path: &'p str) -> Self {
        Self { value, path: FieldPath::Named(path) }
    }

    /// Returns a member.
    pub(crate) fn at<'b>(&'b self, name: &'b str) -> Field<'b, 'v> {
        Field { value: self.value.get(name).unwrap_or(&NULL), path: self.path.member(name) }
    }

    /// Returns another value at the same path.
    pub(crate) fn with<'w>(&self, value: &'w Value) -> Field<'p, 'w> {
        Field { value, path: self.path }
    }

    /// Returns an item.
    pub(crate) fn item(&self, index: usize) -> Field<'_, 'v> {
        Field { value: self.value.get(index).unwrap_or(&NULL), path: self.path.item(index) }
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Field<'_, 'v>> {
        self.list().iter().enumerate().map(|(index, value)| Field { value, path: self.path.item(index) })
    }

    /// Returns the entries of a map with arbitrary keys, which are in brackets in their paths.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'v str, Field<'_, 'v>)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(|(key, value)| (key.as_str(), Field { value, path: self.path.key(key) }))
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> String {
        self.path.to_string()
    }

    /// Returns the text; empty if there is none.
    pub(crate) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// Returns the number; zero if there is none.
    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or_default()
    }

    /// Returns the items; empty if it is not a list.
    pub(crate) fn list(&self) -> &'v [Value] {
        self.value.as_array().map_or(&[], Vec::as_slice)
    }

    /// Tells whether the field is present.
    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Tells whether the field is true.
    pub(crate) fn is_true(&self) -> bool {
        self.value == &Value::Bool(true)
    }

    /// Tells whether a text, list or map is empty.
    pub(crate) fn is_empty(&self) -> bool {
        match self.value {
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            value => value.is_null(),
        }
    }
}

/// Field errors.
impl Field<'_, '_> {
    pub(crate) fn required(&self, why: &str) -> FieldError {
        field_error::required(self.path, why)
    }

    pub(crate) fn invalid(&self, why: impl std::fmt::Display) -> FieldError {
        field_error::invalid(self.path, self.value, why)
    }

    pub(crate) fn forbidden(&self, why: impl std::fmt::Display) -> FieldError {
        field_error::forbidden(self.path, why)
    }

    pub(crate) fn duplicate(&self) -> FieldError {
        field_error::duplicate(self.path, self.value)
    }

    pub(crate) fn not_found(&self) -> FieldError {
        field_error::not_found(self.path, self.value)
    }

    pub(crate) fn not_supported(&self, options: &[&str]) -> FieldError {
        field_error::not_supported(self.path, self.value, options)
    }

    pub(crate) fn too_long(&self, limit: u64) -> FieldError {
        field_error::too_long(self.path, limit)
    }

    pub(crate) fn too_many(&self, limit: u64) -> FieldError {
        field_error::too_many(self.path, self.list().len(), limit)
    }
}

/// Rules for many fields.
impl Field<'_, '_> {
    /// Requires a non-empty value. Returns whether there is one.
    pub(crate) fn must_be_filled(&self, causes: &mut FieldErrors) -> bool {
        if self.is_empty() {
            causes.push(self.required(""));
        }
        !self.is_empty()
    }

    /// Requires zero or more.
    pub(crate) fn must_not_be_negative(&self, causes: &mut FieldErrors) {
        if self.number() < 0 {
            causes.push(self.invalid("must be greater than or equal to 0"));
        }
    }

    /// Requires one of some values; an empty one is not supported.
    pub(crate) fn must_be_supported(&self, options: &[&str], causes: &mut FieldErrors) {
        if !options.contains(&self.text()) {
            causes.push(self.not_supported(options));
        }
    }

    /// Requires one of some values; an empty one is a missing value.
    pub(crate) fn must_be_one_of(&self, options: &[&str], causes: &mut FieldErrors) {
        if self.must_be_filled(causes) {
            self.must_be_supported(options, causes);
        }
    }

    /// Requires one of some values, unless it is empty.
    pub(crate) fn may_be_one_of(&self, options: &[&str], causes: &mut FieldErrors) {
        if self.is_set() {
            self.must_be_supported(options, causes);
        }
    }

    /// Requires a port number.
    pub(crate) fn must_be_a_port(&self, causes: &mut FieldErrors) {
        if !(1..=65_535).contains(&self.number()) {
            causes.push(self.invalid("must be between 1 and 65535, inclusive"));
        }
    }

    /// Requires a port number or a port name.
    pub(crate) fn must_be_a_port_or_name(&self, causes: &mut FieldErrors) {
        match self.value.as_str() {
            Some(name) => causes.extend(port_name_mistakes(name).into_iter().map(|why| self.invalid(why))),
            None => self.must_be_a_port(causes),
        }
    }

    /// Requires a name of an object or of a part of it.
    pub(crate) fn must_be_a_name(&self, rule: NameRule, causes: &mut FieldErrors) {
        causes.extend(metadata::name_mistake(rule, self.text(), false).map(|why| self.invalid(why)));
    }

    /// Requires one label of a domain name.
    pub(crate) fn must_be_a_label(&self, causes: &mut FieldErrors) {
        self.must_be_a_name(NameRule::Label, causes);
    }

    /// Requires a domain name.
    pub(crate) fn must_be_a_subdomain(&self, causes: &mut FieldErrors) {
        self.must_be_a_name(NameRule::Subdomain, causes);
    }

    /// Requires a name with an optional domain before it.
    pub(crate) fn must_be_qualified(&self, causes: &mut FieldErrors) {
        causes.extend(metadata::qualified_mistakes(self.text()).into_iter().map(|why| self.invalid(why)));
    }

    /// Requires the value of the old object.
    pub(crate) fn must_stay(&self, old: &Field<'_, '_>, causes: &mut FieldErrors) {
        if self.value != old.value {
            causes.push(self.invalid("field is immutable"));
        }
    }
}

/// Returns the errors of a port name.
pub(crate) fn port_name_mistakes(name: &str) -> Vec<&'static str> {
    let has_only =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let rules = [
        (name.len() > 15, "must be no more than 15 characters long"),
        (!has_only(name), "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"),
        (!name.contains(|c: char| c.is_ascii_lowercase()), "must contain at least one letter (a-z)"),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen"),
    ];
    rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, why)| why).collect()
}
