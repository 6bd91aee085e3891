//! The nodes of a structural schema.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

pub(crate) use super::types::Type;

/// The identification of items in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    /// Not at all: the list is one value.
    #[default]
    Atomic,
    /// By their values, which are unique.
    Set,
    /// By the values of these members.
    Map(Vec<String>),
}

/// Properties besides the declared ones.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// None: other members are dropped.
    #[default]
    Nothing,
    /// Any, kept unchanged.
    Anything,
    /// Values with a schema.
    Of(Box<Node>),
}

/// A rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// The expression that must be true.
    pub expression: String,
    /// The message otherwise.
    pub message: Option<String>,
    /// The expression that returns the message.
    pub message_expression: Option<String>,
    /// The reason of the cause, such as `FieldValueInvalid`.
    pub reason: String,
    /// The path below the node, such as `size`; empty for the node itself.
    pub field_path: String,
    /// The value of `optionalOldSelf`: whether the rule also runs without an old value.
    pub is_old_self_optional: Option<bool>,
    /// The compiled expressions; `None` if they are not enforced.
    #[cfg(feature = "cel")]
    pub(super) compiled: Option<super::rules::compiled::Compiled>,
}

/// A node: the schema of one value and its descendants.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The type; `None` for values of any type, and for integers or strings.
    pub kind: Option<Type>,
    /// Whether null is allowed.
    pub is_nullable: bool,
    /// The default.
    pub default: Option<Value>,
    /// The schemas of members.
    pub properties: BTreeMap<String, Node>,
    /// The schema of the other members.
    pub additional: Additional,
    /// The schema of items.
    pub items: Option<Box<Node>>,
    /// The identification of items.
    pub list_type: ListType,
    /// Whether the members of the object are one value for server-side apply.
    pub is_atomic: bool,
    /// Whether the value is an integer or a string.
    pub is_int_or_string: bool,
    /// Whether unknown members are kept.
    pub keeps_unknown: bool,
    /// Whether the value is an embedded Kubernetes object.
    pub is_embedded: bool,
    /// The constraints of the value.
    pub(super) limits: Limits,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// The constraints of a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    pub(super) required: Vec<String>,
    pub(super) options: Option<Vec<Value>>,
    pub(super) format: Option<String>,
    pub(super) pattern: Option<Regex>,
    pub(super) length: Range<u64>,
    pub(super) items: Range<u64>,
    pub(super) properties: Range<u64>,
    pub(super) number: Range<f64>,
    pub(super) excludes_minimum: bool,
    pub(super) excludes_maximum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

/// An optional minimum and maximum.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Range<T> {
    pub(super) least: Option<T>,
    pub(super) most: Option<T>,
}

impl Type {
    /// All types with their names.
    pub(super) const NAMES: [(&'static str, Self); 6] = [
        ("array", Self::Array),
        ("boolean", Self::Boolean),
        ("integer", Self::Integer),
        ("number", Self::Number),
        ("object", Self::Object),
        ("string", Self::String),
    ];

    /// Returns the name in schemas.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Returns the type with a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }
}

impl Node {
    /// Returns the schema of a member.
    pub fn member(&self, name: &str) -> Option<&Node> {
        self.properties.get(name).or(match &self.additional {
            Additional::Of(node) => Some(node),
            Additional::Nothing | Additional::Anything => None,
        })
    }

    /// Returns the corresponding item of an old list: only items of map lists can be identified.
    pub(super) fn old_item<'a>(&self, old: Option<&'a Value>, new: &Value) -> Option<&'a Value> {
        let ListType::Map(keys) = &self.list_type else { return None };
        old?.as_array()?.iter().find(|item| keys.iter().all(|key| item.get(key) == new.get(key)))
    }

    /// Tells whether the node or a descendant has rules.
    pub(super) fn has_rules(&self) -> bool {
        let below = match &self.additional {
            Additional::Of(node) => node.has_rules(),
            Additional::Nothing | Additional::Anything => false,
        };
        !self.rules.is_empty()
            || below
            || self.items.as_ref().is_some_and(|node| node.has_rules())
            || self.properties.values().any(Self::has_rules)
    }
}
