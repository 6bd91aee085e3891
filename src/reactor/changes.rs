//! Formats the changes between two states of an object as lines.

use serde_json::Value;

use crate::object::Scope;
use crate::object::diff::{self, Item, Op};
use crate::object::secret::{self, Values};

use super::activity::shown;

/// Metadata that the server sets, most of them with every write.
pub(crate) const SERVERS: [&str; 5] = ["managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"];

/// Prefix of the line that lists the operator's own annotations.
pub(crate) const ANNOTATIONS: &str = "= annotations: ";

/// The format of differences.
#[derive(Clone, Copy)]
pub(crate) struct Form<'a> {
    /// Annotations with these prefixes are listed by name only.
    pub prefixes: &'a [String],
    /// Prints a value.
    pub print: fn(&Value) -> String,
}

/// Returns the changes as lines, with long values cut, and those of Secrets hidden. Annotations with these prefixes are
/// listed by name only.
pub(crate) fn changes(before: Option<&Value>, after: Option<&Value>, prefixes: &[String]) -> Vec<String> {
    match (before, after) {
        (Some(old), Some(new)) => {
            let values = Values::of_both(before, after);
            lines(
                &secret::shown_items(values.as_ref(), &diff::diff(old, new, Scope::Full)),
                Form { prefixes, print: shown },
            )
        }
        (None, Some(after)) => {
            let after = secret::shown(after);
            let members = after.as_object().into_iter().flatten();
            let parts = members.filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
            parts.map(|(key, value)| format!("+ {key}: {}", shown(value))).collect()
        }
        (Some(_), None) => vec!["- the whole object".to_owned()],
        (None, None) => Vec::new(),
    }
}

/// Returns differences as lines, without metadata of the server.
pub(crate) fn lines(items: &[Item], form: Form<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut kept, mut purged) = (Vec::new(), Vec::new());
    let mut annotation =
        |key: &str, op: Op, old: &Value, new: &Value, lines: &mut Vec<String>| match key.split_once('/') {
            Some((prefix, name)) if form.prefixes.iter().any(|own| own == prefix) => {
                if op == Op::Remove { &mut purged } else { &mut kept }.push(name.to_owned());
            }
            _ => lines.push(form.line(&format!("metadata.annotations.{key}"), op, old, new)),
        };
    for item in items {
        let keys: Vec<&str> = item.path.iter().map(String::as_str).collect();
        match keys.as_slice() {
            ["metadata", key, ..] if SERVERS.contains(key) => {}
            ["metadata", "annotations"] => {
                // For the first or the last annotation, the difference is the whole mapping.
                let all = |value: &Value| value.as_object().cloned().unwrap_or_default();
                for (key, value) in all(&item.new) {
                    annotation(&key, Op::Add, &Value::Null, &value, &mut lines);
                }
                for (key, value) in all(&item.old) {
                    annotation(&key, Op::Remove, &value, &Value::Null, &mut lines);
                }
            }
            ["metadata", "annotations", key] => annotation(key, item.op, &item.old, &item.new, &mut lines),
            _ => lines.push(form.line(&item.path.join("."), item.op, &item.old, &item.new)),
        }
    }
    let named = |word: &str, names: &[String]| (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")));
    let parts: Vec<String> = [named("kept", &kept), named("purged", &purged)].into_iter().flatten().collect();
    if !parts.is_empty() {
        lines.push(format!("{ANNOTATIONS}{}", parts.join("; ")));
    }
    lines
}

/// Returns one difference, with long values cut.
pub(crate) fn line(path: &str, op: Op, old: &Value, new: &Value) -> String {
    Form { prefixes: &[], print: shown }.line(path, op, old, new)
}

impl Form<'_> {
    fn line(self, path: &str, op: Op, old: &Value, new: &Value) -> String {
        match op {
            Op::Add => format!("+ {path}: {}", (self.print)(new)),
            Op::Remove => format!("- {path}: {}", (self.print)(old)),
            Op::Change => format!("~ {path}: {} -> {}", (self.print)(old), (self.print)(new)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_write_is_reported_with_its_changes() {
        let before = json!({"metadata": {"resourceVersion": "1", "annotations": {"kopf.zalando.org/f": "{}"}}, "status": {"old": 1}});
        let after = json!({"metadata": {"resourceVersion": "2", "annotations": {"kopf.zalando.org/g": "{}", "x": "y"}}, "status": {"old": 2}});
        let lines = changes(Some(&before), Some(&after), &["kopf.zalando.org".to_owned()]);
        assert_eq!(
            lines,
            ["+ metadata.annotations.x: \"y\"", "~ status.old: 1 -> 2", "= annotations: kept g; purged f"]
        );
    }

    #[test]
    fn an_object_that_has_come_is_told_by_its_fields_and_one_that_has_gone_in_a_line() {
        let object =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"a": 1}, "status": {}});
        assert_eq!(changes(None, Some(&object), &[]), ["+ spec: {\"a\":1}", "+ status: {}"]);
        assert_eq!(changes(Some(&object), None, &[]), ["- the whole object"]);
        assert!(changes(None, None, &[]).is_empty());
    }

    #[test]
    fn values_of_secrets_are_hidden() {
        let secret =
            |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data});
        let (one, other) =
            (secret(json!({"a": "aHVudGVyMg==", "b": "Yg=="})), secret(json!({"a": "Yg==", "c": "Yw=="})));
        assert_eq!(changes(None, Some(&one), &[]), ["+ data: {\"a\":\"***\",\"b\":\"***\"}"]);
        let expected = ["+ data.c: \"***\"", "- data.b: \"***\"", "~ data.a: \"***\" -> \"***\""];
        assert_eq!(changes(Some(&one), Some(&other), &[]), expected);
    }

    #[test]
    fn the_first_annotations_and_the_last_ones_are_told_one_by_one() {
        let annotated = |annotations: Value| json!({"metadata": {"annotations": annotations}});
        let some = annotated(json!({"kopf.zalando.org/f": "{}", "other.org/x": "y"}));
        let (none, own) = (json!({"metadata": {}}), ["kopf.zalando.org".to_owned()]);
        let come = ["+ metadata.annotations.other.org/x: \"y\"", "= annotations: kept f"];
        assert_eq!(changes(Some(&none), Some(&some), &own), come);
        let gone = ["- metadata.annotations.other.org/x: \"y\"", "= annotations: purged f"];
        assert_eq!(changes(Some(&some), Some(&none), &own), gone);
    }

    #[test]
    fn one_difference_is_one_line_with_its_values_cut() {
        let long = json!("x".repeat(100));
        let cut = format!("\"{}…", "x".repeat(79));
        assert_eq!(line("a.b", Op::Add, &Value::Null, &long), format!("+ a.b: {cut}"));
        assert_eq!(line("a.b", Op::Remove, &long, &Value::Null), format!("- a.b: {cut}"));
        assert_eq!(line("a.b", Op::Change, &json!(1), &json!(2)), "~ a.b: 1 -> 2");
    }
}
