//! Keeps the parts of an object that an update may not change: its identity, its version, and fields written by others.

use serde_json::Value;

use super::kind_rules::needs_version;
use super::{Writer, check_namespace};
use crate::http::api_error::{ApiError, FieldError};
use crate::kinds::builtin;

impl Writer<'_> {
    /// Checks that webhooks have not changed the identity.
    pub(super) fn check_identity(&self, old: &Value, new: &Value) -> Result<(), ApiError> {
        check_namespace(&old["metadata"]["namespace"], new)?;
        let (kind, sent) = (&self.served.kind, &new["metadata"]["name"]);
        if *sent == old["metadata"]["name"] {
            return Ok(());
        }
        let cause =
            FieldError::new("FieldValueInvalid", "metadata.name", format!("Invalid value: {sent}: field is immutable"));
        Err(ApiError::invalid(
            &kind.group,
            &kind.kind,
            old["metadata"]["name"].as_str().unwrap_or_default(),
            vec![cause],
        ))
    }

    pub(super) fn check_version(&self, old: &Value, new: &mut Value) -> Result<(), ApiError> {
        let kind = &self.served.kind;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let stored = &old["metadata"]["resourceVersion"];
        let sent = new["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        if matches!(sent, "" | "0") {
            if needs_version(self.served) && self.subresource != "scale" {
                let cause = FieldError::new(
                    "FieldValueInvalid",
                    "metadata.resourceVersion",
                    "Invalid value: 0: must be specified for an update",
                );
                return Err(ApiError::invalid(&kind.group, &kind.plural, name, vec![cause]));
            }
            new["metadata"]["resourceVersion"] = stored.clone();
            return Ok(());
        }
        if sent.parse::<u64>().is_err() {
            let text = format!(
                "metadata.resourceVersion: Invalid value: {sent:?}: strconv.ParseUint: parsing {sent:?}: invalid syntax"
            );
            return Err(ApiError::new(500, "", text));
        }
        if *stored != sent {
            let text = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(ApiError::conflict(&kind.group, &kind.plural, name, text));
        }
        Ok(())
    }

    pub(super) fn keep_server_fields(&self, old: &Value, new: &mut Value) -> Result<(), ApiError> {
        let kind = &self.served.kind;
        let name = old["metadata"]["name"].as_str().unwrap_or_default();
        let (stored, sent) = (old["metadata"]["uid"].clone(), new["metadata"]["uid"].clone());
        if sent.is_string() && sent != stored {
            if !self.is_patch {
                let text = format!("Precondition failed: UID in precondition: {sent}, UID in object meta: {stored}");
                return Err(ApiError::conflict(&kind.group, &kind.plural, name, &text));
            }
            let cause = FieldError::new(
                "FieldValueInvalid",
                "metadata.uid",
                format!("Invalid value: {sent}: field is immutable"),
            );
            return Err(ApiError::invalid(&kind.group, &kind.kind, name, vec![cause.clone(), cause]));
        }
        // For an object that is already being deleted, only the granted grace period is kept.
        for (field, is_kept) in [
            ("deletionTimestamp", old["metadata"]["deletionTimestamp"].is_string()),
            ("deletionGracePeriodSeconds", false),
        ] {
            let sent = &new["metadata"][field];
            if !sent.is_null() && *sent != old["metadata"][field] && !is_kept {
                let text = format!("Invalid value: {sent}: field is immutable");
                let cause = FieldError::new("FieldValueInvalid", format!("metadata.{field}"), text);
                return Err(ApiError::invalid(&kind.group, &kind.kind, name, vec![cause.clone(), cause]));
            }
        }
        let Some(metadata) = new["metadata"].as_object_mut() else { return Ok(()) };
        for field in
            ["uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
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

    /// Restores the status in writes of the object, and everything else in writes of the status.
    pub(super) fn keep_unwritten_fields(&self, old: &Value, new: &mut Value) {
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
        let fields: Vec<String> =
            new.as_object().into_iter().chain(old.as_object()).flat_map(|object| object.keys().cloned()).collect();
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
        let names: Vec<String> = old["metadata"]
            .as_object()
            .into_iter()
            .chain(new["metadata"].as_object())
            .flat_map(|map| map.keys().cloned())
            .collect();
        let Some(metadata) = new["metadata"].as_object_mut() else { return };
        for name in names.iter().filter(|name| is_kept(name)) {
            match old["metadata"].get(name) {
                Some(value) => metadata.insert(name.clone(), value.clone()),
                None => metadata.remove(name),
            };
        }
    }
}
