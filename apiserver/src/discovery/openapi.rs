//! The part of OpenAPI v3 that kubectl needs: which kinds support patches and field validation, and the texts of
//! `explain`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use http::{HeaderMap, header};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::kind::Kind;
use crate::kinds::{builtin, definition};

mod parts;

/// The media type in which kubectl requests OpenAPI v2.
pub(crate) const VERSION_TWO_MEDIA: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
/// The media type of the answer, which differs.
pub(crate) const VERSION_TWO_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// An empty document of OpenAPI v2, in protobuf: only the version, and the title and version of the API.
///
/// kubectl requests it before it sends the items of a `List`, and does not validate kinds that are missing in it: the
/// server does.
pub(crate) const VERSION_TWO: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.0";

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// The members of metadata for `explain`: name, type, and description.
const META_FIELDS: [(&str, &str, &str); 13] = [
    (
        "annotations",
        "map",
        "Annotations is an unstructured key value map that tools and libraries may use to keep arbitrary metadata.",
    ),
    ("creationTimestamp", "string", "CreationTimestamp is the time when the server created this object."),
    ("deletionGracePeriodSeconds", "integer", "Number of seconds that this object may take to terminate gracefully."),
    ("deletionTimestamp", "string", "DeletionTimestamp is the time at which this object is going to be deleted."),
    ("finalizers", "list", "The object is removed from the store only when this list is empty."),
    (
        "generateName",
        "string",
        "GenerateName is a prefix, from which the server makes a unique name if there is no name.",
    ),
    ("generation", "integer", "A number that grows with each change of the desired state."),
    ("labels", "map", "Map of string keys and values that can be used to organize and select objects."),
    ("managedFields", "objects", "Which manager set which fields."),
    ("name", "string", "Name must be unique within a namespace."),
    ("namespace", "string", "Namespace defines the space within which each name must be unique."),
    ("ownerReferences", "objects", "The objects that this object depends on: without them, it is deleted."),
    ("resourceVersion", "string", "An opaque value that tells the version of this object."),
];

/// The digests of the documents of built-in groups, which are constant.
static BUILT_IN: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let kinds = builtin::kinds();
    let digest =
        |kind: &Kind| (path_of(&kind.group, &kind.version), hash(&document(&kind.group, &kind.version, &kinds)));
    let groups: HashMap<String, &Kind> = kinds.iter().map(|kind| (path_of(&kind.group, &kind.version), kind)).collect();
    groups.into_values().map(digest).collect()
});

/// Tells whether a request is for OpenAPI v2 in its only form.
pub(crate) fn is_version_two(path: &str, headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    path == "/openapi/v2" && accepted.flat_map(|value| value.split(',')).any(|media| media.trim() == VERSION_TWO_MEDIA)
}

/// Returns the document that lists all others: `/openapi/v3`. URLs change with the contents of documents.
pub(crate) fn index(kinds: &[Kind]) -> Value {
    let mut paths = Map::new();
    for kind in kinds {
        let path = path_of(&kind.group, &kind.version);
        if !paths.contains_key(&path) {
            let made = || hash(&document(&kind.group, &kind.version, kinds));
            let hash = BUILT_IN.get(&path).cloned().unwrap_or_else(made);
            paths.insert(path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")}));
        }
    }
    json!({"paths": paths})
}

/// Returns the document of a group and version.
pub(crate) fn document(group: &str, version: &str, kinds: &[Kind]) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    schemas.insert(OBJECT_META.into(), object_meta());
    schemas.insert(
        LIST_META.into(),
        json!({"type": "object", "properties": {"continue": {"type": "string"}, "resourceVersion": {"type": "string"}}}),
    );
    for kind in kinds.iter().filter(|kind| kind.group == group && kind.version == version) {
        add_paths(kind, &mut paths);
        let name = component(group, version, &kind.kind, kind.is_custom());
        schemas.insert(component(group, version, &kind.list_kind, kind.is_custom()), list_schema(kind, &name));
        let schema = schema(kind, &mut schemas);
        schemas.insert(name, schema);
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Returns the key of a group and version in the index, such as `apis/apps/v1`.
pub(crate) fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// Returns a short digest of a document.
pub(crate) fn hash(document: &Value) -> String {
    let digest = Sha256::digest(document.to_string());
    digest.iter().take(16).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02X}");
        text
    })
}

fn add_paths(kind: &Kind, paths: &mut Map<String, Value>) {
    let base = format!("/{}", path_of(&kind.group, &kind.version));
    let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let has = |verb: &str| kind.verbs.iter().any(|one| one == verb);
    let mut collection = Map::new();
    let mut object = Map::new();
    for (verb, method, is_object) in [
        ("list", "get", false),
        ("create", "post", false),
        ("get", "get", true),
        ("update", "put", true),
        ("patch", "patch", true),
        ("delete", "delete", true),
    ] {
        if has(verb) {
            let place = if is_object { &mut object } else { &mut collection };
            place.insert(method.into(), operation(kind, method, verb));
        }
    }
    let plural = &kind.plural;
    paths.insert(format!("{base}{scope}/{plural}"), Value::Object(collection));
    if !object.is_empty() {
        paths.insert(format!("{base}{scope}/{plural}/{{name}}"), Value::Object(object));
    }
}

fn operation(kind: &Kind, method: &str, verb: &str) -> Value {
    let action = match verb {
        "create" => "post",
        "update" => "put",
        other => other,
    };
    let mut operation = json!({
        "operationId": format!("{verb}{}{}", kind.version, kind.kind),
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": identity(kind, &kind.kind),
    });
    if ["post", "put", "patch"].contains(&method) {
        let names = ["dryRun", "fieldManager", "fieldValidation"];
        let parameters =
            names.map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}}));
        operation["parameters"] = json!(parameters);
    }
    operation
}

fn identity(kind: &Kind, name: &str) -> Value {
    json!({"group": kind.group, "version": kind.version, "kind": name})
}

/// Returns the name of a schema: the reversed domain, the version, and the kind.
fn component(group: &str, version: &str, kind: &str, is_custom: bool) -> String {
    if is_custom {
        let domain: Vec<&str> = group.split('.').rev().collect();
        format!("{}.{version}.{kind}", domain.join("."))
    } else {
        let room = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
        format!("io.k8s.api.{room}.{version}.{kind}")
    }
}

fn schema(kind: &Kind, parts: &mut Map<String, Value>) -> Value {
    let written = kind.definition.as_ref().and_then(|one| definition::version(one, &kind.version));
    let mut schema = match written {
        Some(version) => version["schema"]["openAPIV3Schema"].clone(),
        None => json!({"type": "object", "properties": parts::properties(kind, parts)}),
    };
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let kind_text = "Kind is a string value representing the REST resource this object represents.";
    let version_text = "APIVersion defines the versioned schema of this representation of an object.";
    schema["properties"]["apiVersion"] = json!({"type": "string", "description": version_text});
    schema["properties"]["kind"] = json!({"type": "string", "description": kind_text});
    schema["properties"]["metadata"] = json!({
        "description": "Standard object's metadata.",
        "default": {},
        "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
    });
    schema["x-kubernetes-group-version-kind"] = json!([identity(kind, &kind.kind)]);
    schema
}

fn list_schema(kind: &Kind, item: &str) -> Value {
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "items": {"type": "array", "items": {"allOf": [{"$ref": format!("#/components/schemas/{item}")}]}},
            "metadata": {"allOf": [{"$ref": format!("#/components/schemas/{LIST_META}")}]},
        },
        "x-kubernetes-group-version-kind": [identity(kind, &kind.list_kind)],
    })
}

fn object_meta() -> Value {
    let properties = META_FIELDS.map(|(name, kind, description)| {
        let mut schema = match kind {
            "map" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            "list" => json!({"type": "array", "items": {"type": "string"}}),
            "objects" => json!({"type": "array", "items": {"type": "object"}}),
            "integer" => json!({"type": "integer", "format": "int64"}),
            _ => json!({"type": "string"}),
        };
        schema["description"] = json!(description);
        (name.to_owned(), schema)
    });
    let text = "ObjectMeta is metadata that all persisted resources must have.";
    json!({"type": "object", "description": text, "properties": Map::from_iter(properties)})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets() -> Kind {
        let definition = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "description": "what is wanted"}}}}}]}});
        Kind {
            group: "ex.dev".into(),
            version: "v1".into(),
            plural: "widgets".into(),
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            namespaced: true,
            verbs: ["create", "get", "list", "patch"].map(str::to_owned).to_vec(),
            definition: Some(definition.into()),
            ..Kind::default()
        }
    }

    #[test]
    fn the_second_version_of_openapi_has_only_one_form() {
        let accepting = |media: &str| HeaderMap::from_iter([(header::ACCEPT, media.parse().unwrap())]);
        assert!(is_version_two("/openapi/v2", &accepting(VERSION_TWO_MEDIA)));
        assert!(!is_version_two("/openapi/v2", &accepting("application/json")));
        assert!(!is_version_two("/openapi/v3", &accepting(VERSION_TWO_MEDIA)));
        // The length of field 2 is that of the rest of the message.
        assert_eq!(usize::from(VERSION_TWO[6]), VERSION_TWO.len() - 7);
    }

    #[test]
    fn patches_announce_field_validation() {
        let document = document("ex.dev", "v1", &[widgets()]);
        let patch = &document["paths"]["/apis/ex.dev/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
        assert!(patch["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "fieldValidation"));
        assert_eq!(patch["x-kubernetes-action"], "patch");
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": "ex.dev", "version": "v1", "kind": "Widget"})
        );
        assert!(document["paths"]["/apis/ex.dev/v1/namespaces/{namespace}/widgets"]["get"].is_object());
    }

    #[test]
    fn schemas_of_custom_resources_include_their_metadata() {
        let document = document("ex.dev", "v1", &[widgets()]);
        let schema = &document["components"]["schemas"]["dev.ex.v1.Widget"];
        assert_eq!(schema["properties"]["spec"]["description"], "what is wanted");
        assert_eq!(schema["properties"]["metadata"]["allOf"][0]["$ref"], format!("#/components/schemas/{OBJECT_META}"));
        assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    }

    #[test]
    fn every_group_and_version_is_listed_with_a_hash_that_follows_its_content() {
        let mut kinds = builtin::kinds();
        kinds.push(widgets());
        let before = index(&kinds);
        assert!(
            before["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap().starts_with("/openapi/v3/api/v1?hash=")
        );
        assert!(before["paths"]["apis/apps/v1"].is_object());
        kinds.last_mut().unwrap().plural = "gadgets".into();
        let after = index(&kinds);
        assert_ne!(before["paths"]["apis/ex.dev/v1"], after["paths"]["apis/ex.dev/v1"]);
        assert_eq!(before["paths"]["api/v1"], after["paths"]["api/v1"]);
    }
}
