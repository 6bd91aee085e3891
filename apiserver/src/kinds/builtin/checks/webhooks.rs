//! The checks of webhook configurations, and of their client configurations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::labels;
use crate::go::Url;
use crate::schema::metadata::{NameRule, name_mistake};

/// The supported versions of reviews.
const REVIEWS: [&str; 2] = ["v1", "v1beta1"];
/// Maximum number of match conditions of one webhook.
const MAX_CONDITIONS: u64 = 64;

/// Checks the webhooks of a configuration.
pub(crate) fn check(configuration: &Field<'_, '_>, causes: &mut FieldErrors) {
    let mut names = BTreeSet::new();
    for webhook in configuration.at("webhooks").items() {
        self::webhook(&webhook, causes);
        let name = webhook.at("name");
        if !name.is_empty() && !names.insert(name.text()) {
            causes.push(name.duplicate());
        }
    }
}

fn webhook(webhook: &Field<'_, '_>, causes: &mut FieldErrors) {
    const SILENT: &[&str] = &["None", "NoneOnDryRun"];
    full_name(&webhook.at("name"), causes);
    for rule in webhook.at("rules").items() {
        self::rule(&rule, causes);
    }
    webhook.at("failurePolicy").may_be_one_of(&["Fail", "Ignore"], causes);
    webhook.at("matchPolicy").may_be_one_of(&["Equivalent", "Exact"], causes);
    webhook.at("reinvocationPolicy").may_be_one_of(&["IfNeeded", "Never"], causes);
    let effects = webhook.at("sideEffects");
    if effects.is_set() {
        effects.must_be_supported(SILENT, causes);
    } else {
        causes.push(effects.required("must specify one of None, NoneOnDryRun"));
    }
    let timeout = webhook.at("timeoutSeconds");
    if timeout.is_set() && !(1..=30).contains(&timeout.number()) {
        causes.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    labels::selector(&webhook.at("namespaceSelector"), causes);
    labels::selector(&webhook.at("objectSelector"), causes);
    let client = webhook.at("clientConfig");
    match (client.at("url").is_set(), client.at("service").is_set()) {
        (true, false) => url(&client.at("url"), causes),
        (false, true) => service(&client.at("service"), causes),
        _ => causes.push(client.required("exactly one of url or service is required")),
    }
    conditions(&webhook.at("matchConditions"), causes);
    review_versions(&webhook.at("admissionReviewVersions"), causes);
}

/// The name of a webhook is a domain with at least three labels.
fn full_name(name: &Field<'_, '_>, causes: &mut FieldErrors) {
    if !name.must_be_filled(causes) {
        return;
    }
    if let Some(why) = name_mistake(NameRule::Subdomain, name.text(), false) {
        causes.push(name.invalid(why));
    } else if name.text().split('.').count() < 3 {
        causes.push(name.invalid("should be a domain with at least three segments separated by dots"));
    }
}

/// Checks the address of a webhook.
pub(crate) fn url(url: &Field<'_, '_>, causes: &mut FieldErrors) {
    const FORM: &str = "desired format: https://host[/path]";
    // Unlike the URL of a request, that of a webhook may be relative, which is another error.
    let parsed = match Url::parse(url.text()) {
        Ok(parsed) => parsed,
        Err(_) if !url.text().contains(':') => Url::default(),
        Err(why) => return causes.push(url.required(&format!("url must be a valid URL: {why}; {FORM}"))),
    };
    let rules = [
        (parsed.scheme != "https", format!("'https' is the only allowed URL scheme; {FORM}")),
        (parsed.host.is_empty(), format!("host must be specified; {FORM}")),
        (!parsed.user.is_empty(), "user information is not permitted in the URL".to_owned()),
        (!parsed.fragment.is_empty(), "fragments are not permitted in the URL".to_owned()),
        (!parsed.query.is_empty(), "query parameters are not permitted in the URL".to_owned()),
    ];
    causes.extend(rules.into_iter().filter(|(is_broken, _)| *is_broken).map(|(_, why)| url.invalid(why)));
}

/// Checks the service of a webhook.
pub(crate) fn service(service: &Field<'_, '_>, causes: &mut FieldErrors) {
    service.at("name").must_be_filled(causes);
    service.at("namespace").must_be_filled(causes);
    service.at("port").must_be_a_port(causes);
    let path = service.at("path");
    if path.is_empty() || path.text() == "/" {
        return;
    }
    if path.text() == "//" {
        return causes.push(path.invalid("segment[0] may not be empty"));
    }
    if !path.text().starts_with('/') {
        causes.push(path.invalid("must start with a '/'"));
    }
    // The first character counts as the slash, whatever it is.
    let below: String = path.text().chars().skip(1).collect();
    for (number, step) in below.strip_suffix('/').unwrap_or(&below).split('/').enumerate() {
        if step.is_empty() {
            causes.push(path.invalid(format!("segment[{number}] may not be empty")));
        } else if let Some(why) = name_mistake(NameRule::Subdomain, step, false) {
            causes.push(path.invalid(format!("segment[{number}]: {why}")));
        }
    }
}

/// Checks the review versions of a webhook.
pub(crate) fn review_versions(versions: &Field<'_, '_>, causes: &mut FieldErrors) {
    if versions.is_empty() {
        return causes.push(versions.required("must specify one of v1, v1beta1"));
    }
    let mut seen = BTreeSet::new();
    for version in versions.items() {
        if !seen.insert(version.text()) {
            causes.push(version.invalid("duplicate version"));
            continue;
        }
        version.must_be_a_name(NameRule::OldLabel, causes);
    }
    if !REVIEWS.iter().any(|known| seen.contains(known)) {
        causes.push(versions.invalid("must include at least one of v1, v1beta1"));
    }
}

fn rule(rule: &Field<'_, '_>, causes: &mut FieldErrors) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for (name, what) in [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = rule.at(name);
        list.must_be_filled(causes);
        if list.list().len() > 1 && list.list().iter().any(|item| item == "*") {
            causes.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
        }
    }
    for operation in rule.at("operations").items() {
        operation.must_be_supported(OPERATIONS, causes);
    }
    for version in rule.at("apiVersions").items() {
        version.must_be_filled(causes);
    }
    resources(&rule.at("resources"), causes);
    rule.at("scope").may_be_one_of(&["*", "Cluster", "Namespaced"], causes);
}

fn resources(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    list.must_be_filled(causes);
    let (mut whole, mut everywhere) = (BTreeSet::new(), BTreeSet::new());
    let mut has_plain = false;
    for item in list.items() {
        let text = item.text();
        if !item.must_be_filled(causes) {
            continue;
        }
        let Some((resource, sub)) = text.split_once('/') else {
            has_plain = text != "*";
            continue;
        };
        if whole.contains(resource) {
            causes.push(item.invalid(format!("if '{resource}/*' is present, must not specify {text}")));
        }
        if everywhere.contains(sub) {
            causes.push(item.invalid(format!("if '*/{sub}' is present, must not specify {text}")));
        }
        if sub == "*" {
            whole.insert(resource);
        }
        if resource == "*" {
            everywhere.insert(sub);
        }
    }
    let has = |text: &str| list.list().iter().any(|item| item == text);
    if list.list().len() > 1 && has("*/*") {
        causes.push(list.invalid("if '*/*' is present, must not specify other resources"));
    }
    if has("*") && has_plain {
        causes.push(list.invalid("if '*' is present, must not specify other resources without subresources"));
    }
}

fn conditions(list: &Field<'_, '_>, causes: &mut FieldErrors) {
    if list.list().len() as u64 > MAX_CONDITIONS {
        causes.push(list.too_many(MAX_CONDITIONS));
    }
    let mut names = BTreeSet::new();
    for condition in list.items() {
        expression(&condition.at("expression"), causes);
        let name = condition.at("name");
        if name.must_be_filled(causes) {
            name.must_be_qualified(causes);
            if !names.insert(name.text()) {
                causes.push(name.duplicate());
            }
        }
    }
}

/// Returns the warnings about the match conditions of a configuration, which are not evaluated without the feature
/// `cel`.
#[cfg(not(feature = "cel"))]
pub(super) fn warnings(configuration: &Field<'_, '_>) -> Vec<String> {
    const TEXT: &str =
        "not evaluated, and the webhook is called in any case: this server was built without the feature cel";
    let mut warnings = Vec::new();
    for webhook in configuration.at("webhooks").items() {
        let conditions = webhook.at("matchConditions");
        if !conditions.is_empty() {
            warnings.push(format!("{}: {TEXT}", conditions.path()));
        }
    }
    warnings
}

fn expression(expression: &Field<'_, '_>, causes: &mut FieldErrors) {
    let trimmed = Value::from(expression.text().trim());
    let is_filled = expression.with(&trimmed).must_be_filled(causes);
    // Without the feature, expressions are not evaluated.
    #[cfg(feature = "cel")]
    if is_filled && let Err(why) = crate::admission::conditions::compile(expression.text().trim()) {
        causes.push(expression.invalid(why));
    }
    #[cfg(not(feature = "cel"))]
    let _ = is_filled;
}
