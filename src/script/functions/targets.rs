//! The target of a `k8s::` call: the kind, the namespace, and the name.

use std::fmt;
use std::sync::Arc;

use rhai::EvalAltResult;
use serde_json::Value;

use super::options::Options;
use crate::object::selector::Criterion;
use crate::object::{Resource, Selector};
use crate::script::outside::api::{Api, ApiError};
use crate::script::runtime::context::{Context, wait_in};
use crate::script::values::script_error::Failure;

type Thrown = Box<EvalAltResult>;

/// A kind, and optionally a namespace and a name.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The kind.
    pub resource: Arc<Resource>,
    /// The namespace; `None` for cluster-scoped objects, and for all namespaces.
    pub namespace: Option<String>,
    name: String,
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.resource)?;
        match (&self.namespace, self.name.as_str()) {
            (None, "") => Ok(()),
            (None, name) => write!(formatter, " {name}"),
            (Some(namespace), "") => write!(formatter, " in {namespace}"),
            (Some(namespace), name) => write!(formatter, " {namespace}/{name}"),
        }
    }
}

impl Target {
    fn new(resource: Arc<Resource>) -> Self {
        Self { resource, namespace: None, name: String::new() }
    }

    /// Returns the target with a name, for messages.
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Returns the name; `None` for lists, and for objects whose name the server chooses.
    pub(super) fn name(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| !name.is_empty())
    }

    /// Sets the namespace of an object without one: requests take it from there.
    pub(super) fn place(&self, object: &mut Value) {
        if let Some(namespace) = &self.namespace
            && let Some(object) = object.as_object_mut()
            && let Some(metadata) =
                object.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new())).as_object_mut()
        {
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
        }
    }

    /// Returns the target in a namespace: the given one, else that of the handled object.
    ///
    /// # Errors
    /// If the namespace is missing for a namespaced kind, or given for a cluster-scoped one.
    pub(super) fn within(self, context: &Context, function: &str, given: Option<String>) -> Result<Self, Thrown> {
        let kind = &self.resource.kind;
        match (self.resource.namespaced, given) {
            (false, None) => Ok(self),
            (false, Some(_)) => {
                Err(Failure::argument(format!("`{function}`: objects of the kind {kind} have no namespace")).into())
            }
            (true, given) => {
                let namespace = given.or_else(|| context.namespace()).filter(|namespace| !namespace.is_empty());
                let missing =
                    || Failure::argument(format!("`{function}`: objects of the kind {kind} need a namespace"));
                Ok(Self { namespace: Some(namespace.ok_or_else(missing)?), ..self })
            }
        }
    }
}

/// Returns the target of a kind, without a namespace, in another cluster or in the operator's own one.
///
/// # Errors
/// If the text is not a selector of one kind, or the cluster has no such kind.
pub(super) fn of_kind(
    context: &Context,
    other: Option<Arc<dyn Api>>,
    function: &str,
    kind: &str,
) -> Result<Target, Thrown> {
    let selector = Selector::parse(kind)
        .map_err(|error| Failure::argument(format!("`{function}`: {kind:?} is no kind: {error}")))?;
    if !selector.is_specific() {
        return Err(Failure::argument(format!("`{function}`: {kind:?} means more than one kind")).into());
    }
    resolve(context, other, function, selector, kind)
}

/// Returns the target of an object: its own kind, and its own namespace or that of the handled object. The cluster may
/// be another one.
///
/// # Errors
/// If the object has no kind, or the cluster has no such kind.
pub(super) fn of_object(
    context: &Context,
    other: Option<Arc<dyn Api>>,
    function: &str,
    object: &Value,
) -> Result<Target, Thrown> {
    let field = |key: &str| {
        let missing = || Failure::argument(format!("`{function}`: the object has no {key}"));
        object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).ok_or_else(missing)
    };
    let (api_version, kind) = (field("apiVersion")?, field("kind")?);
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let name = Criterion::Kind(kind.to_owned());
    let selector = Selector { group: Some(group.to_owned()), version: Some(version.to_owned()), name };
    let target = resolve(context, other, function, selector, &format!("{api_version}/{kind}"))?;
    if !target.resource.namespaced {
        // A wrong namespace, as a forced adoption may set it, is left for the server to refuse.
        return Ok(target);
    }
    let own = object["metadata"]["namespace"].as_str().filter(|namespace| !namespace.is_empty());
    target.within(context, function, own.map(str::to_owned))
}

fn resolve(
    context: &Context,
    other: Option<Arc<dyn Api>>,
    function: &str,
    selector: Selector,
    shown: &str,
) -> Result<Target, Thrown> {
    let api = other.map_or_else(|| context.cluster(function), Ok)?;
    let resolved = wait_in(context, async move { api.resolve(selector).await })?;
    let failed = |error: ApiError| {
        Failure::from(ApiError { message: format!("{function} {shown}: {}", error.message), ..error })
    };
    Ok(Target::new(resolved.map_err(failed)?))
}

/// Returns a selector of labels or fields: a text, or a map of required values.
///
/// # Errors
/// If it is neither.
pub(super) fn selector(options: &Options, key: &str) -> Result<Option<String>, Thrown> {
    match options.value(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Object(pairs)) => {
            let pairs = pairs.iter().map(|(name, value)| match value {
                Value::String(text) => Ok(format!("{name}={text}")),
                Value::Bool(_) | Value::Number(_) => Ok(format!("{name}={value}")),
                _ => Err(options.wrong(key, "a text, or a map of texts")),
            });
            Ok(Some(pairs.collect::<Result<Vec<_>, _>>()?.join(",")))
        }
        Some(_) => Err(options.wrong(key, "a text, or a map of texts")),
    }
}

/// Returns the error for an answer that the API never gives.
pub(super) fn unexpected(message: &str) -> ApiError {
    ApiError { message: message.to_owned(), status: None, reason: None, details: None }
}
