//! Reads and writes records of progress in their stored form.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::handling::progress::BrokenRecord;
use crate::handling::{Moment, Reason, Record, Records};
use crate::object::Body;
use crate::object::equality::{self, is_falsy};
use crate::object::path;

use super::fields::remove_empty_stanzas;
use super::key;
use super::storage::{ProgressAnnotations, ProgressStatus, ProgressStorage, Storages};
use super::text;

/// The stored records of one object.
#[derive(Debug, Clone)]
pub struct Stored {
    /// The storages.
    pub storages: Arc<Storages>,
    /// The object.
    pub body: Body,
    /// The current time, for records without a start time.
    pub now: Timestamp,
}

impl Records for Stored {
    fn record(&self, id: &str) -> Result<Option<Record>, BrokenRecord> {
        let Some((place, record)) = fetch(&self.storages.progress, &self.body, id)? else { return Ok(None) };
        let map = record.as_object().ok_or_else(|| broken(&place, "not a mapping"))?;
        read(map, self.now).map(Some).map_err(|problem| broken(&place, &problem))
    }

    fn is_exact(&self, id: &str, record: &Record) -> bool {
        let Ok(Some((_, Value::Object(stored)))) = fetch(&self.storages.progress, &self.body, id) else { return false };
        let stored = stored.into_iter().filter(|(_, value)| !value.is_null()).collect();
        let written = entries(record)
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.to_owned(), value));
        equality::equal(&Value::Object(stored), &Value::Object(written.collect()))
    }
}

fn broken(place: &str, problem: &str) -> BrokenRecord {
    BrokenRecord { place: place.to_owned(), problem: problem.to_owned() }
}

fn fetch(storage: &ProgressStorage, body: &Body, id: &str) -> Result<Option<(String, Value)>, BrokenRecord> {
    match storage {
        ProgressStorage::Annotations(storage) => fetch_annotation(storage, body, id),
        ProgressStorage::Status(storage) => Ok(fetch_status(storage, body, id)),
        ProgressStorage::Multi(storages) => {
            for storage in storages {
                if let Some(found) = fetch(storage, body, id)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        }
        ProgressStorage::Smart { annotations, status } => {
            Ok(fetch_annotation(annotations, body, id)?.or_else(|| fetch_status(status, body, id)))
        }
    }
}

fn fetch_annotation(
    storage: &ProgressAnnotations,
    body: &Body,
    id: &str,
) -> Result<Option<(String, Value)>, BrokenRecord> {
    for key in key::keys(&storage.prefix, id, storage.v1, body) {
        let record = match body.annotation(&key) {
            None => continue,
            Some(Value::String(text)) => {
                serde_json::from_str(text).map_err(|error| broken(&key, &error.to_string()))?
            }
            Some(other) => other.clone(),
        };
        if !Value::is_null(&record) {
            return Ok(Some((key, record)));
        }
    }
    Ok(None)
}

fn fetch_status(storage: &ProgressStatus, body: &Body, id: &str) -> Option<(String, Value)> {
    let record = path::resolve(body, &storage.field)?.as_object()?.get(id)?;
    (!record.is_null()).then(|| (format!("{}.{id}", storage.field.join(".")), record.clone()))
}

fn read(map: &Map<String, Value>, now: Timestamp) -> Result<Record, String> {
    let moment = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => text::parse_moment(text).map(Some).map_err(|error| format!("{key}: {error}")),
        Some(_) => Err(format!("{key}: not a timestamp")),
    };
    let text = |key: &str| map.get(key).and_then(Value::as_str).map(str::to_owned);
    let is_set = |key: &str| map.get(key).is_some_and(|value| !is_falsy(value));
    let subrefs = map.get("subrefs").and_then(Value::as_array);
    Ok(Record {
        started: moment("started")?.unwrap_or_else(|| Moment::utc(now)),
        stopped: moment("stopped")?,
        delayed: moment("delayed")?,
        purpose: text("purpose").and_then(|word| Reason::parse(&word)),
        retries: map.get("retries").and_then(Value::as_u64).unwrap_or(0),
        success: is_set("success"),
        failure: is_set("failure"),
        message: text("message"),
        subrefs: subrefs
            .map(|ids| ids.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default(),
    })
}

/// Returns the keys and values of a record in kopf's order; unset values are null.
pub(super) fn entries(record: &Record) -> Vec<(&'static str, Value)> {
    let moment = |moment: Option<Moment>| moment.map_or(Value::Null, |moment| Value::String(text::moment(moment)));
    let subrefs = if record.subrefs.is_empty() { Value::Null } else { json!(record.subrefs) };
    vec![
        ("started", moment(Some(record.started))),
        ("stopped", moment(record.stopped)),
        ("delayed", moment(record.delayed)),
        ("purpose", record.purpose.map_or(Value::Null, |purpose| json!(purpose.as_str()))),
        ("retries", json!(record.retries)),
        ("success", json!(record.success)),
        ("failure", json!(record.failure)),
        ("message", json!(record.message)),
        ("subrefs", subrefs),
    ]
}

/// Removes the fields of a progress storage from an essence.
pub(super) fn clear_progress(storage: &ProgressStorage, essence: &mut Map<String, Value>) {
    match storage {
        ProgressStorage::Annotations(storage) => clear_annotations(storage, essence),
        ProgressStorage::Status(storage) => path::remove(essence, &storage.field),
        ProgressStorage::Multi(storages) => storages.iter().for_each(|storage| clear_progress(storage, essence)),
        ProgressStorage::Smart { annotations, status } => {
            clear_annotations(annotations, essence);
            path::remove(essence, &status.field);
        }
    }
    remove_empty_stanzas(essence);
}

fn clear_annotations(storage: &ProgressAnnotations, essence: &mut Map<String, Value>) {
    let metadata = essence.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(Value::Object(annotations)) = metadata.and_then(|metadata| metadata.get_mut("annotations")) {
        let prefix = format!("{}/", storage.prefix);
        annotations.retain(|key, _| !key.starts_with(&prefix));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells whether a record is readable, and its text is the one that would be written.
    fn exact(text: &str) -> bool {
        let body = Body::from(json!({"metadata": {"annotations": {"kopf.zalando.org/fn": text}}}));
        let stored = Stored { storages: Arc::default(), body, now: Timestamp::UNIX_EPOCH };
        let record = stored.record("fn").unwrap().unwrap();
        stored.is_exact("fn", &record)
    }

    #[test]
    fn foreign_records_are_distinguished_from_own_ones() {
        let own = r#"{"started":"2020-01-01T00:00:00.000000+00:00","purpose":"create","retries":1,"success":false,"failure":false}"#;
        assert!(exact(own));
        assert!(exact(&own.replace('}', r#","message":null}"#)), "nulls are as good as nothing");
        assert!(!exact(&own.replace("+00:00", "Z")));
        assert!(!exact(&own.replace('}', r#","unknown":1}"#)));
        assert!(!exact(r#"{"retries":1}"#));
    }
}
