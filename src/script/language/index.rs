//! Indexes in scripts, and the functions for their entries: `entry` and `entries`.

use std::sync::Arc;

use rhai::{Array, Dynamic, Engine, EvalAltResult};
use serde_json::Value;

use super::convert;
use super::view;
use super::view::View;
use crate::handling::index::Entries;
use crate::handling::index_key::Key;
use crate::script::runtime::fiber;
use crate::script::values::index::{IndexEntries, SharedIndex};
use crate::script::values::plain::Plain;
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// An index as an argument of a script.
#[derive(Debug, Clone)]
pub(crate) struct IndexHandle(Arc<SharedIndex>);

impl IndexHandle {
    /// Returns the handle of an index.
    pub(crate) fn new(index: &Arc<SharedIndex>) -> Self {
        Self(Arc::clone(index))
    }
}

/// The value of `entry` and `entries`.
#[derive(Debug, Clone)]
pub(crate) struct EntryList(pub Arc<IndexEntries>);

/// Registers the methods and functions.
pub(crate) fn register(engine: &mut Engine) {
    engine.register_type_with_name::<IndexHandle>("Index");
    engine.register_type_with_name::<EntryList>("Entries");
    pure!(get engine, IndexHandle::get);
    pure!(set engine, IndexHandle::set);
    engine.register_iterator::<IndexHandle>();
    pure!(engine, "get", IndexHandle::get);
    pure!(engine, "contains", IndexHandle::contains);
    pure!(engine, "len", |index: &mut IndexHandle| index.entries().len() as i64);
    pure!(engine, "is_empty", |index: &mut IndexHandle| index.entries().is_empty());
    pure!(engine, "keys", IndexHandle::keys);
    for name in ["to_string", "to_debug"] {
        pure!(engine, name, |index: &mut IndexHandle| format!(
            "index {} with {} keys",
            index.0.name(),
            index.entries().len()
        ));
    }
    engine.register_fn("entry", entry);
    engine.register_fn("entries", entries);
}

impl IndexHandle {
    /// Returns the entries: the same ones for all reads of a call between two of its waits.
    fn entries(&self) -> Entries<Plain> {
        fiber::with_budget(|budget| budget.held().snapshot(&self.0)).unwrap_or_else(|| self.0.entries())
    }

    fn get(&mut self, key: Dynamic) -> Result<Dynamic, Thrown> {
        let key = key_of(&key)?;
        Ok(self.entries().get(&key).map(read).collect::<Array>().into())
    }

    /// After a chain of calls, the interpreter writes the read values back.
    fn set(&mut self, key: Dynamic, written: Dynamic) -> Result<(), Thrown> {
        let present = self.get(key)?;
        let is_unchanged = match (present.as_array_ref(), written.as_array_ref()) {
            (Ok(present), Ok(written)) => {
                present.len() == written.len()
                    && present.iter().zip(written.iter()).all(|(a, b)| view::methods::same(a, b))
            }
            _ => false,
        };
        if is_unchanged {
            return Ok(());
        }
        let text = format!("the index `{}` is read-only; change a copy: `let values = {0}[key];`", self.0.name());
        Err(Failure::host("read-only", text).into())
    }

    fn contains(&mut self, key: Dynamic) -> bool {
        key_of(&key).is_ok_and(|key| self.entries().contains(&key))
    }

    fn keys(&mut self) -> Array {
        self.entries().keys().map(written).collect()
    }
}

/// Iterates over the keys.
impl IntoIterator for IndexHandle {
    type Item = Dynamic;
    type IntoIter = std::vec::IntoIter<Dynamic>;

    fn into_iter(mut self) -> Self::IntoIter {
        self.keys().into_iter()
    }
}

/// Returns a value of an index for a script: a view of a map or list.
fn read(value: &Plain) -> Dynamic {
    match value {
        Plain::Json(value) => View::of(Arc::clone(value)),
        other => other.to_dynamic(),
    }
}

fn written(key: &Key) -> Dynamic {
    match key {
        Key::Text(text) => (&**text).into(),
        other => convert::to_dynamic(&other.to_value()),
    }
}

fn key_of(key: &Dynamic) -> Result<Key, Failure> {
    if let Ok(text) = key.as_immutable_string_ref() {
        return Ok(Key::from(text.as_str()));
    }
    let value = convert::to_json(key).map_err(|error| Failure::argument(format!("no key of an index: {error}")))?;
    Key::of(&value).map_err(|error| Failure::argument(error.to_string()))
}

/// `entry(key, value)`: one entry with any key.
fn entry(key: Dynamic, value: Dynamic) -> Result<EntryList, Thrown> {
    Ok(EntryList(Arc::new(vec![(key_of(&key)?, plain(&value)?)])))
}

/// `entries([[key, value], …])`: several entries with any keys.
fn entries(pairs: Dynamic) -> Result<EntryList, Thrown> {
    let wrong = || Failure::argument("`entries` takes a list of pairs: `entries([[key, value], …])`");
    // Views become ordinary lists; times in the values stay times.
    let pairs = convert::to_plain(&pairs).map_err(|error| Failure::argument(error.to_string()))?;
    let pairs = pairs.into_typed_array::<Array>().map_err(|_| wrong())?;
    let pair = |pair: Array| match pair.as_slice() {
        [key, value] => Ok((key_of(key)?, plain(value)?)),
        _ => Err(wrong()),
    };
    Ok(EntryList(Arc::new(pairs.into_iter().map(pair).collect::<Result<_, _>>()?)))
}

fn plain(value: &Dynamic) -> Result<Plain, Failure> {
    convert::to_data(value).map_err(|error| Failure::argument(format!("an index holds plain data only: {error}")))
}

/// Returns the entries of a result; `None` if there is no result, so that the present entries stay.
///
/// # Errors
/// The text of the error, if a part of the result is not plain data.
pub(crate) fn entries_of(result: &Dynamic) -> Result<Option<IndexEntries>, String> {
    if result.is_unit() {
        return Ok(None);
    }
    if let Some(list) = result.read_lock::<EntryList>() {
        return Ok(Some((*list.0).clone()));
    }
    let data = convert::to_data(result).map_err(|error| format!("the result cannot be indexed: {error}"))?;
    Ok(Some(match data {
        Plain::Json(value) => match Arc::unwrap_or_clone(value) {
            Value::Object(entries) => {
                entries.into_iter().map(|(key, value)| (Key::from(key.as_str()), Plain::from(value))).collect()
            }
            flat => vec![(Key::Null, Plain::from(flat))],
        },
        Plain::Map(entries) => entries.iter().map(|(key, value)| (Key::from(key.as_str()), value.clone())).collect(),
        flat => vec![(Key::Null, flat)],
    }))
}
