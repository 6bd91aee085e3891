//! Deletions of single objects and collections.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::admission::Operation;
use crate::api::Api;
use crate::http::api_error::ApiError;
use crate::http::reply::Reply;
use crate::kinds::registry::ServedKind;
use crate::rules::{self, ATTEMPTS, Decision, Deletion, Writer};
use crate::storage::store::Stored;
use crate::verbs::admission_chain::{AdmissionChain, AdmissionRequest, Requester};
use crate::verbs::body::read_body;
use crate::verbs::request_context::RequestContext;
use crate::verbs::target::{check_name, existing};
use crate::verbs::{conversion, deletion_options, reading};

/// Answers a request to delete an object.
pub(crate) async fn delete(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<Reply, ApiError> {
    let (deletion, options) = deletion_options::read(served, context)?;
    let old = existing(api, served, context)?;
    let mut warnings = Vec::new();
    if served.kind.group == "batch" && served.kind.kind == "Job" && deletion.propagation.is_none() {
        warnings.push(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set \
             propagationPolicy=Orphan to suppress this warning"
                .to_owned(),
        );
    }
    let requester = Requester { user: &context.user, options: &options, fault: context.fault.as_ref() };
    let (deleted, more) = delete_one(api, served, old, &deletion, requester).await?;
    warnings.extend(more);
    let answer = match deleted {
        Deleted::Removed(seen) if !answers_with_the_object(served) => {
            let (name, uid) =
                (seen["metadata"]["name"].as_str().unwrap_or_default(), crate::storage::resource::uid_of(&seen));
            Reply::success(&served.kind.group, &served.kind.plural, name, uid)
        }
        Deleted::Removed(seen) => reading::shape(served, context, last_state(api, served, &seen))?,
        Deleted::Terminating(seen) => {
            let answer = reading::shape(served, context, (*seen).clone())?;
            if deletion.answers_accepted { answer.with_code(202) } else { answer }
        }
    };
    Ok(answer.with_warnings(warnings))
}

/// Deletes the pod of an eviction.
pub(crate) async fn evict(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<(), ApiError> {
    let (deletion, options) = deletion_options::read(served, context)?;
    let deletion = Deletion { is_admitted: true, ..deletion };
    let requester = Requester { user: &context.user, options: &options, fault: context.fault.as_ref() };
    let eviction = read_body(served, context)?.value;
    check_name(context, &eviction)?;
    let old = existing(api, served, context)?;
    let chain = AdmissionChain::new(api, served, "eviction", requester);
    let (namespace, name) = crate::storage::resource::key_of(&old.value);
    let request = AdmissionRequest {
        operation: Operation::Create,
        name: &name,
        namespace: &namespace,
        object: Some(&eviction),
        old: None,
    };
    chain.mutate(request).await?;
    chain.validate(request).await?;
    delete_one(api, served, old, &deletion, requester).await.map(|_| ())
}

/// The result of a deletion, with the object in the version of the request.
pub(crate) enum Deleted {
    /// The object is marked, and waits for its finalizers.
    Terminating(Arc<Value>),
    /// The object is removed.
    Removed(Arc<Value>),
}

/// Deletes an object, with retries after conflicts. Returns the warnings of webhooks, too.
///
/// # Errors
/// If the object is not the expected one, a webhook denies it, or the retries are used up.
pub(crate) async fn delete_one(
    api: &Api,
    served: &Arc<ServedKind>,
    mut old: Arc<Stored>,
    deletion: &Deletion,
    requester: Requester<'_>,
) -> Result<(Deleted, Vec<String>), ApiError> {
    let chain = AdmissionChain::new(api, served, "", requester);
    let writer =
        Writer { served, subresource: "", options: requester.options, manager: "", now: api.now(), is_patch: false };
    let (namespace, name) = crate::storage::resource::key_of(&old.value);
    // For collections of custom objects, webhooks do not get the names.
    let shown_name = if deletion.is_of_collection && served.kind.is_custom() { "" } else { &name };
    let mut warnings = Vec::new();
    for _ in 0..ATTEMPTS {
        // An object that cannot be converted is not deleted.
        let seen = conversion::to_requested_version(api, served, &old).await?;
        if chain.has_webhooks() && !deletion.is_admitted {
            let request = AdmissionRequest {
                operation: Operation::Delete,
                name: shown_name,
                namespace: &namespace,
                object: None,
                old: Some(&seen),
            };
            let (_, more) = chain.mutate(request).await?;
            // A forbidden deletion is not sent to validating webhooks.
            writer.delete(&old.value, deletion)?;
            warnings = [more, chain.validate(request).await?].concat();
        }
        let decision = writer.delete(&old.value, deletion)?;
        if deletion.is_dry_run {
            return Ok((dry_run_result(served, old.revision, seen, decision), warnings));
        }
        let outcome = match &decision {
            Decision::Remove(value) if rules::is_marked_before_removal(served, value) => {
                let mut marked = value.clone();
                rules::mark(&mut marked, api.now());
                api.commit(served, Some(&old), Decision::Store(marked)).and_then(|stored| {
                    old = stored.unwrap_or_else(|| Arc::clone(&old));
                    api.commit(served, Some(&old), Decision::Remove((*old.value).clone()))
                })
            }
            _ => api.commit(served, Some(&old), decision),
        };
        match outcome {
            Ok(Some(stored)) => {
                return Ok((Deleted::Terminating(conversion::with_current_metadata(served, &stored, &seen)), warnings));
            }
            Ok(None) => {
                return Ok((Deleted::Removed(conversion::with_current_metadata(served, &old, &seen)), warnings));
            }
            Err(_) => {}
        }
        let key = (namespace.clone(), name.clone());
        old = api
            .read(&served.resource, &key)
            .ok_or_else(|| ApiError::not_found(&served.kind.group, &served.kind.plural, &key.1))?;
    }
    Err(ApiError::conflict(&served.kind.group, &served.kind.plural, &name, "the object has been modified"))
}

/// Returns the result of a dry run.
fn dry_run_result(served: &ServedKind, revision: u64, seen: Arc<Value>, decision: Decision) -> Deleted {
    match decision {
        Decision::Remove(_) => Deleted::Removed(seen),
        Decision::Unchanged => Deleted::Terminating(seen),
        Decision::Store(value) => {
            let stored = Arc::new(Stored { revision, value: Arc::new(value) });
            Deleted::Terminating(conversion::with_current_metadata(served, &stored, &seen))
        }
    }
}

/// Returns the last state of a removed object: with its own revision; pods are marked first.
fn last_state(api: &Api, served: &ServedKind, value: &Value) -> Value {
    let mut value = value.clone();
    value["metadata"]["resourceVersion"] = json!(api.with(|state| state.store.revision()).to_string());
    if rules::is_marked_before_removal(served, &value) {
        rules::mark(&mut value, api.now());
    }
    value
}

fn answers_with_the_object(served: &ServedKind) -> bool {
    const KINDS: &[&str] = &[
        "Pod",
        "Service",
        "ServiceAccount",
        "PersistentVolume",
        "PersistentVolumeClaim",
        "Namespace",
        "ResourceQuota",
        "PodTemplate",
    ];
    let group = served.kind.group.as_str();
    group == "storage.k8s.io" || (group.is_empty() && KINDS.contains(&served.kind.kind.as_str()))
}

/// Answers a request to delete all selected objects, page by page if it has a limit.
pub(crate) async fn delete_all(
    api: &Api,
    served: &Arc<ServedKind>,
    context: &RequestContext,
) -> Result<Reply, ApiError> {
    let (deletion, options) = deletion_options::read(served, context)?;
    let deletion = Deletion { is_of_collection: true, ..deletion };
    let requester = Requester { user: &context.user, options: &options, fault: context.fault.as_ref() };
    let selection = match reading::select(api, served, context).await? {
        Ok(selection) => selection,
        Err(expired) => return Ok(expired),
    };
    for (stored, _) in &selection.items {
        match delete_one(api, served, Arc::clone(stored), &deletion, requester).await {
            Err(failure) if failure.code != 404 => return Err(failure),
            _ => {}
        }
    }
    reading::shape(served, context, selection.into_list(served))
}
