//! Questions to the API server about the own rights.

use serde_json::{Value, json};

use super::client::{Client, Request};
use super::error::Error;

const PATH: &str = "/apis/authorization.k8s.io/v1";

/// A request whose right is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Attributes<'a> {
    /// The verb.
    pub verb: &'a str,
    /// The API group.
    pub group: &'a str,
    /// The resource, maybe with a subresource.
    pub resource: &'a str,
    /// The namespace; `None` for all namespaces, and for objects without one.
    pub namespace: Option<&'a str>,
    /// The name; `None` for all.
    pub name: Option<&'a str>,
}

/// The rules that apply in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// The rules.
    pub rules: Vec<ReviewedRule>,
    /// Whether there may be others, which the server does not list.
    pub are_incomplete: bool,
}

/// One rule about resources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReviewedRule {
    /// The API groups.
    pub groups: Vec<String>,
    /// The resources.
    pub resources: Vec<String>,
    /// The names of objects; empty for all.
    pub names: Vec<String>,
    /// The verbs.
    pub verbs: Vec<String>,
}

/// Tells whether a request is allowed.
///
/// # Errors
/// If the question fails.
pub(crate) async fn is_allowed(client: &Client, attributes: &Attributes<'_>) -> Result<bool, Error> {
    let (resource, subresource) = attributes.resource.split_once('/').unwrap_or((attributes.resource, ""));
    let mut wanted = json!({"verb": attributes.verb, "group": attributes.group, "resource": resource});
    let optional = [("subresource", Some(subresource)), ("namespace", attributes.namespace), ("name", attributes.name)];
    for (key, value) in optional {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            wanted[key] = value.into();
        }
    }
    let answer = ask(client, "SelfSubjectAccessReview", &json!({"resourceAttributes": wanted})).await?;
    Ok(answer["status"]["allowed"] == true)
}

/// Returns the rules that apply in a namespace.
///
/// # Errors
/// If the question fails.
pub(crate) async fn rules_in(client: &Client, namespace: &str) -> Result<Rules, Error> {
    let answer = ask(client, "SelfSubjectRulesReview", &json!({"namespace": namespace})).await?;
    let status = &answer["status"];
    let texts =
        |value: &Value| value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let rules = status["resourceRules"].as_array().into_iter().flatten().map(|rule| ReviewedRule {
        groups: texts(&rule["apiGroups"]),
        resources: texts(&rule["resources"]),
        names: texts(&rule["resourceNames"]),
        verbs: texts(&rule["verbs"]),
    });
    Ok(Rules { rules: rules.collect(), are_incomplete: status["incomplete"] == true })
}

async fn ask(client: &Client, kind: &str, spec: &Value) -> Result<Value, Error> {
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
    let request = Request::post(format!("{PATH}/{}s", kind.to_lowercase())).with_json("application/json", &body);
    client.request(&request).await?.json()
}

#[cfg(test)]
mod tests {
    use super::super::client::script::{Script, answer};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rights_are_asked_for_with_reviews() {
        let script = Script::new(|request| {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            assert_eq!(
                body["spec"]["resourceAttributes"],
                json!({"verb": "patch", "group": "apps", "resource": "deployments", "subresource": "scale", "namespace": "n"})
            );
            Ok(answer(201, r#"{"status":{"allowed":true}}"#))
        });
        let wanted = Attributes {
            verb: "patch",
            group: "apps",
            resource: "deployments/scale",
            namespace: Some("n"),
            ..Attributes::default()
        };
        assert!(is_allowed(&script.client().await, &wanted).await.unwrap());
        assert_eq!(*script.requests.lock(), ["POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]);
    }

    #[tokio::test(start_paused = true)]
    async fn rules_of_a_namespace_are_read() {
        let script = Script::new(|_| {
            let rule = r#"{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["a"]}"#;
            Ok(answer(201, format!(r#"{{"status":{{"resourceRules":[{rule},{{"verbs":["*"]}}],"incomplete":true}}}}"#)))
        });
        let rules = rules_in(&script.client().await, "n").await.unwrap();
        assert!(rules.are_incomplete);
        let texts = |text: &str| vec![text.to_owned()];
        let first =
            ReviewedRule { groups: texts(""), resources: texts("pods"), names: texts("a"), verbs: texts("get") };
        assert_eq!(rules.rules, [first, ReviewedRule { verbs: texts("*"), ..ReviewedRule::default() }]);
    }
}
