//! What writes do to objects: from what is stored and what was sent to what is to be stored, or why not.
//!
//! Nothing here waits, stores, or reads a clock.

mod deletion;
mod keeping;
mod receiving;
mod sameness;

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::warn;

use crate::http::api_error::{Cause, Failure};
use crate::http::request::Options;
use crate::kinds::registry::Served;
use crate::kinds::{builtin, definition};
use crate::patch::ownership::{self, Manager, Operation};
use crate::schema::metadata::{self, NameRule};
pub use deletion::{Deletion, PROTECTED_NAMESPACES, Propagation, is_marked_first, mark};
use sameness::{generation_grows, gives_its_status, has_generation, is_same, without_times};

/// How often a write is tried anew that does not say what it is based on.
pub const ATTEMPTS: usize = 5;

/// What a write is about, and who writes.
#[derive(Debug, Clone)]
pub struct Writer<'a> {
    /// The kind, in the version of the request.
    pub served: &'a Served,
    /// The subresource that is written; empty for the object itself.
    pub subresource: &'a str,
    /// The options of the request.
    pub options: &'a Options,
    /// Who writes, in managed fields.
    pub manager: &'a str,
    /// The present moment.
    pub now: Timestamp,
    /// Whether the object was made of a patch.
    pub is_patch: bool,
}

/// What a write comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Nothing is different from what is stored.
    Unchanged,
    /// The object is to be stored.
    Store(Value),
    /// The object is to be removed; the answer is this last form of it.
    Remove(Value),
}

/// An update on its way: the new object, in which everything stands that the request may not change.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The new object.
    pub value: Value,
    /// The owners of its fields, if they are known already.
    pub owners: Option<Value>,
}

/// Returns a moment as Kubernetes writes it.
pub fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Writer<'_> {
    /// Returns a new object as it is to be stored. It was received, and has its name and unique id.
    ///
    /// # Errors
    /// If it has mistakes.
    pub fn create(&self, mut value: Value, uid: &str) -> Result<(Value, Vec<String>), Failure> {
        let kind = &self.served.kind;
        let is_stored = !matches!(value["metadata"]["resourceVersion"].as_str().unwrap_or_default(), "" | "0");
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
                metadata.remove(field);
            }
            if !is_stored {
                metadata.remove("resourceVersion");
            }
            metadata.insert("uid".into(), json!(uid));
            metadata.insert("creationTimestamp".into(), json!(time(self.now)));
            if kind.is_custom() || has_generation(self.served) {
                metadata.insert("generation".into(), json!(1));
            }
        }
        if kind.has_status && !gives_its_status(kind) {
            value.as_object_mut().map(|object| object.remove("status"));
        }
        let sent = builtin::decides(kind).then(|| value.clone());
        let (mut value, warnings) = self.validate(value, None)?;
        // Nothing is stored, so there is nothing to notify of.
        if is_stored && !self.options.is_dry_run {
            return Err(Failure::new(500, "", "resourceVersion should not be set on objects to be created").after(&warnings));
        }
        // What was applied has its owners already.
        if !self.is_patch {
            if let Some(mut written) = sent.map(|sent| builtin::written(kind, &sent, &value)) {
                self.record(None, &mut written);
                ownership::give(&mut value, ownership::take(&mut written));
            } else {
                self.record(None, &mut value);
            }
        }
        Ok((value, warnings))
    }

    /// Returns the draft of an update. The new object was received.
    ///
    /// # Errors
    /// If it is not based on what is stored.
    pub fn draft(&self, old: &Value, mut new: Value) -> Result<Draft, Failure> {
        self.check_version(old, &mut new)?;
        self.keep_what_is_the_servers(old, &mut new)?;
        self.keep_what_is_not_written(old, &mut new);
        Ok(Draft { value: new, owners: None })
    }

    /// Returns the draft of an applied object, which has its owners of fields already.
    ///
    /// # Errors
    /// If it is not based on what is stored.
    pub fn draft_applied(&self, old: &Value, mut new: Value) -> Result<Draft, Failure> {
        let owners = ownership::take(&mut new);
        Ok(Draft { owners: Some(owners), ..self.draft(old, new)? })
    }

    /// Returns a draft as webhooks see it: with its owners of fields.
    pub fn present(&self, old: &Value, draft: &Draft) -> Value {
        let mut seen = draft.value.clone();
        match &draft.owners {
            Some(owners) => seen["metadata"]["managedFields"] = owners.clone(),
            None => self.record(Some(old), &mut seen),
        }
        seen
    }

    /// Returns the draft that webhooks have made of one, in the form in which they have seen it. Fields that they set have no owner.
    ///
    /// # Errors
    /// If it is no such object any more.
    pub fn redraft(&self, old: &Value, seen: &Value, changed: Value) -> Result<Draft, Failure> {
        let mut new = self.readmit(changed)?;
        self.check_identity(old, &new)?;
        ownership::take(&mut new);
        self.keep_what_is_the_servers(old, &mut new)?;
        self.keep_what_is_not_written(old, &mut new);
        Ok(Draft { value: new, owners: Some(seen["metadata"]["managedFields"].clone()) })
    }

    /// Returns what a draft comes to.
    ///
    /// # Errors
    /// If the object has mistakes.
    pub fn settle(&self, old: &Value, draft: Draft) -> Result<(Decision, Vec<String>), Failure> {
        if self.subresource == "finalize" {
            return Ok((self.finish(old, draft.value), Vec::new()));
        }
        let is_patched = self.is_patch && draft.owners.is_none();
        let refused = |failure| if is_patched { no_object(failure) } else { failure };
        let (mut new, warnings) = self.validate(draft.value, Some(old)).map_err(refused)?;
        let is_owned_alike = |owners: &Option<Value>| {
            owners.as_ref().is_none_or(|owners| without_times(owners) == without_times(&old["metadata"]["managedFields"]))
        };
        if is_same(old, &new) && is_owned_alike(&draft.owners) {
            return Ok((Decision::Unchanged, warnings));
        }
        if generation_grows(self.served, self.subresource, old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        match draft.owners {
            Some(owners) => ownership::give(&mut new, owners),
            None => self.record(Some(old), &mut new),
        }
        Ok((self.conclude(old, new), warnings))
    }

    /// A terminating object without finalizers is removed with its last update.
    fn conclude(&self, old: &Value, new: Value) -> Decision {
        let is_held = |value: &Value| {
            let list = |value: &Value| value.as_array().is_some_and(|list| !list.is_empty());
            let is_namespace = self.served.kind.kind == "Namespace" && self.served.kind.group.is_empty();
            list(&value["metadata"]["finalizers"]) || (is_namespace && list(&value["spec"]["finalizers"]))
        };
        let has_time_left = new["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
        if new["metadata"]["deletionTimestamp"].is_string() && is_held(old) && !is_held(&new) && !has_time_left {
            return Decision::Remove(new);
        }
        Decision::Store(new)
    }

    /// Decides about an object that the server itself has changed.
    pub fn finish(&self, old: &Value, new: Value) -> Decision {
        if is_same(old, &new) && self.served.kind.kind != "Namespace" { Decision::Unchanged } else { self.conclude(old, new) }
    }

    /// The mistakes of an object, in its schema and in its metadata.
    fn validate(&self, mut new: Value, old: Option<&Value>) -> Result<(Value, Vec<String>), Failure> {
        let kind = &self.served.kind;
        let mut found = old.map(|old| Self::check_finalizers(old, &new)).unwrap_or_default();
        let mut warnings = Vec::new();
        if kind.is_custom() {
            let members = new["metadata"].as_object().cloned().unwrap_or_default();
            let mistakes = metadata::check(&members, NameRule::Subdomain);
            // An update is looked at as a change, as an object, and once more as an object of the kind.
            let times = if old.is_some() { 3 } else { 1 };
            found.extend(mistakes.iter().flat_map(|cause| vec![cause.clone(); times]));
            let (causes, advice) = metadata::check_finalizers(&members, true);
            found.extend(causes);
            let is_new = old.is_none_or(|old| old["metadata"]["finalizers"] != new["metadata"]["finalizers"]);
            warnings.extend(advice.into_iter().filter(|_| is_new));
            if let Some(schema) = &self.served.schema {
                let verdict = schema.validate_after(found, kind.scale.as_ref(), &new, old);
                found = verdict.causes;
                warnings.extend(verdict.warnings);
            }
        } else if found.is_empty() {
            warnings = builtin::prepare(kind, self.subresource, &mut new, old)?;
            // Of the status of a definition, only the accepted names are checked, and those are the server's.
            if kind.kind == "CustomResourceDefinition" && self.subresource != "status" {
                let accepted = definition::accept(&new, old)?;
                new = accepted.definition;
                let name = new["metadata"]["name"].as_str().unwrap_or_default();
                for rule in &accepted.unenforced {
                    warn!(definition = name, rule, "A validation rule is not enforced.");
                }
                warnings.extend(accepted.warnings);
                warnings.extend(accepted.unenforced);
            }
        }
        if found.is_empty() {
            return Ok((new, warnings));
        }
        let name = new["metadata"]["name"].as_str().unwrap_or_default();
        Err(Failure::invalid(&kind.group, &kind.kind, name, found))
    }

    fn check_finalizers(old: &Value, new: &Value) -> Vec<Cause> {
        let list = |value: &Value| value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let known = list(old);
        let added: Vec<Value> = list(new).into_iter().filter(|one| !known.contains(one)).collect();
        if added.is_empty() || !old["metadata"]["deletionTimestamp"].is_string() {
            return Vec::new();
        }
        let text = "no new finalizers can be added if the object is being deleted, found new finalizers []string";
        let added: Vec<String> = added.iter().map(Value::to_string).collect();
        let cause = Cause::new("FieldValueForbidden", "metadata.finalizers", format!("Forbidden: {text}{{{}}}", added.join(", ")));
        // The change of the metadata is looked at twice, and its mistakes are told twice.
        vec![cause.clone(), cause]
    }

    /// Calls the work with who writes what, for managed fields.
    pub fn as_manager<T>(&self, operation: Operation, work: impl FnOnce(&Manager<'_>) -> T) -> T {
        let lists = ownership::lists_of(&self.served.kind);
        let api_version = self.served.kind.api_version();
        work(&Manager {
            name: self.manager,
            operation,
            subresource: Some(self.subresource).filter(|subresource| !subresource.is_empty()),
            api_version: &api_version,
            time: self.now,
            force: self.options.is_forced,
            lists: &*lists,
        })
    }

    /// Records who wrote what in an object that was written in any other way than by an apply.
    pub fn record(&self, old: Option<&Value>, new: &mut Value) {
        self.as_manager(Operation::Update, |by| ownership::record(old, new, by));
    }
}

/// Checks that an object is still in the namespace of its request.
///
/// # Errors
/// If a webhook has moved it.
pub fn check_namespace(wanted: &Value, object: &Value) -> Result<(), Failure> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if text(wanted) == text(&object["metadata"]["namespace"]) {
        return Ok(());
    }
    Err(Failure::other_namespace())
}

/// Returns the failure of a patch that is in order, and yet makes something that is no object of the kind.
pub fn no_object(failure: Failure) -> Failure {
    if failure.code != 400 {
        return failure;
    }
    let mut refused = Failure::new(422, "Invalid", format!(" \"\" is invalid: patch: Invalid value: {}", failure.message));
    refused.details.causes.push(Cause::new("FieldValueInvalid", "patch", format!("Invalid value: {}", failure.message)));
    refused
}

/// Returns the failure of a write that is not allowed.
pub fn forbidden(served: &Served, name: &str, why: &str) -> Failure {
    let mut failure = Failure::new(403, "Forbidden", format!("{} {name:?} is forbidden: {why}", served.full_name()));
    name.clone_into(&mut failure.details.name);
    failure.details.group.clone_from(&served.kind.group);
    failure.details.kind.clone_from(&served.kind.plural);
    failure
}
