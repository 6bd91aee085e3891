//! The objects of a template, as far as its text names their kinds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::value::{Fields, Known, Values};
use crate::script::sources::template_files::{self, Rendered};

/// A line at the beginning of an object: its indentation, its key, and its value.
static LINE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"^(\s*(?:- )?)["']?([A-Za-z]+)["']?:(?:\s+(.*?))?\s*$"#).expect("the pattern is valid")
});

/// A variable in a text, without filters.
static VARIABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}").expect("the pattern is valid"));

/// Returns the possible objects of a template, with the known values.
pub(super) fn objects(root: &Path, file: &str, values: &Values) -> Values {
    let rendered = Rendered { names: [file.to_owned()].into(), is_open: false };
    let texts = template_files::read(root, &rendered);
    let mut found = Values::default();
    // Included files may have objects, too.
    for text in texts.values() {
        for object in documents(&substituted(text, values)) {
            found.join(object);
        }
    }
    if found.known.is_empty() { Values::unknown() } else { found }
}

/// Returns the objects that are written in a text, with unknown parts in double braces.
pub(super) fn parsed(text: &str) -> Vec<Values> {
    documents(text)
}

/// Returns a text with the variables replaced that can have only one value.
fn substituted(text: &str, values: &Values) -> String {
    let replaced = VARIABLE.replace_all(text, |found: &Captures<'_>| {
        let value = values.property(&found[1]);
        match value.known.iter().collect::<Vec<_>>()[..] {
            [Known::Text(text)] if !value.is_open => text.clone(),
            _ => found[0].to_owned(),
        }
    });
    replaced.into_owned()
}

fn documents(text: &str) -> Vec<Values> {
    let mut documents = vec![Vec::new()];
    for line in text.lines() {
        if line.starts_with("---") {
            documents.push(Vec::new());
        } else {
            documents.last_mut().expect("there is one").push(line);
        }
    }
    documents.iter().filter_map(|lines| of_document(lines)).collect()
}

/// Returns the objects of a document. With branches of the template, or in a list, they may be of several kinds.
fn of_document(lines: &[&str]) -> Option<Values> {
    let keys: Vec<(usize, &str, &str)> = lines.iter().filter_map(|line| key(line)).collect();
    let Some((top, ..)) = keys.iter().find(|(_, key, _)| ["apiVersion", "kind"].contains(key)) else {
        // Included templates are read by themselves.
        let is_silent = |line: &str| line.is_empty() || ["#", "{%", "{#"].iter().any(|start| line.starts_with(start));
        let is_empty = lines.iter().all(|line| is_silent(line.trim()));
        return (!is_empty).then(Values::unknown);
    };
    let (mut entries, mut metadata): (BTreeMap<String, Values>, BTreeMap<String, Values>) =
        (BTreeMap::new(), BTreeMap::new());
    let mut inner = None;
    for (depth, key, value) in &keys {
        if depth <= top {
            inner = (depth == top && *key == "metadata").then_some(usize::MAX);
        }
        if depth == top && ["apiVersion", "kind"].contains(key) {
            entries.entry((*key).to_owned()).or_default().join(literal(value));
        } else if depth == top && *key == "metadata" {
            for (key, value) in of_flow(value) {
                metadata.entry(key.to_owned()).or_default().join(value);
            }
        } else if let Some(first) = inner.map(|first: usize| first.min(*depth)) {
            inner = Some(first);
            // Deeper keys are those of owner references, labels, and annotations.
            if *depth == first && ["name", "namespace"].contains(key) {
                metadata.entry((*key).to_owned()).or_default().join(literal(value));
            }
        }
    }
    entries.insert("metadata".to_owned(), Known::Map(Fields { entries: metadata, is_open: false }).into());
    Some(Known::Map(Fields { entries, is_open: true }).into())
}

/// Returns the depth, the key and the value of a line. The depth of an item of a list is that of its keys.
fn key(line: &str) -> Option<(usize, &str, &str)> {
    let found = LINE.captures(line)?;
    let text = |group| found.get(group).map_or("", |found: regex::Match<'_>| found.as_str());
    Some((text(1).chars().count(), text(2), text(3)))
}

/// Returns the keys of a map in braces: `{name: x, namespace: y}`.
fn of_flow(text: &str) -> Vec<(&'static str, Values)> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"["']?\b(name|namespace)["']?:\s*("[^"]*"|'[^']*'|[^,}\s]*)"#).expect("the pattern is valid")
    });
    let key = |key: &str| if key == "name" { "name" } else { "namespace" };
    if text.contains("{{") || text.contains("{%") {
        return vec![("name", Values::unknown()), ("namespace", Values::unknown())];
    }
    NAME.captures_iter(text).map(|found| (key(&found[1]), literal(&found[2]))).collect()
}

/// Returns a value as it is written, unless it is computed.
fn literal(text: &str) -> Values {
    let text = text.split(" #").next().unwrap_or_default().trim().trim_end_matches(',');
    let bare = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(text);
    let is_computed = ["{{", "{%", "&", "*", "!", "|", ">", "["].iter().any(|sign| bare.contains(sign));
    if is_computed || bare.is_empty() { Values::unknown() } else { Values::text(bare) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let values = Values::of_json(&json!({"kind": "Job", "name": "x"}));
        let one = |values: &Values| {
            let all: Vec<String> = values
                .known
                .iter()
                .map(|known| match known {
                    Known::Text(text) => text.clone(),
                    _ => "?".to_owned(),
                })
                .collect();
            if values.is_open { "*".to_owned() } else { all.join("|") }
        };
        let of = |object: &Values| {
            if object.is_unknown() {
                return "unknown".to_owned();
            }
            let metadata = object.property("metadata");
            let parts = [
                object.property("apiVersion"),
                object.property("kind"),
                metadata.property("name"),
                metadata.property("namespace"),
            ];
            parts.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        documents(&substituted(text, &values)).iter().map(of).collect()
    }

    #[test]
    fn kinds_are_read_from_the_text_of_a_template() {
        let text = "# one\napiVersion: v1\nkind: Service\nmetadata:\n  labels: {a: b}\n  name: {{ name }}-db\nspec:\n  name: no\n---\n\
                    {% if a %}\napiVersion: batch/v1\nkind: \"CronJob\"\nmetadata: {name: fixed, namespace: there}\n{% endif %}";
        assert_eq!(shown(text), ["v1 Service x-db ?", "batch/v1 CronJob fixed there"]);
    }

    #[test]
    fn branches_and_variables_of_a_template_give_alternatives() {
        let text = "apiVersion: v1\n{% if a %}\nkind: Secret\n{% else %}\nkind: {{ kind }}\n{% endif %}\nmetadata:\n  name: {{ other }}\n";
        assert_eq!(shown(text), ["v1 Job|Secret * ?"]);
        assert_eq!(shown("apiVersion: v1\nkind: {{ other }}\n"), ["v1 * ? ?"]);
    }

    #[test]
    fn a_template_without_a_kind_is_unknown() {
        assert_eq!(shown("a: 1\n"), ["unknown"]);
        assert_eq!(shown("# nothing\n"), [""; 0]);
    }

    #[test]
    fn lists_of_objects_are_read() {
        let text = "- apiVersion: v1\n  kind: Secret\n  metadata:\n    name: a\n- apiVersion: v1\n  kind: Service\n";
        assert_eq!(shown(text), ["v1 Secret|Service a ?"]);
        assert_eq!(shown("{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Secret\"\n}\n"), ["v1 Secret ? ?"]);
    }
}
