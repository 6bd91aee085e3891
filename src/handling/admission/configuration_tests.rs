//! Tests of webhook configurations, as tables of kopf's keys.

use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json::json;

use super::*;
use crate::handling::matcher::Predicate;
use crate::handling::{Filters, Handler, On};
use crate::object::{FieldPath, Selector};

fn resource(group: &str, version: &str, plural: &str) -> Resource {
    Resource {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        preferred: true,
        ..Resource::default()
    }
}

fn webhook(id: &str) -> Webhook {
    let selectors = vec![Selector::parse("things.a.io").unwrap()];
    Webhook::simple(Handler { selectors, ..Handler::simple(id, On::Review) }, false)
}

fn with_labels(labels: Vec<(&str, Matcher)>) -> Webhook {
    let labels = labels.into_iter().map(|(key, matcher)| (key.to_owned(), matcher)).collect();
    let mut webhook = webhook("fn");
    webhook.handler.filters = Filters { labels, ..Filters::default() };
    webhook
}

fn client_config(id: &str) -> Value {
    json!({"url": format!("https://host/{id}")})
}

/// Returns the only entry of a webhook, for the kind `things`.
fn entry_of(webhook: &Webhook) -> Value {
    entry_with(webhook, true)
}

fn entry_with(webhook: &Webhook, derives_conditions: bool) -> Value {
    let thing = resource("a.io", "v1", "things");
    let situation = Situation {
        managed: "m.example.com",
        naming: Naming::Kopf,
        resources: &[&thing],
        client_config: &client_config,
        derives_conditions,
    };
    let kind = if webhook.is_mutating { ConfigurationKind::Mutating } else { ConfigurationKind::Validating };
    webhooks(kind, [webhook], situation)[0].take()
}

#[test]
fn a_webhook_without_options_has_exactly_kopfs_keys() {
    let expected = json!({
        "name": "fn.m.example.com",
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "rules": [{"apiGroups": ["a.io"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["*"], "scope": "*"}],
        "objectSelector": null,
        "clientConfig": {"url": "https://host/fn"},
        "timeoutSeconds": 30,
        "admissionReviewVersions": ["v1", "v1beta1"],
    });
    assert_eq!(entry_of(&webhook("fn")), expected);
}

#[test]
fn options_appear_in_their_keys() {
    let conditions = vec![json!({"name": "a", "expression": "true"})];
    let options = Webhook {
        operations: vec!["CREATE".into(), "DELETE".into()],
        subresource: Some("status".into()),
        side_effects: SideEffects::NoneOnDryRun,
        ignores_failures: true,
        match_conditions: conditions.clone(),
        timeout: Duration::from_secs(7),
        is_mutating: true,
        ..webhook("fn")
    };
    let entry = entry_of(&options);
    assert_eq!(entry["rules"][0]["operations"], json!(["CREATE", "DELETE"]));
    assert_eq!(entry["rules"][0]["resources"], json!(["things/status"]));
    assert_eq!([&entry["sideEffects"], &entry["failurePolicy"]], ["NoneOnDryRun", "Ignore"]);
    assert_eq!([&entry["matchConditions"], &entry["timeoutSeconds"]], [&json!(conditions), &json!(7)]);
}

#[test]
fn all_subresources_do_not_cover_the_object_itself() {
    let entry = entry_of(&Webhook { subresource: Some("*".into()), ..webhook("fn") });
    assert_eq!(entry["rules"][0]["resources"], json!(["things/*"]));
}

#[test]
fn names_are_those_of_kopf() {
    let names = [
        ("fn", "fn.m.io"),
        ("fn/spec.field", "fn.spec.field.m.io"),
        ("my_fn", "my-fn.m.io"),
        ("Fn", "Fn.m.io"),
        ("<lambda>", "3clambda3e.m.io"),
        ("größe", "größe.m.io"),
        ("a→b", "ae28692b.m.io"),
    ];
    for (id, expected) in names {
        assert_eq!(webhook_name(id, "m.io"), expected);
    }
}

#[test]
fn names_that_api_servers_refuse_are_replaced_if_nobody_depends_on_them() {
    let table = [
        ("fn/spec.field", "fn.spec.field.m.io"),
        ("Fn", "x466e.m.io"),
        ("a_/b", "x615f2f62.m.io"),
        ("a..b", "x612e2e62.m.io"),
    ];
    for (id, expected) in table {
        assert_eq!(Naming::Valid.name(id, "m.io"), expected);
        assert!(is_valid_name(expected));
    }
    assert!(!is_valid_name("two.parts") && !is_valid_name(&format!("{}.m.io", "x".repeat(249))));
}

#[test]
fn each_served_resource_of_a_selector_has_one_rule() {
    let mut both = webhook("fn");
    both.handler.selectors.push(Selector::parse("a.io/everything").unwrap());
    both.handler.selectors.push(Selector::parse("v1/pods").unwrap());
    let served = [resource("a.io", "v1", "things"), resource("b.io", "v1", "things"), resource("", "v1", "pods")];
    let rules = |served: &[&Resource]| {
        let situation = Situation {
            managed: "m.io",
            naming: Naming::Kopf,
            resources: served,
            client_config: &client_config,
            derives_conditions: true,
        };
        webhooks(ConfigurationKind::Validating, [&both], situation)[0]["rules"].take()
    };
    let groups =
        |rules: Value| rules.as_array().unwrap().iter().map(|rule| rule["apiGroups"].clone()).collect::<Vec<_>>();
    assert_eq!(groups(rules(&served.iter().collect::<Vec<_>>())), [json!(["a.io"]), json!([""])]);
    assert_eq!(rules(&[]), json!([]));
}

#[test]
fn label_filters_become_the_object_selector_as_far_as_labels_can_have_their_values() {
    let pattern = Arc::new(Regex::new("x").unwrap());
    let table: Vec<(Matcher, Value)> = vec![
        (Matcher::Equals(json!("v")), json!([{"key": "l", "operator": "In", "values": ["v"]}])),
        (Matcher::Equals(json!(5)), json!([{"key": "l", "operator": "In", "values": ["5"]}])),
        (Matcher::Equals(json!("")), json!([{"key": "l", "operator": "In", "values": [""]}])),
        (Matcher::In(vec![json!("a"), json!("b")]), json!([{"key": "l", "operator": "In", "values": ["a", "b"]}])),
        (Matcher::NotIn(vec![json!("a")]), json!([{"key": "l", "operator": "NotIn", "values": ["a"]}])),
        (Matcher::Present, json!([{"key": "l", "operator": "Exists"}])),
        (Matcher::Absent, json!([{"key": "l", "operator": "DoesNotExist"}])),
        (
            Matcher::All(vec![Matcher::Present, Matcher::When(Predicate(1))]),
            json!([{"key": "l", "operator": "Exists"}]),
        ),
    ];
    for (matcher, expected) in table {
        let entry = entry_of(&with_labels(vec![("l", matcher)]));
        assert_eq!(entry["objectSelector"], json!({"matchExpressions": expected}));
    }
    let unselected = [
        Matcher::Matches(pattern),
        Matcher::When(Predicate(1)),
        Matcher::Equals(json!("not a value")),
        Matcher::Equals(json!("x".repeat(64))),
        Matcher::In(vec![json!("a"), json!("-b")]),
    ];
    for matcher in unselected {
        assert_eq!(entry_of(&with_labels(vec![("l", matcher.clone())]))["objectSelector"], Value::Null, "{matcher:?}");
    }
    let two = entry_of(&with_labels(vec![("a", Matcher::Present), ("b", Matcher::Absent)]));
    assert_eq!(two["objectSelector"]["matchExpressions"].as_array().unwrap().len(), 2);
}

#[test]
fn filters_become_conditions_unless_that_is_switched_off() {
    let mut filtered = webhook("fn/spec.x");
    filtered.handler.field = Some(FieldPath::dotted("spec.x"));
    filtered.handler.filters.annotations = vec![("a.io/note".into(), Matcher::Absent)];
    filtered.match_conditions = vec![json!({"name": "own", "expression": "true"})];
    let names = |entry: &Value| {
        entry["matchConditions"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&entry_of(&filtered)), ["own", "kopfd.dev/annotation-1", "kopfd.dev/field"]);
    assert_eq!(names(&entry_with(&filtered, false)), ["own"]);
    filtered.match_conditions.clear();
    assert_eq!(entry_with(&filtered, false).get("matchConditions"), None);
}

#[test]
fn declared_conditions_come_first_and_are_never_replaced() {
    let mut filtered = webhook("fn");
    filtered.handler.field = Some(FieldPath::dotted("spec.x"));
    filtered.match_conditions = vec![json!({"name": "kopfd.dev/field", "expression": "true"})];
    assert_eq!(entry_of(&filtered)["matchConditions"], json!(filtered.match_conditions));
    filtered.match_conditions =
        (0..64).map(|number| json!({"name": format!("c{number}"), "expression": "true"})).collect();
    assert_eq!(entry_of(&filtered)["matchConditions"], json!(filtered.match_conditions));
}

#[test]
fn both_kinds_have_their_own_webhooks() {
    let declared = [webhook("a"), Webhook { is_mutating: true, ..webhook("b") }, webhook("c")];
    let situation = Situation {
        managed: "m.io",
        naming: Naming::Kopf,
        resources: &[],
        client_config: &client_config,
        derives_conditions: true,
    };
    let names = |list: Value| list.as_array().unwrap().iter().map(|one| one["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(webhooks(ConfigurationKind::Validating, &declared, situation)), ["a.m.io", "c.m.io"]);
    assert_eq!(names(webhooks(ConfigurationKind::Mutating, &declared, situation)), ["b.m.io"]);
}

#[test]
fn an_edit_of_the_webhooks_is_noticed_and_one_of_the_metadata_is_not() {
    let stored = json!([{"name": "a", "timeoutSeconds": 30}]);
    assert!(!is_edited(&json!({"metadata": {"labels": {"x": "y"}}, "webhooks": stored}), &stored));
    assert!(is_edited(&json!({"webhooks": [{"name": "a", "timeoutSeconds": 3}]}), &stored));
    assert!(is_edited(&json!({"metadata": {}}), &stored));
    assert!(!is_edited(&json!({"metadata": {}}), &json!([])), "an empty list is not stored");
}
