//! `k8s::can`: whether the operator may send a request, as the API server sees it.

use std::sync::Arc;

use rhai::Dynamic;
use serde_json::{Value, json};

use super::caller::{Caller, Registry, Thrown};
use crate::object::Resource;
use crate::script::functions::options::{Options, text};
use crate::script::functions::targets;
use crate::script::outside::api::{ApiRequest, Operation};
use crate::script::runtime::context::wait_in;

/// Registers the functions.
pub(super) fn register(to: &mut impl Registry) {
    to.two("can", |call, given| can(call, &given[..]));
    to.three("can", |call, given| can(call, &given[..]));
}

/// `k8s::can(verb, kind, [#{name, namespace, subresource}])`: whether the account of the operator may do it. The
/// namespace is that of the handled object; `namespace: ""` asks about all.
fn can(call: &Caller<'_>, given: &[Dynamic]) -> Result<Dynamic, Thrown> {
    let [verb, kind, rest @ ..] = given else { return Err(call.wrong("it takes a verb and a kind")) };
    let (verb, kind) = (text(&call.name, "the verb", verb)?, text(&call.name, "the kind", kind)?);
    let options = Options::read("k8s::can", &["name", "namespace", "subresource"], rest.first())?;
    let target = call.of_kind(&kind)?;
    let namespace = match options.text("namespace")? {
        Some(namespace) => namespace.to_owned(),
        None if target.resource.namespaced => call.context.namespace().unwrap_or_default(),
        None => String::new(),
    };
    let asked = json!({
        "verb": verb,
        "group": target.resource.group,
        "version": target.resource.version,
        "resource": target.resource.plural,
        "namespace": namespace,
        "name": options.text("name")?.unwrap_or_default(),
        "subresource": options.text("subresource")?.unwrap_or_default(),
    });
    // Every account may ask about itself, so that nothing needs to be seen or declared.
    let object = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked},
    });
    let request =
        ApiRequest { resource: Arc::new(reviews()), namespace: None, operation: Operation::Create { object } };
    let api = call.api()?;
    let answer =
        wait_in(&call.context, async move { api.send(request).await })?.map_err(|error| call.failed(&target, error))?;
    match answer.pointer("/status/allowed").and_then(Value::as_bool) {
        Some(is_allowed) => Ok(is_allowed.into()),
        None => Err(call.failed(&target, targets::unexpected("the answer does not say whether it is allowed"))),
    }
}

fn reviews() -> Resource {
    Resource {
        group: "authorization.k8s.io".to_owned(),
        version: "v1".to_owned(),
        kind: "SelfSubjectAccessReview".to_owned(),
        plural: "selfsubjectaccessreviews".to_owned(),
        ..Resource::default()
    }
}
