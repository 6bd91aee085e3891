//! Chooses the verb of a request for objects.

use std::sync::Arc;

use http::Method;

use crate::api::Api;
use crate::api::durability::noting_writes;
use crate::api::latency::Progress;
use crate::http::api_error::ApiError;
use crate::http::reply::Reply;
use crate::http::request;
use crate::kinds::registry::{Registry, ServedKind};
use crate::verbs::request_context::RequestContext;
use crate::verbs::scale::scale_of;
use crate::verbs::target::{existing, not_served_here};
use crate::verbs::{conversion, deleting, patching, reading, reviews, watch, writing};

/// Answers a request for objects.
pub(crate) async fn answer(api: &Api, context: RequestContext) -> Result<Reply, ApiError> {
    let resource_path = &context.resource_path;
    let registry = api.registry();
    let Some(served) = registry.find(&resource_path.group, &resource_path.version, &resource_path.plural).cloned()
    else {
        return not_served(&registry, &context);
    };
    match api.latency().progress(served.created_at, context.now) {
        Progress::Ready => {}
        Progress::Unserved => return not_served(&registry, &context),
        Progress::Unready => return Err(ApiError::storage_not_ready()),
    }
    let (answer, written) = noting_writes(Box::pin(dispatch(api, &served, &context))).await;
    let mut answer = match (answer, &served.deprecation) {
        // Deprecated versions warn even on failure.
        (Err(failure), Some(_)) if failure.details.retry_after.is_none() => Reply::from(failure),
        (answer, _) => answer?,
    };
    answer.warnings.extend(served.deprecation.clone());
    if context.method != Method::GET {
        api.persisted(written).await?;
    }
    Ok(answer)
}

fn not_served(registry: &Registry, context: &RequestContext) -> Result<Reply, ApiError> {
    if registry.is_built_in(&context.resource_path.group, &context.resource_path.version) {
        return Err(ApiError::no_resource());
    }
    Ok(Reply::no_page())
}

async fn dispatch(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<Reply, ApiError> {
    let resource_path = &context.resource_path;
    let is_custom = served.kind.is_custom();
    if served.kind.namespaced != resource_path.namespace.is_some()
        && (resource_path.name.is_some() || !served.kind.namespaced)
    {
        return if is_custom { Ok(Reply::no_page()) } else { not_served_here() };
    }
    if resource_path.name.as_deref().is_some_and(|name| matches!(name, "." | "..") || name.contains(['/', '%'])) {
        return Err(ApiError::bad_request(format!(
            "invalid resource name {:?}",
            resource_path.name.as_deref().unwrap_or_default()
        )));
    }
    if let Some(review) = reviews::answer(api, served, context)? {
        return Ok(review);
    }
    if let Some(subresource) = resource_path.subresource.as_deref() {
        return below(api, served, context, subresource).await;
    }
    match (context.method.as_str(), resource_path.name.is_some()) {
        (method, _) if resource_path.is_watch && method != "GET" => Err(ApiError::no_method()),
        ("GET", _) if is_watch(context) => watch::answer(api, served, context).await,
        ("GET", true) => reading::get(api, served, context).await,
        ("GET", false) => reading::list(api, served, context).await,
        ("POST", false) if served.kind.namespaced && resource_path.namespace.is_none() => {
            if is_custom {
                Ok(Reply::no_page())
            } else {
                Err(ApiError::no_method())
            }
        }
        ("POST", false) => writing::create(api, served, context).await,
        ("POST", true) if is_custom => writing::create(api, served, context).await,
        ("PUT", true) => writing::update(api, served, context, "").await,
        ("PATCH", true) => patching::patch(api, served, context, "").await,
        ("DELETE", true) => deleting::delete(api, served, context).await,
        ("DELETE", false) if served.kind.verbs.iter().any(|verb| verb == "deletecollection") => {
            if served.kind.namespaced && resource_path.namespace.is_none() {
                return if is_custom { Ok(Reply::no_page()) } else { Err(ApiError::no_method()) };
            }
            deleting::delete_all(api, served, context).await
        }
        ("PUT" | "PATCH", false) if is_custom => Err(ApiError::bad_request("name must be provided")),
        _ if is_custom => Err(not_supported(served, context)),
        _ => Err(ApiError::no_method()),
    }
}

/// Returns the failure of a verb that custom objects do not support.
fn not_supported(served: &ServedKind, context: &RequestContext) -> ApiError {
    let verb = request::verb(&context.method, &context.resource_path, &context.query);
    let mut failure = ApiError::new(
        405,
        "MethodNotAllowed",
        format!("{verb} is not supported on resources of kind {:?}", served.full_name()),
    );
    failure.details.group.clone_from(&served.kind.group);
    failure.details.kind.clone_from(&served.kind.plural);
    failure
}

/// A single custom object cannot be watched by its own path.
fn is_watch(context: &RequestContext) -> bool {
    context.resource_path.is_watch || (context.resource_path.name.is_none() && context.query.is_on("watch"))
}

async fn below(
    api: &Api,
    served: &Arc<ServedKind>,
    context: &RequestContext,
    subresource: &str,
) -> Result<Reply, ApiError> {
    let kind = &served.kind;
    let is_core = |plural: &str| kind.group.is_empty() && kind.plural == plural;
    let is_pods = is_core("pods");
    // The rest after a proxy's name is a path behind it.
    let subresource = if is_pods && subresource.starts_with("proxy/") { "proxy" } else { subresource };
    let is_there = match subresource {
        "status" => kind.has_status,
        "scale" => kind.scale.is_some(),
        "finalize" => is_core("namespaces"),
        "log"
        | "eviction"
        | "binding"
        | "ephemeralcontainers"
        | "resize"
        | "exec"
        | "attach"
        | "portforward"
        | "proxy" => is_pods,
        _ => false,
    };
    if !is_there {
        let name = context.resource_path.name.as_deref().unwrap_or_default();
        return if kind.is_custom() {
            Err(ApiError::not_found(&kind.group, &kind.plural, name))
        } else {
            not_served_here()
        };
    }
    match (subresource, context.method.as_str()) {
        ("log", "GET") => {
            let is_placed = existing(api, served, context)?.value["spec"]["nodeName"].is_string();
            Ok(Reply::text(if is_placed { 200 } else { 204 }, ""))
        }
        ("eviction", "POST") => deleting::evict(api, served, context).await.map(|()| Reply::created()),
        ("binding", "POST") => writing::bind(api, served, context).await,
        ("exec" | "attach" | "portforward", "GET" | "POST") | ("proxy", _) => {
            existing(api, served, context)?;
            let name = context.resource_path.name.as_deref().unwrap_or_default();
            Err(ApiError::bad_request(format!(
                "pod {name} does not run on a node: this server has no nodes, so {subresource} is not available"
            )))
        }
        ("log" | "eviction" | "binding" | "exec" | "attach" | "portforward", _) => Err(ApiError::no_method()),
        ("finalize", method) if method != "PUT" => Err(ApiError::no_method()),
        ("scale", "GET") => {
            let stored = existing(api, served, context)?;
            reading::shape_scale(
                context,
                scale_of(served, &*conversion::to_requested_version(api, served, &stored).await?)?,
            )
        }
        (_, "GET") => reading::get(api, served, context).await,
        (_, "PUT") => writing::update(api, served, context, subresource).await,
        (_, "PATCH") => patching::patch(api, served, context, subresource).await,
        _ if kind.is_custom() => Err(not_supported(served, context)),
        _ => Err(ApiError::no_method()),
    }
}
