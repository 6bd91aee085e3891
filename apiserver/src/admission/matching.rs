//! Matches webhooks to requests, by rules and selectors.

use serde_json::{Map, Value};

use super::attributes::{Attributes, Operation};
use super::webhook::Webhook;

/// Tells whether the webhook's rules and selectors match the request.
pub(super) fn is_for(webhook: &Webhook, attributes: &Attributes<'_>) -> bool {
    // Otherwise a broken webhook could never be removed.
    let is_admission = attributes.kind.group == "admissionregistration.k8s.io";
    !is_admission && version(webhook, attributes).is_some() && selectors_match(webhook, attributes)
}

/// Returns the version in which the webhook gets the object; `None` if no rule matches.
pub(super) fn version<'a>(webhook: &Webhook, attributes: &Attributes<'a>) -> Option<&'a str> {
    let rules = webhook.declared["rules"].as_array()?;
    let is_exact = webhook.declared["matchPolicy"] == "Exact";
    let others = attributes.versions.iter().filter(|_| !is_exact);
    let mut versions = std::iter::once(&attributes.kind.version).chain(others);
    versions.find(|version| rules.iter().any(|rule| rule_matches(rule, attributes, version))).map(String::as_str)
}

fn rule_matches(rule: &Value, attributes: &Attributes<'_>, version: &str) -> bool {
    let has = |list: &str, wanted: &str| texts(&rule[list]).any(|text| text == "*" || text == wanted);
    has("operations", attributes.operation.name())
        && has("apiGroups", &attributes.kind.group)
        && has("apiVersions", version)
        && texts(&rule["resources"]).any(|resource| resource_matches(resource, attributes))
        && scope_matches(rule["scope"].as_str().unwrap_or("*"), attributes)
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn resource_matches(pattern: &str, attributes: &Attributes<'_>) -> bool {
    let (resource, subresource) = pattern.split_once('/').unwrap_or((pattern, ""));
    (resource == "*" || resource == attributes.kind.plural)
        && (subresource == "*" || subresource == attributes.subresource)
}

fn scope_matches(scope: &str, attributes: &Attributes<'_>) -> bool {
    match scope {
        "Namespaced" => attributes.kind.namespaced,
        "Cluster" => !attributes.kind.namespaced,
        _ => true,
    }
}

fn selectors_match(webhook: &Webhook, attributes: &Attributes<'_>) -> bool {
    let labels = |object: Option<&'_ Value>| {
        object.and_then(|object| object["metadata"]["labels"].as_object()).cloned().unwrap_or_default()
    };
    let is_namespace = attributes.kind.group.is_empty() && attributes.kind.plural == "namespaces";
    let by_namespace = &webhook.declared["namespaceSelector"];
    let namespace_matches = if is_namespace {
        selects(by_namespace, &labels(attributes.object.or(attributes.old)))
    } else {
        !attributes.kind.namespaced || selects(by_namespace, attributes.namespace_labels.unwrap_or(&Map::new()))
    };
    let by_object = &webhook.declared["objectSelector"];
    let has_object = [attributes.object, attributes.old]
        .into_iter()
        .flatten()
        .any(|object| selects(by_object, &labels(Some(object))));
    namespace_matches
        && (has_object || selects(by_object, &Map::new()) && attributes.object.or(attributes.old).is_none())
}

/// Tells whether a `LabelSelector` selects these labels. An empty one selects everything.
fn selects(selector: &Value, labels: &Map<String, Value>) -> bool {
    let exact = selector["matchLabels"]
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
    let expressions = selector["matchExpressions"].as_array();
    exact
        && expressions.is_none_or(|expressions| {
            expressions.iter().all(|expression| {
                let label = expression["key"].as_str().and_then(|key| labels.get(key));
                let is_listed = || {
                    label.is_some_and(|label| {
                        expression["values"].as_array().is_some_and(|values| values.contains(label))
                    })
                };
                match expression["operator"].as_str().unwrap_or_default() {
                    "In" => is_listed(),
                    "NotIn" => !is_listed(),
                    "Exists" => label.is_some(),
                    "DoesNotExist" => label.is_none(),
                    _ => false,
                }
            })
        })
}

impl Operation {
    /// Returns the name in rules and reviews.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}
