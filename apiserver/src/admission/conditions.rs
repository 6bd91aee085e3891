//! The conditions of webhooks, as expressions over the request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::{Context, Program};
use serde_json::{Value, json};

use super::review::review;
use super::webhook::Webhook;
use super::{Attributes, authorizer};
use crate::failure::Failure;

/// Tells whether all conditions hold. One that is false is enough not to call the webhook, whatever becomes of the others.
///
/// # Errors
///
/// 403 for a condition that cannot be evaluated, unless failures are ignored: then the webhook is not called.
pub fn hold(webhook: &Webhook, attributes: &Attributes<'_>) -> Result<bool, Failure> {
    let Some(conditions) = webhook.declared["matchConditions"].as_array().filter(|conditions| !conditions.is_empty()) else {
        return Ok(true);
    };
    let mut request = review(webhook, attributes, "")["request"].take();
    let variables = [("object", request["object"].take()), ("oldObject", request["oldObject"].take()), ("request", request)];
    let mut context = Context::default();
    for (name, value) in &variables {
        context.add_variable_from_value(*name, expression_value(value));
    }
    authorizer::add_to(&mut context, attributes);
    let mut problem = None;
    for condition in conditions {
        let expression = condition["expression"].as_str().unwrap_or_default();
        match evaluate(expression, &context) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(text) => problem = problem.or(Some(format!("expression '{expression}' resulted in error: {text}"))),
        }
    }
    match problem {
        None => Ok(true),
        Some(_) if webhook.ignores_failures => Ok(false),
        Some(text) => Err(forbidden(attributes, &text)),
    }
}

/// Tells whether an expression has the form of one.
///
/// # Errors
/// What is wrong with it.
pub fn check(expression: &str) -> Result<(), String> {
    match catch_unwind(|| Program::compile(expression).map(drop).map_err(|error| error.to_string())) {
        Ok(compiled) => compiled,
        Err(_) => Err("it cannot be compiled".to_owned()),
    }
}

fn evaluate(expression: &str, context: &Context<'_, '_>) -> Result<bool, String> {
    // The interpreter is young: its panics are its errors.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let program = Program::compile(expression).map_err(|error| error.to_string())?;
        program.execute(context).map_err(|error| error.to_string())
    }));
    match outcome {
        Ok(Ok(cel::Value::Bool(holds))) => Ok(holds),
        Ok(Ok(_)) => Err("it is neither true nor false".to_owned()),
        Ok(Err(text)) => Err(text),
        Err(_) => Err("it cannot be evaluated".to_owned()),
    }
}

/// Whole numbers are integers to expressions, whatever their sign.
fn expression_value(value: &Value) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(is) => cel::Value::Bool(*is),
        Value::Number(number) => number.as_i64().map_or_else(|| cel::Value::Float(number.as_f64().unwrap_or_default()), cel::Value::Int),
        Value::String(text) => cel::Value::String(Arc::new(text.clone())),
        Value::Array(list) => cel::Value::List(Arc::new(list.iter().map(expression_value).collect())),
        Value::Object(members) => {
            let map: std::collections::HashMap<String, cel::Value> =
                members.iter().map(|(key, value)| (key.clone(), expression_value(value))).collect();
            map.into()
        }
    }
}

fn forbidden(attributes: &Attributes<'_>, text: &str) -> Failure {
    let kind = attributes.kind;
    let mut failure = Failure::not_found(&kind.group, &kind.plural, attributes.name);
    let resource = if kind.group.is_empty() { kind.plural.clone() } else { format!("{}.{}", kind.plural, kind.group) };
    failure.code = 403;
    failure.reason = "Forbidden".into();
    failure.message = format!("{resource} {} is forbidden: {text}", json!(attributes.name));
    failure
}
