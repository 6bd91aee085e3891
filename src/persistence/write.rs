//! Writes a decision into a patch.

use jiff::Timestamp;
use serde_json::Value;

use crate::handling::{Decision, Record};
use crate::object::path;
use crate::object::{Body, Patch};

use super::essence;
use super::fields::{annotate, annotation_field, ensure, mark};
use super::key;
use super::record::entries;
use super::storage::{ProgressAnnotations, ProgressStatus, ProgressStorage, Storages};
use super::text;

/// Adds a decision to the patch: first superseded records are purged, then records and results are stored, then
/// finished records are purged.
pub(crate) fn write(storages: &Storages, body: &Body, decision: &Decision, patch: &mut Patch) {
    purge(&storages.progress, body, &decision.superseded, patch);
    for (id, record) in &decision.store {
        store(&storages.progress, body, id, record, patch);
    }
    for (id, result) in &decision.results {
        patch.deliver(id, result.clone());
    }
    purge(&storages.progress, body, &decision.purge, patch);
    if let Some(essence) = &decision.essence {
        essence::store(storages, body, essence, patch);
    }
}

/// Adds a record to the patch.
pub(crate) fn store(storage: &ProgressStorage, body: &Body, id: &str, record: &Record, patch: &mut Patch) {
    match storage {
        ProgressStorage::Annotations(annotations) | ProgressStorage::Smart { annotations, .. } => {
            store_annotation(annotations, body, id, record, patch);
        }
        ProgressStorage::Status(status) => {
            let record = entries(record).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            ensure(patch, &below(&status.field, id), Value::Object(record));
        }
        ProgressStorage::Multi(storages) => storages.iter().for_each(|storage| store(storage, body, id, record, patch)),
    }
}

fn store_annotation(storage: &ProgressAnnotations, body: &Body, id: &str, record: &Record, patch: &mut Patch) {
    let entries: Vec<_> =
        entries(record).into_iter().filter(|(_, value)| storage.verbose || !value.is_null()).collect();
    let mut text = String::new();
    text::write_entries(&mut text, entries.iter().map(|(key, value)| (*key, value)));
    for key in key::keys(&storage.prefix, id, storage.v1, body) {
        annotate(patch, &key, Value::String(text.clone()));
    }
    mark(&storage.prefix, body, patch);
}

/// Purges records: those on the object are set to null, those only in the patch are removed from it.
pub(crate) fn purge(storage: &ProgressStorage, body: &Body, ids: &[String], patch: &mut Patch) {
    for id in ids {
        match storage {
            ProgressStorage::Annotations(annotations) => purge_annotation(annotations, body, id, patch),
            ProgressStorage::Status(status) => purge_field(body, &below(&status.field, id), patch),
            ProgressStorage::Multi(storages) => {
                for storage in storages {
                    purge(storage, body, std::slice::from_ref(id), patch);
                }
            }
            ProgressStorage::Smart { annotations, status } => {
                purge_annotation(annotations, body, id, patch);
                purge_field(body, &below(&status.field, id), patch);
            }
        }
    }
}

fn purge_annotation(storage: &ProgressAnnotations, body: &Body, id: &str, patch: &mut Patch) {
    for key in key::keys(&storage.prefix, id, storage.v1, body) {
        purge_field(body, &annotation_field(&key), patch);
    }
}

fn purge_field(body: &Body, field: &[String], patch: &mut Patch) {
    if path::resolve(body, field).is_some() {
        ensure(patch, field, Value::Null);
    } else {
        path::remove(&mut patch.merge, field);
    }
}

/// Changes only a dummy value, to cause an event of the object; without a time, the dummy is removed.
pub(crate) fn touch(storage: &ProgressStorage, body: &Body, now: Option<Timestamp>, patch: &mut Patch) {
    let value = now.map_or(Value::Null, |now| Value::String(text::touch(now)));
    match storage {
        ProgressStorage::Annotations(annotations) | ProgressStorage::Smart { annotations, .. } => {
            for key in key::keys(&annotations.prefix, &annotations.touch_key, annotations.v1, body) {
                if body.annotation(&key).unwrap_or(&Value::Null) != &value {
                    annotate(patch, &key, value.clone());
                    mark(&annotations.prefix, body, patch);
                }
            }
        }
        ProgressStorage::Status(ProgressStatus { touch_field, .. }) => {
            if path::resolve(body, touch_field).unwrap_or(&Value::Null) != &value {
                ensure(patch, touch_field, value);
            }
        }
        ProgressStorage::Multi(storages) => storages.iter().for_each(|storage| touch(storage, body, now, patch)),
    }
}

fn below(field: &[String], leaf: &str) -> Vec<String> {
    field.iter().cloned().chain([leaf.to_owned()]).collect()
}
