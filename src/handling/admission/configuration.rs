//! The webhook configurations that make the API server call the operator's webhooks, as kopf writes them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::conditions;
use super::webhook::{SideEffects, Webhook};
use crate::handling::matcher::Matcher;
use crate::object::Resource;

/// The most conditions of one webhook that API servers accept.
const MAX_CONDITIONS: usize = 64;

/// The longest name of a webhook.
const MAX_NAME: usize = 253;

/// The longest value of a label.
const MAX_LABEL: usize = 63;

/// The two kinds of webhook configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigurationKind {
    /// Those of validating webhooks.
    Validating,
    /// Those of mutating webhooks.
    Mutating,
}

impl ConfigurationKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Validating, Self::Mutating];

    /// Returns the kind of its objects.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Validating => "ValidatingWebhookConfiguration",
            Self::Mutating => "MutatingWebhookConfiguration",
        }
    }

    /// Returns the plural name of its resource.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Validating => "validatingwebhookconfigurations",
            Self::Mutating => "mutatingwebhookconfigurations",
        }
    }

    /// Tells whether a webhook belongs to it.
    pub fn has(self, webhook: &Webhook) -> bool {
        webhook.is_mutating == (self == Self::Mutating)
    }
}

/// The inputs of a configuration.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The name of the configuration.
    pub managed: &'a str,
    /// The naming of webhooks.
    pub naming: Naming,
    /// The served resources of the webhooks.
    pub resources: &'a [&'a Resource],
    /// The `clientConfig` of a webhook, by its id.
    pub client_config: &'a dyn Fn(&str) -> Value,
    /// Whether filters become conditions that the API server checks.
    pub derives_conditions: bool,
}

/// The naming of webhooks in their configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming {
    /// As in kopf, so that kopf and kopfd replace each other's configurations. API servers refuse some of these names.
    Kopf,
    /// As in kopf where API servers accept that, else by the digits of the id.
    Valid,
}

/// Returns the list `webhooks` of a configuration, in the order of the declarations.
pub fn webhooks<'a>(
    kind: ConfigurationKind,
    declared: impl IntoIterator<Item = &'a Webhook>,
    situation: Situation<'_>,
) -> Value {
    declared.into_iter().filter(|webhook| kind.has(webhook)).map(|webhook| entry(webhook, situation)).collect()
}

fn entry(webhook: &Webhook, situation: Situation<'_>) -> Value {
    let mut entry = json!({
        "name": situation.naming.name(&webhook.handler.id, situation.managed),
        "sideEffects": match webhook.side_effects {
            SideEffects::None => "None",
            SideEffects::NoneOnDryRun => "NoneOnDryRun",
        },
        "failurePolicy": if webhook.ignores_failures { "Ignore" } else { "Fail" },
        "matchPolicy": "Equivalent",
        "rules": rules(webhook, situation.resources),
        "objectSelector": object_selector(&webhook.handler.filters.labels),
        "clientConfig": (situation.client_config)(&webhook.handler.id),
        "timeoutSeconds": webhook.timeout.as_secs(),
        "admissionReviewVersions": ["v1", "v1beta1"],
    });
    let conditions = match_conditions(webhook, situation.derives_conditions);
    if !conditions.is_empty() {
        entry["matchConditions"] = Value::Array(conditions);
    }
    entry
}

impl Naming {
    fn name(self, id: &str, managed: &str) -> String {
        let name = webhook_name(id, managed);
        if self == Self::Kopf || is_valid_name(&name) {
            return name;
        }
        let mut digits = String::from("x");
        push_digits(&mut digits, id);
        format!("{digits}.{managed}")
    }
}

/// Tells whether API servers accept a name of a webhook: a domain with at least three parts.
pub fn is_valid_name(name: &str) -> bool {
    let is_edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_edge)
            && part.ends_with(is_edge)
            && part.chars().all(|letter| is_edge(letter) || letter == '-')
    };
    name.len() <= MAX_NAME && name.split('.').count() >= 3 && name.split('.').all(is_part)
}

/// Returns the name of a webhook in its configuration: the name of the configuration follows the id.
pub fn webhook_name(id: &str, managed: &str) -> String {
    let mut name = String::new();
    for letter in id.chars() {
        match letter {
            '/' => name.push('.'),
            '_' => name.push('-'),
            '.' | '-' => name.push(letter),
            _ if letter.is_alphanumeric() => name.push(letter),
            _ => push_digits(&mut name, letter.encode_utf8(&mut [0; 4])),
        }
    }
    format!("{name}.{managed}")
}

/// Adds the bytes of a text as hexadecimal digits.
fn push_digits(name: &mut String, text: &str) {
    for byte in text.bytes() {
        // Writing into a text cannot fail.
        let _ = write!(name, "{byte:02x}");
    }
}

fn rules(webhook: &Webhook, resources: &[&Resource]) -> Value {
    let operations = if webhook.operations.is_empty() { json!(["*"]) } else { json!(webhook.operations) };
    let concerned =
        resources.iter().filter(|resource| webhook.handler.selectors.iter().any(|selector| selector.matches(resource)));
    let rule = |resource: &&Resource| {
        let path = match &webhook.subresource {
            None => resource.plural.clone(),
            Some(subresource) => format!("{}/{subresource}", resource.plural),
        };
        json!({
            "apiGroups": [resource.group],
            "apiVersions": [resource.version],
            "resources": [path],
            "operations": operations,
            "scope": "*",
        })
    };
    concerned.map(rule).collect()
}

/// Returns the selector of the label filters that the API server can check; null if there are none.
fn object_selector(labels: &[(String, Matcher)]) -> Value {
    let mut expressions = Vec::new();
    for (key, matcher) in labels {
        select_label(key, matcher, &mut expressions);
    }
    if expressions.is_empty() { Value::Null } else { json!({"matchExpressions": expressions}) }
}

fn select_label(key: &str, matcher: &Matcher, expressions: &mut Vec<Value>) {
    let listed = |operator: &str, values: &[Value]| {
        let values: Option<Vec<String>> = values.iter().map(label_value).collect();
        let values = values.filter(|values| !values.is_empty())?;
        Some(json!({"key": key, "operator": operator, "values": values}))
    };
    let selected = match matcher {
        Matcher::Present => Some(json!({"key": key, "operator": "Exists"})),
        Matcher::Absent => Some(json!({"key": key, "operator": "DoesNotExist"})),
        Matcher::Equals(value) => listed("In", std::slice::from_ref(value)),
        Matcher::In(values) => listed("In", values),
        Matcher::NotIn(values) => listed("NotIn", values),
        Matcher::Matches(_) | Matcher::When(_) => None,
        Matcher::All(matchers) => {
            for matcher in matchers {
                select_label(key, matcher, expressions);
            }
            None
        }
    };
    expressions.extend(selected);
}

/// Returns the text of a value in a selector. API servers refuse selectors with texts that no label can have.
fn label_value(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let is_edge = |letter: char| letter.is_ascii_alphanumeric();
    let is_inner = |letter: char| is_edge(letter) || matches!(letter, '-' | '_' | '.');
    let is_valid =
        text.is_empty() || text.starts_with(is_edge) && text.ends_with(is_edge) && text.chars().all(is_inner);
    (is_valid && text.len() <= MAX_LABEL).then_some(text)
}

/// Returns the declared conditions, and after them those of filters that the API server can check.
fn match_conditions(webhook: &Webhook, derives: bool) -> Vec<Value> {
    let mut conditions = webhook.match_conditions.clone();
    if !derives {
        return conditions;
    }
    for (name, expression) in conditions::of(&webhook.handler) {
        let is_taken = conditions.iter().any(|condition| condition["name"] == name);
        if !is_taken && conditions.len() < MAX_CONDITIONS {
            conditions.push(json!({"name": name, "expression": expression}));
        }
    }
    conditions
}

/// Tells whether a configuration has other webhooks than those that were stored.
pub fn is_edited(object: &Value, stored: &Value) -> bool {
    let empty = Value::Array(Vec::new());
    let list = |value: &'_ Value| value.as_array().cloned().unwrap_or_default();
    list(object.get("webhooks").unwrap_or(&empty)) != list(stored)
}

/// Returns the body with which a configuration is created: its webhooks come with the first patch.
pub fn initial(managed: &str) -> Value {
    json!({"metadata": {"name": managed}})
}

/// Returns the patch that overwrites the webhooks of a configuration.
pub fn patch(webhooks: Value) -> Value {
    Value::Object(Map::from_iter([("webhooks".to_owned(), webhooks)]))
}

#[cfg(test)]
#[path = "configuration_tests.rs"]
mod tests;
