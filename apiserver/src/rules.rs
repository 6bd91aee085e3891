//! The effects of writes: from the stored and the sent object to a decision or a failure.
//!
//! Pure: nothing here waits, stores, or reads a clock.

mod deletion;
mod keeping;
mod kind_rules;
mod receiving;

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::warn;

use crate::http::api_error::{ApiError, FieldError};
use crate::http::request::Options;
use crate::kinds::registry::ServedKind;
use crate::kinds::{builtin, definition};
use crate::patch::ownership::{self, Manager, Operation};
use crate::schema::metadata::{self, NameRule};
pub(crate) use deletion::{Deletion, PROTECTED_NAMESPACES, Propagation, is_marked_before_removal, mark};
use kind_rules::{accepts_initial_status, generation_grows, has_generation, is_same, without_times};

/// Attempts of a write without a resource version.
pub(crate) const ATTEMPTS: usize = 5;

/// The context of a write.
#[derive(Debug, Clone)]
pub(crate) struct Writer<'a> {
    /// The kind, in the version of the request.
    pub served: &'a ServedKind,
    /// The written subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The options of the request.
    pub options: &'a Options,
    /// The field manager.
    pub manager: &'a str,
    /// The current time.
    pub now: Timestamp,
    /// Whether the object results from a patch.
    pub is_patch: bool,
}

/// The decision about a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Decision {
    /// The object does not change.
    Unchanged,
    /// The object is stored.
    Store(Value),
    /// The object is removed; the answer is this last state.
    Remove(Value),
}

/// An update in progress: the new object, with the old values of fields that the request may not change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    /// The new object.
    pub value: Value,
    /// Its `managedFields`, if already known.
    pub owners: Option<Value>,
}

/// Returns a time in the form of Kubernetes.
pub(crate) fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Writer<'_> {
    /// Returns the new object to store. It was received, and has its name and unique id.
    ///
    /// # Errors
    /// If it is invalid.
    pub(crate) fn create(&self, mut value: Value, uid: &str) -> Result<(Value, Vec<String>), ApiError> {
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
        if kind.has_status && !accepts_initial_status(kind) {
            value.as_object_mut().map(|object| object.remove("status"));
        }
        let sent = builtin::assigns_fields(kind).then(|| value.clone());
        let (mut value, warnings) = self.validate(value, None)?;
        // The store of a real server refuses this, which a dry run does not reach.
        if is_stored && !self.options.is_dry_run {
            return Err(
                ApiError::new(500, "", "resourceVersion should not be set on objects to be created").after(&warnings)
            );
        }
        // Applied objects already have their owners.
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
    /// If it is based on another version than the stored one.
    pub(crate) fn draft(&self, old: &Value, mut new: Value) -> Result<Draft, ApiError> {
        self.check_version(old, &mut new)?;
        self.keep_server_fields(old, &mut new)?;
        self.keep_unwritten_fields(old, &mut new);
        Ok(Draft { value: new, owners: None })
    }

    /// Returns the draft of an applied object, which already has its `managedFields`.
    ///
    /// # Errors
    /// If it is based on another version than the stored one.
    pub(crate) fn draft_applied(&self, old: &Value, mut new: Value) -> Result<Draft, ApiError> {
        let owners = ownership::take(&mut new);
        Ok(Draft { owners: Some(owners), ..self.draft(old, new)? })
    }

    /// Returns a draft for webhooks, with its `managedFields`.
    pub(crate) fn present(&self, old: &Value, draft: &Draft) -> Value {
        let mut seen = draft.value.clone();
        match &draft.owners {
            Some(owners) => seen["metadata"]["managedFields"] = owners.clone(),
            None => self.record(Some(old), &mut seen),
        }
        seen
    }

    /// Returns a draft after the changes of webhooks, in the form that they got. Fields that they set have no owner.
    ///
    /// # Errors
    /// If it is no longer an object of the kind.
    pub(crate) fn redraft(&self, old: &Value, seen: &Value, changed: Value) -> Result<Draft, ApiError> {
        let mut new = self.readmit(changed)?;
        self.check_identity(old, &new)?;
        ownership::take(&mut new);
        self.keep_server_fields(old, &mut new)?;
        self.keep_unwritten_fields(old, &mut new);
        Ok(Draft { value: new, owners: Some(seen["metadata"]["managedFields"].clone()) })
    }

    /// Decides whether a draft is stored, dropped or removes the object.
    ///
    /// # Errors
    /// If the object is invalid.
    pub(crate) fn settle(&self, old: &Value, draft: Draft) -> Result<(Decision, Vec<String>), ApiError> {
        if self.subresource == "finalize" {
            return Ok((self.finish(old, draft.value), Vec::new()));
        }
        let is_patched = self.is_patch && draft.owners.is_none();
        let refused = |failure| if is_patched { no_object(failure) } else { failure };
        let (mut new, warnings) = self.validate(draft.value, Some(old)).map_err(refused)?;
        let is_owned_alike = |owners: &Option<Value>| {
            owners
                .as_ref()
                .is_none_or(|owners| without_times(owners) == without_times(&old["metadata"]["managedFields"]))
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

    /// Decides about an object changed by the server itself.
    pub(crate) fn finish(&self, old: &Value, new: Value) -> Decision {
        if is_same(old, &new) && self.served.kind.kind != "Namespace" {
            Decision::Unchanged
        } else {
            self.conclude(old, new)
        }
    }

    /// Validates an object: its schema and its metadata.
    fn validate(&self, mut new: Value, old: Option<&Value>) -> Result<(Value, Vec<String>), ApiError> {
        let kind = &self.served.kind;
        let mut found = old.map(|old| Self::check_finalizers(old, &new)).unwrap_or_default();
        let mut warnings = Vec::new();
        if kind.is_custom() {
            let members = new["metadata"].as_object().cloned().unwrap_or_default();
            let mistakes = metadata::check(&members, NameRule::Subdomain);
            // The real server checks an update as a change, as an object, and once more as an object of the kind.
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
            // In the status of a definition, only the accepted names are checked, and these are set by the server.
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
        Err(ApiError::invalid(&kind.group, &kind.kind, name, found))
    }

    fn check_finalizers(old: &Value, new: &Value) -> Vec<FieldError> {
        let list = |value: &Value| value["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let known = list(old);
        let added: Vec<Value> = list(new).into_iter().filter(|one| !known.contains(one)).collect();
        if added.is_empty() || !old["metadata"]["deletionTimestamp"].is_string() {
            return Vec::new();
        }
        let text = "no new finalizers can be added if the object is being deleted, found new finalizers []string";
        let added: Vec<String> = added.iter().map(Value::to_string).collect();
        let cause = FieldError::new(
            "FieldValueForbidden",
            "metadata.finalizers",
            format!("Forbidden: {text}{{{}}}", added.join(", ")),
        );
        // The real server checks changes of the metadata twice, and reports their errors twice.
        vec![cause.clone(), cause]
    }

    /// Calls a function with the field manager.
    pub(crate) fn as_manager<T>(&self, operation: Operation, work: impl FnOnce(&Manager<'_>) -> T) -> T {
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

    /// Records the field ownership of a write that is not an apply.
    pub(crate) fn record(&self, old: Option<&Value>, new: &mut Value) {
        self.as_manager(Operation::Update, |by| ownership::record(old, new, by));
    }
}

/// Checks that an object is still in the namespace of its request.
///
/// # Errors
/// If a webhook has changed it.
pub(crate) fn check_namespace(wanted: &Value, object: &Value) -> Result<(), ApiError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if text(wanted) == text(&object["metadata"]["namespace"]) {
        return Ok(());
    }
    Err(ApiError::other_namespace())
}

/// Returns the failure of a valid patch whose result is not an object of the kind.
pub(crate) fn no_object(failure: ApiError) -> ApiError {
    if failure.code != 400 {
        return failure;
    }
    let mut refused =
        ApiError::new(422, "Invalid", format!(" \"\" is invalid: patch: Invalid value: {}", failure.message));
    refused.details.causes.push(FieldError::new(
        "FieldValueInvalid",
        "patch",
        format!("Invalid value: {}", failure.message),
    ));
    refused
}

/// Returns the failure of a write that is not allowed.
pub(crate) fn forbidden(served: &ServedKind, name: &str, why: &str) -> ApiError {
    let mut failure = ApiError::new(403, "Forbidden", format!("{} {name:?} is forbidden: {why}", served.full_name()));
    name.clone_into(&mut failure.details.name);
    failure.details.group.clone_from(&served.kind.group);
    failure.details.kind.clone_from(&served.kind.plural);
    failure
}
