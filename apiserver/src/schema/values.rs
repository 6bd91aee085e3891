//! Checks values against a schema, with the server's reasons and fields.

use serde_json::{Map, Value, json};

use super::formats;
use super::node::{Limits, Node, Type};
use super::structure::walk;
use crate::http::api_error::FieldError;
use crate::kinds::kind::Scale;
use crate::schema::field_error::{self, FieldPath};

/// Checks a value and its descendants. Unchanged values are skipped.
pub(super) fn check(
    node: &Node,
    new: &Value,
    old: Option<&Value>,
    field_path: &FieldPath<'_>,
    causes: &mut Vec<FieldError>,
) {
    if old == Some(new) {
        return;
    }
    check_type(node, new, field_path, causes);
    if new.is_null() {
        check_options(&node.limits, new, field_path, causes);
        return;
    }
    check_branches(&node.limits, new, old, field_path, causes);
    match new {
        Value::String(text) => check_text(&node.limits, text, field_path, causes),
        Value::Number(number) => check_number(node, number.as_f64().unwrap_or_default(), new, field_path, causes),
        Value::Array(items) => check_count(items.len(), "items", &node.limits, new, field_path, causes),
        _ => {}
    }
    check_options(&node.limits, new, field_path, causes);
    if let Value::Object(members) = new {
        check_count(members.len(), "properties", &node.limits, new, field_path, causes);
        check_members(node, members, new, old, field_path, causes);
    } else {
        walk(node, new, old, field_path, &mut |node, new, old, field_path| check(node, new, old, field_path, causes));
    }
}

/// Checks the types of the numbers of the `scale` subresource.
pub(super) fn check_scale(scale: &Scale, object: &Value, causes: &mut Vec<FieldError>) {
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let mut value = Some(object);
        for name in path.split('.').filter(|name| !name.is_empty()) {
            value = match value {
                Some(Value::Object(members)) => members.get(name),
                Some(Value::Null) | None => None,
                Some(other) => {
                    causes.push(field_error::invalid(
                        path,
                        other,
                        "is not an object on the way to the number of replicas",
                    ));
                    None
                }
            };
        }
        match value {
            None | Some(Value::Null) => {}
            Some(number) if number.as_i64().is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number)) => {}
            Some(other) => causes.push(field_error::invalid(path, other, "should be a non-negative integer")),
        }
    }
}

fn check_type(node: &Node, value: &Value, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let wanted = match node.kind {
        _ if value.is_null() && node.is_nullable => return,
        _ if node.is_int_or_string => "integer,string",
        Some(kind) => kind.name(),
        None => return,
    };
    let given = type_of(value);
    let fits = match (wanted, given) {
        ("integer,string", "string" | "integer") | ("number", "integer") => true,
        _ => wanted == given,
    };
    if !fits {
        let text = format!("{field_path} in body must be of type {wanted}: \"{given}\"");
        causes.push(field_error::type_invalid(field_path.field(), &json!(given), text));
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check_branches(
    limits: &Limits,
    new: &Value,
    old: Option<&Value>,
    field_path: &FieldPath<'_>,
    causes: &mut Vec<FieldError>,
) {
    let causes_of = |node: &Node| {
        let mut causes = Vec::new();
        check(node, new, old, field_path, &mut causes);
        causes
    };
    let unnamed = |text: String| field_error::invalid("<nil>", &json!(""), text);
    if !limits.any_of.is_empty() {
        let results: Vec<Vec<FieldError>> = limits.any_of.iter().map(causes_of).collect();
        if results.iter().all(|result| !result.is_empty()) {
            causes.push(unnamed(format!("\"{field_path}\" must validate at least one schema (anyOf)")));
            causes.extend(best(&limits.any_of, results, new));
        }
    }
    if !limits.one_of.is_empty() {
        let results: Vec<Vec<FieldError>> = limits.one_of.iter().map(causes_of).collect();
        match results.iter().filter(|result| result.is_empty()).count() {
            0 => {
                causes.push(unnamed(format!(
                    "\"{field_path}\" must validate one and only one schema (oneOf). Found none valid"
                )));
                causes.extend(best(&limits.one_of, results, new));
            }
            1 => {}
            count => {
                let text = format!(
                    "\"{field_path}\" must validate one and only one schema (oneOf). Found {count} valid alternatives"
                );
                causes.push(unnamed(text));
            }
        }
    }
    let failed: Vec<Vec<FieldError>> =
        limits.all_of.iter().map(causes_of).filter(|result| !result.is_empty()).collect();
    if !failed.is_empty() {
        let none = if failed.len() == limits.all_of.len() { ". None validated" } else { "" };
        causes.extend(failed.into_iter().flatten());
        causes.push(unnamed(format!("\"{field_path}\" must validate all the schemas (allOf){none}")));
    }
    if let Some(branch) = &limits.not
        && causes_of(branch).is_empty()
    {
        causes.push(unnamed(format!("\"{field_path}\" must not validate the schema (not)")));
    }
}

/// Returns the errors of the failed branch that checked most of the value; the first one of equals.
fn best(branches: &[Node], results: Vec<Vec<FieldError>>, value: &Value) -> Vec<FieldError> {
    let said: Vec<usize> = branches.iter().map(|branch| checks(branch, value)).collect();
    let most = said.iter().max();
    results.into_iter().zip(&said).find(|(_, said)| Some(*said) == most).map(|(result, _)| result).unwrap_or_default()
}

/// Counts the checks of a value, as the server's validator does: general ones, those of its type, and those of its
/// descendants.
fn checks(node: &Node, value: &Value) -> usize {
    let limits = &node.limits;
    let of_all = |branches: &[Node]| branches.iter().map(|branch| checks(branch, value)).collect::<Vec<usize>>();
    let most = |branches: &[Node]| of_all(branches).into_iter().max().unwrap_or_default();
    let branches = most(&limits.any_of) + most(&limits.one_of) + of_all(&limits.all_of).into_iter().sum::<usize>();
    let typed = if node.kind.is_some() || node.is_int_or_string || limits.format.is_some() { 2 } else { 0 };
    let own = match value {
        Value::Null => return typed / 2,
        Value::Bool(_) => 4,
        Value::Number(_) | Value::Array(_) => 6,
        Value::String(_) if limits.format.is_some() => 6,
        Value::String(_) | Value::Object(_) => 5,
    };
    let below: usize = match value {
        Value::Array(items) => items.iter().filter_map(|item| Some(checks(node.items.as_deref()?, item))).sum(),
        Value::Object(members) => {
            members.iter().filter_map(|(name, member)| Some(checks(node.member(name)?, member))).sum()
        }
        _ => 0,
    };
    own + typed + branches + below
}

fn check_text(limits: &Limits, text: &str, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    let value = json!(text);
    // Only the first error of these three is reported.
    let too_long = limits.length.most.filter(|most| length > *most);
    let too_short = limits.length.least.filter(|least| length < *least);
    let pattern = limits.pattern.as_ref().filter(|pattern| !pattern.is_match(text));
    if let Some(most) = too_long {
        causes.push(field_error::too_long(field_path.field(), most));
    } else if let Some(least) = too_short {
        causes.push(field_error::invalid(
            field_path.field(),
            &value,
            format!("{field_path} in body should be at least {least} chars long"),
        ));
    } else if let Some(pattern) = pattern {
        causes.push(field_error::invalid(
            field_path.field(),
            &value,
            format!("{field_path} in body should match '{pattern}'"),
        ));
    }
    if let Some(format) = &limits.format
        && !formats::fits(format, text)
    {
        causes.push(field_error::type_invalid(
            field_path.field(),
            &value,
            format!("{field_path} in body must be of type {format}: {value}"),
        ));
    }
}

fn check_number(node: &Node, number: f64, value: &Value, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let limits = &node.limits;
    let mut refuse = |text: String| {
        causes.push(field_error::invalid(field_path.field(), value, format!("{field_path} in body {text}")));
    };
    if let Some(divisor) = limits.multiple_of.filter(|divisor| *divisor != 0.0)
        && !is_multiple(value, number, divisor)
    {
        refuse(format!("should be a multiple of {divisor}"));
    }
    if let Some(most) = limits.number.most {
        if limits.excludes_maximum && number >= most {
            refuse(format!("should be less than {most}"));
        } else if number > most {
            refuse(format!("should be less than or equal to {most}"));
        }
    }
    if let Some(least) = limits.number.least {
        if limits.excludes_minimum && number <= least {
            refuse(format!("should be greater than {least}"));
        } else if number < least {
            refuse(format!("should be greater than or equal to {least}"));
        }
    }
    if let Some(kind @ (Type::Integer | Type::Number)) = node.kind
        && !formats::holds(kind, limits.format.as_deref(), value)
    {
        let format =
            limits.format.as_deref().map_or_else(|| "default format".to_owned(), |format| format!("format {format}"));
        let text = format!("Checked value must be of type {} with {format} in {field_path}", kind.name());
        causes.push(field_error::invalid("<nil>", &json!(""), text));
    }
}

fn is_multiple(value: &Value, number: f64, divisor: f64) -> bool {
    match value.as_i64() {
        Some(whole) if divisor.fract() == 0.0 => whole.checked_rem(divisor as i64).is_none_or(|rest| rest == 0),
        _ => (number / divisor).fract() == 0.0,
    }
}

fn check_count(
    count: usize,
    what: &str,
    limits: &Limits,
    value: &Value,
    field_path: &FieldPath<'_>,
    causes: &mut Vec<FieldError>,
) {
    let range = if what == "items" { limits.items } else { limits.properties };
    if let Some(least) = range.least
        && (count as u64) < least
    {
        causes.push(field_error::invalid(
            field_path.field(),
            value,
            format!("{field_path} in body should have at least {least} {what}"),
        ));
    }
    if let Some(most) = range.most
        && count as u64 > most
    {
        causes.push(field_error::too_many(field_path.field(), count, most));
    }
}

fn check_options(limits: &Limits, value: &Value, field_path: &FieldPath<'_>, causes: &mut Vec<FieldError>) {
    let Some(options) = &limits.options else { return };
    let is_same = |option: &Value| option == value || (option.is_number() && option.as_f64() == value.as_f64());
    if !options.iter().any(is_same) {
        let words = options.iter().map(|option| option.as_str().map_or_else(|| option.to_string(), str::to_owned));
        causes.push(field_error::not_supported(field_path.field(), value, words));
    }
}

fn check_members(
    node: &Node,
    members: &Map<String, Value>,
    new: &Value,
    old: Option<&Value>,
    field_path: &FieldPath<'_>,
    causes: &mut Vec<FieldError>,
) {
    walk(node, new, old, field_path, &mut |node, new, old, field_path| check(node, new, old, field_path, causes));
    for name in &node.limits.required {
        if !members.contains_key(name) {
            causes.push(field_error::required(field_path.member(name).field(), ""));
        }
    }
}
