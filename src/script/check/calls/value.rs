//! The values of a static analysis: which texts, maps and objects an expression may yield.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Limit of alternatives of one value: beyond it, the value is unknown.
const MAX_ALTERNATIVES: usize = 64;

/// Limit of nested maps and lists: deeper parts are unknown.
const MAX_DEPTH: usize = 8;

/// Stands for an unknown part of a text; in a template it would be a variable.
const HOLE: &str = "{{}}";

/// The possible values of an expression.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Values {
    /// The known alternatives.
    pub known: BTreeSet<Known>,
    /// Whether it may be anything else, too.
    pub is_open: bool,
}

/// One alternative.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Known {
    /// A text.
    Text(String),
    /// A text with [`HOLE`]s for the parts that are unknown.
    Partial(String),
    /// A part of the handled object, or the object.
    Part(Part),
    /// An object of a kind, as the server returns it.
    Stored(String),
    /// A map.
    Map(Fields),
    /// A list, by what its items may be.
    List(Box<Values>),
    /// A function or a closure, by its file and name, and the captured values.
    Function(Function),
    /// A value that names nothing: a number, a boolean, or `()`.
    Other,
}

/// A map with known values of some keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fields {
    /// The known keys.
    pub entries: BTreeMap<String, Values>,
    /// Whether there may be other keys.
    pub is_open: bool,
}

/// A function as a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Function {
    /// The number of the code that has it.
    pub code: usize,
    /// Its name.
    pub name: String,
    /// Its first arguments.
    pub captured: Vec<Values>,
}

/// A part of the handled object that matters for requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Part {
    /// The event about the object.
    Event,
    /// The object.
    Object,
    /// Its metadata.
    Metadata,
    /// Its namespace.
    Namespace,
    /// Its name.
    Name,
    /// Its `apiVersion`.
    ApiVersion,
    /// Its kind.
    Kind,
}

impl Part {
    /// Returns a property; `None` if it does not matter.
    fn property(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Event, "object") => Some(Self::Object),
            (Self::Object, "metadata") => Some(Self::Metadata),
            (Self::Object, "apiVersion") => Some(Self::ApiVersion),
            (Self::Object, "kind") => Some(Self::Kind),
            (Self::Metadata, "namespace") => Some(Self::Namespace),
            (Self::Metadata, "name") => Some(Self::Name),
            _ => None,
        }
    }
}

impl From<Known> for Values {
    fn from(known: Known) -> Self {
        Self { known: BTreeSet::from([known]), is_open: false }
    }
}

impl Values {
    /// Returns a value that may be anything.
    pub(super) fn unknown() -> Self {
        Self { known: BTreeSet::new(), is_open: true }
    }

    /// Returns a text.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Known::Text(text.into()).into()
    }

    /// Returns a value without a name in it.
    pub(super) fn other() -> Self {
        Known::Other.into()
    }

    /// Returns a list of items.
    pub(super) fn list(items: Self) -> Self {
        Known::List(Box::new(items)).into()
    }

    /// Returns plain data.
    pub(super) fn of_json(value: &Value) -> Self {
        match value {
            Value::String(text) => Self::text(text),
            Value::Array(items) => {
                let mut all = Self::default();
                for item in items {
                    all.join(Self::of_json(item));
                }
                Self::list(all)
            }
            Value::Object(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.clone(), Self::of_json(value))).collect();
                Self::from(Known::Map(Fields { entries, is_open: false }))
            }
            _ => Self::other(),
        }
    }

    /// Tells whether nothing is known.
    #[cfg(test)]
    pub(super) fn is_unknown(&self) -> bool {
        self.is_open && self.known.is_empty()
    }

    /// Adds the alternatives of another value.
    pub(super) fn join(&mut self, other: Self) {
        self.is_open |= other.is_open;
        self.known.extend(other.known);
        if self.known.len() > MAX_ALTERNATIVES || self.depth() > MAX_DEPTH {
            *self = Self::unknown();
        }
    }

    fn depth(&self) -> usize {
        let of = |known: &Known| match known {
            Known::Map(fields) => 1 + fields.entries.values().map(Self::depth).max().unwrap_or_default(),
            Known::List(items) => 1 + items.depth(),
            Known::Function(function) => 1 + function.captured.iter().map(Self::depth).max().unwrap_or_default(),
            _ => 0,
        };
        self.known.iter().map(of).max().unwrap_or_default()
    }

    /// Returns both.
    #[must_use]
    pub(super) fn or(mut self, other: Self) -> Self {
        self.join(other);
        self
    }

    /// Returns the value of a property.
    pub(super) fn property(&self, name: &str) -> Self {
        let mut found = Self { is_open: self.is_open, ..Self::default() };
        for known in &self.known {
            found.join(match known {
                Known::Map(fields) => match fields.entries.get(name) {
                    Some(value) => value.clone(),
                    None if fields.is_open => Self::unknown(),
                    None => Self::other(),
                },
                Known::Part(part) => part.property(name).map_or_else(Self::unknown, |part| Known::Part(part).into()),
                Known::Other => continue,
                _ => Self::unknown(),
            });
        }
        found
    }

    /// Returns the possible items of a list, or values of a map.
    pub(super) fn items(&self) -> Self {
        let mut found = Self { is_open: self.is_open, ..Self::default() };
        for known in &self.known {
            match known {
                Known::List(items) => found.join((**items).clone()),
                Known::Map(fields) => {
                    found.is_open |= fields.is_open;
                    fields.entries.values().for_each(|value| found.join(value.clone()));
                }
                Known::Other => {}
                _ => found.is_open = true,
            }
        }
        found
    }

    /// Returns the keys of a map, as a list.
    pub(super) fn keys(&self) -> Self {
        let mut keys = Self { is_open: self.is_open, ..Self::default() };
        for known in &self.known {
            match known {
                Known::Map(fields) => {
                    keys.is_open |= fields.is_open;
                    fields.entries.keys().for_each(|key| keys.join(Self::text(key)));
                }
                Known::Other => {}
                _ => keys.is_open = true,
            }
        }
        Self::list(keys)
    }

    /// Returns the texts that one text after the other may yield.
    pub(super) fn followed_by(&self, next: &Self) -> Self {
        let mut joined = Self::default();
        for (first, is_first_known) in self.texts() {
            for (second, is_second_known) in next.texts() {
                let text = format!("{first}{second}");
                joined.join(
                    if is_first_known && is_second_known { Known::Text(text) } else { Known::Partial(text) }.into(),
                );
            }
        }
        joined
    }

    /// Returns the texts that it may be, each with whether it is known completely.
    fn texts(&self) -> BTreeSet<(String, bool)> {
        let of = |known: &Known| match known {
            Known::Text(text) => (text.clone(), true),
            Known::Partial(text) => (text.clone(), false),
            _ => (HOLE.to_owned(), false),
        };
        self.known.iter().map(of).chain(self.is_open.then(|| (HOLE.to_owned(), false))).collect()
    }

    /// Sets the value at a path of properties; `None` in the path stands for any item.
    pub(super) fn set(&mut self, path: &[Option<&str>], value: &Self) {
        let Some((first, rest)) = path.split_first() else {
            self.clone_from(value);
            return;
        };
        let is_certain = self.known.len() == 1 && !self.is_open;
        let changed = self.known.iter().map(|known| match (known, first) {
            (Known::Map(fields), Some(key)) => {
                let mut fields = fields.clone();
                let absent = || Self { known: BTreeSet::from([Known::Other]), is_open: fields.is_open };
                let mut part = fields.entries.get(*key).cloned().unwrap_or_else(absent);
                if !rest.is_empty() && part.known.contains(&Known::Other) {
                    // An assignment to a part of an absent map fails.
                    part.known.remove(&Known::Other);
                }
                let before = part.clone();
                part.set(rest, value);
                fields.entries.insert((*key).to_owned(), if is_certain { part } else { before.or(part) });
                Known::Map(fields)
            }
            (Known::Map(fields), None) => {
                let mut fields = fields.clone();
                for part in fields.entries.values_mut() {
                    let mut other = part.clone();
                    other.set(rest, value);
                    part.join(other);
                }
                fields.is_open = true;
                Known::Map(fields)
            }
            (Known::List(items), _) => {
                let mut part = (**items).clone();
                part.set(rest, value);
                Known::List(Box::new((**items).clone().or(part)))
            }
            (known, _) => known.clone(),
        });
        self.known = changed.collect();
        // The kind of a stored object may be another one after the assignment.
        if matches!(first, Some("kind" | "apiVersion") | None)
            && self.known.iter().any(|known| matches!(known, Known::Stored(_)))
        {
            self.is_open = true;
        }
    }

    /// Returns the functions among the alternatives.
    pub(super) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.known.iter().filter_map(|known| match known {
            Known::Function(function) => Some(function),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(values: &Values) -> (Vec<&str>, bool) {
        let texts = values.known.iter().filter_map(|known| match known {
            Known::Text(text) => Some(text.as_str()),
            _ => None,
        });
        (texts.collect(), values.is_open)
    }

    #[test]
    fn joined_values_have_all_alternatives_up_to_a_limit() {
        let mut values = Values::text("a").or(Values::text("b"));
        assert_eq!(texts(&values), (vec!["a", "b"], false));
        (1..MAX_ALTERNATIVES).for_each(|number| values.join(Values::text(number.to_string())));
        assert!(values.is_unknown());
    }

    #[test]
    fn parts_of_maps_are_read_and_set() {
        let mut object = Values::of_json(&json!({"kind": "Pod", "metadata": {"name": "a"}}));
        assert_eq!(texts(&object.property("metadata").property("name")), (vec!["a"], false));
        object.set(&[Some("metadata"), Some("namespace")], &Values::text("n"));
        object.set(&[Some("kind")], &Values::text("Service"));
        assert_eq!(texts(&object.property("kind")), (vec!["Service"], false));
        assert_eq!(texts(&object.property("metadata").property("namespace")), (vec!["n"], false));
        assert_eq!(object.property("spec"), Values::other());
    }

    #[test]
    fn an_assignment_to_one_of_several_maps_keeps_both_values() {
        let mut object = Values::of_json(&json!({"kind": "Pod"})).or(Values::of_json(&json!({"kind": "Job"})));
        object.set(&[Some("kind")], &Values::text("Node"));
        assert_eq!(texts(&object.property("kind")), (vec!["Job", "Node", "Pod"], false));
    }

    #[test]
    fn texts_are_combined() {
        let joined = Values::text("a").or(Values::text("b")).followed_by(&Values::text("-c"));
        assert_eq!(texts(&joined), (vec!["a-c", "b-c"], false));
        let partial = Values::text("a").followed_by(&Values::unknown()).followed_by(&Values::text("b"));
        assert_eq!(partial, Known::Partial("a{{}}b".to_owned()).into());
    }

    #[test]
    fn self_containing_maps_become_unknown() {
        let mut values = Values::of_json(&json!({}));
        for _ in 0..MAX_DEPTH {
            let inner = values.clone();
            values = Values::default();
            values
                .join(Known::Map(Fields { entries: BTreeMap::from([("x".to_owned(), inner)]), is_open: false }).into());
        }
        assert!(values.is_unknown());
    }
}
