//! The options of deletions: from the body if there is one, otherwise from the query.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::api_error::{ApiError, FieldError};
use crate::http::protobuf;
use crate::http::request::{self, Options, Query};
use crate::kinds::registry::ServedKind;
use crate::rules::{Deletion, Propagation};
use crate::verbs::body::read_body;
use crate::verbs::request_context::RequestContext;

/// The sent `DeleteOptions`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeleteOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<String>,
    /// It is not among the options for webhooks: it is a field of the review.
    #[serde(skip_serializing)]
    dry_run: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_store_read_error_with_cluster_breaking_potential: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

/// Reads the options of a request.
///
/// # Errors
/// If they have values of wrong types, or contradict each other.
pub(super) fn read(served: &ServedKind, context: &RequestContext) -> Result<(Deletion, Options), ApiError> {
    let sent = sent(served, context)?;
    let propagation = sent.propagation()?;
    let is_dry_run = sent.dry_run.as_ref().is_some_and(|all| !all.is_empty());
    let conditions = sent.preconditions.clone().unwrap_or_default();
    let deletion = Deletion {
        propagation,
        uid: conditions.uid,
        resource_version: conditions.resource_version,
        is_dry_run,
        answers_accepted: sent.orphan_dependents == Some(false),
        ..Deletion::default()
    };
    Ok((deletion, Options { is_dry_run, deletion: sent.for_webhooks(), ..Options::default() }))
}

fn sent(served: &ServedKind, context: &RequestContext) -> Result<DeleteOptions, ApiError> {
    if context.body.is_empty() {
        return DeleteOptions::of_query(&context.query);
    }
    let body = read_body_of_options(served, context)?;
    if body["kind"] != "Eviction" {
        return DeleteOptions::of_body(body);
    }
    // Evictions contain the options of the deletion. A dry run may also be requested by their query.
    let mut options = DeleteOptions::of_body(body["deleteOptions"].clone())?;
    options.dry_run = options.dry_run.or(DeleteOptions::of_query(&context.query)?.dry_run);
    Ok(options)
}

fn read_body_of_options(served: &ServedKind, context: &RequestContext) -> Result<Value, ApiError> {
    if request::media_type(&context.headers).as_deref() == Some("application/vnd.kubernetes.protobuf") {
        return protobuf::decode(&context.body);
    }
    Ok(read_body(served, context)?.value)
}

impl DeleteOptions {
    fn of_body(body: Value) -> Result<Self, ApiError> {
        let refuse = |why: &str| ApiError::bad_request(format!("DeleteOptions cannot be handled: {why}"));
        if body.is_null() {
            return Ok(Self::default());
        }
        if let Some(kind) = body["kind"].as_str().filter(|kind| !matches!(*kind, "" | "DeleteOptions")) {
            return Err(refuse(&format!("{kind} is no DeleteOptions")));
        }
        serde_json::from_value(body).map_err(|error| refuse(&error.to_string()))
    }

    fn of_query(query: &Query) -> Result<Self, ApiError> {
        let text = |name: &str| query.given(name).map(str::to_owned);
        Ok(Self {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            orphan_dependents: query.given("orphanDependents").map(|_| query.is_on("orphanDependents")),
            propagation_policy: text("propagationPolicy").filter(|policy| !policy.is_empty()),
            dry_run: text("dryRun").map(|word| vec![word]),
            ..Self::default()
        })
    }

    fn propagation(&self) -> Result<Option<Propagation>, ApiError> {
        let mut causes = Vec::new();
        let policy = self.propagation_policy.as_deref().and_then(|word| {
            let known = Propagation::of_name(word);
            if known.is_none() {
                let text = format!(
                    "Unsupported value: {word:?}: supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
                );
                causes.push(FieldError::new("FieldValueNotSupported", "propagationPolicy", text));
            }
            known
        });
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            let text = "Invalid value: orphanDependents and deletionPropagation cannot be both set";
            causes.push(FieldError::new("FieldValueInvalid", "propagationPolicy", text));
        }
        if let Some(other) = self.dry_run.iter().flatten().find(|word| *word != "All") {
            let text = format!("Unsupported value: {other:?}: supported values: \"All\"");
            causes.push(FieldError::new("FieldValueNotSupported", "dryRun", text));
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", causes));
        }
        let of_orphans = |orphans| if orphans { Propagation::Orphan } else { Propagation::Background };
        Ok(policy.or(self.orphan_dependents.map(of_orphans)))
    }

    /// Returns the options for webhooks.
    fn for_webhooks(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(for_webhooks)) => for_webhooks,
            _ => Map::new(),
        }
    }
}
