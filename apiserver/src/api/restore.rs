//! Restores objects unchanged: those of a journal, of a restart, or of a dump.

use jiff::Timestamp;
use serde_json::Value;
use tracing::warn;

use crate::kinds::registry::{Registry, Unenforced};
use crate::storage::resource::key_of;
use crate::storage::store::Store;

/// Restores stored objects, and serves the definitions among them. Nothing is refused: what cannot be enforced of their
/// schemas is logged.
pub(super) fn restore(store: &mut Store, registry: &mut Registry, objects: Vec<Value>, revision: u64, now: Timestamp) {
    let is_definition = |value: &Value| value["kind"] == "CustomResourceDefinition";
    for definition in objects.iter().filter(|value| is_definition(value)) {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        for Unenforced { version, reason } in registry.define(definition, revision, now) {
            warn!(definition = name, version, reason, "A stored schema is not fully enforced.");
        }
    }
    let placed = objects.into_iter().filter_map(|value| {
        let served = registry.by_object(&value);
        let resource = served.map(|served| served.resource.clone())?;
        Some((resource, key_of(&value), value))
    });
    let placed: Vec<_> = placed.collect();
    store.restore(revision, placed);
}
