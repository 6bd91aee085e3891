//! Reads validation rules, and checks all their fields except the expressions.

use serde_json::{Map, Value, json};

use super::node::{Additional, Node, Rule};
use crate::http::api_error::FieldError;
use crate::schema::field_error;

/// The allowed reasons of rules.
const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Reads the rules of a node, whose members are read already.
pub(super) fn read(schema: &Map<String, Value>, node: &Node, place: &str, causes: &mut Vec<FieldError>) -> Vec<Rule> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    rules
        .enumerate()
        .map(|(index, rule)| read_one(rule, node, &format!("{place}.x-kubernetes-validations[{index}]"), causes))
        .collect()
}

fn read_one(written: &Value, node: &Node, place: &str, causes: &mut Vec<FieldError>) -> Rule {
    let text = |name: &str| written.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let at = |name: &str| format!("{place}.{name}");
    let rule = text("rule").map(str::trim).unwrap_or_default();
    let message = text("message").map(str::trim);
    if rule.is_empty() {
        causes.push(field_error::required(at("rule"), "rule is not specified"));
    } else if message == Some("") {
        causes.push(field_error::invalid(at("message"), &written["message"], "must be non-empty if specified"));
    } else if message.is_some_and(has_line_break) {
        causes.push(field_error::invalid(at("message"), &written["message"], "must not contain line breaks"));
    } else if has_line_break(rule) && message.is_none() {
        causes.push(field_error::required(at("message"), "message must be specified if rule contains line breaks"));
    }
    let message_expression = text("messageExpression").map(str::trim);
    if message_expression == Some("") {
        causes.push(field_error::required(at("messageExpression"), "messageExpression must be non-empty if specified"));
    }
    let reason = text("reason").unwrap_or("FieldValueInvalid");
    if !REASONS.contains(&reason) {
        causes.push(field_error::not_supported(at("reason"), &json!(reason), REASONS));
    }
    Rule {
        expression: rule.to_owned(),
        message: message.map(str::to_owned),
        message_expression: message_expression.map(str::to_owned),
        reason: reason.to_owned(),
        field_path: text("fieldPath").map(|path| field_path(path, node, &at("fieldPath"), causes)).unwrap_or_default(),
        is_old_self_optional: written.get("optionalOldSelf").and_then(Value::as_bool),
        #[cfg(feature = "cel")]
        compiled: None,
    }
}

fn field_path(path: &str, node: &Node, field: &str, causes: &mut Vec<FieldError>) -> String {
    if path.trim().is_empty() {
        causes.push(field_error::invalid(field, &json!(path), "must be non-empty if specified"));
    }
    if has_line_break(path) {
        causes.push(field_error::invalid(field, &json!(path), "must not contain line breaks"));
    }
    normalized(node, path).unwrap_or_else(|| {
        causes.push(field_error::invalid(field, &json!(path), "must be a valid path"));
        String::new()
    })
}

fn has_line_break(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Returns a path such as `.spec['a.b'].c` in the form of fields, if the schema declares the member.
fn normalized(node: &Node, path: &str) -> Option<String> {
    let (mut node, mut rest, mut shown) = (node, path, String::new());
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        let is_key = node.properties.is_empty();
        node = match &node.additional {
            Additional::Of(values) if is_key => values,
            _ => node.properties.get(&name)?,
        };
        rest = after;
        match (is_key, shown.is_empty()) {
            (true, _) => shown = format!("{shown}[{name}]"),
            (false, true) => shown = name,
            (false, false) => shown = format!("{shown}.{name}"),
        }
    }
    Some(shown)
}

/// Splits off the first name of a path: `.name` or `['name']`.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(quoted) = path.strip_prefix("['") {
        let end = quoted.char_indices().find(|(at, c)| *c == '\'' && !quoted[..*at].ends_with('\\'))?.0;
        return Some((quoted[..end].replace("\\'", "'").replace("\\\\", "\\"), quoted[end + 1..].strip_prefix(']')?));
    }
    let plain = path.strip_prefix('.')?;
    let end = plain.find(['.', '[', ']']).unwrap_or(plain.len());
    Some((plain[..end].to_owned(), &plain[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Schema;

    #[test]
    fn paths_lead_to_members_of_the_schema() {
        let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a.b": {"type": "string"}, "m": {"type": "object", "additionalProperties": {"type": "string"}}}}}}))
        .unwrap();
        let shown = |path: &str| normalized(schema.root(), path);
        assert_eq!(shown(".spec").as_deref(), Some("spec"));
        assert_eq!(shown(".spec['a.b']").as_deref(), Some("spec.a.b"));
        assert_eq!(shown(".spec.m['k']").as_deref(), Some("spec.m[k]"));
        for path in ["spec", ".nope", ".spec[0]", ".spec['a.b'", ".spec.a.b"] {
            assert_eq!(shown(path), None, "{path}");
        }
    }
}
