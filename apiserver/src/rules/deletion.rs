//! The effects of deletions.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Decision, Writer, forbidden, is_same, time};
use crate::http::api_error::ApiError;
use crate::kinds::definition;
use crate::kinds::registry::ServedKind;
use crate::storage::work_item::{CLEANUP, FOREGROUND, ORPHAN};

/// The namespaces that cannot be deleted.
pub(crate) const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// The parameters of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// The propagation to dependents.
    pub propagation: Option<Propagation>,
    /// The required unique id of the object.
    pub uid: Option<String>,
    /// The required revision of the object.
    pub resource_version: Option<String>,
    /// Whether it is a dry run.
    pub is_dry_run: bool,
    /// Whether the object is deleted as part of a collection.
    pub is_of_collection: bool,
    /// Whether the answer shows if the deletion is still in progress.
    pub answers_accepted: bool,
    /// Whether it is part of another request that has passed the webhooks.
    pub is_admitted: bool,
}

/// The treatment of the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They are not deleted.
    Orphan,
}

impl Propagation {
    /// Returns the value in options.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    /// Returns the propagation with this value in options.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        [Self::Background, Self::Foreground, Self::Orphan].into_iter().find(|one| one.name() == name)
    }

    /// Returns its finalizer for the garbage collector.
    fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
            Self::Background => None,
        }
    }
}

impl Writer<'_> {
    /// Decides about a deletion.
    ///
    /// # Errors
    /// If the object is not the expected one, or may not be deleted.
    pub(crate) fn delete(&self, old: &Value, deletion: &Deletion) -> Result<Decision, ApiError> {
        let kind = &self.served.kind;
        self.check_preconditions(old, deletion)?;
        let is_namespace = kind.kind == "Namespace" && kind.group.is_empty();
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        if is_namespace && PROTECTED_NAMESPACES.contains(&name) {
            return Err(forbidden(self.served, name, "this namespace may not be deleted"));
        }
        let mut new = old.clone();
        let mut finalizers: Vec<Value> = new["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let is_definition = kind.kind == "CustomResourceDefinition";
        let is_terminating = old["metadata"]["deletionTimestamp"].is_string();
        if let Some(propagation) = self.new_propagation(deletion, &finalizers, is_terminating) {
            let added = propagation.finalizer();
            let is_replaced = |one: &Value| [FOREGROUND, ORPHAN].iter().any(|other| one == other);
            finalizers.retain(|one| !is_replaced(one) || added.is_some_and(|added| one == added));
            finalizers
                .extend(added.filter(|added| !finalizers.iter().any(|one| one == added)).map(|added| json!(added)));
        }
        if is_definition && !is_terminating {
            finalizers.push(json!(CLEANUP));
        }
        if finalizers.is_empty() && !is_namespace {
            return Ok(Decision::Remove(new));
        }
        if finalizers.is_empty() {
            new["metadata"].as_object_mut().map(|metadata| metadata.remove("finalizers"));
        } else {
            new["metadata"]["finalizers"] = json!(finalizers);
        }
        if !is_terminating {
            mark(&mut new, self.now);
            if is_definition {
                let text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
                definition::set_condition(
                    &mut new,
                    ["Terminating", "True", "InstanceDeletionPending", text],
                    &time(self.now),
                );
                new["metadata"]["generation"] = old["metadata"]["generation"].clone();
            }
            if is_namespace {
                new["metadata"].as_object_mut().map(|metadata| metadata.remove("deletionGracePeriodSeconds"));
                new["status"]["phase"] = json!("Terminating");
            }
        }
        Ok(if is_same(old, &new) { Decision::Unchanged } else { Decision::Store(new) })
    }

    /// Returns the propagation, if it differs from the existing finalizers: a policy in the request takes precedence
    /// over them, and they over the default of the kind.
    fn new_propagation(&self, deletion: &Deletion, finalizers: &[Value], is_terminating: bool) -> Option<Propagation> {
        let has_policy = || [FOREGROUND, ORPHAN].iter().any(|said| finalizers.iter().any(|one| one == said));
        let default = || (!is_terminating && !has_policy()).then(|| default_propagation(self.served));
        deletion.propagation.or_else(default)
    }

    fn check_preconditions(&self, old: &Value, deletion: &Deletion) -> Result<(), ApiError> {
        let kind = &self.served.kind;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let mismatch = |what: &str, wanted: &str, found: &Value, hint: &str| {
            let found = found.as_str().unwrap_or_default();
            let text = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {hint}"
            );
            ApiError::conflict(&kind.group, &kind.kind, name, &text)
        };
        match &deletion.uid {
            Some(uid) if old["metadata"]["uid"] != uid.as_str() => {
                return Err(mismatch("UID", uid, &old["metadata"]["uid"], "deleted and then recreated"));
            }
            _ => {}
        }
        match &deletion.resource_version {
            Some(version) if old["metadata"]["resourceVersion"] != version.as_str() => {
                Err(mismatch("ResourceVersion", version, &old["metadata"]["resourceVersion"], "modified"))
            }
            _ => Ok(()),
        }
    }
}

/// Tells whether an object is marked as being deleted before it is removed: so are kinds that may have a grace period,
/// even if it is zero.
pub(crate) fn is_marked_before_removal(served: &ServedKind, object: &Value) -> bool {
    served.kind.kind == "Pod" && served.kind.group.is_empty() && !object["metadata"]["deletionTimestamp"].is_string()
}

/// Marks an object as terminating, without waiting for the grace period: there are no nodes.
pub(crate) fn mark(object: &mut Value, now: Timestamp) {
    object["metadata"]["deletionTimestamp"] = json!(time(now));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

fn default_propagation(served: &ServedKind) -> Propagation {
    if served.kind.group == "batch" && served.kind.kind == "Job" {
        Propagation::Orphan
    } else {
        Propagation::Background
    }
}
