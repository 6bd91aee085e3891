//! What has changed between two states of an object, in lines for people.

use serde_json::Value;

use crate::object::Scope;
use crate::object::diff::{self, Item, Op};

use super::account::shown;

/// What the server keeps for itself, and changes with every write.
pub const SERVERS: [&str; 5] = ["managedFields", "resourceVersion", "generation", "creationTimestamp", "uid"];

/// Returns the lines of what has changed. Annotations that begin with one of the prefixes are only named.
pub fn changes(before: Option<&Value>, after: Option<&Value>, prefixes: &[String]) -> Vec<String> {
    match (before, after) {
        (Some(before), Some(after)) => lines(&diff::diff(before, after, Scope::Full), prefixes),
        (None, Some(after)) => {
            let members = after.as_object().into_iter().flatten();
            let told = members.filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
            told.map(|(key, value)| format!("+ {key}: {}", shown(value))).collect()
        }
        (Some(_), None) => vec!["- the whole object".to_owned()],
        (None, None) => Vec::new(),
    }
}

/// Returns differences in lines, without those that are only the server's.
pub fn lines(items: &[Item], prefixes: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut kept, mut purged) = (Vec::new(), Vec::new());
    for item in items {
        let keys: Vec<&str> = item.path.iter().map(String::as_str).collect();
        match keys.as_slice() {
            ["metadata", key, ..] if SERVERS.contains(key) => {}
            ["metadata", "annotations"] => {
                // The first annotation, or the last one: the whole mapping has come or gone.
                let all = |value: &Value| value.as_object().cloned().unwrap_or_default();
                for (key, value) in all(&item.new) {
                    note(&key, Op::Add, &Value::Null, &value, prefixes, &mut lines, &mut kept);
                }
                for (key, value) in all(&item.old) {
                    note(&key, Op::Remove, &value, &Value::Null, prefixes, &mut lines, &mut purged);
                }
            }
            ["metadata", "annotations", key] => {
                let names = if item.op == Op::Remove { &mut purged } else { &mut kept };
                note(key, item.op, &item.old, &item.new, prefixes, &mut lines, names);
            }
            _ => lines.push(line(&item.path.join("."), item.op, &item.old, &item.new)),
        }
    }
    let named = |word: &str, names: &[String]| (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")));
    let told: Vec<String> = [named("kept", &kept), named("purged", &purged)].into_iter().flatten().collect();
    if !told.is_empty() {
        lines.push(format!("= annotations: {}", told.join("; ")));
    }
    lines
}

fn note(key: &str, op: Op, old: &Value, new: &Value, prefixes: &[String], lines: &mut Vec<String>, names: &mut Vec<String>) {
    match key.split_once('/') {
        Some((prefix, name)) if prefixes.iter().any(|own| own == prefix) => names.push(name.to_owned()),
        _ => lines.push(line(&format!("metadata.annotations.{key}"), op, old, new)),
    }
}

/// Returns one difference.
pub fn line(place: &str, op: Op, old: &Value, new: &Value) -> String {
    match op {
        Op::Add => format!("+ {place}: {}", shown(new)),
        Op::Remove => format!("- {place}: {}", shown(old)),
        Op::Change => format!("~ {place}: {} -> {}", shown(old), shown(new)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_write_is_told_by_what_it_changes() {
        let before = json!({"metadata": {"resourceVersion": "1", "annotations": {"kopf.zalando.org/f": "{}"}}, "status": {"old": 1}});
        let after =
            json!({"metadata": {"resourceVersion": "2", "annotations": {"kopf.zalando.org/g": "{}", "x": "y"}}, "status": {"old": 2}});
        let lines = changes(Some(&before), Some(&after), &["kopf.zalando.org".to_owned()]);
        assert_eq!(lines, ["+ metadata.annotations.x: \"y\"", "~ status.old: 1 -> 2", "= annotations: kept g; purged f"]);
    }
}
