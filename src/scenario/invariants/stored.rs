//! Reads what one operator has stored on objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::apiserver::kinds::registry::Registry;
use crate::handling::cause::{self, Memory};
use crate::handling::filter::{Answers, View};
use crate::handling::{Handler, Reason, Record, Records as _, SpawningHandlers, select};
use crate::manifest::Operator;
use crate::object::{Body, EventKind, Resource, Scope, diff};
use crate::persistence::{Keys, SecretStorage, Storages, Stored, essence};

/// The storage and the handlers of one operator.
pub(super) struct Storage {
    storages: Arc<Storages>,
    handlers: Vec<Handler>,
    /// The change handlers of earlier revisions. Their last calls may end after a reload.
    earlier: Vec<Handler>,
    /// How long it waits for the event of its own write.
    pub consistency_timeout: Duration,
}

/// The stored state of an object.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// The last handled essence, if there is one.
    pub handled: Option<Value>,
    pub essence: Value,
    /// The cause that an operator without memory of the object would detect.
    pub reason: Reason,
    /// Whether the operator's finalizer is set.
    pub is_held: bool,
}

impl Facts {
    /// Tells whether an essence equals the last handled one.
    pub(super) fn has_handled(&self, essence: &Value) -> bool {
        self.handled.as_ref().is_some_and(|handled| is_same(handled, essence))
    }

    /// Tells whether the last handled essence equals that of another state.
    pub(super) fn is_handled_as(&self, other: &Self) -> bool {
        match (&self.handled, &other.handled) {
            (Some(one), Some(other)) => is_same(one, other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

/// Tells whether two essences are equal for handlers.
pub(super) fn is_same(one: &Value, other: &Value) -> bool {
    diff::diff(one, other, Scope::Full).is_empty()
}

impl Storage {
    /// Returns the storage of an operator.
    pub(super) fn of(operator: &Operator) -> Self {
        let persistence = &operator.settings.persistence;
        let consistency_timeout = persistence.consistency_timeout;
        let storages = persistence.storages.clone();
        let secrets = SecretStorage { keys: Keys::of_embedded_server(), ..storages.secrets };
        Self {
            storages: Arc::new(Storages { secrets, ..storages }),
            handlers: operator.object_handlers().cloned().collect(),
            earlier: Vec::new(),
            consistency_timeout,
        }
    }

    /// Returns this storage, that of the revision after an earlier one.
    pub(super) fn after(self, earlier: &Self) -> Self {
        let known = earlier.earlier.iter().chain(&earlier.handlers).filter(|handler| handler.on.is_changing());
        Self { earlier: known.cloned().collect(), ..self }
    }

    /// Tells whether a change handler is or was declared for objects of this kind.
    pub(super) fn serves(&self, body: &Body, registry: &Registry) -> bool {
        let Some(resource) = resource(body, registry) else { return false };
        self.handlers.iter().chain(&self.earlier).any(|handler| handler.on.is_changing() && handler.concerns(&resource))
    }

    /// Returns the timers and daemons that are declared for objects of this kind.
    pub(super) fn spawning(&self, body: &Body, registry: &Registry) -> SpawningHandlers {
        let Some(resource) = resource(body, registry) else { return SpawningHandlers::of([]) };
        SpawningHandlers::of(self.handlers.iter().filter(|handler| handler.concerns(&resource)).cloned().map(Arc::new))
    }

    /// Tells whether a timer or daemon matches an object, if that is known without expressions.
    pub(super) fn is_matched(&self, body: &Body, registry: &Registry) -> bool {
        let view = View { body, change: None };
        let handlers = self.spawning(body, registry);
        select::spawning(&handlers, &BTreeSet::new(), view, &Answers::default())
            .is_ok_and(|matching| !matching.is_empty())
    }

    /// Tells whether the operator's finalizer is set.
    pub(super) fn holds(&self, body: &Body) -> bool {
        body.has_finalizer(&self.storages.finalizer)
    }

    /// Returns the state that only the operator's cycles write.
    pub(super) fn own_state(&self, body: &Body) -> (bool, Vec<(String, Value)>) {
        let annotations = body.metadata().and_then(|metadata| metadata.get("annotations")?.as_object());
        let prefix = format!("{}/", self.storages.prefix());
        let own = annotations.into_iter().flatten().filter(|(key, _)| key.starts_with(&prefix));
        (self.holds(body), own.map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    /// Reads an object; `None` if its stored state cannot be read.
    pub(super) fn facts(&self, body: &Body, registry: &Registry) -> Option<Facts> {
        let resource = resource(body, registry)?;
        let extra = essence::extra_fields(self.handlers.iter().filter(|handler| handler.concerns(&resource)));
        let change = essence::change(&self.storages, body, &extra).ok()?;
        let cause = cause::detect(EventKind::Modified, body, &self.storages.finalizer, Memory::default(), change);
        let is_held = body.has_finalizer(&self.storages.finalizer);
        // The essences of Secrets are compared as digests, which other states of the object have, too.
        let comparable = |essence: Value| self.storages.secrets.digested(body, &essence).into_owned();
        let handled = essence::handled(&self.storages, body).ok()?.map(comparable);
        Some(Facts { handled, essence: comparable(cause.change.new.clone()?), reason: cause.reason, is_held })
    }

    pub(super) fn record(&self, body: &Body, id: &str) -> Option<Record> {
        let records = Stored { storages: Arc::clone(&self.storages), body: body.clone(), now: Timestamp::UNIX_EPOCH };
        records.record(id).ok().flatten()
    }
}

/// Returns the resource of an object as discovery describes it.
pub(in crate::scenario) fn resource(body: &Body, registry: &Registry) -> Option<Resource> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let kind = &registry.by_kind(text("apiVersion")?, text("kind")?)?.kind;
    Some(Resource {
        group: kind.group.clone(),
        version: kind.version.clone(),
        plural: kind.plural.clone(),
        kind: kind.kind.clone(),
        singular: kind.singular.clone(),
        shortcuts: kind.short_names.clone(),
        categories: kind.categories.clone(),
        namespaced: kind.namespaced,
        verbs: kind.verbs.clone(),
        preferred: true,
        subresources: Vec::new(),
    })
}
