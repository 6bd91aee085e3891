//! The small OpenAPI.

use serde_json::{Value, json};

use super::kind::Kind;

/// Returns the document of one version of a group.
pub fn document(group: &str, version: &str, kinds: &[&Kind]) -> Value {
    let mut paths = serde_json::Map::new();
    let mut schemas = serde_json::Map::new();
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    for kind in kinds {
        let gvk = json!({"group": group, "version": version, "kind": kind.kind});
        let path = if kind.namespaced { format!("{root}/namespaces/{{namespace}}/{}/{{name}}", kind.plural) } else { format!("{root}/{}/{{name}}", kind.plural) };
        let parameters = json!([{"name": "fieldValidation", "in": "query", "schema": {"type": "string"}}]);
        paths.insert(path, json!({"patch": {"parameters": parameters, "x-kubernetes-action": "patch", "x-kubernetes-group-version-kind": gvk}}));
        schemas.insert(format!("{}.{version}.{}", group.replace('.', "_"), kind.kind), json!({"type": "object", "x-kubernetes-group-version-kind": [gvk]}));
    }
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.32.0"}, "paths": paths, "components": {"schemas": schemas}})
}
