//! The match conditions of webhooks, as expressions over the request.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use parking_lot::Mutex;
use serde_json::json;

use super::attributes::Attributes;
use super::authorizer;
use super::review::review;
use super::webhook::Webhook;
use crate::cel::{Environment, Mistake, Object, Program, Type, Value};
use crate::http::api_error::ApiError;

/// Cost limit of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;
/// Cost limit of all conditions of a webhook for one request.
const BUDGET: u64 = 2_500_000;
/// Limit of cached conditions, enough for many webhooks; beyond it, the cache is cleared.
const MAX_COMPILED: usize = 512;

type Compiled = Result<Arc<Program>, Mistake>;

/// Conditions are evaluated for each request, so they are compiled once.
static COMPILED: LazyLock<Mutex<HashMap<String, Compiled>>> = LazyLock::new(Mutex::default);

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(|| {
    Environment::new([
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("namespaceObject", Type::Dyn),
        ("request", request_type()),
        ("authorizer", Type::Library("kubernetes.authorization.Authorizer")),
        ("authorizer.requestResource", Type::Library("kubernetes.authorization.ResourceCheck")),
    ])
});

/// Tells whether all conditions are true. If one is false, the webhook is not called, even if others fail.
///
/// # Errors
///
/// 403 for a condition that cannot be evaluated, unless failures are ignored: then the webhook is not called.
pub fn hold(webhook: &Webhook, attributes: &Attributes<'_>) -> Result<bool, ApiError> {
    let Some(conditions) = webhook.declared["matchConditions"].as_array().filter(|conditions| !conditions.is_empty())
    else {
        return Ok(true);
    };
    let variables = variables(webhook, attributes);
    let (mut problem, mut budget) = (None, BUDGET);
    for condition in conditions {
        let expression = condition["expression"].as_str().unwrap_or_default();
        match evaluate(expression, &variables, &mut budget) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(text) => problem = problem.or(Some(text)),
        }
    }
    match problem {
        None => Ok(true),
        Some(_) if webhook.ignores_failures => Ok(false),
        Some(text) => Err(forbidden(attributes, &text)),
    }
}

/// Compiles a condition.
///
/// # Errors
/// The error of the expression.
pub(crate) fn compile(expression: &str) -> Compiled {
    let mut compiled = COMPILED.lock();
    if let Some(known) = compiled.get(expression) {
        return known.clone();
    }
    let found = compile_anew(expression);
    if compiled.len() >= MAX_COMPILED {
        compiled.clear();
    }
    compiled.insert(expression.to_owned(), found.clone());
    found
}

fn compile_anew(expression: &str) -> Compiled {
    let program = ENVIRONMENT.compile(expression, &()).map_err(|mistake| mistake.after("compilation failed: "))?;
    match program.result() {
        Type::Bool => Ok(Arc::new(program)),
        other => Err(Mistake::Wrong(format!("must evaluate to bool but got {other}"))),
    }
}

fn evaluate(expression: &str, variables: &[(&'static str, Value)], budget: &mut u64) -> Result<bool, String> {
    let program = compile(expression.trim()).map_err(|mistake| mistake.to_string())?;
    let (outcome, cost) = program.evaluate(variables, CALL_LIMIT);
    let Some(left) = budget.checked_sub(cost) else {
        return Err(
            "validation failed due to running out of cost budget, no further validation rules will be run".to_owned()
        );
    };
    *budget = left;
    match outcome {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(_) => Err(format!("expression '{expression}' resulted in error: no such overload")),
        Err(error) => Err(format!("expression '{expression}' resulted in error: {error}")),
    }
}

fn variables(webhook: &Webhook, attributes: &Attributes<'_>) -> Vec<(&'static str, Value)> {
    let mut request = review(webhook, attributes, "")["request"].take();
    let (object, old) = (request["object"].take(), request["oldObject"].take());
    let (authorizer, own) = authorizer::variables(attributes);
    vec![
        ("object", Value::of_json(&object)),
        ("oldObject", Value::of_json(&old)),
        // Webhooks do not get the namespace; only its labels decide whether they are called.
        ("namespaceObject", Value::Null),
        ("request", Value::of_json(&request)),
        ("authorizer", authorizer),
        ("authorizer.requestResource", own),
    ]
}

/// Returns the type of an admission request.
fn request_type() -> Type {
    let text = |names: &[&'static str]| names.iter().map(|name| (*name, Type::String)).collect::<Vec<_>>();
    let kind = object("GroupVersionKind", text(&["group", "version", "kind"]));
    let resource = object("GroupVersionResource", text(&["group", "version", "resource"]));
    let mut user = text(&["username", "uid"]);
    user.push(("groups", Type::list(Type::String)));
    user.push(("extra", Type::map(Type::String, Type::list(Type::String))));
    let mut fields = text(&["subResource", "requestSubResource", "name", "namespace", "operation"]);
    fields.extend([
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("userInfo", object("UserInfo", user)),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ]);
    object("AdmissionRequest", fields)
}

fn object(name: &str, fields: Vec<(&'static str, Type)>) -> Type {
    let fields = fields.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    Type::Object(Arc::new(Object { name: format!("kubernetes.{name}"), fields }))
}

fn forbidden(attributes: &Attributes<'_>, text: &str) -> ApiError {
    let kind = attributes.kind;
    let mut failure = ApiError::not_found(&kind.group, &kind.plural, attributes.name);
    let resource = if kind.group.is_empty() { kind.plural.clone() } else { format!("{}.{}", kind.plural, kind.group) };
    failure.code = 403;
    failure.reason = "Forbidden".into();
    failure.message = format!("{resource} {} is forbidden: {text}", json!(attributes.name));
    failure
}
