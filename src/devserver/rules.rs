//! What writes do to objects: from what is stored and what was sent to what is to be stored, or why not.
//!
//! Nothing here waits, stores, or reads a clock.

mod deletion;
mod sameness;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::causes::Place;
use super::failure::{Cause, Failure};
use super::metadata::{self, NameRule};
use super::ownership::{self, Manager, Operation};
use super::registry::Served;
use super::request::{FieldValidation, Options};
use super::schema::Schema;
use super::{builtin, definition};
pub use deletion::{Deletion, PROTECTED_NAMESPACES, Propagation, is_marked_first, mark};
use sameness::{generation_grows, gives_its_status, has_generation, is_empty, is_same, needs_version, without_times};

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
    /// Reads what a client has sent: checks what it is, and drops and fills in what the schema says. Returns the warnings, which begin
    /// with the remarks on how it was written.
    ///
    /// # Errors
    /// If it is something else, or has mistakes that the client wants to hear of.
    pub fn receive(&self, value: &mut Value, remarks: &[String]) -> Result<Vec<String>, Failure> {
        self.receive_with(value, remarks, Schema::fill_defaults)
    }

    /// Reads what an apply has made, as [`Self::receive`] does; but nulls that are not allowed stay, and are mistakes.
    ///
    /// # Errors
    /// If it is something else, or has mistakes that the client wants to hear of.
    pub fn receive_applied(&self, value: &mut Value, remarks: &[String]) -> Result<Vec<String>, Failure> {
        self.receive_with(value, remarks, Schema::replace_with_defaults)
    }

    fn receive_with(&self, value: &mut Value, remarks: &[String], fill: impl Fn(&Schema, &mut Value)) -> Result<Vec<String>, Failure> {
        self.check_kind(value)?;
        let mut unknown = self.clean(value)?;
        if let Some(schema) = &self.served.schema {
            unknown.extend(schema.prune(value));
            fill(schema, value);
        } else {
            unknown.extend(builtin::read(&self.served.kind, value)?);
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
        if value.is_null() && !kind.is_custom() {
            *value = json!({});
        }
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
        if kind.has_status && !gives_its_status(kind) {
            value.as_object_mut().map(|object| object.remove("status"));
        }
        let (mut value, warnings) = self.validate(value, None)?;
        // What was applied has its owners already.
        if !self.is_patch {
            self.record(None, &mut value);
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
        let owners = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields")).unwrap_or_default();
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

    /// Returns the draft that webhooks have made of one, in the form in which they have seen it. What they have set is nobody's.
    ///
    /// # Errors
    /// If it is no such object any more.
    pub fn redraft(&self, old: &Value, seen: &Value, changed: Value) -> Result<Draft, Failure> {
        let mut new = self.readmit(changed)?;
        self.check_identity(old, &new)?;
        new["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        self.keep_what_is_the_servers(old, &mut new)?;
        self.keep_what_is_not_written(old, &mut new);
        Ok(Draft { value: new, owners: Some(seen["metadata"]["managedFields"].clone()) })
    }

    /// Webhooks may not make another object of it.
    fn check_identity(&self, old: &Value, new: &Value) -> Result<(), Failure> {
        check_namespace(&old["metadata"]["namespace"], new)?;
        let (kind, sent) = (&self.served.kind, &new["metadata"]["name"]);
        if *sent == old["metadata"]["name"] {
            return Ok(());
        }
        let cause = Cause::new("FieldValueInvalid", "metadata.name", format!("Invalid value: {sent}: field is immutable"));
        Err(Failure::invalid(&kind.group, &kind.kind, old["metadata"]["name"].as_str().unwrap_or_default(), vec![cause]))
    }

    /// Brings an object into form again that webhooks have changed.
    ///
    /// # Errors
    /// If it is no such object any more.
    pub fn readmit(&self, mut value: Value) -> Result<Value, Failure> {
        self.check_kind(&mut value)?;
        self.clean(&mut value)?;
        if let Some(schema) = &self.served.schema {
            schema.prune(&mut value);
            schema.fill_defaults(&mut value);
        }
        Ok(value)
    }

    /// Returns what a draft comes to.
    ///
    /// # Errors
    /// If the object has mistakes.
    pub fn settle(&self, old: &Value, draft: Draft) -> Result<(Decision, Vec<String>), Failure> {
        if self.subresource == "finalize" {
            return Ok((self.finish(old, draft.value)?, Vec::new()));
        }
        let is_patched = self.is_patch && draft.owners.is_none();
        let refused = |failure| if is_patched { no_object(failure) } else { failure };
        let (mut new, warnings) = self.validate(draft.value, Some(old)).map_err(refused)?;
        let is_unchanged = is_same(old, &new);
        let is_owned_alike = |owners: &Option<Value>| {
            owners.as_ref().is_none_or(|owners| without_times(owners) == without_times(&old["metadata"]["managedFields"]))
        };
        if is_unchanged && is_owned_alike(&draft.owners) {
            return Ok((Decision::Unchanged, warnings));
        }
        if generation_grows(self.served, self.subresource, old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = json!(generation + 1);
        }
        match draft.owners {
            Some(owners) => self.hand_over(&mut new, owners.as_array().cloned().unwrap_or_default(), is_unchanged),
            None => self.record(Some(old), &mut new),
        }
        Ok((self.conclude(old, new), warnings))
    }

    /// Gives an object its owners of fields.
    fn hand_over(&self, new: &mut Value, mut owners: Vec<Value>, is_unchanged: bool) {
        if is_unchanged {
            self.forget_time(&mut owners);
        }
        if owners.is_empty() {
            new["metadata"].as_object_mut().map(|metadata| metadata.remove("managedFields"));
        } else {
            new["metadata"]["managedFields"] = json!(owners);
        }
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
            warnings = builtin::prepare(kind, self.subresource, &mut new, old)?;
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
        // When an object is going already, only what it is granted is held to be its own.
        for (field, is_kept) in
            [("deletionTimestamp", old["metadata"]["deletionTimestamp"].is_string()), ("deletionGracePeriodSeconds", false)]
        {
            let sent = &new["metadata"][field];
            if !sent.is_null() && *sent != old["metadata"][field] && !is_kept {
                let text = format!("Invalid value: {sent}: field is immutable");
                let cause = Cause::new("FieldValueInvalid", format!("metadata.{field}"), text);
                return Err(Failure::invalid(&kind.group, &kind.kind, name, vec![cause.clone(), cause]));
            }
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
        if let Some(kept) = builtin::written_part(&self.served.kind, self.subresource, old, new) {
            *new = kept;
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
    Err(Failure::bad_request("the namespace of the provided object does not match the namespace sent on the request"))
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
