//! Differences of two values, as kopf computes and reduces them.

use serde_json::{Map, Value};

use super::equality::equal;
use super::path::resolve;

/// The kind of change at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Op {
    /// The old value was absent or null.
    Add,
    /// The value is different.
    Change,
    /// The new value is absent or null.
    Remove,
}

impl Op {
    /// Returns kopf's name of the operation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Change => "change",
            Self::Remove => "remove",
        }
    }
}

/// One difference. Null means absent.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// The kind of change.
    pub op: Op,
    /// The path; empty for the root.
    pub path: Vec<String>,
    /// The old value.
    pub old: Value,
    /// The new value.
    pub new: Value,
}

/// All the differences, ordered by key within a level: added ones, removed ones, then changes deeper inside.
pub type Diff = Vec<Item>;

/// Which keys of mappings are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The keys of both values.
    Full,
    /// Only the keys of the old value.
    Left,
    /// Only the keys of the new value.
    Right,
}

/// Returns the differences from `old` to `new`; null equals absent.
pub fn diff(old: &Value, new: &Value, scope: Scope) -> Diff {
    let mut items = Vec::new();
    collect(old, new, scope, &mut Vec::new(), &mut items);
    items
}

fn collect(old: &Value, new: &Value, scope: Scope, path: &mut Vec<String>, items: &mut Diff) {
    let item = |op| Item { op, path: path.clone(), old: old.clone(), new: new.clone() };
    match (old, new) {
        _ if equal(old, new) => {}
        (Value::Null, _) => items.push(item(Op::Add)),
        (_, Value::Null) => items.push(item(Op::Remove)),
        (Value::Object(old), Value::Object(new)) => collect_keys(old, new, scope, path, items),
        _ => items.push(item(Op::Change)),
    }
}

fn collect_keys(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    scope: Scope,
    path: &mut Vec<String>,
    items: &mut Diff,
) {
    let mut step = |key: &String, old: &Value, new: &Value| {
        path.push(key.clone());
        collect(old, new, scope, path, items);
        path.pop();
    };
    if scope != Scope::Left {
        new.iter().filter(|(key, _)| !old.contains_key(*key)).for_each(|(key, new)| step(key, &Value::Null, new));
    }
    if scope != Scope::Right {
        old.iter().filter(|(key, _)| !new.contains_key(*key)).for_each(|(key, old)| step(key, old, &Value::Null));
    }
    for (key, old) in old {
        if let Some(new) = new.get(key) {
            step(key, old, new);
        }
    }
}

/// Returns the differences as seen from a field: relative to it, and recalculated where a whole parent was added or
/// removed.
pub fn reduce(diff: &[Item], path: &[String]) -> Diff {
    let mut reduced = Vec::new();
    for item in diff {
        if let Some(rest) = item.path.strip_prefix(path) {
            reduced.push(Item { path: rest.to_vec(), ..item.clone() });
        } else if let Some(tail) = path.strip_prefix(item.path.as_slice()) {
            let old = resolve(&item.old, tail).unwrap_or(&Value::Null);
            let new = resolve(&item.new, tail).unwrap_or(&Value::Null);
            reduced.extend(self::diff(old, new, Scope::Full));
        }
    }
    reduced
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_equals_absent() {
        assert_eq!(diff(&json!({"a": null}), &json!({}), Scope::Full), []);
        let items = diff(&json!({"a": null}), &json!({"a": 1}), Scope::Full);
        assert_eq!(items[0].op, Op::Add);
    }

    #[test]
    fn a_creation_is_reduced_to_an_addition_of_the_field() {
        let whole = diff(&Value::Null, &json!({"spec": {"x": 1}}), Scope::Full);
        let reduced = reduce(&whole, &["spec".into(), "x".into()]);
        assert_eq!(reduced, [Item { op: Op::Add, path: vec![], old: Value::Null, new: json!(1) }]);
        assert_eq!(reduce(&whole, &["spec".into(), "y".into()]), []);
    }
}
