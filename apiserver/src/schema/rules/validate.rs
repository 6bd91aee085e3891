//! Evaluates the rules of a schema for an object, within the budget of a request.

use serde_json::Value as Json;

use super::compiled::Compiled;
use super::values::convert;
use crate::cel::{Error, Value};
use crate::http::api_error::FieldError;
use crate::schema::field_error::FieldPath;
use crate::schema::node::{Node, Rule, Type};

/// Cost limit of one evaluation.
const CALL_LIMIT: u64 = 1_000_000;
/// Cost limit of all evaluations for one object.
const BUDGET: u64 = 10_000_000;
/// Limit of a computed message in bytes.
const MAX_MESSAGE: usize = 5 * 1024;

/// The result of the rules for an object.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// The errors.
    pub(crate) causes: Vec<FieldError>,
    /// Errors in unchanged values.
    pub(crate) forgiven: Vec<FieldError>,
}

/// Evaluates the rules of a schema.
pub(crate) fn validate(root: &Node, new: &Json, old: Option<&Json>) -> Verdict {
    let mut validation = Validation { budget: BUDGET, is_over: false, verdict: Verdict::default() };
    let before = Before { old, is_unchanged: old == Some(new) };
    validation.node(root, new, before, &FieldPath::Root, true);
    validation.verdict
}

/// The old value of a node.
#[derive(Clone, Copy)]
struct Before<'a> {
    old: Option<&'a Json>,
    /// Whether the value is unchanged; if it has no old value, whether its nearest ancestor with one is.
    is_unchanged: bool,
}

struct Validation {
    budget: u64,
    is_over: bool,
    verdict: Verdict,
}

impl Validation {
    fn node(&mut self, node: &Node, new: &Json, before: Before<'_>, field_path: &FieldPath<'_>, is_resource: bool) {
        if self.is_over || new.is_null() {
            return;
        }
        if !node.rules.is_empty() {
            self.rules(node, new, before, field_path, is_resource || node.is_embedded);
        }
        match new {
            Json::Object(members) => {
                for (name, member) in members {
                    let Some(schema) = node.member(name) else { continue };
                    let old = before.old.and_then(|old| old.get(name));
                    self.node(schema, member, before.below(member, old), &field_path.member(name), false);
                }
            }
            Json::Array(items) => {
                let Some(schema) = &node.items else { return };
                for (index, item) in items.iter().enumerate() {
                    let old = node.old_item(before.old, item);
                    self.node(schema, item, before.below(item, old), &field_path.item(index), false);
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, node: &Node, new: &Json, before: Before<'_>, field_path: &FieldPath<'_>, is_resource: bool) {
        let own = convert(node, new, is_resource);
        let old = before.old.filter(|old| !old.is_null()).map(|old| convert(node, old, is_resource));
        for rule in &node.rules {
            let Some(compiled) = &rule.compiled else { continue };
            if self.is_over {
                return;
            }
            let is_optional = rule.is_old_self_optional == Some(true);
            if compiled.uses_old && old.is_none() && !is_optional {
                continue;
            }
            let mut variables = vec![("self", own.clone())];
            match &old {
                old if is_optional => variables.push(("oldSelf", Value::optional(old.clone()))),
                Some(old) => variables.push(("oldSelf", old.clone())),
                None => {}
            }
            self.rule(&Ruled { node, rule, compiled, new, field_path }, &variables, before.is_unchanged);
        }
    }

    fn rule(&mut self, ruled: &Ruled<'_>, variables: &[(&'static str, Value)], is_unchanged: bool) {
        let (outcome, cost) = ruled.compiled.rule.evaluate(variables, CALL_LIMIT);
        if !self.pay(cost) {
            let text = "validation failed due to running out of cost budget, no further validation rules will be run";
            self.verdict.causes.push(ruled.failure(text));
            return;
        }
        match outcome {
            Ok(Value::Bool(true)) => {}
            Ok(_) => {
                let text = match self.message(ruled, variables) {
                    Ok(text) => text,
                    Err(cause) => {
                        self.is_over = true;
                        self.verdict.causes.push(cause);
                        return;
                    }
                };
                let cause = ruled.refusal(&text);
                // Values that violate a stricter schema may stay as long as they are unchanged.
                let forgives = is_unchanged && !ruled.compiled.uses_old;
                if forgives { self.verdict.forgiven.push(cause) } else { self.verdict.causes.push(cause) }
            }
            Err(error) => {
                self.is_over = error == Error::TooExpensive;
                self.verdict.causes.push(ruled.failure(&ruled.error_text(&error)));
            }
        }
    }

    /// Subtracts the cost of an evaluation from the budget, if possible.
    fn pay(&mut self, cost: u64) -> bool {
        match self.budget.checked_sub(cost) {
            Some(left) => self.budget = left,
            None => self.is_over = true,
        }
        !self.is_over
    }

    /// Returns the message of a violated rule.
    ///
    /// # Errors
    /// If computing it is too expensive.
    fn message(&mut self, ruled: &Ruled<'_>, variables: &[(&'static str, Value)]) -> Result<String, FieldError> {
        let written =
            || ruled.rule.message.clone().unwrap_or_else(|| format!("failed rule: {}", ruled.rule.expression));
        let Some(program) = &ruled.compiled.message else { return Ok(written()) };
        let (outcome, cost) = program.evaluate(variables, CALL_LIMIT);
        if !self.pay(cost) {
            let text = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(ruled.failure(text));
        }
        match outcome {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let is_fit = !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE;
                Ok(if is_fit { text.to_owned() } else { written() })
            }
            Err(Error::TooExpensive) => {
                let expression = ruled.rule.message_expression.as_deref().unwrap_or_default();
                let text = format!(
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression: {expression:?}"
                );
                Err(ruled.failure(&text))
            }
            _ => Ok(written()),
        }
    }
}

impl<'a> Before<'a> {
    /// Returns the old value of a part. A part without an old value counts as unchanged if its parent does.
    fn below(self, new: &Json, old: Option<&'a Json>) -> Self {
        Self { old, is_unchanged: old.map_or(self.is_unchanged, |old| old == new) }
    }
}

/// A rule for a value of an object.
struct Ruled<'a> {
    node: &'a Node,
    rule: &'a Rule,
    compiled: &'a Compiled,
    new: &'a Json,
    field_path: &'a FieldPath<'a>,
}

impl Ruled<'_> {
    /// Returns the error of a rule that could not be evaluated.
    fn failure(&self, text: &str) -> FieldError {
        let kind = self.node.kind.map_or("", Type::name);
        FieldError::new("FieldValueInvalid", self.field_path.field(), format!("Invalid value: {kind:?}: {text}"))
    }

    /// Returns the error of a violated rule.
    fn refusal(&self, text: &str) -> FieldError {
        let field = match (self.field_path, &*self.rule.field_path) {
            (field_path, "") => field_path.field(),
            (FieldPath::Root, path) => path.to_owned(),
            (field_path, path) => format!("{field_path}.{path}"),
        };
        let value = match self.node.kind {
            Some(Type::Object | Type::Array) => String::new(),
            _ => format!(": {}", self.new),
        };
        let message = match &*self.rule.reason {
            "FieldValueRequired" => format!("Required value: {text}"),
            "FieldValueForbidden" => format!("Forbidden: {text}"),
            "FieldValueDuplicate" => format!("Duplicate value{value}"),
            _ => format!("Invalid value{value}: {text}"),
        };
        FieldError::new(&self.rule.reason, field, message)
    }

    fn error_text(&self, error: &Error) -> String {
        let subject = self.rule.message.as_deref().unwrap_or(&self.rule.expression);
        match error {
            Error::TooExpensive => {
                format!(
                    "'{error}': no further validation rules will be run due to call cost exceeds limit for rule: {subject}"
                )
            }
            Error::Failed(text) if text.starts_with("no such overload") => {
                format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for rule: {subject}"
                )
            }
            Error::Failed(_) => format!("{error} evaluating rule: {subject}"),
        }
    }
}
