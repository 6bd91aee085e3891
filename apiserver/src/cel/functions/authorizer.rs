//! Questions about who may do what, put together step by step.

use std::fmt;
use std::sync::Arc;

use super::{Function, Outcome, no_such_overload};
use crate::cel::value::Value;

/// Answers whether a check passes for a verb.
pub(crate) type Decide = Arc<dyn Fn(&Check, &str) -> bool + Send + Sync>;

/// The variable `authorizer`, for the user of the request or for a service account.
#[derive(Clone)]
pub(crate) struct Authorizer {
    /// Who decides.
    pub(crate) decide: Decide,
    /// The namespace and name of the service account that is asked about instead of the user.
    pub(crate) account: Option<(Arc<str>, Arc<str>)>,
}

/// What is asked for.
#[derive(Clone)]
pub(crate) struct Check {
    /// For whom.
    pub(crate) authorizer: Authorizer,
    /// A path that is no resource's.
    pub(crate) path: Option<Arc<str>>,
    /// The API group.
    pub(crate) group: Arc<str>,
    /// The resource; none where only the group is known.
    pub(crate) resource: Option<Arc<str>>,
    /// The subresource.
    pub(crate) subresource: Arc<str>,
    /// The namespace.
    pub(crate) namespace: Arc<str>,
    /// The name.
    pub(crate) name: Arc<str>,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decision {
    is_allowed: bool,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authorizer").field("account", &self.account).finish_non_exhaustive()
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Check").field("group", &self.group).field("resource", &self.resource).finish_non_exhaustive()
    }
}

impl Check {
    /// Returns a check of nothing in particular.
    pub(crate) fn new(authorizer: Authorizer) -> Self {
        let nothing: Arc<str> = "".into();
        Self {
            authorizer,
            path: None,
            group: Arc::clone(&nothing),
            resource: None,
            subresource: Arc::clone(&nothing),
            namespace: Arc::clone(&nothing),
            name: nothing,
        }
    }
}

pub(super) fn of_name(name: &str) -> Option<Function> {
    Some(match name {
        "path" => |arguments| begin(arguments, |check, text| check.path = Some(text)),
        "group" => |arguments| begin(arguments, |check, text| check.group = text),
        "resource" => |arguments| narrow(arguments, |check, text| check.resource = Some(text)),
        "subresource" => |arguments| narrow(arguments, |check, text| check.subresource = text),
        "namespace" => |arguments| narrow(arguments, |check, text| check.namespace = text),
        "name" => |arguments| narrow(arguments, |check, text| check.name = text),
        // Selectors narrow a check down; the rules of the server do not tell them apart.
        "fieldSelector" | "labelSelector" => |arguments| narrow(arguments, |_, _| {}),
        "serviceAccount" => |arguments| match arguments {
            [Value::Authorizer(authorizer), Value::String(namespace), Value::String(name)] => {
                let account = Some((Arc::clone(namespace), Arc::clone(name)));
                Ok(Value::Authorizer(Arc::new(Authorizer { account, ..(**authorizer).clone() })))
            }
            _ => Err(no_such_overload()),
        },
        "check" => |arguments| match arguments {
            [Value::Check(check), Value::String(verb)] => {
                Ok(Value::Decision(Decision { is_allowed: (check.authorizer.decide)(check, verb) }))
            }
            _ => Err(no_such_overload()),
        },
        "allowed" => |arguments| decision(arguments, |decision| Value::Bool(decision.is_allowed)),
        "errored" => |arguments| decision(arguments, |_| Value::Bool(false)),
        "error" | "reason" => |arguments| decision(arguments, |_| Value::text("")),
        _ => return None,
    })
}

fn begin(arguments: &[Value], set: fn(&mut Check, Arc<str>)) -> Outcome {
    let [Value::Authorizer(authorizer), Value::String(text)] = arguments else { return Err(no_such_overload()) };
    let mut check = Check::new((**authorizer).clone());
    set(&mut check, Arc::clone(text));
    Ok(Value::Check(Arc::new(check)))
}

fn narrow(arguments: &[Value], set: fn(&mut Check, Arc<str>)) -> Outcome {
    let [Value::Check(check), Value::String(text)] = arguments else { return Err(no_such_overload()) };
    let mut check = (**check).clone();
    set(&mut check, Arc::clone(text));
    Ok(Value::Check(Arc::new(check)))
}

fn decision(arguments: &[Value], part: fn(Decision) -> Value) -> Outcome {
    match arguments {
        [Value::Decision(decision)] => Ok(part(*decision)),
        _ => Err(no_such_overload()),
    }
}
