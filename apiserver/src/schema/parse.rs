//! Reads structural schemas, and tells all their mistakes.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::node::{Additional, Limits, ListType, Node, Range, Type};
use super::prune::Pruning;
use super::rule_fields;
use super::values;
use crate::go;
use crate::http::api_error::Cause;
use crate::schema::field_error::{self, Place};

/// Reads a schema and collects what is wrong with it.
#[derive(Default)]
pub(super) struct Parser {
    pub(super) causes: Vec<Cause>,
}

/// What may not stand inside `allOf`, `anyOf`, `oneOf`, and `not`.
const STRUCTURAL: [&str; 13] = [
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

impl Parser {
    /// Reads the outermost node.
    pub(super) fn root(&mut self, schema: &Value) -> Node {
        let place = "openAPIV3Schema";
        let Value::Object(members) = schema else {
            self.causes.push(field_error::required(place, "schemas are required"));
            return Node::default();
        };
        match members.get("type") {
            Some(Value::String(kind)) if kind == "object" => {}
            Some(Value::String(kind)) if !kind.is_empty() => {
                self.causes.push(field_error::invalid(format!("{place}.type"), &json!(kind), "must be object at the root"));
            }
            _ => {
                self.causes.push(field_error::required(format!("{place}.type"), "must not be empty at the root"));
                return Node::default();
            }
        }
        if let Some(meta) = members.get("properties").and_then(|properties| properties.get("metadata")) {
            self.check_metadata(meta);
        }
        self.node(members, place)
    }

    /// The server knows the metadata better than any schema: only the names may be restricted.
    fn check_metadata(&mut self, meta: &Value) {
        let place = "openAPIV3Schema.properties[metadata]";
        let names = meta.get("properties").and_then(Value::as_object);
        let has_others = names.is_some_and(|names| names.keys().any(|name| name != "name" && name != "generateName"));
        let has_more = ["items", "additionalProperties", "required"].iter().any(|word| meta.get(word).is_some());
        if has_others || has_more {
            let text = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.causes.push(field_error::forbidden(place, text));
        }
    }

    fn node(&mut self, schema: &Map<String, Value>, place: &str) -> Node {
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        let mut node = Node {
            is_nullable: flag("nullable"),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            is_atomic: schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            is_int_or_string: flag("x-kubernetes-int-or-string"),
            keeps_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            is_embedded: flag("x-kubernetes-embedded-resource"),
            ..Node::default()
        };
        node.kind = self.kind(schema, &node, place);
        if schema.contains_key("x-kubernetes-map-type") && node.kind.is_some_and(|kind| kind != Type::Object) {
            let text = "must be object if x-kubernetes-map-type is specified";
            self.causes.push(field_error::invalid(format!("{place}.type"), &schema["type"], text));
        }
        if node.is_embedded && !node.keeps_unknown && !schema.contains_key("properties") {
            let text = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.causes.push(field_error::required(format!("{place}.properties"), text));
        }
        self.check_words(schema, place);
        self.read_below(schema, &mut node, place);
        node.list_type = self.list_type(schema, &node, place);
        node.limits = self.limits(schema, place);
        self.check_combined(schema, &node, place);
        node.rules = rule_fields::read(schema, &node, place, &mut self.causes);
        self.check_default(&node, place);
        node
    }

    fn kind(&mut self, schema: &Map<String, Value>, node: &Node, place: &str) -> Option<Type> {
        let name = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let kind = Type::of_name(name);
        let field = format!("{place}.type");
        match (name, kind) {
            ("", _) if node.is_int_or_string || node.keeps_unknown => {}
            ("", _) => self.causes.push(field_error::required(field, "must not be empty for specified object fields")),
            (_, None) => self.causes.push(field_error::not_supported(field, &json!(name), Type::NAMES.map(|(name, _)| name))),
            (_, Some(kind)) if node.is_embedded && kind != Type::Object => {
                self.causes.push(field_error::invalid(field, &json!(name), "must be object if x-kubernetes-embedded-resource is true"));
            }
            _ => {}
        }
        kind
    }

    /// Refuses what JSON Schema has and structural schemas have not.
    fn check_words(&mut self, schema: &Map<String, Value>, place: &str) {
        for word in ["$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems"] {
            let is_empty = schema.get(word).is_none_or(|value| value.is_null() || *value == json!("") || *value == json!({}));
            if !is_empty {
                self.causes.push(field_error::forbidden(format!("{place}.{word}"), format!("{word} is not supported")));
            }
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.causes.push(field_error::forbidden(format!("{place}.uniqueItems"), text));
        }
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let field = format!("{place}.x-kubernetes-preserve-unknown-fields");
            self.causes.push(field_error::invalid(field, &Value::Bool(false), "must be true or undefined"));
        }
        if let Some(kind) = schema.get("x-kubernetes-map-type")
            && !["atomic", "granular"].contains(&kind.as_str().unwrap_or_default())
        {
            self.causes.push(field_error::not_supported(format!("{place}.x-kubernetes-map-type"), kind, ["atomic", "granular"]));
        }
    }

    fn read_below(&mut self, schema: &Map<String, Value>, node: &mut Node, place: &str) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let child = self.child(property, &format!("{place}.properties[{name}]"));
            node.properties.insert(name.clone(), child);
        }
        let field = format!("{place}.additionalProperties");
        match schema.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(true)) if node.properties.is_empty() => node.additional = Additional::Anything,
            Some(_) if !node.properties.is_empty() => {
                self.causes.push(field_error::forbidden(field, "additionalProperties and properties are mutual exclusive"));
            }
            Some(Value::Bool(false)) => {}
            Some(values) => node.additional = Additional::Of(Box::new(self.child(values, &field))),
        }
        match schema.get("items") {
            None | Some(Value::Null) if node.kind == Some(Type::Array) => {
                self.causes.push(field_error::required(format!("{place}.items"), "must be specified"));
            }
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) => {
                self.causes.push(field_error::forbidden(format!("{place}.items"), "items must be a schema object and not an array"));
            }
            Some(items) => node.items = Some(Box::new(self.child(items, &format!("{place}.items")))),
        }
    }

    fn child(&mut self, schema: &Value, place: &str) -> Node {
        if let Value::Object(members) = schema {
            self.node(members, place)
        } else {
            self.causes.push(field_error::required(format!("{place}.type"), "must not be empty for specified object fields"));
            Node::default()
        }
    }

    fn list_type(&mut self, schema: &Map<String, Value>, node: &Node, place: &str) -> ListType {
        let field = format!("{place}.x-kubernetes-list-type");
        let keys: Vec<String> = texts(schema.get("x-kubernetes-list-map-keys"));
        let word = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
        if word.is_some() && node.kind != Some(Type::Array) {
            let kind = schema.get("type").cloned().unwrap_or(json!(""));
            self.causes.push(field_error::invalid(format!("{place}.type"), &kind, "must be array if x-kubernetes-list-type is specified"));
        }
        if !keys.is_empty() && word != Some("map") {
            let text = "must be map if x-kubernetes-list-map-keys is non-empty";
            let cause = if word.is_none() { field_error::required(&field, text) } else { field_error::invalid(&field, &json!(word), text) };
            self.causes.push(cause);
        }
        match word {
            None | Some("atomic") => ListType::Atomic,
            Some("set") => {
                if let Some(item) = &node.items
                    && !is_set_item(item)
                {
                    let text = "items of a set must be scalars, or atomic objects or lists";
                    let word = if item.kind == Some(Type::Array) { "list" } else { "map" };
                    self.causes.push(field_error::invalid(
                        format!("{place}.items.x-kubernetes-{word}-type"),
                        &json!(item.kind.map(Type::name)),
                        text,
                    ));
                }
                ListType::Set
            }
            Some("map") => {
                self.check_keys(&keys, node, place);
                ListType::Map(keys)
            }
            Some(other) => {
                self.causes.push(field_error::not_supported(field, &json!(other), ["atomic", "map", "set"]));
                ListType::Atomic
            }
        }
    }

    fn check_keys(&mut self, keys: &[String], node: &Node, place: &str) {
        let field = format!("{place}.x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.causes.push(field_error::required(&field, "must not be empty if x-kubernetes-list-type is map"));
        }
        let Some(item) = &node.items else { return };
        for (index, key) in keys.iter().enumerate() {
            let Some(property) = item.properties.get(key) else {
                let text = format!("must be a name of items.properties, not {key:?}");
                self.causes.push(field_error::invalid(format!("{field}[{index}]"), &json!(key), text));
                continue;
            };
            if matches!(property.kind, Some(Type::Object | Type::Array)) {
                let at = format!("{place}.items.properties[{key}].type");
                self.causes.push(field_error::invalid(at, &json!(property.kind.map(Type::name)), "must be a scalar type"));
            }
            if keys[..index].contains(key) {
                self.causes.push(field_error::invalid(&field, &json!(keys), "must not contain duplicate entries"));
            }
            if property.default.is_none() && !item.limits.required.contains(key) {
                let text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.causes.push(field_error::required(format!("{place}.items.properties[{key}].default"), text));
            }
        }
    }

    fn limits(&mut self, schema: &Map<String, Value>, place: &str) -> Limits {
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let count = |name: &str| schema.get(name).and_then(Value::as_f64).map(|number| number as u64);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        Limits {
            required: texts(schema.get("required")),
            options: schema.get("enum").and_then(Value::as_array).cloned(),
            format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
            pattern: self.pattern(schema, place),
            length: Range { least: count("minLength"), most: count("maxLength") },
            items: Range { least: count("minItems"), most: count("maxItems") },
            properties: Range { least: count("minProperties"), most: count("maxProperties") },
            number: Range { least: number("minimum"), most: number("maximum") },
            excludes_minimum: flag("exclusiveMinimum"),
            excludes_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            all_of: self.branches(schema, "allOf", place),
            any_of: self.branches(schema, "anyOf", place),
            one_of: self.branches(schema, "oneOf", place),
            not: schema.get("not").and_then(Value::as_object).map(|branch| Box::new(self.branch(branch, &format!("{place}.not")))),
        }
    }

    fn pattern(&mut self, schema: &Map<String, Value>, place: &str) -> Option<Regex> {
        let text = schema.get("pattern").and_then(Value::as_str)?;
        go::regex(text)
            .map_err(|_| {
                let why = "must be a valid regular expression";
                self.causes.push(field_error::invalid(format!("{place}.pattern"), &json!(text), why));
            })
            .ok()
    }

    fn branches(&mut self, schema: &Map<String, Value>, word: &str, place: &str) -> Vec<Node> {
        let branches = schema.get(word).and_then(Value::as_array).into_iter().flatten();
        branches
            .enumerate()
            .filter_map(|(index, branch)| Some(self.branch(branch.as_object()?, &format!("{place}.{word}[{index}]"))))
            .collect()
    }

    /// Reads a schema that only limits values. The form of whole numbers or texts may repeat the types.
    fn branch(&mut self, schema: &Map<String, Value>, place: &str) -> Node {
        let mut node = Node { keeps_unknown: true, ..Node::default() };
        let kind = schema.get("type").and_then(Value::as_str);
        let is_plain_type = schema.len() == 1 && matches!(kind, Some("integer" | "string"));
        for word in STRUCTURAL {
            let is_absent = schema.get(word).is_none_or(|value| value.is_null() || *value == json!(""));
            if !is_absent && !is_plain_type {
                self.causes.push(field_error::forbidden(format!("{place}.{word}"), "must be undefined to be structural"));
            }
        }
        node.kind = kind.and_then(Type::of_name);
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Value::Object(members) = property {
                let child = self.branch(members, &format!("{place}.properties[{name}]"));
                node.properties.insert(name.clone(), child);
            }
        }
        if let Some(Value::Object(items)) = schema.get("items") {
            node.items = Some(Box::new(self.branch(items, &format!("{place}.items"))));
        }
        node.limits = self.limits(schema, place);
        node
    }

    /// What a branch limits must be known outside of it, or it would be dropped before it is checked.
    fn check_combined(&mut self, schema: &Map<String, Value>, node: &Node, place: &str) {
        for word in ["allOf", "anyOf", "oneOf", "not"] {
            let branches: Vec<(String, &Value)> = match schema.get(word) {
                Some(Value::Array(branches)) => {
                    branches.iter().enumerate().map(|(index, branch)| (format!("{place}.{word}[{index}]"), branch)).collect()
                }
                Some(branch) => vec![(format!("{place}.{word}"), branch)],
                None => Vec::new(),
            };
            for (at, branch) in branches {
                for name in branch.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
                    if node.member(name).is_none() && !(node.is_embedded && name == "metadata") {
                        let text = format!("because it is defined in {at}.properties[{name}]");
                        self.causes.push(field_error::required(format!("{place}.properties[{name}]"), &text));
                    }
                }
            }
        }
    }

    fn check_default(&mut self, node: &Node, place: &str) {
        let Some(default) = &node.default else { return };
        let field = format!("{place}.default");
        let mut pruned = default.clone();
        if !Pruning::default().part(node, &mut pruned).is_empty() {
            self.causes.push(field_error::invalid(&field, default, "must not have unknown fields"));
        }
        values::check(node, &pruned, None, &Place::Named(&field), &mut self.causes);
    }
}

fn is_set_item(item: &Node) -> bool {
    match item.kind {
        Some(Type::Object) => item.is_atomic,
        Some(Type::Array) => item.list_type == ListType::Atomic,
        _ => true,
    }
}

fn texts(list: Option<&Value>) -> Vec<String> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
