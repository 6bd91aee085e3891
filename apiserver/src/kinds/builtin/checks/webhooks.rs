//! The checks of webhook configurations.

use serde_json::{Value, json};

use crate::http::api_error::Cause;
use crate::schema::field_error::{invalid, not_supported, required};
use crate::schema::metadata;

/// Checks the webhooks of a configuration.
pub fn check(object: &Value, causes: &mut Vec<Cause>) {
    for (index, webhook) in object["webhooks"].as_array().into_iter().flatten().enumerate() {
        let field = |name: &str| format!("webhooks[{index}].{name}");
        let name = webhook["name"].as_str().unwrap_or_default();
        if name.split('.').count() < 3 || metadata::name_mistake(metadata::NameRule::Subdomain, name, false).is_some() {
            causes.push(invalid(field("name"), &json!(name), "should be a domain with at least three segments separated by dots"));
        }
        match webhook["sideEffects"].as_str() {
            Some("None" | "NoneOnDryRun") => {}
            None => causes.push(required(field("sideEffects"), "must specify one of None, NoneOnDryRun")),
            Some(other) => causes.push(not_supported(field("sideEffects"), &json!(other), ["None", "NoneOnDryRun"])),
        }
        let versions: Vec<&str> = webhook["admissionReviewVersions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if versions.is_empty() {
            causes.push(required(field("admissionReviewVersions"), "must specify one of v1, v1beta1"));
        } else if !versions.iter().any(|version| ["v1", "v1beta1"].contains(version)) {
            causes.push(invalid(field("admissionReviewVersions"), &json!(versions), "must include at least one of v1, v1beta1"));
        }
        let client = &webhook["clientConfig"];
        match (client["url"].as_str(), client["service"].is_object()) {
            (Some(_), true) | (None, false) => causes.push(required(field("clientConfig"), "exactly one of url or service is required")),
            (Some(url), false) if !url.starts_with("https://") => {
                causes.push(invalid(field("clientConfig.url"), &json!(url), "'https' is the only allowed URL scheme"));
            }
            _ => {}
        }
        if webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            let text = "the timeout value must be between 1 and 30 seconds";
            causes.push(invalid(field("timeoutSeconds"), &webhook["timeoutSeconds"], text));
        }
        for (name, options) in [("failurePolicy", ["Fail", "Ignore"]), ("matchPolicy", ["Equivalent", "Exact"])] {
            if !options.iter().any(|option| webhook[name] == *option) {
                causes.push(not_supported(field(name), &webhook[name], options));
            }
        }
        for (number, rule) in webhook["rules"].as_array().into_iter().flatten().enumerate() {
            check_rule(rule, &field(&format!("rules[{number}]")), causes);
        }
        for (number, condition) in webhook["matchConditions"].as_array().into_iter().flatten().enumerate() {
            check_condition(condition, &field(&format!("matchConditions[{number}]")), causes);
        }
    }
}

fn check_rule(rule: &Value, at: &str, causes: &mut Vec<Cause>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
    for name in ["operations", "apiGroups", "apiVersions", "resources"] {
        if rule[name].as_array().is_none_or(Vec::is_empty) {
            causes.push(required(format!("{at}.{name}"), ""));
        }
    }
    for (index, operation) in rule["operations"].as_array().into_iter().flatten().enumerate() {
        if !OPERATIONS.iter().any(|known| operation == known) {
            causes.push(not_supported(format!("{at}.operations[{index}]"), operation, OPERATIONS));
        }
    }
    if !SCOPES.iter().any(|known| rule["scope"] == *known) {
        causes.push(not_supported(format!("{at}.scope"), &rule["scope"], SCOPES));
    }
}

fn check_condition(condition: &Value, at: &str, causes: &mut Vec<Cause>) {
    for name in ["name", "expression"] {
        if condition[name].as_str().is_none_or(str::is_empty) {
            causes.push(required(format!("{at}.{name}"), ""));
        }
    }
    // Without the feature, nobody evaluates them.
    #[cfg(feature = "cel")]
    {
        let expression = condition["expression"].as_str().unwrap_or_default().trim();
        if let Err(why) = crate::admission::conditions::compile(expression)
            && !expression.is_empty()
        {
            causes.push(invalid(format!("{at}.expression"), &condition["expression"], why));
        }
    }
}
