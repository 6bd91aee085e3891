//! Values of expressions, their equality, and their order.

pub(super) mod access;
pub(super) mod checked;
pub(super) mod format;
pub(super) mod network;
pub(super) mod quantity;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value as Json;

use access::{Authorizer, Check, Decision};
use format::Format;
use network::Network;
use quantity::Amount;

use crate::go::Url;

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(Arc<List>),
    Map(Arc<Map>),
    Optional(Option<Arc<Value>>),
    /// A type, by its name.
    Type(Arc<str>),
    Quantity(Amount),
    Semver(Arc<semver::Version>),
    Ip(std::net::IpAddr),
    Cidr(Network),
    Url(Arc<Url>),
    Format(&'static Format),
    Authorizer(Arc<Authorizer>),
    Check(Arc<Check>),
    Decision(Decision),
    /// An error as a value: using it fails.
    Failed(Arc<str>),
}

/// A list.
#[derive(Debug, Clone, Default)]
pub(crate) struct List {
    /// The items.
    pub(crate) items: Vec<Value>,
    /// The identification of items.
    pub(crate) kind: Items,
}

/// The identification of items in a list, which decides about equality and addition.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Items {
    /// By their positions.
    #[default]
    Ordered,
    /// By their values.
    Set,
    /// By the values of these members.
    Keyed(Arc<[Arc<str>]>),
}

/// A map, or an object.
#[derive(Debug, Clone, Default)]
pub(crate) struct Map {
    /// The entries.
    pub(crate) entries: BTreeMap<Key, Value>,
    /// Members without a schema, which expressions cannot access, but which count in comparisons.
    pub(crate) hidden: BTreeMap<String, Json>,
}

/// A key of a map.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

impl Value {
    /// Returns a text.
    pub(crate) fn text(text: &str) -> Self {
        Self::String(text.into())
    }

    /// Returns a list.
    pub(crate) fn list(items: Vec<Value>) -> Self {
        Self::List(Arc::new(List { items, kind: Items::Ordered }))
    }

    /// Returns a map with texts as its keys.
    pub(crate) fn map(entries: impl IntoIterator<Item = (Arc<str>, Value)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (Key::String(key), value)).collect();
        Self::Map(Arc::new(Map { entries, hidden: BTreeMap::new() }))
    }

    /// Returns an optional value.
    pub(crate) fn optional(value: Option<Value>) -> Self {
        Self::Optional(value.map(Arc::new))
    }

    /// Returns a JSON value without a schema.
    pub(crate) fn of_json(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => {
                number.as_i64().map_or_else(|| Self::Double(number.as_f64().unwrap_or_default()), Self::Int)
            }
            Json::String(text) => Self::text(text),
            Json::Array(items) => Self::list(items.iter().map(Self::of_json).collect()),
            Json::Object(members) => {
                Self::map(members.iter().map(|(name, member)| (name.as_str().into(), Self::of_json(member))))
            }
        }
    }

    /// Returns the name of the type.
    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Quantity(_) => "kubernetes.Quantity",
            Self::Semver(_) => "kubernetes.Semver",
            Self::Ip(_) => "net.IP",
            Self::Cidr(_) => "net.CIDR",
            Self::Url(_) => "kubernetes.URL",
            Self::Format(_) => "kubernetes.NamedFormat",
            Self::Authorizer(_) => "kubernetes.authorization.Authorizer",
            Self::Check(_) => "kubernetes.authorization.ResourceCheck",
            Self::Decision(_) => "kubernetes.authorization.Decision",
            Self::Failed(_) => "error",
        }
    }

    /// Tells whether it is the zero value of its type: zero, empty, false, or absent.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(number) | Self::Duration(number) => *number == 0,
            Self::Uint(number) => *number == 0,
            Self::Double(number) => *number == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(moment) => moment.as_nanosecond() == 0,
            Self::List(list) => list.items.is_empty(),
            Self::Map(map) => map.len() == 0,
            Self::Optional(value) => value.as_ref().is_none_or(|value| value.is_zero()),
            _ => false,
        }
    }

    /// Returns the size of the value for costs.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.items.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.size(),
            Self::Ip(address) => {
                if address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Self::Cidr(network) => {
                if network.address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            _ => 1,
        }
    }

    /// Tells whether two values are equal. Numbers of different types are compared by value.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(_) | Self::Uint(_) | Self::Double(_), Self::Int(_) | Self::Uint(_) | Self::Double(_)) => {
                self.compare(other) == Some(Ordering::Equal)
            }
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::String(one), Self::String(other)) | (Self::Type(one), Self::Type(other)) => one == other,
            (Self::Bytes(one), Self::Bytes(other)) => one == other,
            (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Timestamp(one), Self::Timestamp(other)) => one == other,
            (Self::List(one), Self::List(other)) => one.equals(other),
            (Self::Map(one), Self::Map(other)) => one.equals(other),
            (Self::Optional(one), Self::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => one.equals(other),
                (one, other) => one.is_none() && other.is_none(),
            },
            (Self::Quantity(one), Self::Quantity(other)) => one == other,
            (Self::Semver(one), Self::Semver(other)) => one.cmp_precedence(other) == Ordering::Equal,
            (Self::Ip(one), Self::Ip(other)) => one == other,
            (Self::Cidr(one), Self::Cidr(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one == other,
            (Self::Format(one), Self::Format(other)) => one.name == other.name,
            _ => false,
        }
    }

    /// Returns the order of two comparable values.
    pub(super) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => Some(one.cmp(other)),
            (Self::String(one), Self::String(other)) => Some(one.cmp(other)),
            (Self::Bytes(one), Self::Bytes(other)) => Some(one.cmp(other)),
            (Self::Duration(one), Self::Duration(other)) | (Self::Int(one), Self::Int(other)) => Some(one.cmp(other)),
            (Self::Timestamp(one), Self::Timestamp(other)) => Some(one.cmp(other)),
            (Self::Uint(one), Self::Uint(other)) => Some(one.cmp(other)),
            (Self::Int(one), Self::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Self::Uint(one), Self::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
            (Self::Double(one), Self::Double(other)) => one.partial_cmp(other),
            (Self::Double(one), Self::Int(other)) => compare_mixed(*one, i128::from(*other)),
            (Self::Double(one), Self::Uint(other)) => compare_mixed(*one, i128::from(*other)),
            (Self::Int(one), Self::Double(other)) => compare_mixed(*other, i128::from(*one)).map(Ordering::reverse),
            (Self::Uint(one), Self::Double(other)) => compare_mixed(*other, i128::from(*one)).map(Ordering::reverse),
            _ => None,
        }
    }
}

/// Compares a float with an integer, which is rounded for that, as in cel-go.
fn compare_mixed(one: f64, other: i128) -> Option<Ordering> {
    one.partial_cmp(&(other as f64))
}

impl List {
    /// Tells whether the list contains a value.
    pub(super) fn contains(&self, value: &Value) -> bool {
        self.items.iter().any(|item| item.equals(value))
    }

    fn equals(&self, other: &Self) -> bool {
        if self.items.len() != other.items.len() {
            return false;
        }
        match &self.kind {
            Items::Ordered => self.items.iter().zip(&other.items).all(|(one, other)| one.equals(other)),
            Items::Set => other.items.iter().all(|item| self.contains(item)),
            Items::Keyed(keys) => other
                .items
                .iter()
                .all(|item| self.items.iter().any(|own| has_same_keys(own, item, keys) && own.equals(item))),
        }
    }

    /// Appends the items of another list: items of sets and keyed lists stay unique.
    pub(super) fn add(&mut self, other: &Self) {
        for item in &other.items {
            let own = match &self.kind {
                Items::Ordered => None,
                Items::Set => self.items.iter().position(|own| own.equals(item)),
                Items::Keyed(keys) => self.items.iter().position(|own| has_same_keys(own, item, keys)),
            };
            match own {
                Some(position) => self.items[position] = item.clone(),
                None => self.items.push(item.clone()),
            }
        }
    }
}

fn has_same_keys(one: &Value, other: &Value, keys: &[Arc<str>]) -> bool {
    let (Value::Map(one), Value::Map(other)) = (one, other) else { return false };
    keys.iter().all(|key| match (one.member(key), other.member(key)) {
        (Some(one), Some(other)) => one.equals(other),
        (one, other) => one.is_none() && other.is_none(),
    })
}

impl Map {
    /// Returns the value of a key. Numbers of different types are compared by value.
    pub(super) fn get(&self, key: &Value) -> Option<&Value> {
        let other = match key {
            Value::Int(number) => u64::try_from(*number).ok().map(Key::Uint),
            Value::Uint(number) => i64::try_from(*number).ok().map(Key::Int),
            _ => None,
        };
        Key::of(key).and_then(|key| self.entries.get(&key)).or_else(|| self.entries.get(&other?))
    }

    /// Returns the member with a name.
    pub(super) fn member(&self, name: &Arc<str>) -> Option<&Value> {
        self.entries.get(&Key::String(Arc::clone(name)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.hidden.len()
    }

    fn equals(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.entries.iter().all(|(key, value)| other.get(&key.value()).is_some_and(|other| value.equals(other)))
            && self.hidden.iter().all(|(name, value)| other.hidden.get(name).is_none_or(|other| value == other))
    }
}

impl Key {
    /// Returns the key of a value. Floats without a fraction are integers.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(number) => Some(Self::Int(*number)),
            Value::Uint(number) => Some(Self::Uint(*number)),
            Value::String(text) => Some(Self::String(Arc::clone(text))),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 2_f64.powi(63) => {
                Some(Self::Int(*number as i64))
            }
            _ => None,
        }
    }

    /// Returns the value of the key.
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(Arc::clone(text)),
        }
    }
}

/// The form in error messages.
impl Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(value) => write!(formatter, "{value}"),
            Self::Int(number) => write!(formatter, "{number}"),
            Self::Uint(number) => write!(formatter, "{number}"),
            Self::Double(number) => write!(formatter, "{number}"),
            Self::String(text) => formatter.write_str(text),
            other => formatter.write_str(other.type_name()),
        }
    }
}
