//! The schemas of built-in kinds with their types, for `explain` below `spec`.

use serde_json::{Map, Value, json};

use crate::kinds::kind::Kind;
use crate::kinds::messages::{self, Field, Form, Message};

/// Returns the properties of a built-in kind besides its type and metadata, and adds the schemas that they refer to.
pub(super) fn properties(kind: &Kind, schemas: &mut Map<String, Value>) -> Map<String, Value> {
    let Some(message) = messages::of_kind(&kind.group, &kind.version, &kind.kind) else {
        let object = || json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        return Map::from_iter([("spec".to_owned(), object()), ("status".to_owned(), object())]);
    };
    let mut properties = properties_of(message, schemas);
    properties.remove("metadata");
    properties
}

fn properties_of(message: &Message, schemas: &mut Map<String, Value>) -> Map<String, Value> {
    let mut properties = Map::new();
    if message.has_type() {
        properties.extend(["apiVersion", "kind"].map(|name| (name.to_owned(), json!({"type": "string"}))));
    }
    for field in &message.fields {
        if field.is_inline() {
            properties.extend(messages::find(field.of).map(|inner| properties_of(inner, schemas)).unwrap_or_default());
        } else {
            properties.insert(field.name.to_owned(), property(field, schemas));
        }
    }
    properties
}

fn property(field: &Field, schemas: &mut Map<String, Value>) -> Value {
    let value = type_of(field.of, schemas);
    match field.form {
        Form::One => value,
        Form::List => json!({"type": "array", "items": value}),
        Form::Map => json!({"type": "object", "additionalProperties": value}),
    }
}

fn type_of(of: &str, schemas: &mut Map<String, Value>) -> Value {
    match of {
        "string" => return json!({"type": "string"}),
        "bool" => return json!({"type": "boolean"}),
        "bytes" => return json!({"type": "string", "format": "byte"}),
        "int32" | "int64" => return json!({"type": "integer", "format": of}),
        "meta.FieldsV1" => return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        _ if of.ends_with(".ExtraValue") => return json!({"type": "array", "items": {"type": "string"}}),
        _ => {}
    }
    let name = name_of(of);
    if !schemas.contains_key(&name) {
        // Some messages contain themselves.
        schemas.insert(name.clone(), Value::Null);
        let schema = match (of, messages::find(of)) {
            ("meta.Time" | "meta.MicroTime", _) => json!({"type": "string", "format": "date-time"}),
            ("runtime.RawExtension", _) => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
            ("resource.Quantity", _) => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
            ("util.intstr.IntOrString", _) => {
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
            }
            (_, Some(message)) => json!({"type": "object", "properties": properties_of(message, schemas)}),
            (_, None) => json!({}),
        };
        schemas.insert(name.clone(), schema);
    }
    json!({"allOf": [{"$ref": format!("#/components/schemas/{name}")}]})
}

/// Returns the name of the schema of a message.
fn name_of(message: &str) -> String {
    let (package, name) = message.rsplit_once('.').unwrap_or(("core", message));
    match package {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        "resource" => format!("io.k8s.apimachinery.pkg.api.resource.{name}"),
        "runtime" => format!("io.k8s.apimachinery.pkg.runtime.{name}"),
        "util.intstr" => format!("io.k8s.apimachinery.pkg.util.intstr.{name}"),
        "autoscalingv2" => format!("io.k8s.api.autoscaling.v2.{name}"),
        package => format!("io.k8s.api.{package}.v1.{name}"),
    }
}
