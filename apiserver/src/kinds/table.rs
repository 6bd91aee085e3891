//! Objects as rows of a table for kubectl, and objects reduced to their metadata.

mod age;
mod builtin;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::kind::Kind;
use age::age;

pub use jsonpath::JsonPath;

/// The object in each row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Include {
    /// Nothing.
    None,
    /// The object's metadata.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// The table of a kind: its columns, ready to be filled.
#[derive(Debug, Clone)]
pub struct Table {
    columns: Vec<Column>,
    cells: Cells,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i64,
}

#[derive(Debug, Clone)]
enum Cells {
    Custom(Vec<Option<JsonPath>>),
    Builtin(builtin::Row),
}

impl Include {
    /// Returns the value of a query's `includeObject`; `None` if it is invalid.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "" | "Metadata" => Self::Metadata,
            "None" => Self::None,
            "Object" => Self::Object,
            _ => return None,
        })
    }
}

impl Table {
    /// Returns the table of a kind.
    pub fn of(kind: &Kind) -> Self {
        match &kind.definition {
            Some(definition) => Self::custom(definition, &kind.version),
            None => Self::builtin(kind),
        }
    }

    fn custom(definition: &Value, version: &str) -> Self {
        let found = crate::kinds::definition::version(definition, version)
            .and_then(|version| version["additionalPrinterColumns"].as_array());
        let age = [json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"})];
        let written = found.filter(|columns| !columns.is_empty()).map_or(&age[..], Vec::as_slice);
        let mut columns = vec![name_column()];
        let mut paths = vec![None];
        for column in written {
            let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
            let described = Some(text("description")).filter(|text| !text.is_empty());
            let description = described.unwrap_or_else(|| {
                format!("Custom resource definition column (in JSONPath format): {}", text("jsonPath"))
            });
            let priority = column["priority"].as_i64().unwrap_or_default();
            columns.push(Column {
                name: text("name"),
                kind: text("type"),
                format: text("format"),
                description,
                priority,
            });
            paths.push(JsonPath::parse(&text("jsonPath")).ok());
        }
        Self { columns, cells: Cells::Custom(paths) }
    }

    fn builtin(kind: &Kind) -> Self {
        let (columns, row) = builtin::table(&kind.group, &kind.plural);
        let more = columns.iter().map(|(name, kind, priority)| Column {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            format: if *name == "Name" { "name".to_owned() } else { String::new() },
            description: if *name == "Name" { NAME.to_owned() } else { String::new() },
            priority: *priority,
        });
        Self { columns: more.collect(), cells: Cells::Builtin(row) }
    }

    /// Returns a `Table` of objects. The metadata is that of the list; only the first event of a watch has the columns.
    pub fn render<'a>(
        &self,
        metadata: Value,
        objects: impl IntoIterator<Item = &'a Value>,
        include: Include,
        now: Timestamp,
        has_columns: bool,
    ) -> Value {
        let columns = if has_columns { self.columns.iter().map(Column::to_json).collect() } else { Value::Null };
        let rows: Vec<Value> = objects
            .into_iter()
            .map(|object| json!({"cells": self.cells(object, now), "object": included(object, include)}))
            .collect();
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
    }

    /// Returns the `Table` of a bookmark: one row without a name, whose object has the revision.
    pub fn bookmark(&self, bookmark: &Value, has_columns: bool) -> Value {
        let columns = if has_columns { self.columns.iter().map(Column::to_json).collect() } else { Value::Null };
        let mut cells = vec![Value::Null; self.columns.len()];
        cells[0] = json!("");
        let version = bookmark["metadata"]["resourceVersion"].clone();
        let rows = json!([{"cells": cells, "object": partial(bookmark)}]);
        json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version}, "columnDefinitions": columns, "rows": rows})
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match &self.cells {
            Cells::Builtin(row) => row(object, now),
            Cells::Custom(paths) => {
                let columns = self.columns.iter().zip(paths);
                columns
                    .map(|(column, path)| match path {
                        Some(path) => custom_cell(&column.kind, path.first(object), now),
                        None => object["metadata"]["name"].clone(),
                    })
                    .collect()
            }
        }
    }
}

/// Returns an object reduced to its metadata.
pub fn partial(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to \
                    request the generation of an appropriate name automatically.";

fn name_column() -> Column {
    Column { name: "Name".into(), kind: "string".into(), format: "name".into(), description: NAME.into(), priority: 0 }
}

impl Column {
    fn to_json(&self) -> Value {
        json!({"name": self.name, "type": self.kind, "format": self.format, "description": self.description, "priority": self.priority})
    }
}

fn included(object: &Value, include: Include) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Metadata => partial(object),
        Include::Object => object.clone(),
    }
}

/// Returns the cell for a column's type. A value of another type gives null.
fn custom_cell(kind: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value else { return Value::Null };
    match kind {
        "integer" => value
            .as_i64()
            .or_else(|| value.as_f64().map(|number| number as i64))
            .map_or(Value::Null, |number| json!(number)),
        "number" => {
            if value.is_number() {
                value.clone()
            } else {
                Value::Null
            }
        }
        "boolean" => {
            if value.is_boolean() {
                value.clone()
            } else {
                Value::Null
            }
        }
        "date" => {
            if value.is_string() {
                json!(age(value, now))
            } else {
                Value::Null
            }
        }
        _ => match value {
            Value::Null => Value::Null,
            Value::String(_) => value.clone(),
            other => json!(other.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:19Z".parse().unwrap()
    }

    #[test]
    fn custom_resources_have_the_columns_of_their_definition() {
        let definition = json!({"spec": {"versions": [{"name": "v1", "additionalPrinterColumns": [
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": "the color"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "priority": 1},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]}]}});
        let kind = Kind { version: "v1".into(), definition: Some(definition.into()), ..Kind::default() };
        let object = json!({"metadata": {"name": "l1", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"color": "red", "size": 1.9},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let table =
            Table::of(&kind).render(json!({"resourceVersion": "332"}), [&object], Include::default(), now(), true);
        assert_eq!(table["rows"][0]["cells"], json!(["l1", "red", 1, "True", "19s"]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(table["columnDefinitions"][0]["format"], "name");
        assert_eq!(table["columnDefinitions"][1]["description"], "the color");
        assert_eq!(
            table["columnDefinitions"][2]["description"],
            "Custom resource definition column (in JSONPath format): .spec.size"
        );
    }

    #[test]
    fn without_columns_there_is_the_age() {
        let definition = json!({"spec": {"versions": [{"name": "v1"}]}});
        let kind = Kind { version: "v1".into(), definition: Some(definition.into()), ..Kind::default() };
        let table =
            Table::of(&kind).render(json!({}), [&json!({"metadata": {"name": "a"}})], Include::None, now(), false);
        assert_eq!(table["rows"], json!([{"cells": ["a", null], "object": null}]));
        assert_eq!(table["columnDefinitions"], Value::Null);
    }

    #[test]
    fn built_in_kinds_have_their_own_columns() {
        let cells = |group: &str, plural: &str, object: Value| {
            let kind = Kind { group: group.into(), plural: plural.into(), ..Kind::default() };
            let table = Table::of(&kind);
            let rendered = table.render(json!({}), [&object], Include::None, now(), true);
            assert_eq!(
                rendered["columnDefinitions"].as_array().unwrap().len(),
                rendered["rows"][0]["cells"].as_array().unwrap().len()
            );
            rendered["rows"][0]["cells"].clone()
        };
        let meta = json!({"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(cells("", "configmaps", json!({"metadata": meta, "data": {"x": "y"}})), json!(["a", 1, "19s"]));
        assert_eq!(
            cells(
                "",
                "pods",
                json!({"metadata": meta, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}})
            ),
            json!(["a", "0/1", "Pending", "0", "19s", "<none>", "<none>", "<none>", "<none>"])
        );
        assert_eq!(
            cells(
                "apps",
                "deployments",
                json!({"metadata": meta, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {}})
            ),
            json!(["a", "0/3", 0, 0, "19s", "c", "i", "a=b"])
        );
        assert_eq!(
            cells(
                "",
                "services",
                json!({"metadata": meta, "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "protocol": "TCP"}]}})
            ),
            json!(["a", "ClusterIP", "10.0.0.1", "<none>", "80/TCP", "19s", "<none>"])
        );
        assert_eq!(
            cells("rbac.authorization.k8s.io", "roles", json!({"metadata": meta})),
            json!(["a", "2026-01-01T00:00:00Z"])
        );
        for (group, plural) in [
            ("", "namespaces"),
            ("", "secrets"),
            ("", "events"),
            ("", "nodes"),
            ("", "persistentvolumeclaims"),
            ("apps", "statefulsets"),
            ("apps", "daemonsets"),
            ("apps", "replicasets"),
            ("batch", "jobs"),
            ("batch", "cronjobs"),
            ("coordination.k8s.io", "leases"),
            ("networking.k8s.io", "ingresses"),
            ("policy", "poddisruptionbudgets"),
            ("autoscaling", "horizontalpodautoscalers"),
            ("x", "y"),
            ("rbac.authorization.k8s.io", "rolebindings"),
            ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
        ] {
            cells(group, plural, json!({"metadata": meta}));
        }
    }

    #[test]
    fn ages_have_at_most_two_units() {
        let told: Vec<String> = [
            -9,
            -1,
            19,
            134,
            600,
            3 * 3600,
            3 * 3600 + 60,
            12 * 3600,
            5 * 86_400,
            5 * 86_400 + 3600,
            30 * 86_400,
            800 * 86_400,
        ]
        .into_iter()
        .map(super::age::span)
        .collect();
        assert_eq!(told, ["<invalid>", "0s", "19s", "2m14s", "10m", "3h", "3h1m", "12h", "5d", "5d1h", "30d", "2y70d"]);
        assert_eq!(age(&Value::Null, now()), "<unknown>");
    }

    #[test]
    fn objects_are_reduced_to_their_metadata() {
        let reduced = partial(&json!({"kind": "X", "metadata": {"name": "a"}, "spec": {}}));
        assert_eq!(
            reduced,
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}})
        );
    }
}
