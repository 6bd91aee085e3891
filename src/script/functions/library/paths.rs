//! Values by their paths: `get(path, default)`, and `jsonpath(value, path)`.

use rhai::{Array, Dynamic, Engine, Map};
use serde_json::Value;

use super::sizes::copy;
use crate::object::path;
use crate::script::functions::options::{json, placed, text};
use crate::script::functions::support::{Given, Native, Thrown, shown, wrong};
use crate::script::language::convert;
use crate::script::language::view::View;
use crate::script::runtime::bounded;
use crate::script::values::json::{nesting, size};

/// Limit of the length of a JSONPath, whose parser is recursive.
const MAX_PATH: usize = 1_000;

/// Limit of the nodes that a JSONPath may visit, approximately: nothing interrupts its evaluation.
const MAX_LOOKS: usize = 1 << 20;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    pure!(engine, "get", |native: Native<'_>, map: &mut Map, path: Dynamic, default: Dynamic| {
        placed(&native, get(|step| of_map(map, step), &path, default))
    });
    pure!(engine, "get", |native: Native<'_>, items: &mut Array, path: Dynamic, default: Dynamic| {
        placed(&native, get(|step| of_list(items, step), &path, default))
    });
    pure!(engine, "get", |native: Native<'_>, view: &mut View, path: Dynamic, default: Dynamic| {
        placed(&native, get(|step| Ok(of_view(view, step)), &path, default))
    });
    engine.register_fn("jsonpath", |native: Native<'_>, value: Dynamic, path: Dynamic| {
        placed(&native, jsonpath(&value, &path))
    });
}

/// One step of a path.
enum Step {
    Key(String),
    Index(i64),
}

impl Step {
    /// Returns the index of a list.
    fn index(&self) -> Option<i64> {
        match self {
            Self::Key(key) => key.parse().ok(),
            Self::Index(index) => Some(*index),
        }
    }
}

/// `value.get(path, default)`: the part of a map or list at a path; the default if there is none, or it is `()`.
///
/// A path is a list of keys and indexes, or a text. A text is one key if there is such a key, else keys and indexes
/// with dots between them.
fn get(first: impl Fn(&Step) -> Given, path: &Dynamic, default: Dynamic) -> Given {
    let found = match path.as_immutable_string_ref() {
        Ok(text) => {
            let whole = first(&Step::Key(text.to_string()))?;
            if whole.is_unit() && text.contains('.') {
                descend(&first, &text.split('.').map(|key| Step::Key(key.to_owned())).collect::<Vec<_>>())?
            } else {
                whole
            }
        }
        Err(_) => descend(&first, &steps_of(path)?)?,
    };
    Ok(if found.is_unit() { default } else { found })
}

fn steps_of(path: &Dynamic) -> Result<Vec<Step>, Thrown> {
    if let Ok(index) = path.as_int() {
        return Ok(vec![Step::Index(index)]);
    }
    let needs = |value: &Dynamic| {
        wrong("get", format!("a path is a text, or a list of texts and integers, not {}", shown(value)))
    };
    let steps = path.as_array_ref().map_err(|_| needs(path))?;
    let step = |step: &Dynamic| match (step.as_int(), step.as_immutable_string_ref()) {
        (Ok(index), _) => Ok(Step::Index(index)),
        (_, Ok(key)) => Ok(Step::Key(key.to_string())),
        _ => Err(needs(step)),
    };
    steps.iter().map(step).collect()
}

fn descend(first: &impl Fn(&Step) -> Given, steps: &[Step]) -> Given {
    let Some((step, rest)) = steps.split_first() else { return Err(wrong("get", "the path is empty")) };
    let mut value = first(step)?;
    for step in rest {
        let next = if let Ok(map) = value.as_map_ref() {
            of_map(&map, step)?
        } else if let Ok(items) = value.as_array_ref() {
            of_list(&items, step)?
        } else if let Some(view) = value.read_lock::<View>() {
            of_view(&view, step)
        } else {
            return Ok(Dynamic::UNIT);
        };
        value = next;
    }
    Ok(value)
}

fn of_map(map: &Map, step: &Step) -> Given {
    match step {
        Step::Key(key) => map.get(key.as_str()).map_or(Ok(Dynamic::UNIT), copy),
        Step::Index(_) => Ok(Dynamic::UNIT),
    }
}

fn of_list(items: &Array, step: &Step) -> Given {
    let length = items.len() as i64;
    let position = step.index().map(|index| if index < 0 { length + index } else { index });
    let item = position.and_then(|position| items.get(usize::try_from(position).ok()?));
    item.map_or(Ok(Dynamic::UNIT), copy)
}

fn of_view(view: &View, step: &Step) -> Dynamic {
    let mut view = view.clone();
    let found = match (view.value().is_array(), step) {
        (false, Step::Key(key)) => view.get(key.as_str().into()).ok(),
        (false, Step::Index(_)) => None,
        (true, step) => step.index().and_then(|index| view.get_at(index).ok()),
    };
    found.unwrap_or_default()
}

/// `jsonpath(value, path)`: a list of the parts of the value that a JSONPath matches (RFC 9535). As for kubectl, braces
/// around it may be written, and `$` before it may be missing.
fn jsonpath(value: &Dynamic, path: &Dynamic) -> Given {
    let value = json("jsonpath", value)?;
    let nodes = nodes("jsonpath", &text("jsonpath", "the path", path)?, &value)?;
    nodes
        .iter()
        .map(|node| bounded::reserve(size(node)).map(|()| convert::to_dynamic(node)))
        .collect::<Result<Array, _>>()
        .map(Dynamic::from)
}

/// Returns the parts of a value at a JSONPath, for a function that takes one.
///
/// # Errors
/// If the path cannot be read, or its evaluation takes too long.
pub(crate) fn nodes(function: &str, written: &str, value: &Value) -> Result<Vec<Value>, Thrown> {
    if written.len() > MAX_PATH {
        return Err(wrong(function, format!("a path has at most {MAX_PATH} bytes")));
    }
    let inner = written.trim();
    let inner = inner.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(inner);
    let path = if inner.starts_with('$') { inner.to_owned() } else { format!("${inner}") };
    check_looks(function, &path, value)?;
    // Its parser and its evaluation are recursive, and check the stack of a thread, which is not that of the script.
    let found = std::thread::scope(|scope| scope.spawn(|| path::query(&path, value)).join());
    let found = found.map_err(|_| wrong(function, "the path cannot be evaluated"))?;
    let nodes = found.map_err(|error| wrong(function, bounded::shortened(&error.to_string())))?;
    let mut copies = Vec::new();
    for node in nodes {
        bounded::reserve(size(node))?;
        copies.push(node.clone());
    }
    Ok(copies)
}

/// Checks that the evaluation of a path takes little time: `..` visits a node once for each of its parents, a filter
/// may visit all nodes for each node, and lists of selectors repeat the nodes.
fn check_looks(function: &str, path: &str, value: &Value) -> Result<(), Thrown> {
    if path.contains("match(") || path.contains("search(") {
        return Err(wrong(function, "`match` and `search` are not available: use `regex::is_match` in `filter`"));
    }
    let nodes = size(value) / size_of::<Value>() + 1;
    let (depth, dots, filters) = (nesting(value) + 1, path.matches("..").count(), path.matches('?').count());
    let repeated = path.matches(',').count() + 1;
    let power = |base: usize, exponent: usize| base.saturating_pow(u32::try_from(exponent).unwrap_or(u32::MAX));
    let is_nested = filters > 1 || (filters > 0 && (dots > 0 || path.matches('$').count() > 1));
    let per_filter = if is_nested { power(nodes, filters) } else { 1 };
    let looks = nodes
        .saturating_mul(power(depth, dots))
        .saturating_mul(per_filter)
        .saturating_mul(power(repeated, repeated.min(8)));
    if looks > MAX_LOOKS {
        return Err(wrong(function, "the path would look at too many parts of the value"));
    }
    Ok(())
}
