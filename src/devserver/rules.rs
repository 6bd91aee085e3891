//! What writes do to objects: from what is stored and what was sent to what is to be stored, or why not.
//!
//! Nothing here waits, stores, or reads a clock.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::causes::Place;
use super::chores::{CLEANUP, FOREGROUND, ORPHAN};
use super::failure::{Cause, Failure};
use super::metadata::{self, NameRule};
use super::ownership::{self, Manager, Operation};
use super::registry::Served;
use super::request::{FieldValidation, Options};
use super::{builtin, definition};

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

/// Returns a moment as Kubernetes writes it.
pub fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

impl Writer<'_> {
    /// Reads what a client has sent: checks what it is, and drops and fills in what the schema says. Returns the warnings, which begin
    /// with the remarks on how it was written.
    ///
    /// # Errors
    /// If it is something else, or has mistakes that the client wants to hear of.
    pub fn receive(&self, value: &mut Value, remarks: &[String]) -> Result<Vec<String>, Failure> {
        self.check_kind(value)?;
        let mut unknown = self.clean(value)?;
        if let Some(schema) = &self.served.schema {
            unknown.extend(schema.prune(value));
            schema.fill_defaults(value);
        } else {
            unknown.extend(builtin::prune(&self.served.kind, value));
        }
        unknown.sort();
        let mut remarks = remarks.to_vec();
        remarks.extend(unknown.iter().map(|path| format!("unknown field {path:?}")));
        match self.options.validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(remarks),
            FieldValidation::Strict if remarks.is_empty() => Ok(remarks),
            FieldValidation::Strict => Err(self.refuse_strictly(&remarks.join(", "))),
        }
    }

    /// Reads the metadata strictly by type. Returns the paths of what was dropped.
    fn clean(&self, value: &mut Value) -> Result<Vec<String>, Failure> {
        if let Some(why) = metadata::type_mistake(&value["metadata"]) {
            let (kind, version) = (&self.served.kind.kind, &self.served.kind.version);
            return Err(Failure::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}")));
        }
        let unknown = metadata::clean(&mut value["metadata"], &Place::Named("metadata"));
        if let Some(members) = value["metadata"].as_object_mut() {
            // What is empty is as good as absent; empty owners of fields mean something.
            members.retain(|name, member| name == "managedFields" || !is_empty(member));
        }
        Ok(unknown)
    }

    fn refuse_strictly(&self, remarks: &str) -> Failure {
        let kind = &self.served.kind;
        if self.is_patch {
            return Failure::bad_request(format!("strict decoding error: {remarks}"));
        }
        let (name, version) = (&kind.kind, &kind.version);
        Failure::bad_request(format!("{name} in version {version:?} cannot be handled as a {name}: strict decoding error: {remarks}"))
    }

    fn check_kind(&self, value: &mut Value) -> Result<(), Failure> {
        let kind = &self.served.kind;
        let expected = kind.api_version();
        let Some(object) = value.as_object_mut() else {
            return Err(Failure::bad_request(format!("the object provided is unrecognized (must be of type {})", kind.kind)));
        };
        let sent =
            |field: &str, object: &serde_json::Map<String, Value>| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (sent_kind, sent_version) = (sent("kind", object), sent("apiVersion", object));
        if kind.is_custom() && (sent_kind.is_empty() || sent_version.is_empty()) {
            let field = if sent_kind.is_empty() { "Kind" } else { "apiVersion" };
            let text = format!("the object provided is unrecognized (must be of type {}): Object '{field}' is missing", kind.kind);
            return Err(Failure::bad_request(text));
        }
        if !sent_version.is_empty() && sent_version != expected {
            if kind.is_custom() && self.is_patch {
                let cause = Cause::new("FieldValueInvalid", "apiVersion", format!("Invalid value: {sent_version:?}: must be {expected}"));
                return Err(Failure::invalid(&kind.group, &sent_kind, value["metadata"]["name"].as_str().unwrap_or_default(), vec![cause]));
            }
            let text = format!("the API version in the data ({sent_version}) does not match the expected API version ({expected})");
            return Err(Failure::bad_request(text));
        }
        if !sent_kind.is_empty() && sent_kind != kind.kind {
            if kind.is_custom() {
                let cause = Cause::new("FieldValueInvalid", "kind", format!("Invalid value: {sent_kind:?}: must be {}", kind.kind));
                return Err(Failure::invalid(&kind.group, &sent_kind, value["metadata"]["name"].as_str().unwrap_or_default(), vec![cause]));
            }
            let text = format!("{sent_kind} in version {sent_version:?} cannot be handled as a {}", kind.kind);
            return Err(Failure::bad_request(text));
        }
        object.insert("kind".into(), json!(kind.kind));
        object.insert("apiVersion".into(), json!(expected));
        Ok(())
    }

    /// Returns a new object as it is to be stored. It was received, and has its name and unique id.
    ///
    /// # Errors
    /// If it has mistakes.
    pub fn create(&self, mut value: Value, uid: &str) -> Result<(Value, Vec<String>), Failure> {
        let kind = &self.served.kind;
        let sent_version = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if !matches!(sent_version, "" | "0") {
            return Err(Failure::new(500, "", "resourceVersion should not be set on objects to be created"));
        }
        if let Some(metadata) = value["metadata"].as_object_mut() {
            for field in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
                metadata.remove(field);
            }
            metadata.insert("uid".into(), json!(uid));
            metadata.insert("creationTimestamp".into(), json!(time(self.now)));
            if kind.is_custom() || has_generation(self.served) {
                metadata.insert("generation".into(), json!(1));
            }
        }
        if kind.has_status && kind.is_custom() {
            value.as_object_mut().map(|object| object.remove("status"));
        }
        let (mut value, warnings) = self.validate(value, None)?;
        // What was applied has its owners already.
        if !self.is_patch {
            self.record(None, &mut value);
        }
        Ok((value, warnings))
    }

    /// Returns what an update comes to. The new object was received.
    ///
    /// # Errors
    /// If the object has mistakes, or is not based on what is stored.
    pub fn update(&self, old: &Value, mut new: Value) -> Result<(Decision, Vec<String>), Failure> {
        self.check_version(old, &mut new)?;
        self.keep_what_is_the_servers(old, &mut new)?;
        self.keep_what_is_not_written(old, &mut new);
        let (mut new, warnings) = self.validate(new, Some(old))?;
        if is_same(old, &new) {
            return Ok((Decision::Unchanged, warnings));
        }
        if self.subresource != "status" && generation_grows(self.served, old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        self.record(Some(old), &mut new);
        Ok((self.conclude(old, new), warnings))
    }

    /// Returns what an applied object comes to, which has its owners of fields already.
    ///
    /// # Errors
    /// If the object has mistakes, or is not based on what is stored.
    pub fn apply(&self, old: &Value, mut new: Value) -> Result<(Decision, Vec<String>), Failure> {
        self.check_version(old, &mut new)?;
        let owners = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields")).unwrap_or_default();
        self.keep_what_is_the_servers(old, &mut new)?;
        self.keep_what_is_not_written(old, &mut new);
        let (mut new, warnings) = self.validate(new, Some(old))?;
        if self.subresource != "status" && generation_grows(self.served, old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        let is_unchanged = is_same(old, &new);
        if is_unchanged && without_times(&owners) == without_times(&old["metadata"]["managedFields"]) {
            return Ok((Decision::Unchanged, warnings));
        }
        let mut owners = owners.as_array().cloned().unwrap_or_default();
        if is_unchanged {
            self.forget_time(&mut owners);
        }
        if owners.is_empty() {
            new["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        } else {
            new["metadata"]["managedFields"] = json!(owners);
        }
        Ok((self.conclude(old, new), warnings))
    }

    /// Who only takes part in what is there already has no time, and comes first.
    fn forget_time(&self, owners: &mut [Value]) {
        let subresource = if self.subresource.is_empty() { Value::Null } else { json!(self.subresource) };
        for owner in owners.iter_mut() {
            if owner["operation"] == "Apply" && owner["manager"] == self.manager && owner["subresource"] == subresource {
                owner.as_object_mut().map(|owner| owner.remove("time"));
            }
        }
        owners.sort_by_key(|owner| (owner["operation"] != "Apply", owner["time"].as_str().unwrap_or_default().to_owned()));
    }

    /// An object that is going and is held by nobody goes with its last update.
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

    /// Returns what a changed object comes to that the server itself has changed.
    ///
    /// # Errors
    /// If the object has mistakes.
    pub fn finish(&self, old: &Value, new: Value) -> Result<Decision, Failure> {
        if is_same(old, &new) && self.served.kind.kind != "Namespace" { Ok(Decision::Unchanged) } else { Ok(self.conclude(old, new)) }
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
                found = schema.validate_after(found, kind.scale.as_ref(), &new, old);
            }
        } else if found.is_empty() {
            warnings = builtin::prepare(kind, &mut new, old)?;
            if kind.kind == "CustomResourceDefinition" {
                new = definition::accept(&new, old)?;
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

    fn check_version(&self, old: &Value, new: &mut Value) -> Result<(), Failure> {
        let kind = &self.served.kind;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let stored = &old["metadata"]["resourceVersion"];
        let sent = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if matches!(sent, "" | "0") {
            if needs_version(self.served) && self.subresource != "scale" {
                let cause =
                    Cause::new("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update");
                return Err(Failure::invalid(&kind.group, &kind.plural, name, vec![cause]));
            }
            new["metadata"]["resourceVersion"] = stored.clone();
            return Ok(());
        }
        if sent.parse::<u64>().is_err() {
            let text = format!("metadata.resourceVersion: Invalid value: {sent:?}: strconv.ParseUint: parsing {sent:?}: invalid syntax");
            return Err(Failure::new(500, "", text));
        }
        if *stored != sent {
            let text = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Failure::conflict(&kind.group, &kind.plural, name, text));
        }
        Ok(())
    }

    fn keep_what_is_the_servers(&self, old: &Value, new: &mut Value) -> Result<(), Failure> {
        let kind = &self.served.kind;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let (stored, sent) = (old["metadata"]["uid"].clone(), new["metadata"]["uid"].clone());
        if sent.is_string() && sent != stored {
            if !self.is_patch {
                let text = format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {stored}");
                return Err(Failure::conflict(&kind.group, &kind.plural, name, &text));
            }
            let cause = Cause::new("FieldValueInvalid", "metadata.uid", format!("Invalid value: {sent}: field is immutable"));
            return Err(Failure::invalid(&kind.group, &kind.kind, name, vec![cause.clone(), cause]));
        }
        let sent = new["metadata"]["deletionTimestamp"].clone();
        if sent.is_string() && sent != old["metadata"]["deletionTimestamp"] && self.is_patch {
            let cause = Cause::new("FieldValueInvalid", "metadata.deletionTimestamp", format!("Invalid value: {sent}: field is immutable"));
            return Err(Failure::invalid(&kind.group, &kind.kind, name, vec![cause.clone(), cause]));
        }
        let Some(metadata) = new["metadata"].as_object_mut() else { return Ok(()) };
        for field in
            ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generateName"]
        {
            match old["metadata"].get(field) {
                Some(value) => metadata.insert(field.to_owned(), value.clone()),
                None => metadata.remove(field),
            };
        }
        if !metadata.contains_key("managedFields")
            && let Some(owners) = old["metadata"].get("managedFields")
        {
            metadata.insert("managedFields".to_owned(), owners.clone());
        }
        Ok(())
    }

    /// The object itself is written without its status, and the status without the rest.
    fn keep_what_is_not_written(&self, old: &Value, new: &mut Value) {
        let keep = |new: &mut Value, field: &str| {
            let Some(object) = new.as_object_mut() else { return };
            match old.get(field) {
                Some(value) => object.insert(field.to_owned(), value.clone()),
                None => object.remove(field),
            };
        };
        if !self.served.kind.has_status {
            return;
        }
        if self.subresource != "status" {
            keep(new, "status");
            return;
        }
        let fields: Vec<String> = new.as_object().into_iter().chain(old.as_object()).flat_map(|object| object.keys().cloned()).collect();
        for field in fields.iter().filter(|field| !matches!(field.as_str(), "status" | "metadata")) {
            keep(new, field);
        }
        let is_kept = |field: &str| {
            if self.served.kind.is_custom() {
                !matches!(field, "managedFields")
            } else {
                let is_written = matches!(field, "annotations" | "managedFields");
                let is_pods = field == "labels" && self.served.kind.kind == "Pod";
                !is_written && !is_pods
            }
        };
        let names: Vec<String> =
            old["metadata"].as_object().into_iter().chain(new["metadata"].as_object()).flat_map(|map| map.keys().cloned()).collect();
        let Some(metadata) = new["metadata"].as_object_mut() else { return };
        for name in names.iter().filter(|name| is_kept(name)) {
            match old["metadata"].get(name) {
                Some(value) => metadata.insert(name.clone(), value.clone()),
                None => metadata.remove(name),
            };
        }
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

    fn record(&self, old: Option<&Value>, new: &mut Value) {
        self.as_manager(Operation::Update, |by| ownership::record(old, new, by));
    }

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
        let added = match deletion.propagation.unwrap_or_else(|| default_propagation(self.served)) {
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
            Propagation::Background => None,
        };
        let is_leaving = old["metadata"]["deletionTimestamp"].is_string();
        let replaced = [FOREGROUND, ORPHAN];
        if deletion.propagation.is_some() || !is_leaving {
            finalizers.retain(|one| !replaced.iter().any(|other| one == other) || added.is_some_and(|added| one == added));
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
                new["metadata"]["generation"] = old["metadata"]["generation"].clone();
            }
            if is_namespace {
                new["metadata"].as_object_mut().map(|metadata| metadata.remove("deletionGracePeriodSeconds"));
                new["status"]["phase"] = json!("Terminating");
            }
        }
        Ok(if is_same(old, &new) { Decision::Unchanged } else { Decision::Store(new) })
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

/// Marks an object as leaving. Nobody here would make use of a time of grace: there are no nodes.
pub fn mark(object: &mut Value, now: Timestamp) {
    object["metadata"]["deletionTimestamp"] = json!(time(now));
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = json!(generation + 1);
    }
}

/// The namespaces that are always there.
pub const PROTECTED_NAMESPACES: &[&str] = &["default", "kube-system", "kube-public", "kube-node-lease"];

/// Returns the failure of a write that is not allowed.
pub fn forbidden(served: &Served, name: &str, why: &str) -> Failure {
    let mut failure = Failure::new(403, "Forbidden", format!("{} {name:?} is forbidden: {why}", served.full_name()));
    name.clone_into(&mut failure.details.name);
    failure.details.group.clone_from(&served.kind.group);
    failure.details.kind.clone_from(&served.kind.plural);
    failure
}

fn default_propagation(served: &Served) -> Propagation {
    if served.kind.group == "batch" && served.kind.kind == "Job" { Propagation::Orphan } else { Propagation::Background }
}

/// Tells whether an object may only be updated by somebody who knows its revision.
fn needs_version(served: &Served) -> bool {
    const KINDS: &[&str] = &[
        "CustomResourceDefinition",
        "Lease",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "PodDisruptionBudget",
        "RuntimeClass",
    ];
    served.kind.is_custom() || KINDS.contains(&served.kind.kind.as_str())
}

/// Tells whether a built-in kind counts the generations of its objects.
fn has_generation(served: &Served) -> bool {
    const KINDS: &[&str] = &[
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "ReplicationController",
        "Job",
        "CronJob",
        "Ingress",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "CustomResourceDefinition",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "Pod",
        "EndpointSlice",
        "PriorityClass",
    ];
    KINDS.contains(&served.kind.kind.as_str())
}

fn generation_grows(served: &Served, old: &Value, new: &Value) -> bool {
    if !served.kind.is_custom() {
        // The annotations of a Deployment say something to those who roll it out.
        let is_annotated = served.kind.kind == "Deployment" && old["metadata"]["annotations"] != new["metadata"]["annotations"];
        return has_generation(served) && (old["spec"] != new["spec"] || old["webhooks"] != new["webhooks"] || is_annotated);
    }
    let is_counted = |field: &str| field != "metadata" && !(field == "status" && served.kind.has_status);
    let counted = |value: &Value| -> Vec<(String, Value)> {
        let fields = value.as_object().into_iter().flatten();
        fields.filter(|(field, _)| is_counted(field)).map(|(field, value)| (field.clone(), value.clone())).collect()
    };
    counted(old) != counted(new)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

/// Tells whether two objects are the same but for the times of their managers.
fn is_same(old: &Value, new: &Value) -> bool {
    let fields = |value: &Value| -> Vec<String> { value.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default() };
    let is_same_metadata = || {
        let mut names = fields(&old["metadata"]);
        names.extend(fields(&new["metadata"]));
        names.iter().all(|name| match name.as_str() {
            "managedFields" => without_times(&old["metadata"][name]) == without_times(&new["metadata"][name]),
            name => old["metadata"].get(name) == new["metadata"].get(name),
        })
    };
    fields(old) == fields(new)
        && fields(old).iter().all(|field| if field == "metadata" { is_same_metadata() } else { old[field] == new[field] })
}

fn without_times(owners: &Value) -> Vec<Value> {
    let mut owners = owners.as_array().cloned().unwrap_or_default();
    for owner in owners.iter_mut().filter_map(Value::as_object_mut) {
        owner.remove("time");
    }
    owners
}
