//! Declarations of expressions from schemas: the types of values, and their maximum sizes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::escape;
use crate::cel::{Object, Size, Sizes, Type};
use crate::schema::node::{Additional, Node, Type as Kind};

/// The maximum size of a request in bytes, which limits all values.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;
/// The maximum length of durations and times as texts, with their quotes.
const MAX_TIME: u64 = 32;
const DATE: u64 = 12;

/// The declaration of a value.
#[derive(Debug, Clone)]
pub(super) struct Declaration {
    shape: Shape,
    /// The maximum number of characters, items or entries.
    most: u64,
    /// The minimum number of bytes.
    pub(super) min_bytes: u64,
}

#[derive(Debug, Clone)]
enum Shape {
    Plain(Type),
    List(Box<Declaration>),
    Map(Box<Declaration>),
    Object(BTreeMap<String, Declaration>),
}

/// Returns the declaration of a node's values; `None` if expressions cannot access them.
pub(super) fn declare(node: &Node, is_resource: bool) -> Option<Declaration> {
    let limits = &node.limits;
    if node.is_int_or_string {
        return Some(plain(Type::Dyn, limits.length.most.map_or(MAX_REQUEST - 2, |most| most.saturating_mul(4)), 1));
    }
    match node.kind? {
        Kind::Array => {
            let item = node.items.as_ref()?;
            let item = declare(item, item.is_embedded)?;
            let most = limits.items.most.unwrap_or((MAX_REQUEST - 2) / (item.min_bytes + 1));
            Some(Declaration { shape: Shape::List(Box::new(item)), most, min_bytes: 2 })
        }
        Kind::Object => match &node.additional {
            Additional::Of(values) if !is_resource => {
                let value = declare(values, values.is_embedded)?;
                let most = limits.properties.most.unwrap_or((MAX_REQUEST - 2) / (value.min_bytes + 6));
                Some(Declaration { shape: Shape::Map(Box::new(value)), most, min_bytes: 2 })
            }
            _ => Some(object(node, is_resource)),
        },
        Kind::String => Some(text(node)),
        Kind::Boolean => Some(plain(Type::Bool, 0, 4)),
        Kind::Number => Some(plain(Type::Double, 0, 1)),
        Kind::Integer => Some(plain(Type::Int, 0, 1)),
    }
}

fn plain(kind: Type, most: u64, min_bytes: u64) -> Declaration {
    Declaration { shape: Shape::Plain(kind), most, min_bytes }
}

fn text(node: &Node) -> Declaration {
    let limits = &node.limits;
    let unlimited = MAX_REQUEST - 2;
    match limits.format.as_deref() {
        Some("byte") => plain(Type::Bytes, limits.length.most.unwrap_or(unlimited), 2),
        Some("duration") => plain(Type::Duration, MAX_TIME, 3),
        Some("date") => plain(Type::Timestamp, DATE, DATE),
        Some("date-time") => plain(Type::Timestamp, MAX_TIME, 21),
        _ => {
            let longest = |options: &Vec<serde_json::Value>| {
                let lengths = options.iter().filter_map(|option| option.as_str().map(str::len));
                lengths.max().unwrap_or_default() as u64
            };
            let options = limits.options.as_ref().filter(|options| !options.is_empty()).map(longest);
            // Lengths count characters, which take up to four bytes.
            let most = limits.length.most.map(|most| most.saturating_mul(4)).or(options).unwrap_or(unlimited);
            plain(Type::String, most, 2)
        }
    }
}

fn object(node: &Node, is_resource: bool) -> Declaration {
    let mut fields = BTreeMap::new();
    let mut min_bytes = 2;
    for (name, property) in properties(node, is_resource) {
        let Some(field) = declare(&property, property.is_embedded) else { continue };
        // Fields with defaults need not be sent.
        if node.limits.required.contains(&name) && property.default.is_none() {
            min_bytes += name.len() as u64 + field.min_bytes + 4;
        }
        if let Some(name) = escape(&name) {
            fields.insert(name, field);
        }
    }
    Declaration { shape: Shape::Object(fields), most: 0, min_bytes }
}

/// Returns the members of an object that expressions can access. For a resource, they include its names.
pub(super) fn properties(node: &Node, is_resource: bool) -> BTreeMap<String, Node> {
    let mut properties = node.properties.clone();
    if is_resource && !has_names(node) {
        let text = Node { kind: Some(Kind::String), ..Node::default() };
        let names = ["name", "generateName"].map(|name| (name.to_owned(), text.clone()));
        properties.insert("apiVersion".to_owned(), text.clone());
        properties.insert("kind".to_owned(), text);
        properties.insert(
            "metadata".to_owned(),
            Node { kind: Some(Kind::Object), properties: names.into(), ..Node::default() },
        );
    }
    properties
}

/// Tells whether the schema declares the fields of every resource.
fn has_names(node: &Node) -> bool {
    let is = |node: Option<&Node>, kind: Kind| node.is_some_and(|node| node.kind == Some(kind));
    let metadata = node.properties.get("metadata");
    let name = |name: &str| metadata.and_then(|metadata| metadata.properties.get(name));
    is(node.properties.get("kind"), Kind::String)
        && is(node.properties.get("apiVersion"), Kind::String)
        && is(metadata, Kind::Object)
        && is(name("name"), Kind::String)
        && is(name("generateName"), Kind::String)
}

impl Declaration {
    /// Returns the type of the values. Object types are named after their paths.
    pub(super) fn kind(&self, name: &str) -> Type {
        match &self.shape {
            Shape::Plain(kind) => kind.clone(),
            Shape::List(item) => Type::list(item.kind(&format!("{name}.@idx"))),
            Shape::Map(value) => Type::map(Type::String, value.kind(&format!("{name}.@elem"))),
            Shape::Object(fields) => {
                let fields = fields
                    .iter()
                    .map(|(field, declared)| (field.clone(), declared.kind(&format!("{name}.{field}"))))
                    .collect();
                Type::Object(Arc::new(Object { name: name.to_owned(), fields }))
            }
        }
    }
}

impl Sizes for Declaration {
    /// All variables have the declared type: there is only the new and the old value.
    fn size(&self, path: &[&str]) -> Option<Size> {
        let (_, steps) = path.split_first()?;
        let mut found = self;
        for step in steps {
            found = match (&found.shape, *step) {
                (Shape::List(item), "@items") => item,
                (Shape::Map(value), "@values") => value,
                // Keys are texts of any length, which cost nothing.
                (Shape::Map(_), "@keys") => return Some(Size { min: 0, max: 0 }),
                (Shape::Object(fields), name) => fields.get(name)?,
                _ => return None,
            };
        }
        Some(Size { min: 0, max: found.most })
    }
}

/// Returns how many values of a minimum size fit into a request.
pub(super) fn max_occurrences(min_bytes: u64) -> u64 {
    MAX_REQUEST / (min_bytes + 1)
}
