//! The messages of the built-in kinds: their fields and types.
//!
//! They are data, in `messages.txt`: `message: number name type`, with `[]` for repeated fields, `map<…>` for maps with
//! string keys, and `~` as the name of a message whose fields are inlined in its parent. The names are those of JSON,
//! the numbers those of protobuf.
//!
//! The last character of a type decides about absent and zero values: `?` omits zero, `!` sets an absent value to zero,
//! `*` sets it to null; other fields are kept as given.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// The name of an inlined message.
const INLINE: &str = "~";

/// Messages with a single value, which is null if absent.
const NULLS: [&str; 4] = ["meta.Time", "meta.MicroTime", "meta.FieldsV1", "runtime.RawExtension"];

/// The metadata of objects.
pub const OBJECT_META: &str = "meta.ObjectMeta";

/// A message: an object, or a part of one.
pub struct Message {
    /// Its name, with a prefix for its group.
    pub name: &'static str,
    /// Its fields, in no particular order.
    pub fields: Vec<Field>,
}

/// A field of a message.
pub struct Field {
    /// Its number in protobuf.
    pub number: u64,
    /// Its name in JSON.
    pub name: &'static str,
    /// The type of its values: `string`, `bytes`, `bool`, `int32`, `int64`, or a message.
    pub of: &'static str,
    /// How many values it has.
    pub form: Form,
    /// Its treatment if absent or zero.
    pub when_zero: Zero,
}

/// The treatment of a field that is absent or zero: an empty text, list, or map, the number 0, or false.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zero {
    /// It is kept as given.
    Kept,
    /// It is omitted.
    Dropped,
    /// It is set to zero.
    Written,
    /// It is set to null.
    Null,
}

/// How many values a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One.
    One,
    /// A list of them.
    List,
    /// A map of them, by strings.
    Map,
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    include_str!("messages.txt").lines().map(|line| Message::parse(line).expect("the table is well-formed")).collect()
});

/// Returns a message by its name.
pub fn find(name: &str) -> Option<&'static Message> {
    MESSAGES.get(name)
}

/// Returns the message of the objects of a kind, or of the options of requests.
pub fn of_kind(group: &str, version: &str, kind: &str) -> Option<&'static Message> {
    let package = match group {
        _ if kind == "DeleteOptions" => "meta",
        "" => "core",
        "autoscaling" if version == "v2" => "autoscalingv2",
        "apps" | "batch" | "autoscaling" | "policy" => group,
        _ => PACKAGES.iter().find(|package| {
            group.strip_suffix(".k8s.io").is_some_and(|name| name.split('.').next() == Some(package))
        })?,
    };
    // Only whole objects, and options, are sent on their own.
    find(&format!("{package}.{kind}")).filter(|message| kind == "DeleteOptions" || message.has_type())
}

/// The groups that end with `k8s.io`, by the first words of their names.
const PACKAGES: [&str; 11] = [
    "admissionregistration",
    "authentication",
    "authorization",
    "coordination",
    "discovery",
    "events",
    "networking",
    "node",
    "rbac",
    "scheduling",
    "storage",
];

impl Message {
    fn parse(line: &'static str) -> Option<(&'static str, Self)> {
        let (name, fields) = line.split_once(": ")?;
        let fields = fields.split(", ").map(Field::parse).collect::<Option<_>>()?;
        Some((name, Self { name, fields }))
    }

    /// Returns the value without any given fields.
    pub fn zero(&self) -> Value {
        let mut members = Map::new();
        self.complete(&mut members);
        Value::Object(members)
    }

    /// Adds the fields that are always present.
    pub fn complete(&self, members: &mut Map<String, Value>) {
        for field in &self.fields {
            if field.is_inline() {
                if let Some(message) = find(field.of) {
                    message.complete(members);
                }
            } else if !members.contains_key(field.name)
                && let Some(zero) = field.zero()
            {
                members.insert(field.name.to_owned(), zero);
            }
        }
    }

    /// Returns the field with a JSON name, including fields of inlined messages.
    pub fn member(&self, name: &str) -> Option<&Field> {
        let own = self.fields.iter().find(|field| field.name == name && !field.is_inline());
        own.or_else(|| {
            self.fields.iter().filter(|field| field.is_inline()).find_map(|field| find(field.of)?.member(name))
        })
    }

    /// Tells whether its values have `apiVersion` and `kind`. Templates have metadata but no type.
    pub fn has_type(&self) -> bool {
        self.is_object() && !self.name.ends_with("TemplateSpec") && self.name != "core.PersistentVolumeClaimTemplate"
    }

    fn is_object(&self) -> bool {
        self.fields.iter().any(|field| field.number == 1 && field.of == OBJECT_META)
    }
}

impl Field {
    fn parse(field: &'static str) -> Option<Self> {
        let mut words = field.split(' ');
        let (number, name, of) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
        let when_zero = match of.chars().last()? {
            '?' => Zero::Dropped,
            '!' => Zero::Written,
            '*' => Zero::Null,
            _ => Zero::Kept,
        };
        let of = of.trim_end_matches(['?', '!', '*']);
        let (form, of) = match (of.strip_suffix("[]"), of.strip_prefix("map<").and_then(|of| of.strip_suffix('>'))) {
            (Some(of), _) => (Form::List, of),
            (_, Some(of)) => (Form::Map, of),
            _ => (Form::One, of),
        };
        Some(Self { number, name, of, form, when_zero })
    }

    /// Returns the value for an absent field.
    pub fn zero(&self) -> Option<Value> {
        match self.when_zero {
            Zero::Kept | Zero::Dropped => None,
            Zero::Null => Some(Value::Null),
            Zero::Written => Some(match (self.form, self.of) {
                (Form::One, "string" | "bytes") => json!(""),
                (Form::One, "bool") => json!(false),
                (Form::One, "int32" | "int64" | "util.intstr.IntOrString") => json!(0),
                (Form::One, "resource.Quantity") => json!("0"),
                (Form::One, of) if !NULLS.contains(&of) => find(of).map_or(Value::Null, Message::zero),
                _ => Value::Null,
            }),
        }
    }

    /// Tells whether its message is inlined.
    pub fn is_inline(&self) -> bool {
        self.name == INLINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_the_table_is_known() {
        let plain = ["string", "bytes", "bool", "int32", "int64"];
        for field in MESSAGES.values().flat_map(|message| &message.fields) {
            assert!(plain.contains(&field.of) || find(field.of).is_some(), "{}", field.of);
        }
    }

    #[test]
    fn members_are_nested_in_their_messages() {
        let volume = find("core.Volume").unwrap();
        assert_eq!(volume.member("configMap").unwrap().of, "core.ConfigMapVolumeSource");
        assert!(volume.member("name").is_some() && volume.member(INLINE).is_none());
    }

    #[test]
    fn kinds_of_all_groups_have_messages() {
        let names = |group, version, kind| of_kind(group, version, kind).map(|message| message.name);
        assert_eq!(names("rbac.authorization.k8s.io", "v1", "Role"), Some("rbac.Role"));
        assert_eq!(
            names("autoscaling", "v2", "HorizontalPodAutoscaler"),
            Some("autoscalingv2.HorizontalPodAutoscaler")
        );
        assert_eq!(names("", "v1", "PodSpec"), None);
        assert_eq!(names("ex.dev", "v1", "Pod"), None);
    }
}
