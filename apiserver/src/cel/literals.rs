//! Checks literals after the type check: durations, moments and patterns are valid, lists and maps have values of one
//! type.

use super::ast::{Call, Element, Entry, Expr, Kind};
use super::error::Error;
use super::functions::{format_mistake, of_name};
use super::types::{Issue, Type};
use super::value::Value;
use crate::go::regex;

/// Returns the errors of the literals in an expression.
pub(super) fn check(expression: &Expr, types: &[Type]) -> Vec<Issue> {
    let mut issues = Vec::new();
    walk(expression, types, false, &mut issues);
    issues
}

fn walk(expression: &Expr, types: &[Type], is_in_format: bool, issues: &mut Vec<Issue>) {
    let mut is_in_format = is_in_format;
    match &expression.kind {
        Kind::Call(call) => {
            issues.extend(argument_mistake(call).or_else(|| format_call_mistake(expression, call, types)));
            is_in_format |= *call.function == *"format";
        }
        Kind::List(elements) if !is_in_format => list_mistake(elements, types, issues),
        Kind::Map(entries) if !is_in_format => map_mistakes(entries, types, issues),
        _ => {}
    }
    for child in expression.children() {
        walk(child, types, is_in_format, issues);
    }
}

/// Returns the error of a literal's conversion, found before the evaluation.
pub(super) fn conversion_error(expression: &Expr) -> Option<Error> {
    const CONVERSIONS: [&str; 6] = ["bool", "bytes", "double", "int", "string", "uint"];
    let mut found = None;
    expression.any(&mut |node| {
        if let Kind::Call(call) = &node.kind
            && let [Expr { kind: Kind::Literal(literal), .. }] = call.arguments.as_slice()
            && CONVERSIONS.contains(&&*call.function)
        {
            found = convert(&call.function, literal).err();
        }
        found.is_some()
    });
    found
}

fn convert(function: &str, literal: &Value) -> Result<Value, Error> {
    of_name(function).map_or_else(|| Ok(literal.clone()), |function| function(std::slice::from_ref(literal)))
}

fn argument_mistake(call: &Call) -> Option<Issue> {
    let argument = call.arguments.first()?;
    let Kind::Literal(literal) = &argument.kind else { return None };
    let is_wrong = match (&*call.function, literal) {
        ("duration" | "timestamp", literal) => convert(&call.function, literal).is_err(),
        ("matches", Value::String(pattern)) => regex(pattern).is_err(),
        _ => false,
    };
    is_wrong.then(|| Issue { offset: argument.offset, text: format!("invalid {} argument", call.function) })
}

/// Checks a literal format together with its arguments.
fn format_call_mistake(expression: &Expr, call: &Call, types: &[Type]) -> Option<Issue> {
    let ("format", Some(target), [Expr { kind: Kind::List(elements), .. }]) =
        (&*call.function, &call.target, call.arguments.as_slice())
    else {
        return None;
    };
    let Kind::Literal(Value::String(format)) = &target.kind else { return None };
    let arguments: Vec<&Type> = elements.iter().map(|element| &types[element.value.id]).collect();
    let (argument, text) = format_mistake(format, &arguments)?;
    let offset = argument.map_or(expression.offset, |argument| elements[argument].value.offset);
    Some(Issue { offset, text })
}

fn list_mistake(elements: &[Element], types: &[Type], issues: &mut Vec<Issue>) {
    let Some((first, others)) = elements.split_first() else { return };
    let first = plain(&types[first.value.id], first.is_optional);
    for element in others {
        let found = plain(&types[element.value.id], element.is_optional);
        if !first.is_equivalent(found) {
            issues.push(mismatch(element.value.offset, first, found));
            return;
        }
    }
}

fn map_mistakes(entries: &[Entry], types: &[Type], issues: &mut Vec<Issue>) {
    let Some((first, others)) = entries.split_first() else { return };
    let (key, value) = (&types[first.key.id], plain(&types[first.value.id], first.is_optional));
    for entry in others {
        let (other_key, other_value) = (&types[entry.key.id], plain(&types[entry.value.id], entry.is_optional));
        if !key.is_equivalent(other_key) {
            issues.push(mismatch(entry.key.offset, key, other_key));
        }
        if !value.is_equivalent(other_value) {
            issues.push(mismatch(entry.value.offset, value, other_value));
        }
    }
}

fn plain(one: &Type, is_optional: bool) -> &Type {
    match one {
        Type::Optional(inner) if is_optional => inner,
        other => other,
    }
}

fn mismatch(offset: usize, expected: &Type, found: &Type) -> Issue {
    Issue { offset, text: format!("expected type '{expected}' but found '{found}'") }
}
