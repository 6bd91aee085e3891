//! The normal form of answers: values that differ in every run get stable names, and message texts are removed.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value, json};

/// The values seen so far in a case, to give equal values equal names.
pub(crate) struct Normal {
    id: String,
    has_managers: bool,
    uids: Vec<String>,
    revisions: Vec<String>,
}

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(\.\d+)?Z$"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+[smhdy])+$"));
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^10\.\d+\.\d+\.\d+$"));
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| pattern("^[bcdfghjklmnpqrstvwxz2456789]{5}$"));
static TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{20,}$"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

impl Normal {
    /// Returns the normalization for a case.
    pub(crate) fn new(id: &str, has_managers: bool) -> Self {
        Self { id: id.to_owned(), has_managers, uids: Vec::new(), revisions: Vec::new() }
    }

    /// Returns the normal form of an answer.
    pub(crate) fn form(&mut self, mut answer: Value) -> Value {
        self.walk("", &mut answer);
        sort_causes(&mut answer);
        answer
    }

    fn walk(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(members) => self.members(name, members),
            Value::Array(items) => {
                items.retain(|item| !is_periodic_bookmark(item));
                for item in items {
                    self.walk(name, item);
                }
            }
            Value::String(text) if name == "cells" && AGE.is_match(text) => "<age>".clone_into(text),
            Value::String(text) if name == "token" && TOKEN.is_match(text) => "<token>".clone_into(text),
            Value::String(text) => *text = self.text(text),
            _ => {}
        }
    }

    fn members(&mut self, name: &str, members: &mut Map<String, Value>) {
        drop_texts(name, members);
        if name == "metadata" {
            self.metadata(members);
        }
        for (name, value) in members.iter_mut() {
            self.walk(name, value);
        }
        // Names of members are also texts.
        let renamed: Vec<String> = members.keys().filter(|key| key.contains(&self.id)).cloned().collect();
        for key in renamed {
            let value = members.remove(&key).unwrap_or_default();
            members.insert(key.replace(&self.id, "<id>"), value);
        }
    }

    fn metadata(&mut self, metadata: &mut Map<String, Value>) {
        let is_object = metadata.contains_key("name") || metadata.contains_key("uid");
        if let Some(Value::String(revision)) = metadata.get_mut("resourceVersion") {
            *revision = if is_object { number(&mut self.revisions, "revision", revision) } else { a_number(revision) };
        }
        if let Some(Value::String(token)) = metadata.get_mut("continue")
            && !token.is_empty()
        {
            "<continue>".clone_into(token);
        }
        if !self.has_managers {
            metadata.remove("managedFields");
        }
        // They are ordered by time, which depends on the seconds in which requests arrive.
        if let Some(Value::Array(managers)) = metadata.get_mut("managedFields") {
            managers.sort_by_key(|manager| {
                format!("{}{}{}", manager["operation"], manager["manager"], manager["subresource"])
            });
        }
        let prefix = metadata.get("generateName").and_then(Value::as_str).map(str::to_owned);
        if let (Some(prefix), Some(Value::String(name))) = (prefix, metadata.get_mut("name"))
            && name.strip_prefix(&prefix).is_some_and(|suffix| SUFFIX.is_match(suffix))
        {
            *name = format!("{prefix}<random>");
        }
    }

    fn text(&mut self, text: &str) -> String {
        let text = text.replace(&self.id, "<id>");
        if let Some(found) = TIME.captures(&text) {
            return format!("<time{}>", if found.get(2).is_some() { " with a fraction" } else { "" });
        }
        if ADDRESS.is_match(&text) {
            return "<address>".to_owned();
        }
        UID.replace_all(&text, |found: &regex::Captures<'_>| number(&mut self.uids, "uid", &found[0])).into_owned()
    }
}

/// Tells whether an event of a watch is a bookmark whose time depends on when the server last sent bookmarks: any but
/// the one that ends the initial events.
fn is_periodic_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK" && event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"].is_null()
}

/// Returns the name of a known or new value.
fn number(seen: &mut Vec<String>, what: &str, text: &str) -> String {
    let index = seen.iter().position(|known| known == text).unwrap_or_else(|| {
        seen.push(text.to_owned());
        seen.len() - 1
    });
    format!("<{what} {}>", index + 1)
}

fn a_number(text: &str) -> String {
    if text.parse::<u64>().is_ok_and(|number| number > 0) { "<revision>".to_owned() } else { text.to_owned() }
}

/// Sorts causes: real servers report errors of several fields in any order.
pub(crate) fn sort_causes(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                sort_causes(value);
                if let Value::Array(causes) = value
                    && name.ends_with("causes")
                {
                    causes.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(sort_causes),
        _ => {}
    }
}

/// Removes message texts, which change between versions: those of failures, causes, and conditions.
fn drop_texts(name: &str, members: &mut Map<String, Value>) {
    let is_status = members.get("kind") == Some(&json!("Status"));
    if is_status
        && let Some(Value::String(name)) = members.get_mut("details").and_then(|details| details.get_mut("name"))
        && let Some((prefix, suffix)) = name.rsplit_once('-')
        && SUFFIX.is_match(suffix)
    {
        *name = format!("{prefix}-<random>");
    }
    if is_status || name == "causes" || name == "conditions" {
        members.remove("message");
    }
}
