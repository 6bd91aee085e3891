//! Essences: the part of an object whose changes are handled, and its stored form.

use serde_json::{Map, Value};

use crate::handling::progress::BrokenRecord;
use crate::handling::{Change, Handler, On};
use crate::object::{Body, Patch, path, secret};

use super::fields::{annotate, ensure, mark, remove_empty_stanzas};
use super::key;
use super::record::clear_progress;
use super::storage::{DiffbaseStorage, Storages};
use super::text;

/// Returns the change from the last handled essence to the current one.
///
/// # Errors
/// If the stored essence is not JSON, or a watched field cannot be reached.
pub fn change(storages: &Storages, body: &Body, extra_fields: &[Vec<String>]) -> Result<Change, BrokenRecord> {
    let old = handled(storages, body)?.map(|stored| storages.secrets.restored(body, stored));
    let mut new = build(&storages.diffbase, body, extra_fields)?;
    if let Value::Object(new) = &mut new {
        clear_progress(&storages.progress, new);
    }
    Ok(Change::between(old, Some(new)))
}

/// Returns the last handled essence as it is stored, without the progress of an operator.
///
/// # Errors
/// If it is not JSON.
pub fn handled(storages: &Storages, body: &Body) -> Result<Option<Value>, BrokenRecord> {
    let mut stored = fetch(&storages.diffbase, body)?;
    if let Some(Value::Object(stored)) = &mut stored {
        clear_progress(&storages.progress, stored);
    }
    Ok(stored)
}

/// Tells whether the last handled essence of a Secret is to be written in another form, though nothing has changed: the
/// setting or the key of digests is another one.
pub fn is_outdated(storages: &Storages, body: &Body) -> bool {
    secret::is_secret(body)
        && handled(storages, body)
            .is_ok_and(|stored| stored.is_some_and(|stored| storages.secrets.is_outdated(body, &stored)))
}

/// Returns the fields that must be part of the essences of a kind because of its handlers. Indexes are not included,
/// since they follow every event.
pub fn extra_fields<'a>(handlers: impl IntoIterator<Item = &'a Handler>) -> Vec<Vec<String>> {
    let mut fields: Vec<Vec<String>> = handlers
        .into_iter()
        .filter(|handler| handler.on != On::Index)
        .filter_map(|handler| handler.field.as_ref())
        .map(|field| field.prefix().to_vec())
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

/// Returns the stored essence.
///
/// # Errors
/// If it is not JSON.
pub fn fetch(storage: &DiffbaseStorage, body: &Body) -> Result<Option<Value>, BrokenRecord> {
    match storage {
        DiffbaseStorage::Annotations(storage) => {
            for key in key::keys(&storage.prefix, &storage.key, storage.v1, body) {
                if let Some(essence) = parse(&key, body.annotation(&key))? {
                    return Ok(Some(essence));
                }
            }
            Ok(None)
        }
        DiffbaseStorage::Status(storage) => parse(&storage.field.join("."), path::resolve(body, &storage.field)),
        DiffbaseStorage::Multi(storages) => {
            for storage in storages {
                if let Some(essence) = fetch(storage, body)? {
                    return Ok(Some(essence));
                }
            }
            Ok(None)
        }
    }
}

fn parse(place: &str, stored: Option<&Value>) -> Result<Option<Value>, BrokenRecord> {
    let broken = |problem: String| BrokenRecord { place: place.to_owned(), problem };
    match stored {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let essence: Value = serde_json::from_str(text).map_err(|error| broken(error.to_string()))?;
            Ok(Some(essence).filter(|essence| !essence.is_null()))
        }
        Some(_) => Err(broken("not a text with JSON".to_owned())),
    }
}

/// Returns the essence of a body as a storage sees it.
///
/// # Errors
/// If a parent of a watched field is not a mapping.
pub fn build(storage: &DiffbaseStorage, body: &Body, extra_fields: &[Vec<String>]) -> Result<Value, BrokenRecord> {
    let none = Vec::new();
    let (ignored, own_keys) = match storage {
        DiffbaseStorage::Annotations(storage) => {
            (&storage.ignored_fields, key::keys(&storage.prefix, &storage.key, storage.v1, body))
        }
        DiffbaseStorage::Status(storage) => (&storage.ignored_fields, Vec::new()),
        DiffbaseStorage::Multi(_) => (&none, Vec::new()),
    };
    let mut essence = build_base(body, extra_fields)?;
    for field in ignored {
        path::remove(&mut essence, field);
    }
    if let DiffbaseStorage::Status(storage) = storage {
        path::remove(&mut essence, &storage.field);
    }
    for key in own_keys {
        path::remove(&mut essence, &["metadata".to_owned(), "annotations".to_owned(), key]);
    }
    remove_empty_stanzas(&mut essence);
    let mut essence = Value::Object(essence);
    if let DiffbaseStorage::Multi(storages) = storage {
        for storage in storages {
            essence = build(storage, &Body::from(essence), extra_fields)?;
        }
    }
    Ok(essence)
}

fn build_base(body: &Body, extra_fields: &[Vec<String>]) -> Result<Map<String, Value>, BrokenRecord> {
    let broken = |place: &str, problem: &str| BrokenRecord { place: place.to_owned(), problem: problem.to_owned() };
    let body = body.as_object().ok_or_else(|| broken("the object", "not a mapping"))?;
    let is_system = |key: &str| matches!(key, "apiVersion" | "kind" | "metadata" | "status");
    let mut essence: Map<String, Value> =
        body.iter().filter(|(key, _)| !is_system(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    let metadata = match body.get("metadata") {
        None => None,
        Some(Value::Object(metadata)) => Some(metadata),
        Some(_) => return Err(broken("metadata", "not a mapping")),
    };
    let mut kept = Map::new();
    if let Some(labels) = metadata.and_then(|metadata| metadata.get("labels")) {
        kept.insert("labels".to_owned(), labels.clone());
    }
    if let Some(annotations) = metadata.and_then(|metadata| metadata.get("annotations")) {
        let annotations = annotations.as_object().ok_or_else(|| broken("metadata.annotations", "not a mapping"))?;
        kept.insert("annotations".to_owned(), Value::Object(cleaned(annotations)));
    }
    essence.insert("metadata".to_owned(), Value::Object(kept));
    for field in extra_fields {
        if let Some(value) = resolve_strictly(body, field)? {
            path::ensure(&mut essence, field, value.clone())
                .map_err(|error| broken(&error.path, &error.to_string()))?;
        }
    }
    remove_empty_stanzas(&mut essence);
    Ok(essence)
}

/// Tells whether the last handled essence is read from annotations first.
pub fn is_in_annotations(storage: &DiffbaseStorage) -> bool {
    match storage {
        DiffbaseStorage::Annotations(_) => true,
        DiffbaseStorage::Status(_) => false,
        DiffbaseStorage::Multi(storages) => storages.first().is_some_and(is_in_annotations),
    }
}

/// Tells whether a patch of annotations does not change the essence, because it contains only annotations of operators.
pub fn is_kept_by(body: &Body, patched: &Map<String, Value>) -> bool {
    let before = body
        .metadata()
        .and_then(|metadata| metadata.get("annotations"))
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_default();
    let mut after = before.clone();
    for (key, value) in patched {
        match value {
            Value::Null => after.remove(key),
            value => after.insert(key.clone(), value.clone()),
        };
    }
    cleaned(&before) == cleaned(&after)
}

/// Removes kubectl's annotation, and the annotations of all operators, recognised by kopf's prefix or by their marker
/// annotation.
fn cleaned(annotations: &Map<String, Value>) -> Map<String, Value> {
    let is_known = |prefix: &str| prefix == "kopf.zalando.org" || prefix.ends_with(".kopf.zalando.org");
    let is_marked = |prefix: &str| is_known(prefix) || annotations.contains_key(&format!("{prefix}/kopf-managed"));
    let is_kept = |key: &str| {
        key != "kubectl.kubernetes.io/last-applied-configuration"
            && !key.split_once('/').is_some_and(|(prefix, _)| is_marked(prefix))
    };
    annotations.iter().filter(|(key, _)| is_kept(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// An absent field is allowed, but all existing parents must be mappings.
fn resolve_strictly<'a>(body: &'a Map<String, Value>, field: &[String]) -> Result<Option<&'a Value>, BrokenRecord> {
    let Some((last, parents)) = field.split_last() else { return Ok(None) };
    let mut map = body;
    for key in parents {
        map = match map.get(key) {
            None => return Ok(None),
            Some(Value::Object(child)) => child,
            Some(_) => return Err(BrokenRecord { place: field.join("."), problem: format!("{key} is not a mapping") }),
        };
    }
    Ok(map.get(last))
}

/// Adds an essence to a patch as the last handled one.
pub fn store(storages: &Storages, body: &Body, essence: &Value, patch: &mut Patch) {
    store_in(&storages.diffbase, body, &storages.secrets.stored(body, essence), patch);
}

fn store_in(storage: &DiffbaseStorage, body: &Body, essence: &Value, patch: &mut Patch) {
    match storage {
        DiffbaseStorage::Annotations(storage) => {
            let text = text::json(essence) + "\n";
            for key in key::keys(&storage.prefix, &storage.key, storage.v1, body) {
                annotate(patch, &key, Value::String(text.clone()));
            }
            mark(&storage.prefix, body, patch);
        }
        DiffbaseStorage::Status(storage) => {
            ensure(patch, &storage.field, Value::String(text::json(essence)));
        }
        DiffbaseStorage::Multi(storages) => storages.iter().for_each(|storage| store_in(storage, body, essence, patch)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_essence_is_kept_by_patches_of_annotations_of_operators_and_by_those_that_remove_nothing() {
        let body = Body::from(json!({"metadata": {"annotations": {"own": "1", "kopf.zalando.org/a": "{}"}}}));
        let is_kept = |patched: Value| is_kept_by(&body, patched.as_object().unwrap());
        assert!(is_kept(json!({"kopf.zalando.org/a": null, "kopf.zalando.org/b": "{}"})));
        assert!(is_kept(json!({"own": "1", "absent": null})));
        assert!(!is_kept(json!({"own": null})));
        assert!(!is_kept(json!({"own": "2"})));
    }
}
