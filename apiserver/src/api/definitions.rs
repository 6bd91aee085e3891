//! Definitions of custom resources: accepts their names and serves their kinds when they are written.

use std::sync::Arc;

use serde_json::Value;

use super::{Api, State};
use crate::http::request::Options;
use crate::kinds::definition::{self, conditions};
use crate::kinds::registry::ServedKind;
use crate::rules::{self, Writer};
use crate::storage::resource::Key;
use crate::storage::store::{Expected, Stored};
use crate::storage::work_item::WorkItem;

/// The field manager of the server's own writes.
const MANAGER: &str = "kube-apiserver";

impl Api {
    /// Decides about the names of a definition, and serves its kinds, if they have changed.
    pub(super) fn update_registry(
        &self,
        state: &mut State,
        served: &ServedKind,
        old: Option<&Value>,
        new: Option<&Arc<Stored>>,
        key: &Key,
    ) {
        let Some(new) = new else {
            Arc::make_mut(&mut state.registry).forget(&key.1);
            self.0.kinds.send_modify(|count| *count += 1);
            // Other definitions may get its names now.
            for (key, other) in state.store.list(&served.resource, None) {
                if !definition::has_its_names(&other.value) {
                    self.accept_names(state, served, Some(&other.value), &other, &key);
                }
            }
            return;
        };
        self.accept_names(state, served, old, new, key);
    }

    fn accept_names(&self, state: &mut State, served: &ServedKind, old: Option<&Value>, new: &Arc<Stored>, key: &Key) {
        let now = self.now();
        let others = state.store.list(&served.resource, None);
        let mut accepted = conditions(&new.value, others.iter().map(|(_, other)| &*other.value), &rules::time(now));
        let options = Options::default();
        let author =
            Writer { served, subresource: "status", options: &options, manager: MANAGER, now, is_patch: false };
        author.record(Some(&new.value), &mut accepted);
        let mut new = Arc::clone(new);
        if accepted != *new.value
            && let Ok(stored) = state.store.put(&served.resource, accepted, Expected::Revision(new.revision), now)
        {
            self.keep(stored.revision, &served.resource, key, Some(&new), Some(&stored));
            new = stored;
        }
        let is_terminating = |value: &Value| value["metadata"]["deletionTimestamp"].is_string();
        let is_known = old.is_some_and(|old| {
            old["spec"] == new.value["spec"]
                && is_terminating(old) == is_terminating(&new.value)
                && definition::is_established(old) == definition::is_established(&new.value)
        });
        if !is_known && definition::is_established(&new.value) {
            Arc::make_mut(&mut state.registry).define(&new.value, new.revision, now);
            let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
            let spec = &new.value["spec"];
            state.store.enqueue(WorkItem::Kind { group: text(&spec["group"]), kind: text(&spec["names"]["kind"]) });
            self.0.kinds.send_modify(|count| *count += 1);
        }
    }
}
