//! Plain data outside of the interpreter: JSON, and times, which stay times. Script threads exchange it.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use rhai::{Array, Dynamic, Map};
use serde_json::Value;

use super::json::{self, Host, MAX_NESTING, NotJson};
use super::time::Time;

/// Plain data. Cheap to clone.
#[derive(Debug, Clone, PartialEq)]
pub enum Plain {
    /// Data without times.
    Json(Arc<Value>),
    /// A time.
    Time(Arc<Timestamp>),
    /// A list with a time in it.
    List(Arc<Vec<Plain>>),
    /// A map with a time in it.
    Map(Arc<BTreeMap<String, Plain>>),
}

impl Default for Plain {
    fn default() -> Self {
        Self::from(Value::Null)
    }
}

impl From<Value> for Plain {
    fn from(value: Value) -> Self {
        Self::Json(Arc::new(value))
    }
}

impl Plain {
    /// Returns the data of a value.
    ///
    /// # Errors
    /// If a part of it has no JSON form.
    pub(crate) fn of(value: &Dynamic, host: Host) -> Result<Self, NotJson> {
        if !has_time(value, 0) {
            return json::to_json(value, host).map(Self::from);
        }
        if let Some(time) = value.read_lock::<Time>() {
            return Ok(Self::Time(Arc::new(time.0)));
        }
        if let Ok(items) = value.as_array_ref() {
            let items = items
                .iter()
                .enumerate()
                .map(|(index, item)| Self::of(item, host).map_err(|error| error.below(index.to_string())));
            return Ok(Self::List(Arc::new(items.collect::<Result<_, _>>()?)));
        }
        let entries = value.as_map_ref().map(|entries| entries.clone()).unwrap_or_default();
        let entries = entries.iter().map(|(key, item)| match Self::of(item, host) {
            Ok(item) => Ok((key.to_string(), item)),
            Err(error) => Err(error.below(key.as_str())),
        });
        Ok(Self::Map(Arc::new(entries.collect::<Result<_, _>>()?)))
    }

    /// Returns the bytes that it takes, approximately.
    pub(crate) fn size(&self) -> usize {
        let inner = match self {
            Self::Json(value) => json::size(value),
            Self::Time(_) => 0,
            Self::List(items) => items.iter().map(Self::size).sum(),
            Self::Map(entries) => entries.iter().map(|(key, item)| key.len() + item.size()).sum(),
        };
        size_of::<Self>() + inner
    }

    /// Tells whether it is null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Json(value) if value.is_null())
    }

    /// Returns the data as a value of the interpreter.
    pub(crate) fn to_dynamic(&self) -> Dynamic {
        match self {
            Self::Json(value) => json::to_dynamic(value),
            Self::Time(time) => Dynamic::from(Time(**time)),
            Self::List(items) => items.iter().map(Self::to_dynamic).collect::<Array>().into(),
            Self::Map(entries) => {
                entries.iter().map(|(key, item)| (key.as_str().into(), item.to_dynamic())).collect::<Map>().into()
            }
        }
    }

    /// Returns the JSON form; times are texts in it.
    pub fn to_value(&self) -> Value {
        match self {
            Self::Json(value) => (**value).clone(),
            Self::Time(time) => Value::String(time.to_string()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Map(entries) => {
                Value::Object(entries.iter().map(|(key, item)| (key.clone(), item.to_value())).collect())
            }
        }
    }
}

fn has_time(value: &Dynamic, level: usize) -> bool {
    // Data that is nested too deeply is refused as JSON.
    if level > MAX_NESTING {
        return false;
    }
    if let Ok(items) = value.as_array_ref() {
        return items.iter().any(|item| has_time(item, level + 1));
    }
    if let Ok(entries) = value.as_map_ref() {
        return entries.values().any(|item| has_time(item, level + 1));
    }
    value.read_lock::<Time>().is_some()
}
