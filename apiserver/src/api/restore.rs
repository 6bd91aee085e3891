//! Restores objects unchanged.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::registry::Registry;
use crate::storage::resource::key_of;
use crate::storage::store::Store;

/// Restores the objects of an earlier process, and serves the definitions among them.
pub(super) fn restore(store: &mut Store, registry: &mut Registry, objects: Vec<Value>, revision: u64, now: Timestamp) {
    let is_definition = |value: &Value| value["kind"] == "CustomResourceDefinition";
    for definition in objects.iter().filter(|value| is_definition(value)) {
        registry.define(definition, revision, now);
    }
    let placed = objects.into_iter().filter_map(|value| {
        let served = registry.by_object(&value);
        let resource = served.map(|served| served.resource.clone())?;
        Some((resource, key_of(&value), value))
    });
    let placed: Vec<_> = placed.collect();
    store.restore(revision, placed);
}
