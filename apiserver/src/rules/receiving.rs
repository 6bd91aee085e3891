//! Reads an object from a client: checks its type, drops unknown fields, and fills in defaults.

use serde_json::{Value, json};

use super::Writer;
use super::kind_rules::is_empty;
use crate::http::api_error::{ApiError, FieldError};
use crate::http::request::FieldValidation;
use crate::kinds::builtin;
use crate::schema::Schema;
use crate::schema::field_error::FieldPath;
use crate::schema::metadata;

impl Writer<'_> {
    /// Reads an object from a client: checks its type, drops unknown fields, and fills in defaults by the schema.
    /// Returns the warnings, beginning with those of the parser.
    ///
    /// # Errors
    /// If it is of another type, or has unknown fields and the validation is strict.
    pub(crate) fn receive(&self, value: &mut Value, remarks: &[String]) -> Result<Vec<String>, ApiError> {
        self.receive_with(value, remarks, Schema::conform)
    }

    /// Reads the result of an apply, like [`Self::receive`]; but forbidden nulls are kept as errors. Fields that cannot
    /// be owned were refused before; other dropped fields are not reported.
    ///
    /// # Errors
    /// If it is of another type, or has unknown fields and the validation is strict.
    pub(crate) fn receive_applied(&self, value: &mut Value, remarks: &[String]) -> Result<Vec<String>, ApiError> {
        self.receive_with(value, remarks, |schema, value| {
            schema.prune(value);
            schema.replace_with_defaults(value);
            Vec::new()
        })
    }

    fn receive_with(
        &self,
        value: &mut Value,
        remarks: &[String],
        fill: impl Fn(&Schema, &mut Value) -> Vec<String>,
    ) -> Result<Vec<String>, ApiError> {
        self.check_kind(value)?;
        let mut unknown = self.clean(value)?;
        if let Some(schema) = &self.served.schema {
            if let Some(why) = schema.undecodable(value) {
                return Err(ApiError::bad_request(why));
            }
            unknown.extend(fill(schema, value));
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

    /// Reads the metadata strictly by type. Returns the paths of dropped fields.
    fn clean(&self, value: &mut Value) -> Result<Vec<String>, ApiError> {
        if let Some(why) = metadata::type_mistake(&value["metadata"]) {
            let (kind, version) = (&self.served.kind.kind, &self.served.kind.version);
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            )));
        }
        let unknown = metadata::clean(&mut value["metadata"], &FieldPath::Named("metadata"));
        if let Some(members) = value["metadata"].as_object_mut() {
            // Empty fields count as absent, except `managedFields`.
            members.retain(|name, member| name == "managedFields" || !is_empty(member));
        }
        Ok(unknown)
    }

    fn refuse_strictly(&self, remarks: &str) -> ApiError {
        let kind = &self.served.kind;
        if self.is_patch {
            return ApiError::bad_request(format!("strict decoding error: {remarks}"));
        }
        let (name, version) = (&kind.kind, &kind.version);
        ApiError::bad_request(format!(
            "{name} in version {version:?} cannot be handled as a {name}: strict decoding error: {remarks}"
        ))
    }

    fn check_kind(&self, value: &mut Value) -> Result<(), ApiError> {
        let kind = &self.served.kind;
        let expected = kind.api_version();
        if value.is_null() && !kind.is_custom() {
            *value = json!({});
        }
        let Some(object) = value.as_object_mut() else {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {})",
                kind.kind
            )));
        };
        let sent = |field: &str, object: &serde_json::Map<String, Value>| {
            object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (sent_kind, sent_version) = (sent("kind", object), sent("apiVersion", object));
        if kind.is_custom() && (sent_kind.is_empty() || sent_version.is_empty()) {
            let field = if sent_kind.is_empty() { "Kind" } else { "apiVersion" };
            let text = format!(
                "the object provided is unrecognized (must be of type {}): Object '{field}' is missing",
                kind.kind
            );
            return Err(ApiError::bad_request(text));
        }
        if !sent_version.is_empty() && sent_version != expected {
            if kind.is_custom() && self.is_patch {
                let cause = FieldError::new(
                    "FieldValueInvalid",
                    "apiVersion",
                    format!("Invalid value: {sent_version:?}: must be {expected}"),
                );
                return Err(ApiError::invalid(
                    &kind.group,
                    &sent_kind,
                    value["metadata"]["name"].as_str().unwrap_or_default(),
                    vec![cause],
                ));
            }
            let text = format!(
                "the API version in the data ({sent_version}) does not match the expected API version ({expected})"
            );
            return Err(ApiError::bad_request(text));
        }
        if !sent_kind.is_empty() && sent_kind != kind.kind {
            if kind.is_custom() {
                let cause = FieldError::new(
                    "FieldValueInvalid",
                    "kind",
                    format!("Invalid value: {sent_kind:?}: must be {}", kind.kind),
                );
                return Err(ApiError::invalid(
                    &kind.group,
                    &sent_kind,
                    value["metadata"]["name"].as_str().unwrap_or_default(),
                    vec![cause],
                ));
            }
            let text = format!("{sent_kind} in version {sent_version:?} cannot be handled as a {}", kind.kind);
            return Err(ApiError::bad_request(text));
        }
        object.insert("kind".into(), json!(kind.kind));
        object.insert("apiVersion".into(), json!(expected));
        Ok(())
    }

    /// Reads an object again after webhooks have changed it.
    ///
    /// # Errors
    /// If it is no longer an object of the kind.
    pub(crate) fn readmit(&self, mut value: Value) -> Result<Value, ApiError> {
        self.check_kind(&mut value)?;
        self.clean(&mut value)?;
        if let Some(schema) = &self.served.schema {
            schema.conform(&mut value);
        }
        Ok(value)
    }
}
