//! The variable `authorizer` of match conditions, by the stored roles and bindings.

use std::sync::Arc;

use super::attributes::Attributes;
use crate::auth::access::{self, User};
use crate::cel::{Authorizer, Check, Decide, Value};

/// Returns the authorizer for the user of a request, and the check for its resource.
pub(super) fn variables(attributes: &Attributes<'_>) -> (Value, Value) {
    let authorizer = Authorizer { decide: decide(attributes), account: None };
    let kind = attributes.kind;
    let own = Check {
        group: kind.group.as_str().into(),
        resource: Some(kind.plural.as_str().into()),
        subresource: attributes.subresource.into(),
        namespace: attributes.namespace.into(),
        name: attributes.name.into(),
        ..Check::new(authorizer.clone())
    };
    (Value::Authorizer(Arc::new(authorizer)), Value::Check(Arc::new(own)))
}

fn decide(attributes: &Attributes<'_>) -> Decide {
    let groups = attributes.user["groups"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|group| group.as_str().map(str::to_owned))
        .collect();
    let name = attributes.user["username"].as_str().unwrap_or_default().to_owned();
    let user = User { name, groups, ..User::default() };
    let authorizer = attributes.authorizer.clone();
    Arc::new(move |check, verb| match &check.authorizer.account {
        Some((namespace, name)) => authorizer.0(&User::service_account(namespace, name), &wanted(check, verb)),
        None => authorizer.0(&user, &wanted(check, verb)),
    })
}

fn wanted(check: &Check, verb: &str) -> access::Attributes {
    let resource = check.resource.as_deref().unwrap_or_default();
    access::Attributes {
        verb: verb.to_owned(),
        group: check.group.to_string(),
        resource: if check.subresource.is_empty() {
            resource.to_owned()
        } else {
            format!("{resource}/{}", check.subresource)
        },
        namespace: check.namespace.to_string(),
        name: check.name.to_string(),
        path: check.path.as_deref().map(str::to_owned),
    }
}
