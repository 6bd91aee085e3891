//! Finds the parts of a definition in the cluster that a new one removes: versions, fields, or values that stored
//! objects may have.

use std::collections::BTreeSet;

use serde_json::Value;

/// Limits of values: the key, and whether a larger number allows more.
const LIMITS: [(&str, bool); 8] = [
    ("maximum", true),
    ("minimum", false),
    ("maxLength", true),
    ("minLength", false),
    ("maxItems", true),
    ("minItems", false),
    ("maxProperties", true),
    ("minProperties", false),
];

/// Keys whose change may refuse values that were allowed; a schema without the key allows all of them.
const CONSTRAINTS: [&str; 10] = [
    "pattern",
    "format",
    "multipleOf",
    "oneOf",
    "anyOf",
    "allOf",
    "not",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "uniqueItems",
];

/// Keys that decide how lists and maps are merged, and which items may be repeated.
const STRUCTURE: [&str; 3] = ["x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"];

/// The key of schemas that keep unknown fields.
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Returns the parts of the existing definition that a new one removes: the place, and the loss. An empty list means
/// that all stored objects and all clients can go on as before.
pub(crate) fn narrowings(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let scope =
        |definition: &Value| definition.pointer("/spec/scope").and_then(Value::as_str).unwrap_or_default().to_owned();
    if scope(old) != scope(new) {
        found.push(format!("the scope changes from {} to {}", scope(old), scope(new)));
    }
    for before in versions(old) {
        let name = before["name"].as_str().unwrap_or_default();
        let Some(after) = versions(new).iter().find(|version| version["name"] == before["name"]) else {
            found.push(format!("version {name} is removed"));
            continue;
        };
        if before["served"] == true && after["served"] != true {
            found.push(format!("version {name} is not served any more"));
        }
        for subresource in ["status", "scale"] {
            if before["subresources"].get(subresource).is_some() && after["subresources"].get(subresource).is_none() {
                found.push(format!("version {name} loses the subresource {subresource}"));
            }
        }
        let [before, after] =
            [before, after].map(|version| version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null));
        schema(&mut Vec::from([name.to_owned()]), (before, after), &mut found);
    }
    found
}

fn versions(definition: &Value) -> &[Value] {
    definition.pointer("/spec/versions").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Compares the schemas at a path.
fn schema(path: &mut Vec<String>, (old, new): (&Value, &Value), found: &mut Vec<String>) {
    let mut tell = |what: &str| found.push(format!("{}: {what}", path.join(".")));
    if old.get("type") != new.get("type") && !is_wider_type(old, new) {
        tell("the type changes");
    }
    if old.get("nullable") == Some(&Value::Bool(true)) && new.get("nullable") != Some(&Value::Bool(true)) {
        tell("null is not allowed any more");
    }
    if let Some(allowed) = new.get("enum").and_then(Value::as_array) {
        let before = old.get("enum").and_then(Value::as_array);
        if before.is_none_or(|before| before.iter().any(|value| !allowed.contains(value))) {
            tell("fewer values are allowed");
        }
    }
    for (key, is_upper) in LIMITS {
        let Some(limit) = new.get(key).and_then(Value::as_f64) else { continue };
        let before = old.get(key).and_then(Value::as_f64);
        if before.is_none_or(|before| if is_upper { limit < before } else { limit > before }) {
            tell(&format!("`{key}` is narrower"));
        }
    }
    for key in CONSTRAINTS {
        if new.get(key).is_some_and(|value| *value != false && old.get(key) != Some(value)) {
            tell(&format!("`{key}` changes"));
        }
    }
    for key in STRUCTURE {
        if new.get(key).is_some() && old.get(key) != new.get(key) {
            tell(&format!("`{key}` changes"));
        }
    }
    let rules = |schema: &Value| -> BTreeSet<String> {
        let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        rules.iter().filter_map(|rule| rule["rule"].as_str().map(str::to_owned)).collect()
    };
    for rule in rules(new).difference(&rules(old)) {
        tell(&format!("the rule `{rule}` is new"));
    }
    let texts = |schema: &Value| -> BTreeSet<String> {
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        required.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    for name in texts(new).difference(&texts(old)) {
        tell(&format!("the field {name} is required"));
    }
    let keeps = |schema: &Value| schema.get(PRESERVE) == Some(&Value::Bool(true));
    if keeps(old) && !keeps(new) {
        tell("unknown fields are dropped");
    }
    fields(path, (old, new), keeps(old), found);
    inside(path, "items", "[]", (old, new), found);
    inside(path, "additionalProperties", "*", (old, new), found);
}

/// Compares the schemas of fields.
fn fields(path: &mut Vec<String>, (old, new): (&Value, &Value), was_open: bool, found: &mut Vec<String>) {
    let properties = |schema: &Value| schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let (before_all, after_all) = (properties(old), properties(new));
    let is_open = new.get(PRESERVE) == Some(&Value::Bool(true))
        || new.get("additionalProperties").is_some_and(|value| *value != false);
    for (name, before) in &before_all {
        path.push(name.clone());
        match after_all.get(name) {
            Some(after) => schema(path, (before, after), found),
            None if is_open => {}
            None => found.push(format!("{}: the field is removed", path.join("."))),
        }
        path.pop();
    }
    if was_open {
        for (name, after) in after_all.iter().filter(|(name, _)| !before_all.contains_key(*name)) {
            path.push(name.clone());
            schema(path, (&Value::Null, after), found);
            path.pop();
        }
    }
}

/// Compares the schemas of items or values.
fn inside(path: &mut Vec<String>, key: &str, sign: &str, (old, new): (&Value, &Value), found: &mut Vec<String>) {
    path.push(sign.to_owned());
    match (old.get(key), new.get(key)) {
        (Some(before), Some(after)) if before.is_object() && after.is_object() => schema(path, (before, after), found),
        (Some(Value::Bool(true)), Some(after)) if after.is_object() => schema(path, (&Value::Null, after), found),
        (Some(before), None) if *before != false && key == "additionalProperties" && new.get(PRESERVE).is_none() => {
            found.push(format!("{}: the values are dropped", path.join(".")));
        }
        _ => {}
    }
    path.pop();
}

/// Tells whether each value of the old type has the new one.
fn is_wider_type(old: &Value, new: &Value) -> bool {
    let of = |schema: &Value| schema.get("type").and_then(Value::as_str).map(str::to_owned);
    let takes_both = new.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true));
    match (of(old).as_deref(), of(new).as_deref()) {
        (_, None) if !takes_both => true,
        (Some("integer"), Some("number")) => true,
        (Some("integer" | "string"), None) => takes_both,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(spec: &Value) -> Value {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        json!({"spec": {"scope": "Namespaced", "versions": [
            {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}},
        ]}})
    }

    fn between(old: &Value, new: &Value) -> Vec<String> {
        narrowings(&definition(old), &definition(new))
    }

    fn field(schema: Value) -> Value {
        json!({"type": "object", "properties": {"a": schema}})
    }

    #[test]
    fn additions_take_nothing_away() {
        let old = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "integer", "maximum": 5, "enum": [1, 2], "pattern": "x"}, "b": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        }});
        let new = json!({"type": "object", "properties": {
            "a": {"type": "number", "maximum": 9, "enum": [1, 2, 3], "nullable": true, "default": 1},
            "b": {"type": "array", "items": {"type": "string", "maxLength": 4}}, "c": {"type": "string", "pattern": "y", "minLength": 2},
        }});
        assert_eq!(between(&old, &new), Vec::<String>::new());
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(between(&old, &open), Vec::<String>::new());
        assert_eq!(
            between(&field(json!({"type": "integer"})), &field(json!({"x-kubernetes-int-or-string": true}))),
            Vec::<String>::new()
        );
        let mut more = definition(&old);
        more["spec"]["versions"].as_array_mut().unwrap().push(json!({"name": "v2", "served": true, "storage": false}));
        assert_eq!(narrowings(&definition(&old), &more), Vec::<String>::new());
    }

    #[test]
    fn lost_versions_are_told() {
        let old = definition(&json!({}));
        let mut new = old.clone();
        new["spec"]["versions"][0]["served"] = json!(false);
        new["spec"]["versions"][0]["subresources"] = json!({});
        new["spec"]["scope"] = json!("Cluster");
        assert_eq!(
            narrowings(&old, &new),
            [
                "the scope changes from Namespaced to Cluster",
                "version v1 is not served any more",
                "version v1 loses the subresource status"
            ]
        );
        new["spec"] = json!({"scope": "Namespaced", "versions": [{"name": "v2"}]});
        assert_eq!(narrowings(&old, &new), ["version v1 is removed"]);
    }

    #[test]
    fn each_narrower_schema_is_told_with_its_place() {
        let text = || json!({"type": "string"});
        let cases = [
            (text(), json!({"type": "integer"}), "the type changes"),
            (text(), json!({"type": "string", "maxLength": 5}), "`maxLength` is narrower"),
            (
                json!({"type": "integer", "minimum": 1}),
                json!({"type": "integer", "minimum": 2}),
                "`minimum` is narrower",
            ),
            (text(), json!({"type": "string", "enum": ["a"]}), "fewer values are allowed"),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!({"type": "string", "enum": ["a", "c"]}),
                "fewer values are allowed",
            ),
            (text(), json!({"type": "string", "pattern": "a"}), "`pattern` changes"),
            (json!({"type": "string", "nullable": true}), text(), "null is not allowed any more"),
            (
                text(),
                json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != ''"}]}),
                "the rule `self != ''` is new",
            ),
            (
                field(text()),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
                "the field a is required",
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
                json!({"type": "object"}),
                "unknown fields are dropped",
            ),
            (
                json!({"type": "array", "items": text()}),
                json!({"type": "array", "items": text(), "x-kubernetes-list-type": "set"}),
                "`x-kubernetes-list-type` changes",
            ),
        ];
        for (old, new, expected) in cases {
            assert_eq!(between(&field(old), &field(new)), [format!("v1.spec.a: {expected}")]);
        }
        assert_eq!(between(&field(text()), &json!({"type": "object"})), ["v1.spec.a: the field is removed"]);
        let list = |items: Value| field(json!({"type": "array", "items": items}));
        assert_eq!(between(&list(text()), &list(json!({"type": "integer"}))), ["v1.spec.a.[]: the type changes"]);
        let map = |values: Value| field(json!({"type": "object", "additionalProperties": values}));
        assert_eq!(between(&map(text()), &map(json!({"type": "integer"}))), ["v1.spec.a.*: the type changes"]);
        assert_eq!(between(&map(text()), &field(json!({"type": "object"}))), ["v1.spec.a.*: the values are dropped"]);
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let typed = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}});
        assert_eq!(between(&open, &typed), ["v1.spec.a: the type changes"]);
    }
}
