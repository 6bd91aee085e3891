//! Secrets in texts: objects, differences and messages are shown without the values of Secrets.
//!
//! Known are the values of an object at hand. Values that a script copies elsewhere are not followed.

use std::borrow::Cow;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::diff::Item;
use super::resource::Resource;

/// Stands for a value that is not shown.
pub(crate) const HIDDEN: &str = "***";

/// The fields with the values of a Secret.
pub(crate) const FIELDS: [&str; 2] = ["data", "stringData"];

/// Shorter values may be parts of other words: they are hidden in their fields, and not searched in texts.
const MIN_SEARCHED: usize = 6;

/// Tells whether an object is a Secret of Kubernetes.
pub(crate) fn is_secret(object: &Value) -> bool {
    object.get("kind").is_some_and(|kind| kind == "Secret")
        && object.get("apiVersion").is_some_and(|version| version == "v1")
}

/// Tells whether a resource is that of Secrets.
pub(crate) fn is_resource(resource: &Resource) -> bool {
    is_path(&resource.group, &resource.plural)
}

/// Tells whether a path of the API with this group and plural name is that of Secrets.
pub(crate) fn is_path(group: &str, plural: &str) -> bool {
    group.is_empty() && plural == "secrets"
}

/// Returns an object as it is shown: a Secret without its values, others as they are.
pub(crate) fn shown(object: &Value) -> Cow<'_, Value> {
    match Values::of(object) {
        Some(values) => Cow::Owned(values.shown_at(&[], object)),
        None => Cow::Borrowed(object),
    }
}

/// Returns a text about an object without its values, if it is a Secret.
pub(crate) fn hidden<'t>(object: &Value, text: &'t str) -> Cow<'t, str> {
    Values::of(object).map_or(Cow::Borrowed(text), |values| values.hidden(text))
}

/// The values of a Secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Values {
    /// The texts to search for, longer ones first: one may be a part of another.
    texts: Vec<String>,
}

/// Values are not printed by accident.
impl std::fmt::Debug for Values {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Values({})", self.texts.len())
    }
}

impl Values {
    /// Returns the values of an object, if it is a Secret.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        is_secret(object).then(|| Self::of_parts([object]))
    }

    /// Returns the values of two states of an object, if it is a Secret.
    pub(crate) fn of_both(before: Option<&Value>, after: Option<&Value>) -> Option<Self> {
        let states = || before.into_iter().chain(after);
        states().any(is_secret).then(|| Self::of_parts(states()))
    }

    /// Returns the values in the request that writes a Secret: an object, a merge patch, or a JSON patch.
    pub(crate) fn of_request(body: &Value) -> Self {
        let Value::Array(operations) = body else { return Self::of_parts([body]) };
        let mut texts = BTreeSet::new();
        for operation in operations {
            match operation.get("value") {
                Some(value) if is_of_values(operation) => collect(value, &mut texts),
                Some(value) => collect_stored(value, &mut texts),
                None => {}
            }
        }
        Self::from_texts(texts)
    }

    fn of_parts<'v>(parts: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut texts = BTreeSet::new();
        for part in parts {
            FIELDS.iter().filter_map(|field| part.get(field)).for_each(|values| collect(values, &mut texts));
            // Earlier values are in annotations of kubectl and of operators.
            part.get("metadata")
                .into_iter()
                .chain(part.get("status"))
                .for_each(|other| collect_stored(other, &mut texts));
        }
        Self::from_texts(texts)
    }

    fn from_texts(texts: BTreeSet<String>) -> Self {
        let mut texts: Vec<String> = texts.into_iter().collect();
        texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Self { texts }
    }

    /// Returns a text without the values.
    pub(crate) fn hidden<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut hidden = Cow::Borrowed(text);
        for value in self.texts.iter().filter(|value| text.contains(value.as_str())) {
            hidden = Cow::Owned(hidden.replace(value.as_str(), HIDDEN));
        }
        hidden
    }

    /// Returns a value at a path of the object as it is shown.
    pub(crate) fn shown_at(&self, path: &[String], value: &Value) -> Value {
        let mut shown = value.clone();
        match path.first() {
            Some(field) if FIELDS.contains(&field.as_str()) => mask(&mut shown),
            Some(_) => self.hide_in(&mut shown),
            None => match &mut shown {
                Value::Object(fields) => self.hide_in_fields(fields),
                other => self.hide_in(other),
            },
        }
        shown
    }

    /// Returns a difference of the whole object as it is shown.
    pub(crate) fn shown_item(&self, item: &Item) -> Item {
        let Item { op, path, old, new } = item;
        Item { op: *op, path: path.clone(), old: self.shown_at(path, old), new: self.shown_at(path, new) }
    }

    fn hide_in_fields(&self, fields: &mut Map<String, Value>) {
        for (field, value) in fields {
            if FIELDS.contains(&field.as_str()) { mask(value) } else { self.hide_in(value) }
        }
    }

    fn hide_in(&self, value: &mut Value) {
        match value {
            Value::String(text) if has_values(text) => HIDDEN.clone_into(text),
            Value::String(text) => {
                if let Cow::Owned(hidden) = self.hidden(text) {
                    *text = hidden;
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in(item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.hide_in(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Returns a request that writes a Secret as it is shown.
pub(crate) fn shown_request(body: &Value) -> Value {
    let values = Values::of_request(body);
    let Value::Array(operations) = body else { return values.shown_at(&[], body) };
    let shown = |operation: &Value| {
        let mut shown = operation.clone();
        values.hide_in(&mut shown);
        if let Some(value) = shown.get_mut("value").filter(|_| is_of_values(operation)) {
            mask(value);
        }
        shown
    };
    operations.iter().map(shown).collect()
}

/// Tells whether an operation of a JSON patch is about values of a Secret.
fn is_of_values(operation: &Value) -> bool {
    let path = operation.get("path").and_then(Value::as_str).unwrap_or_default();
    FIELDS.iter().any(|field| path.strip_prefix('/').is_some_and(|path| path.split('/').next() == Some(field)))
}

/// Returns the differences of an object as they are shown.
pub(crate) fn shown_items<'i>(values: Option<&Values>, items: &'i [Item]) -> Cow<'i, [Item]> {
    match values {
        Some(values) => Cow::Owned(items.iter().map(|item| values.shown_item(item)).collect()),
        None => Cow::Borrowed(items),
    }
}

/// Hides all values of a field; their keys are shown.
fn mask(value: &mut Value) {
    match value {
        Value::Object(map) => map.values_mut().for_each(mask),
        Value::Null => {}
        other => *other = Value::String(HIDDEN.to_owned()),
    }
}

/// Tells whether a text is a Secret, or a part of one, in JSON: as annotations of kubectl and of operators are.
fn has_values(text: &str) -> bool {
    stored_object(text).is_some_and(|object| FIELDS.iter().any(|field| object.contains_key(*field)))
}

fn stored_object(text: &str) -> Option<Map<String, Value>> {
    // Most texts are no JSON.
    let is_likely = text.trim_start().starts_with('{') && FIELDS.iter().any(|field| text.contains(field));
    if is_likely { serde_json::from_str(text).ok() } else { None }
}

/// Collects the texts of values, as they are stored and decoded.
fn collect(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            add(text, texts);
            // Servers answer with the stored form of `stringData`.
            add(&STANDARD.encode(text), texts);
            if let Some(decoded) = STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()) {
                add(&decoded, texts);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        Value::Object(map) => map.values().for_each(|value| collect(value, texts)),
        // A value of a wrong type, which a server quotes when it refuses it.
        Value::Number(number) => add(&number.to_string(), texts),
        Value::Null | Value::Bool(_) => {}
    }
}

fn add(text: &str, texts: &mut BTreeSet<String>) {
    let text = text.trim();
    if text.chars().count() >= MIN_SEARCHED {
        texts.insert(text.to_owned());
        // Inside of other JSON, or as `Debug` prints it, a text is quoted.
        let quoted = Value::String(text.to_owned()).to_string();
        texts.insert(quoted[1..quoted.len() - 1].to_owned());
    }
}

/// Collects the values of Secrets that are stored as JSON in texts.
fn collect_stored(value: &Value, texts: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            let object = stored_object(text).unwrap_or_default();
            FIELDS.iter().filter_map(|field| object.get(*field)).for_each(|values| collect(values, texts));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_stored(item, texts)),
        Value::Object(map) => map.values().for_each(|value| collect_stored(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Op, Scope, diff};
    use serde_json::json;

    /// A Secret with `hunter2` and `correct-horse`, whose earlier password was `battery-staple`.
    fn secret() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "s", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{\"apiVersion\":\"v1\",\"stringData\":{\"password\":\"battery-staple\"}}\n",
                "kopf.zalando.org/last-handled-configuration": "{\"data\":{\"password\":\"YmF0dGVyeS1zdGFwbGU=\"}}\n",
                "kopf.zalando.org/fn": "{\"retries\":1}",
                "note": "the password is hunter2",
            }},
            "data": {"password": "aHVudGVyMg==", "phrase": "Y29ycmVjdC1ob3JzZQ==", "pin": "MTIz", "empty": null},
            "stringData": {"other": {"nested": 1}},
        })
    }

    const VALUES: [&str; 6] =
        ["hunter2", "aHVudGVyMg", "correct-horse", "Y29ycmVjdC1ob3JzZQ", "battery-staple", "YmF0dGVyeS1zdGFwbGU"];

    fn assert_hidden(text: &str) {
        assert!(!VALUES.iter().any(|value| text.contains(value)), "{text}");
    }

    #[test]
    fn a_secret_is_shown_with_its_keys_only() {
        let shown = shown(&secret()).into_owned();
        assert_hidden(&shown.to_string());
        assert_eq!(shown["data"], json!({"password": "***", "phrase": "***", "pin": "***", "empty": null}));
        assert_eq!(shown["stringData"], json!({"other": {"nested": "***"}}));
        assert_eq!(shown["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"], "***");
        assert_eq!(shown["metadata"]["annotations"]["kopf.zalando.org/fn"], "{\"retries\":1}");
        assert_eq!(shown["metadata"]["annotations"]["note"], "the password is ***");
        assert_eq!((&shown["type"], &shown["metadata"]["name"]), (&json!("Opaque"), &json!("s")));
    }

    #[test]
    fn other_kinds_are_shown_as_they_are() {
        for object in [
            json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}),
            json!({"apiVersion": "ex.dev/v1", "kind": "Secret", "data": 1}),
        ] {
            assert!(matches!(shown(&object), Cow::Borrowed(same) if *same == object));
            assert!(Values::of(&object).is_none() && Values::of_both(Some(&object), None).is_none());
            assert!(matches!(hidden(&object, "b"), Cow::Borrowed("b")));
        }
    }

    #[test]
    fn differences_are_shown_without_values_at_every_depth() {
        let mut after = secret();
        after["data"]["password"] = json!("bmV3LXBhc3N3b3Jk");
        after["data"]["pin"] = Value::Null;
        after["metadata"]["labels"] = json!({"a": "new-password"});
        let values = Values::of_both(Some(&secret()), Some(&after)).unwrap();
        let nothing = json!({});
        for (old, new) in [
            (&secret(), &after),
            (&after, &secret()),
            (&nothing, &after),
            (&secret(), &nothing),
            (&Value::Null, &after),
        ] {
            let items = diff::diff(old, new, Scope::Full);
            let shown: Vec<String> =
                shown_items(Some(&values), &items).iter().map(|item| format!("{item:?}")).collect();
            assert!(!shown.is_empty());
            assert_hidden(&shown.join("\n"));
            assert!(
                !shown.join("\n").contains("bmV3LXBhc3N3b3Jk") && !shown.join("\n").contains("new-password"),
                "{shown:#?}"
            );
        }
        let path = ["data", "password"].map(str::to_owned).to_vec();
        let item = Item { op: Op::Change, path: path.clone(), old: json!("YQ=="), new: Value::Null };
        assert_eq!(values.shown_item(&item), Item { op: Op::Change, path, old: json!("***"), new: Value::Null });
        assert!(matches!(shown_items(None, &[item]), Cow::Borrowed(_)));
    }

    #[test]
    fn texts_repeat_no_value() {
        let text = "Secret \"s\" is invalid: data[password]: Invalid value: \"hunter2\": was \"battery-staple\" or aHVudGVyMg==";
        let expected = "Secret \"s\" is invalid: data[password]: Invalid value: \"***\": was \"***\" or ***";
        assert_eq!(hidden(&secret(), text), expected);
        assert_eq!(hidden(&secret(), "port 123"), "port 123", "short values are parts of other words");
    }

    #[test]
    fn values_of_several_lines_and_with_quotes_are_found_in_their_quoted_form() {
        let object =
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": STANDARD.encode("-----BEGIN\n\"abc\"\n")}});
        assert_eq!(hidden(&object, r#"{"value":"-----BEGIN\n\"abc\""}"#), r#"{"value":"***"}"#);
    }

    #[test]
    fn requests_have_values_in_every_form_of_patch() {
        let answer = "no hunter2, no aHVudGVyMg==";
        let shown = |body: Value| Values::of_request(&body).hidden(answer).into_owned();
        let requests = [
            json!({"data": {"a": "aHVudGVyMg=="}}),
            json!({"stringData": {"a": "hunter2"}}),
            json!({"metadata": {"annotations": {"x/y": "{\"data\":{\"a\":\"aHVudGVyMg==\"}}"}}}),
            json!([{"op": "add", "path": "/data/a", "value": "aHVudGVyMg=="}, {"op": "remove", "path": "/data/b"}]),
            json!([{"op": "replace", "path": "/data", "value": {"a": "aHVudGVyMg=="}}]),
        ];
        for request in requests {
            assert_eq!(shown(request.clone()), "no ***, no ***", "{request}");
            let text = shown_request(&request).to_string();
            assert!(text.contains("***") && !text.contains("hunter2") && !text.contains("aHVu"), "{text}");
        }
        assert_eq!(shown_request(&json!({"data": {"pin": "MQ=="}})), json!({"data": {"pin": "***"}}));
        let patch = json!([{"op": "add", "path": "/data/pin", "value": "MQ=="}]);
        assert_eq!(shown_request(&patch), json!([{"op": "add", "path": "/data/pin", "value": "***"}]));
        assert_eq!(shown(json!([{"op": "add", "path": "/metadata/labels/a", "value": "aHVudGVyMg=="}])), answer);
        let wrong = Values::of_request(&json!({"stringData": {"pin": 12_345_678}}));
        assert_eq!(
            wrong.hidden(".stringData.pin: expected string, got &{Value:12345678}"),
            ".stringData.pin: expected string, got &{Value:***}"
        );
    }
}
