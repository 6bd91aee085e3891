//! What deletions do to objects.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Decision, Writer, forbidden, is_same, time};
use crate::http::api_error::Failure;
use crate::kinds::definition;
use crate::kinds::registry::Served;
use crate::storage::work_item::{CLEANUP, FOREGROUND, ORPHAN};

/// The namespaces that are always there.
pub const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// How an object is to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deletion {
    /// What happens to the dependents.
    pub propagation: Option<Propagation>,
    /// The unique id that the object must have.
    pub uid: Option<String>,
    /// The revision that the object must have.
    pub resource_version: Option<String>,
    /// Whether nothing is to be stored.
    pub is_dry_run: bool,
    /// Whether the object is one of a collection that is deleted.
    pub is_of_many: bool,
    /// Whether the answer says that the deletion goes on, if it does.
    pub is_told_as_accepted: bool,
    /// Whether it is a part of another request, which has passed the webhooks.
    pub is_admitted: bool,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They are left alone.
    Orphan,
}

impl Propagation {
    /// Returns the word of options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }

    /// Returns the propagation of a word of options.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Background, Self::Foreground, Self::Orphan].into_iter().find(|one| one.name() == name)
    }

    /// Returns the finalizer that tells the garbage collector of it.
    fn finalizer(self) -> Option<&'static str> {
        match self {
            Self::Foreground => Some(FOREGROUND),
            Self::Orphan => Some(ORPHAN),
            Self::Background => None,
        }
    }
}

impl Writer<'_> {
    /// Returns what a deletion comes to.
    ///
    /// # Errors
    /// If the object is not the expected one, or may not be deleted.
    pub fn delete(&self, old: &Value, deletion: &Deletion) -> Result<Decision, Failure> {
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
        let is_leaving = old["metadata"]["deletionTimestamp"].is_string();
        if let Some(propagation) = self.new_propagation(deletion, &finalizers, is_leaving) {
            let added = propagation.finalizer();
            let is_replaced = |one: &Value| [FOREGROUND, ORPHAN].iter().any(|other| one == other);
            finalizers.retain(|one| !is_replaced(one) || added.is_some_and(|added| one == added));
            finalizers.extend(added.filter(|added| !finalizers.iter().any(|one| one == added)).map(|added| json!(added)));
        }
        if is_definition && !is_leaving {
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
        if !is_leaving {
            mark(&mut new, self.now);
            if is_definition {
                let text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
                definition::set_condition(&mut new, ["Terminating", "True", "InstanceDeletionPending", text], &time(self.now));
                new["metadata"]["generation"] = old["metadata"]["generation"].clone();
            }
            if is_namespace {
                new["metadata"].as_object_mut().map(|metadata| metadata.remove("deletionGracePeriodSeconds"));
                new["status"]["phase"] = json!("Terminating");
            }
        }
        Ok(if is_same(old, &new) { Decision::Unchanged } else { Decision::Store(new) })
    }

    /// Returns what is to happen to the dependents, if that is not what the finalizers already say: a policy in the request goes before
    /// them, and they go before the default of the kind.
    fn new_propagation(&self, deletion: &Deletion, finalizers: &[Value], is_leaving: bool) -> Option<Propagation> {
        let is_said = || [FOREGROUND, ORPHAN].iter().any(|said| finalizers.iter().any(|one| one == said));
        let default = || (!is_leaving && !is_said()).then(|| default_propagation(self.served));
        deletion.propagation.or_else(default)
    }

    fn check_preconditions(&self, old: &Value, deletion: &Deletion) -> Result<(), Failure> {
        let kind = &self.served.kind;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let mismatch = |what: &str, wanted: &str, found: &Value, hint: &str| {
            let found = found.as_str().unwrap_or_default();
            let text = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {hint}"
            );
            Failure::conflict(&kind.group, &kind.kind, name, &text)
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

/// Tells whether an object is stored as leaving before it is removed: the kinds that may get a time of grace are, even if it is none.
pub fn is_marked_first(served: &Served, object: &Value) -> bool {
    served.kind.kind == "Pod" && served.kind.group.is_empty() && !object["metadata"]["deletionTimestamp"].is_string()
}

/// Marks an object as terminating. The grace period is not waited for: there are no nodes.
pub fn mark(object: &mut Value, now: Timestamp) {
    object["metadata"]["deletionTimestamp"] = json!(time(now));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

fn default_propagation(served: &Served) -> Propagation {
    if served.kind.group == "batch" && served.kind.kind == "Job" { Propagation::Orphan } else { Propagation::Background }
}
