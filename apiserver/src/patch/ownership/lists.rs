//! The ownership of lists and maps of a kind: from the schema of a definition, or from the table of built-in kinds.

use serde_json::{Value, json};

use crate::kinds::builtin;
use crate::kinds::kind::Kind;
use crate::patch::merge_keys::{self, ATOMIC, SET};

/// The granularity of the ownership of a list or map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Topology {
    /// As a whole.
    Atomic,
    /// A map: each field separately. A list is owned as a whole.
    Granular,
    /// A list: each value separately.
    Set,
    /// A list: each item separately, identified by these fields; a missing field has the default.
    Keyed(Vec<(String, Option<Value>)>),
}

/// The step of a path from a list into its items.
pub(super) const ITEM: &str = "[]";

/// The ownership of a kind's lists and maps.
pub(crate) trait Lists {
    /// Returns the ownership of the value at the path, which has field names, and [`ITEM`] for the items of a list.
    fn topology(&self, path: &[&str]) -> Topology;

    /// Tells whether the field at the path is a field of the schema, as opposed to the key of a free map.
    fn is_declared(&self, path: &[&str]) -> bool;

    /// Returns the fields that every object has, which are not owned.
    fn zero(&self) -> Value;

    /// Tells whether the status is written only through a subresource.
    fn has_status(&self) -> bool;
}

/// Returns the ownership of the kind's lists and maps.
pub(crate) fn lists_of(kind: &Kind) -> Box<dyn Lists + '_> {
    let versions = kind.definition.as_ref().and_then(|definition| definition.pointer("/spec/versions")?.as_array());
    let version =
        versions.and_then(|versions| versions.iter().find(|version| version["name"] == kind.version.as_str()));
    match version {
        Some(version) => {
            Box::new(Schema { schema: &version["schema"]["openAPIV3Schema"], has_status: kind.has_status })
        }
        None if kind.is_custom() => Box::new(Schema { schema: &Value::Null, has_status: kind.has_status }),
        None => Box::new(BuiltIn { shape: &kind.kind, kind: Some(kind) }),
    }
}

/// The lists and maps of a built-in kind.
#[derive(Debug, Clone)]
pub(super) struct BuiltIn<'a> {
    /// The shape of the objects, which is the name of the kind.
    shape: &'a str,
    /// The kind; `None` for the metadata of any kind.
    kind: Option<&'a Kind>,
}

/// The lists and maps of a schema. Its `metadata` has the built-in structure.
#[derive(Debug, Clone)]
pub(super) struct Schema<'a> {
    /// The `openAPIV3Schema` of the version.
    pub schema: &'a Value,
    /// Whether there is a `status` subresource.
    pub has_status: bool,
}

/// Fields with a free map, whose keys are data.
const FREE_MAPS: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "binaryData",
    "stringData",
    "matchLabels",
    "limits",
    "requests",
    "capacity",
    "hard",
    "used",
];

impl BuiltIn<'_> {
    fn shape(&self, path: &[&str]) -> (&str, &'static str) {
        let (mut shape, mut owned) = (self.shape, "");
        for part in path.iter().filter(|part| **part != ITEM) {
            (shape, owned) = merge_keys::find(shape, part).map_or(("", ""), |field| (field.holds, field.owned));
        }
        (shape, owned)
    }
}

impl Lists for BuiltIn<'_> {
    fn topology(&self, path: &[&str]) -> Topology {
        let (shape, owned) = self.shape(path);
        match owned {
            _ if path.last() == Some(&ITEM) => {
                if shape == "Atomic" {
                    Topology::Atomic
                } else {
                    Topology::Granular
                }
            }
            "" => Topology::Granular,
            ATOMIC => Topology::Atomic,
            SET => Topology::Set,
            keys => Topology::Keyed(keys.split(' ').map(key_with_default).collect()),
        }
    }

    fn is_declared(&self, path: &[&str]) -> bool {
        let above = path.len().checked_sub(2).map(|last| path[last]);
        !above.is_some_and(|above| FREE_MAPS.contains(&above))
    }

    fn zero(&self) -> Value {
        self.kind.map(builtin::zero).unwrap_or_default()
    }

    fn has_status(&self) -> bool {
        self.kind.is_some_and(|kind| kind.has_status)
    }
}

fn key_with_default(key: &str) -> (String, Option<Value>) {
    match key.split_once('=') {
        Some((key, default)) => (key.to_owned(), Some(Value::from(default))),
        // Keys of built-in kinds are Go fields, whose default is the zero value.
        None => (key.to_owned(), Some(Value::from(""))),
    }
}

impl Schema<'_> {
    /// Returns the schema of the value at the path.
    fn node(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self.schema, |node, part| match *part {
            ITEM => node.get("items"),
            name => {
                node.get("properties").and_then(|fields| fields.get(name)).or_else(|| node.get("additionalProperties"))
            }
        })
    }

    fn metadata() -> BuiltIn<'static> {
        BuiltIn { shape: "Metadata", kind: None }
    }
}

impl Lists for Schema<'_> {
    fn topology(&self, path: &[&str]) -> Topology {
        if path.first() == Some(&"metadata") {
            return Self::metadata().topology(path);
        }
        let Some(node) = self.node(path) else { return Topology::Granular };
        if node["x-kubernetes-map-type"] == "atomic" || node["x-kubernetes-list-type"] == "atomic" {
            return Topology::Atomic;
        }
        match (node["x-kubernetes-list-type"].as_str(), node["x-kubernetes-list-map-keys"].as_array()) {
            (Some("set"), _) => Topology::Set,
            (Some("map"), Some(keys)) => Topology::Keyed(
                keys.iter()
                    .filter_map(Value::as_str)
                    .map(|key| {
                        let default = node.pointer(&format!(
                            "/items/properties/{}/default",
                            key.replace('~', "~0").replace('/', "~1")
                        ));
                        (key.to_owned(), default.cloned())
                    })
                    .collect(),
            ),
            _ => Topology::Granular,
        }
    }

    fn is_declared(&self, path: &[&str]) -> bool {
        if path.first() == Some(&"metadata") {
            return Self::metadata().is_declared(path);
        }
        let Some((name, above)) = path.split_last() else { return true };
        above.is_empty() && matches!(*name, "apiVersion" | "kind")
            || self.node(above).and_then(|node| node.get("properties")?.get(*name)).is_some()
    }

    fn zero(&self) -> Value {
        json!({"metadata": {}})
    }

    fn has_status(&self) -> bool {
        self.has_status
    }
}
