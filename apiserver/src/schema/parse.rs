//! Reads structural schemas, and reports all their errors.

use regex::Regex;
use serde_json::{Map, Value, json};

use super::node::{Additional, Limits, ListType, Node, Range, Type};
use super::prune::Pruning;
use super::rule_fields;
use super::{structure, values};
use crate::go;
use crate::http::api_error::FieldError;
use crate::schema::field_error::{self, FieldPath};

/// Reads a schema and collects its errors.
#[derive(Default)]
pub(super) struct Parser {
    causes: Vec<FieldError>,
    /// Violations of the structural rules.
    structural: Vec<FieldError>,
    /// Whether there are keywords that structural schemas do not have. Then its structure is not checked.
    is_foreign: bool,
}

/// Branches that repeat the types of integers or strings, which are not checked.
#[derive(Clone, Copy, Default)]
struct Exempt {
    any_of: bool,
    first_all_of: bool,
}

impl Exempt {
    /// `anyOf` of an integer and a string, in this order, is allowed in a node or in its first `allOf`.
    fn of(schema: &Map<String, Value>) -> Self {
        let is_int_or_string =
            |branches: Option<&Value>| branches == Some(&json!([{"type": "integer"}, {"type": "string"}]));
        let first = schema.get("allOf").and_then(|all| all.get(0));
        Self {
            any_of: is_int_or_string(schema.get("anyOf")),
            first_all_of: is_int_or_string(first.and_then(|one| one.get("anyOf"))),
        }
    }
}

/// Keywords that are forbidden inside `allOf`, `anyOf`, `oneOf`, and `not`.
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
    /// Reads a whole schema.
    ///
    /// # Errors
    /// All its errors.
    pub(super) fn read(mut self, schema: &Value) -> Result<Node, Vec<FieldError>> {
        let mut node = self.root(schema);
        let mut mistakes = if self.is_foreign { Vec::new() } else { self.structural };
        if mistakes.is_empty() {
            // At the root, a default is a whole object.
            node.is_embedded = true;
            check_defaults(&node, "openAPIV3Schema", &mut mistakes);
            node.is_embedded = false;
        }
        mistakes.extend(self.causes);
        if mistakes.is_empty() { Ok(node) } else { Err(mistakes) }
    }

    /// Reads the outermost node.
    fn root(&mut self, schema: &Value) -> Node {
        let path = "openAPIV3Schema";
        let Value::Object(members) = schema else {
            self.causes.push(field_error::required(path, "schemas are required"));
            return Node::default();
        };
        match members.get("type") {
            Some(Value::String(kind)) if kind == "object" => {}
            Some(Value::String(kind)) if !kind.is_empty() => {
                self.structural.push(field_error::invalid(
                    format!("{path}.type"),
                    &json!(kind),
                    "must be object at the root",
                ));
            }
            _ => {
                self.structural.push(field_error::required(format!("{path}.type"), "must not be empty at the root"));
                return Node::default();
            }
        }
        if members.get("nullable") == Some(&Value::Bool(true)) {
            self.causes.push(field_error::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
        }
        if members.get("additionalProperties").is_some_and(|value| !value.is_null()) {
            self.structural
                .push(field_error::forbidden(format!("{path}.additionalProperties"), "must not be used at the root"));
        }
        self.check_type_names(members, path);
        if let Some(meta) = members.get("properties").and_then(|properties| properties.get("metadata")) {
            self.check_metadata(meta);
        }
        for name in ["apiVersion", "kind", "metadata"] {
            if let Some(property) = members.get("properties").and_then(|properties| properties.get(name)) {
                self.forbid_defaults(property, &format!("{path}.properties[{name}]"), name);
            }
        }
        let node = self.node(members, path);
        self.check_branches_are_known(members, members, path, path);
        node
    }

    /// Checks that `apiVersion` and `kind` are strings, and `metadata` is an object.
    fn check_type_names(&mut self, schema: &Map<String, Value>, path: &str) {
        for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) else { continue };
            if property["type"] != wanted {
                let at = format!("{path}.properties[{name}].type");
                self.structural.push(field_error::invalid(at, &property["type"], format!("must be {wanted}")));
            }
        }
    }

    /// Forbids defaults of fields that the server fills in.
    fn forbid_defaults(&mut self, schema: &Value, path: &str, name: &str) {
        if schema.get("default").is_some_and(|default| !default.is_null()) {
            self.causes.push(field_error::forbidden(
                format!("{path}.default"),
                format!("must not be set in top-level {name}"),
            ));
        }
        for (property, below) in schema["properties"].as_object().into_iter().flatten() {
            self.forbid_defaults(below, &format!("{path}.properties[{property}]"), name);
        }
        for word in ["items", "additionalProperties"] {
            if schema[word].is_object() {
                self.forbid_defaults(&schema[word], &format!("{path}.{word}"), name);
            }
        }
    }

    /// Only names may be restricted in the schema of metadata.
    fn check_metadata(&mut self, meta: &Value) {
        let path = "openAPIV3Schema.properties[metadata]";
        let names = meta.get("properties").and_then(Value::as_object);
        let has_others = names.is_some_and(|names| names.keys().any(|name| name != "name" && name != "generateName"));
        let has_more = ["items", "additionalProperties", "required"].iter().any(|word| meta.get(word).is_some());
        if has_others || has_more {
            let text =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.structural.push(field_error::forbidden(path, text));
        }
    }

    fn node(&mut self, schema: &Map<String, Value>, path: &str) -> Node {
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
        node.kind = self.kind(schema, &node, path);
        if schema.contains_key("x-kubernetes-map-type") && node.kind.is_some_and(|kind| kind != Type::Object) {
            let text = "must be object if x-kubernetes-map-type is specified";
            self.causes.push(field_error::invalid(format!("{path}.type"), &schema["type"], text));
        }
        self.check_extensions(schema, &node, path);
        self.check_words(schema, path);
        self.read_below(schema, &mut node, path);
        node.list_type = self.list_type(schema, &node, path);
        node.limits = self.limits(schema, Exempt::of(schema), path);
        node.rules = rule_fields::read(schema, &node, path, &mut self.causes);
        node
    }

    fn check_extensions(&mut self, schema: &Map<String, Value>, node: &Node, path: &str) {
        let mut refuse = |word: &str| {
            let text = "must be false if x-kubernetes-int-or-string is true";
            self.structural.push(field_error::invalid(format!("{path}.{word}"), &json!(true), text));
        };
        if node.is_int_or_string && node.keeps_unknown {
            refuse("x-kubernetes-preserve-unknown-fields");
        }
        if node.is_int_or_string && node.is_embedded {
            refuse("x-kubernetes-embedded-resource");
        }
        if !node.is_embedded {
            return;
        }
        self.check_type_names(schema, path);
        if !node.keeps_unknown && schema.get("properties").and_then(Value::as_object).is_none_or(Map::is_empty) {
            let text = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            self.structural.push(field_error::required(format!("{path}.properties"), text));
        }
        if schema.get("additionalProperties").is_some_and(|value| !value.is_null()) {
            let text = "must not be used if x-kubernetes-embedded-resource is set";
            self.structural.push(field_error::forbidden(format!("{path}.additionalProperties"), text));
        }
    }

    fn kind(&mut self, schema: &Map<String, Value>, node: &Node, path: &str) -> Option<Type> {
        let name = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        let kind = Type::of_name(name);
        let field = format!("{path}.type");
        match (name, kind) {
            ("", _) if node.is_int_or_string || node.keeps_unknown => {}
            ("", _) => {
                self.structural.push(field_error::required(field, "must not be empty for specified object fields"));
            }
            (_, None) => {
                self.causes.push(field_error::not_supported(&field, &json!(name), Type::NAMES.map(|(name, _)| name)));
                if name == "null" {
                    self.causes.push(field_error::forbidden(
                        field,
                        "type cannot be set to null, use nullable as an alternative",
                    ));
                }
            }
            (_, Some(kind)) if node.is_embedded && kind != Type::Object => {
                self.structural.push(field_error::invalid(
                    field,
                    &json!(name),
                    "must be object if x-kubernetes-embedded-resource is true",
                ));
            }
            _ => {}
        }
        kind
    }

    /// Refuses keywords of JSON Schema that structural schemas do not have.
    fn check_words(&mut self, schema: &Map<String, Value>, path: &str) {
        for word in ["$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems"] {
            let is_empty =
                schema.get(word).is_none_or(|value| value.is_null() || *value == json!("") || *value == json!({}));
            self.is_foreign |= !is_empty;
            // Even empty dependencies are refused.
            if !is_empty || word == "dependencies" && schema.get(word) == Some(&json!({})) {
                self.causes.push(field_error::forbidden(format!("{path}.{word}"), format!("{word} is not supported")));
            }
        }
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.causes.push(field_error::forbidden(format!("{path}.uniqueItems"), text));
        }
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.causes.push(field_error::invalid(field, &Value::Bool(false), "must be true or undefined"));
        }
        if let Some(kind) = schema.get("x-kubernetes-map-type")
            && !["atomic", "granular"].contains(&kind.as_str().unwrap_or_default())
        {
            self.causes.push(field_error::not_supported(
                format!("{path}.x-kubernetes-map-type"),
                kind,
                ["atomic", "granular"],
            ));
        }
    }

    fn read_below(&mut self, schema: &Map<String, Value>, node: &mut Node, path: &str) {
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let child = self.child(property, &format!("{path}.properties[{name}]"));
            node.properties.insert(name.clone(), child);
        }
        let field = format!("{path}.additionalProperties");
        match schema.get("additionalProperties") {
            None | Some(Value::Null) => {}
            Some(Value::Bool(true)) if node.properties.is_empty() => node.additional = Additional::Anything,
            Some(_) if !node.properties.is_empty() => {
                self.causes
                    .push(field_error::forbidden(field, "additionalProperties and properties are mutual exclusive"));
            }
            Some(Value::Bool(false)) => {}
            Some(values) => node.additional = Additional::Of(Box::new(self.child(values, &field))),
        }
        match schema.get("items") {
            None | Some(Value::Null) if node.kind == Some(Type::Array) => {
                self.structural.push(field_error::required(format!("{path}.items"), "must be specified"));
            }
            None | Some(Value::Null) => {}
            Some(Value::Array(_)) => {
                self.is_foreign = true;
                self.causes.push(field_error::forbidden(
                    format!("{path}.items"),
                    "items must be a schema object and not an array",
                ));
            }
            Some(items) => node.items = Some(Box::new(self.child(items, &format!("{path}.items")))),
        }
    }

    fn child(&mut self, schema: &Value, path: &str) -> Node {
        if let Value::Object(members) = schema {
            self.node(members, path)
        } else {
            self.structural
                .push(field_error::required(format!("{path}.type"), "must not be empty for specified object fields"));
            Node::default()
        }
    }

    fn list_type(&mut self, schema: &Map<String, Value>, node: &Node, path: &str) -> ListType {
        let field = format!("{path}.x-kubernetes-list-type");
        let keys: Vec<String> = texts(schema.get("x-kubernetes-list-map-keys"));
        let word = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
        if word.is_some() && node.kind != Some(Type::Array) {
            let kind = schema.get("type").cloned().unwrap_or(json!(""));
            self.causes.push(field_error::invalid(
                format!("{path}.type"),
                &kind,
                "must be array if x-kubernetes-list-type is specified",
            ));
        }
        if !keys.is_empty() && word != Some("map") {
            let text = "must be map if x-kubernetes-list-map-keys is non-empty";
            let cause = if word.is_none() {
                field_error::required(&field, text)
            } else {
                field_error::invalid(&field, &json!(word), text)
            };
            self.causes.push(cause);
        }
        if let (Some(word @ ("set" | "map")), Some(item)) = (word, &node.items)
            && item.is_nullable
        {
            let text = format!("cannot be nullable when x-kubernetes-list-type is {word}");
            self.causes.push(field_error::forbidden(format!("{path}.items.nullable"), text));
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
                        format!("{path}.items.x-kubernetes-{word}-type"),
                        &json!(item.kind.map(Type::name)),
                        text,
                    ));
                }
                ListType::Set
            }
            Some("map") => {
                self.check_keys(&keys, node, path);
                ListType::Map(keys)
            }
            Some(other) => {
                self.causes.push(field_error::not_supported(field, &json!(other), ["atomic", "map", "set"]));
                ListType::Atomic
            }
        }
    }

    fn check_keys(&mut self, keys: &[String], node: &Node, path: &str) {
        let field = format!("{path}.x-kubernetes-list-map-keys");
        if keys.is_empty() {
            self.causes.push(field_error::required(&field, "must not be empty if x-kubernetes-list-type is map"));
        }
        let Some(item) = &node.items else { return };
        let is_object = item.kind == Some(Type::Object);
        if !is_object {
            let text = "must be object if parent array's x-kubernetes-list-type is map";
            self.causes.push(field_error::invalid(
                format!("{path}.items.type"),
                &json!(item.kind.map(Type::name)),
                text,
            ));
        }
        for (index, key) in keys.iter().enumerate() {
            let Some(property) = item.properties.get(key) else {
                if is_object {
                    self.causes.push(field_error::invalid(
                        &field,
                        &json!(keys),
                        "entries must all be names of item properties",
                    ));
                }
                continue;
            };
            if property.is_nullable {
                let text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.causes.push(field_error::forbidden(format!("{path}.items.properties[{key}].nullable"), text));
            }
            if matches!(property.kind, Some(Type::Object | Type::Array)) {
                let at = format!("{path}.items.properties[{key}].type");
                self.causes.push(field_error::invalid(
                    at,
                    &json!(property.kind.map(Type::name)),
                    "must be a scalar type",
                ));
            }
            if keys[..index].contains(key) {
                self.causes.push(field_error::invalid(&field, &json!(keys), "must not contain duplicate entries"));
            }
            if property.default.is_none() && !item.limits.required.contains(key) {
                let text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.causes.push(field_error::required(format!("{path}.items.properties[{key}].default"), text));
            }
        }
    }

    fn limits(&mut self, schema: &Map<String, Value>, exempt: Exempt, path: &str) -> Limits {
        let number = |name: &str| schema.get(name).and_then(Value::as_f64);
        let count = |name: &str| schema.get(name).and_then(Value::as_f64).map(|number| number as u64);
        let flag = |name: &str| schema.get(name).and_then(Value::as_bool).unwrap_or_default();
        Limits {
            required: texts(schema.get("required")),
            options: schema.get("enum").and_then(Value::as_array).cloned(),
            format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
            pattern: self.pattern(schema, path),
            length: Range { least: count("minLength"), most: count("maxLength") },
            items: Range { least: count("minItems"), most: count("maxItems") },
            properties: Range { least: count("minProperties"), most: count("maxProperties") },
            number: Range { least: number("minimum"), most: number("maximum") },
            excludes_minimum: flag("exclusiveMinimum"),
            excludes_maximum: flag("exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            all_of: self.branches(schema, "allOf", exempt, path),
            any_of: self.branches(schema, "anyOf", exempt, path),
            one_of: self.branches(schema, "oneOf", exempt, path),
            not: schema
                .get("not")
                .and_then(Value::as_object)
                .map(|branch| Box::new(self.branch(branch, Exempt::default(), &format!("{path}.not")))),
        }
    }

    fn pattern(&mut self, schema: &Map<String, Value>, path: &str) -> Option<Regex> {
        let text = schema.get("pattern").and_then(Value::as_str)?;
        go::regex(text)
            .map_err(|_| {
                let why = "must be a valid regular expression";
                self.structural.push(field_error::invalid(format!("{path}.pattern"), &json!(text), why));
            })
            .ok()
    }

    fn branches(&mut self, schema: &Map<String, Value>, word: &str, exempt: Exempt, path: &str) -> Vec<Node> {
        let branches = schema.get(word).and_then(Value::as_array).into_iter().flatten();
        let read = |(index, branch): (usize, &Value)| {
            let members = branch.as_object()?;
            if word == "anyOf" && exempt.any_of {
                return Some(Node {
                    kind: members["type"].as_str().and_then(Type::of_name),
                    keeps_unknown: true,
                    ..Node::default()
                });
            }
            let inner = Exempt { any_of: word == "allOf" && index == 0 && exempt.first_all_of, first_all_of: false };
            Some(self.branch(members, inner, &format!("{path}.{word}[{index}]")))
        };
        branches.enumerate().filter_map(read).collect()
    }

    /// Reads a schema that only limits values.
    fn branch(&mut self, schema: &Map<String, Value>, exempt: Exempt, path: &str) -> Node {
        let mut node = Node { keeps_unknown: true, ..Node::default() };
        for word in STRUCTURAL {
            let is_absent = schema.get(word).is_none_or(|value| match value {
                Value::Null => true,
                Value::Array(items) => items.is_empty() && word != "default",
                value => {
                    word != "default"
                        && word != "additionalProperties"
                        && (*value == json!("") || *value == json!(false))
                }
            });
            if !is_absent {
                self.structural
                    .push(field_error::forbidden(format!("{path}.{word}"), "must be undefined to be structural"));
            }
        }
        node.kind = schema.get("type").and_then(Value::as_str).and_then(Type::of_name);
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if let Value::Object(members) = property {
                let child = self.branch(members, Exempt::default(), &format!("{path}.properties[{name}]"));
                node.properties.insert(name.clone(), child);
            }
        }
        if let Some(Value::Object(items)) = schema.get("items") {
            node.items = Some(Box::new(self.branch(items, Exempt::default(), &format!("{path}.items"))));
        }
        node.limits = self.limits(schema, exempt, path);
        node
    }

    /// Properties restricted in branches of the root must be declared outside of them. Below the root, the real server
    /// does not require it.
    fn check_branches_are_known(
        &mut self,
        limiting: &Map<String, Value>,
        known: &Map<String, Value>,
        path: &str,
        at: &str,
    ) {
        for word in ["allOf", "anyOf", "oneOf", "not"] {
            let branches: Vec<(String, &Value)> = match limiting.get(word) {
                Some(Value::Array(branches)) => branches
                    .iter()
                    .enumerate()
                    .map(|(index, branch)| (format!("{at}.{word}[{index}]"), branch))
                    .collect(),
                Some(branch) => vec![(format!("{at}.{word}"), branch)],
                None => Vec::new(),
            };
            for (at, branch) in branches {
                if let Value::Object(branch) = branch {
                    self.check_branch_is_known(branch, known, path, &at);
                }
            }
        }
    }

    fn check_branch_is_known(&mut self, branch: &Map<String, Value>, known: &Map<String, Value>, path: &str, at: &str) {
        self.check_branches_are_known(branch, known, path, at);
        let mut below = |limiting: Option<&Value>, known: Option<&Value>, step: &str| {
            let Some(Value::Object(limiting)) = limiting else { return };
            let (path, at) = (format!("{path}.{step}"), format!("{at}.{step}"));
            match known {
                Some(Value::Object(known)) => self.check_branch_is_known(limiting, known, &path, &at),
                _ => self.structural.push(field_error::required(path, &format!("because it is defined in {at}"))),
            }
        };
        below(branch.get("items"), known.get("items"), "items");
        let properties = known.get("properties");
        for (name, property) in branch.get("properties").and_then(Value::as_object).into_iter().flatten() {
            below(
                Some(property),
                properties.and_then(|properties| properties.get(name)),
                &format!("properties[{name}]"),
            );
        }
    }
}

/// Checks the defaults of a structural schema: they conform to it, without unknown fields.
fn check_defaults(node: &Node, path: &str, causes: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let field = format!("{path}.default");
        let mut pruned = default.clone();
        if !Pruning::default().part(node, &mut pruned).is_empty() {
            causes.push(field_error::invalid(&field, default, "must not have unknown fields"));
        }
        let mut found = Vec::new();
        structure::check_embedded(node, &pruned, None, &FieldPath::Named(&field), &mut found);
        if found.is_empty() {
            values::check(node, &pruned, None, &FieldPath::Root, &mut found);
            for cause in &mut found {
                let is_whole = cause.field == "<nil>";
                cause.field = if is_whole { field.clone() } else { format!("{field}.{}", cause.field) };
            }
        }
        causes.extend(found);
    }
    for (name, property) in &node.properties {
        check_defaults(property, &format!("{path}.properties[{name}]"), causes);
    }
    if let Additional::Of(values) = &node.additional {
        check_defaults(values, &format!("{path}.additionalProperties"), causes);
    }
    if let Some(items) = &node.items {
        check_defaults(items, &format!("{path}.items"), causes);
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
