//! The service account of an operator, its roles, and their bindings: as objects, and as YAML with a remark on each
//! rule.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::handling::rights::{GrantScope, Purpose, Rights, Rule, rules};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The service account of an operator; its roles have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
}

/// Returns the account, and a role with its binding for each scope.
pub fn objects(account: &Account, rights: &Rights) -> Vec<Value> {
    let roles = rules(rights);
    let of_scope = |(scope, rules): (&GrantScope, &Vec<Rule>)| [role(account, scope, rules), binding(account, scope)];
    std::iter::once(service_account(account)).chain(roles.iter().flat_map(of_scope)).collect()
}

/// Returns the same as YAML documents, in which each group of rules has a remark.
pub fn yaml(account: &Account, rights: &Rights) -> String {
    let roles: BTreeMap<GrantScope, Vec<Rule>> = rules(rights);
    let mut text = String::new();
    document(&mut text, &service_account(account));
    for (scope, rules) in &roles {
        let mut head = role(account, scope, rules);
        head.as_object_mut().map(|head| head.remove("rules"));
        document(&mut text, &head);
        text.push_str(&rules_text(rules));
        document(&mut text, &binding(account, scope));
    }
    text
}

/// Returns the rules of a role as YAML.
pub fn rules_text(rules: &[Rule]) -> String {
    let mut text = "rules:\n".to_owned();
    let mut last = None;
    for rule in rules {
        if last.replace(rule.purpose) != Some(rule.purpose) {
            let _ = writeln!(text, "  # {}", remark(rule.purpose));
        }
        let _ = writeln!(text, "  - apiGroups: {}", flow(std::slice::from_ref(&rule.group)));
        let _ = writeln!(text, "    resources: {}", flow(&rule.resources));
        if !rule.names.is_empty() {
            let _ = writeln!(text, "    resourceNames: {}", flow(&rule.names));
        }
        let _ = writeln!(text, "    verbs: {}", flow(&rule.verbs));
    }
    text
}

fn remark(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Discovery => "To notice new kinds and namespaces.",
        Purpose::Definitions => "To apply the definitions of its kinds.",
        Purpose::Events => "To post Events.",
        Purpose::Peering => "To pause and be paused by other operators.",
        Purpose::Election => "To let one of several replicas work.",
        Purpose::Webhooks => "To keep the configurations and certificates of webhooks.",
        Purpose::Schedules => "To remember which ticks of schedules are done.",
        Purpose::Hooks => "The Secrets by which requests to hooks are verified.",
        Purpose::Databases => "The Secrets with the passwords and authorities of databases.",
        Purpose::Trials => "To report trials of new revisions at the operator's Deployment.",
        Purpose::Handling => "The handled kinds, and the progress on their objects.",
        Purpose::Owners => "For owner references that delay the deletion of the owner, if the cluster checks them.",
        Purpose::Children => "The children of reconciled objects.",
        Purpose::Scripts => {
            "The requests of scripts. A server-side apply is a `patch`, and a `create` if the object is new."
        }
        Purpose::Declared => "Declared under `allow.k8s`.",
    }
}

fn service_account(account: &Account) -> Value {
    json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account.name, "namespace": account.namespace}})
}

fn role(account: &Account, scope: &GrantScope, rules: &[Rule]) -> Value {
    let rules: Vec<Value> = rules.iter().map(rule).collect();
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind(scope), "metadata": metadata(account, scope), "rules": rules})
}

fn rule(rule: &Rule) -> Value {
    let mut object = json!({"apiGroups": [rule.group], "resources": rule.resources, "verbs": rule.verbs});
    if !rule.names.is_empty() {
        object["resourceNames"] = json!(rule.names);
    }
    object
}

fn binding(account: &Account, scope: &GrantScope) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": format!("{}Binding", kind(scope)),
        "metadata": metadata(account, scope),
        "roleRef": {"apiGroup": GROUP, "kind": kind(scope), "name": account.name},
        "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
    })
}

fn kind(scope: &GrantScope) -> &'static str {
    if *scope == GrantScope::Cluster { "ClusterRole" } else { "Role" }
}

fn metadata(account: &Account, scope: &GrantScope) -> Value {
    match scope {
        GrantScope::Cluster => json!({"name": account.name}),
        GrantScope::Namespace(namespace) => json!({"name": account.name, "namespace": namespace}),
    }
}

/// Writes an object of maps, texts, and lists of maps.
fn document(text: &mut String, object: &Value) {
    if !text.is_empty() {
        text.push_str("---\n");
    }
    // The keys in the order in which people write them.
    for key in ["apiVersion", "kind", "metadata", "roleRef", "subjects"] {
        match &object[key] {
            Value::Object(fields) => {
                let _ = writeln!(text, "{key}:");
                for (field, value) in fields {
                    let _ = writeln!(text, "  {field}: {}", scalar(value.as_str().unwrap_or_default()));
                }
            }
            Value::Array(items) => {
                let _ = writeln!(text, "{key}:");
                for item in items {
                    for (index, (field, value)) in item.as_object().into_iter().flatten().enumerate() {
                        let sign = if index == 0 { "- " } else { "  " };
                        let _ = writeln!(text, "  {sign}{field}: {}", scalar(value.as_str().unwrap_or_default()));
                    }
                }
            }
            Value::String(value) => {
                let _ = writeln!(text, "{key}: {}", scalar(value));
            }
            _ => {}
        }
    }
}

fn flow(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| scalar(item)).collect::<Vec<_>>().join(", "))
}

/// Returns a text as YAML reads it: in quotes unless it certainly is a text without them.
fn scalar(text: &str) -> String {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "-./".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_sign);
    let is_other =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_lowercase().as_str());
    if is_word && !is_other { text.to_owned() } else { json!(text).to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::rights::{EVERY, Layout, Need, Reach, rights};
    use crate::object::yaml;

    #[test]
    fn the_yaml_has_the_same_objects_as_the_json() {
        let need = |reach: Reach, resource: &str, verb: &str, names: &[&str]| Need {
            purpose: Purpose::Scripts,
            reach,
            group: String::new(),
            resource: resource.to_owned(),
            verb: verb.to_owned(),
            names: (!names.is_empty()).then(|| names.iter().map(|name| (*name).to_owned()).collect()),
        };
        let needs = [
            need(Reach::Served, "secrets", "get", &["1e3", "true", "a b", "-"]),
            need(Reach::Served, "pods", EVERY, &[]),
            need(Reach::Everywhere, "nodes/status", "patch", &[]),
        ];
        let layout = Layout { served: Some(["on".to_owned()].into()), home: "home".to_owned() };
        let rights = rights(&needs, &layout);
        let account = Account { name: "a".into(), namespace: "123".into() };
        let text = yaml(&account, &rights);
        assert_eq!(yaml::parse(&text).unwrap(), objects(&account, &rights), "{text}");
    }
}
