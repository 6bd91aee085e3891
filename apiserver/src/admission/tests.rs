//! Tests of webhooks. Tests of calls use a real connection.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use serde_json::json;

use super::*;
use crate::kinds::kind::Kind;

/// Scripted answers never wait.
fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

/// Answers by the webhook's name, and records the reviews.
struct Scripted<F>(F, Mutex<Vec<Value>>);

impl<F: Fn(&str, &Value) -> Result<Value, String> + Send + Sync> CallWebhook for Scripted<F> {
    async fn call(&self, webhook: &Webhook, review: Value) -> Result<Value, String> {
        let mut response = (self.0)(&webhook.name, &review)?;
        if response.get("uid").is_none() && response.is_object() {
            response["uid"] = review["request"]["uid"].clone();
        }
        self.1.lock().unwrap().push(review["request"].clone());
        Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
    }
}

fn scripted<F: Fn(&str, &Value) -> Result<Value, String> + Send + Sync>(answer: F) -> Scripted<F> {
    Scripted(answer, Mutex::default())
}

fn widget() -> Kind {
    let text = str::to_owned;
    Kind {
        group: text("ex.dev"),
        version: text("v1"),
        plural: text("widgets"),
        kind: text("Widget"),
        namespaced: true,
        ..Kind::default()
    }
}

fn webhook(name: &str, more: Value) -> Value {
    let mut webhook = json!({"name": name, "clientConfig": {"url": "https://localhost:1/x"}, "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "timeoutSeconds": 1,
        "rules": [{"operations": ["*"], "apiGroups": ["ex.dev"], "apiVersions": ["v1"], "resources": ["widgets"]}]});
    for (key, value) in more.as_object().unwrap() {
        webhook[key] = value.clone();
    }
    webhook
}

fn configuration(webhooks: Vec<Value>) -> Value {
    json!({"metadata": {"name": "c"}, "webhooks": webhooks})
}

fn with<T>(operation: Operation, act: impl FnOnce(Attributes<'_>) -> T) -> T {
    let kind = widget();
    let object = json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "a", "labels": {"l": "new"}}, "spec": {"size": 1}});
    let old = json!({"metadata": {"name": "a", "labels": {"l": "old"}}});
    let labels = json!({"team": "x"});
    act(Attributes {
        kind: &kind,
        subresource_kind: None,
        versions: &[],
        subresource: "",
        name: "a",
        namespace: "default",
        namespace_labels: labels.as_object(),
        operation,
        user: &json!({"username": "admin"}),
        object: (operation != Operation::Delete).then_some(&object),
        old: (operation != Operation::Create).then_some(&old),
        dry_run: false,
        options: &json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}),
        authorizer: &Authorizer(Arc::new(|_, _| true)),
    })
}

fn is_matched(more: Value, operation: Operation, change: impl FnOnce(&mut Attributes<'_>)) -> bool {
    with(operation, |mut attributes| {
        change(&mut attributes);
        is_called(&Webhook::read(&webhook("v.ex.dev", more)), &attributes).unwrap()
    })
}

fn rule(more: Value) -> Value {
    let mut rule = json!({"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]});
    for (key, value) in more.as_object().unwrap() {
        rule[key] = value.clone();
    }
    json!({"rules": [rule]})
}

fn validated(answer: Result<Value, String>, more: Value) -> Result<Vec<String>, ApiError> {
    let configuration = configuration(vec![webhook("vx.ex.dev", more)]);
    let calls = scripted(|_, _| answer.clone());
    with(Operation::Create, |attributes| now(validate(&calls, &[&configuration], &attributes, || "u1".to_owned())))
}

fn mutated(operation: Operation, response: Value) -> Result<Admitted, ApiError> {
    let configuration = configuration(vec![webhook("mx.ex.dev", json!({}))]);
    let calls = scripted(|_, _| Ok(response.clone()));
    with(operation, |attributes| now(mutate(&calls, &[&configuration], &attributes, || "u1".to_owned())))
}

fn patch(operations: Value) -> Value {
    json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())})
}

#[test]
fn rules_match_operations_groups_versions_resources_and_scopes() {
    let create = |more: Value| is_matched(rule(more), Operation::Create, |_| {});
    assert!(create(json!({})));
    assert!(!is_matched(rule(json!({})), Operation::Delete, |_| {}));
    assert!(create(json!({"apiGroups": ["ex.dev"], "resources": ["widgets"]})));
    assert!(!create(json!({"apiGroups": [""]})));
    assert!(!create(json!({"apiVersions": ["v2"]})));
    assert!(create(json!({"scope": "Namespaced"})));
    assert!(!create(json!({"scope": "Cluster"})));
    let status = |resources: Value| {
        is_matched(rule(json!({"resources": resources})), Operation::Create, |a| a.subresource = "status")
    };
    assert!(status(json!(["widgets/status"])) && status(json!(["*/*"])) && status(json!(["widgets/*"])));
    assert!(!status(json!(["widgets"])) && !status(json!(["*"])));
}

#[test]
fn another_version_counts_unless_the_match_is_exact() {
    let versions = ["v2".to_owned()];
    let kind = widget();
    let matched = |more: Value| {
        with(Operation::Create, |attributes| {
            let attributes = Attributes { versions: &versions, kind: &kind, ..attributes };
            let webhook = Webhook::read(&webhook("v.ex.dev", more));
            is_called(&webhook, &attributes).unwrap().then(|| review(&webhook, &attributes, "u")["request"].take())
        })
    };
    let mut declared = rule(json!({"apiVersions": ["v2"]}));
    let request = matched(declared.clone()).unwrap();
    assert_eq!((&request["kind"]["version"], &request["requestKind"]["version"]), (&json!("v2"), &json!("v1")));
    assert_eq!(request["object"]["apiVersion"], "ex.dev/v2");
    declared["matchPolicy"] = json!("Exact");
    assert_eq!(matched(declared), None);
}

#[test]
fn selectors_check_the_namespace_and_both_states_of_the_object() {
    let by_object = |value: &str| json!({"objectSelector": {"matchLabels": {"l": value}}});
    assert!(is_matched(by_object("new"), Operation::Update, |_| {}));
    assert!(is_matched(by_object("old"), Operation::Update, |_| {}));
    assert!(!is_matched(by_object("other"), Operation::Update, |_| {}));
    let by_namespace = |operator: &str| json!({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": operator, "values": ["x"]}]}});
    assert!(is_matched(by_namespace("In"), Operation::Create, |_| {}));
    assert!(!is_matched(by_namespace("NotIn"), Operation::Create, |_| {}));
    assert!(!is_matched(by_namespace("DoesNotExist"), Operation::Create, |_| {}));
}

#[cfg(feature = "cel")]
#[test]
fn conditions_decide_and_their_errors_follow_the_failure_policy() {
    let when = |expression: &str| json!({"matchConditions": [{"name": "c", "expression": expression}]});
    assert!(is_matched(when("object.spec.size == 1 && request.operation == 'CREATE'"), Operation::Create, |_| {}));
    assert!(!is_matched(when("object.spec.size > 1"), Operation::Create, |_| {}));
    let broken = |policy: &str| {
        let mut declared = when("object.nofield == 1");
        declared["failurePolicy"] = json!(policy);
        with(Operation::Create, |attributes| is_called(&Webhook::read(&webhook("v.ex.dev", declared)), &attributes))
    };
    assert_eq!(broken("Ignore"), Ok(false));
    let failure = broken("Fail").unwrap_err();
    assert_eq!((failure.code, &*failure.reason), (403, "Forbidden"));
    assert!(
        failure
            .message
            .starts_with("widgets.ex.dev \"a\" is forbidden: expression 'object.nofield == 1' resulted in error: ")
    );
}

#[test]
fn the_review_describes_the_request() {
    let configuration = configuration(vec![webhook("v.ex.dev", json!({}))]);
    let calls = scripted(|_, _| Ok(json!({"allowed": true})));
    with(Operation::Create, |attributes| {
        now(validate(&calls, &[&configuration], &attributes, || "u1".to_owned())).unwrap();
    });
    let asked = calls.1.lock().unwrap()[0].clone();
    assert_eq!(asked["uid"], "u1");
    assert_eq!(asked["kind"], json!({"group": "ex.dev", "version": "v1", "kind": "Widget"}));
    assert_eq!(
        (&asked["operation"], &asked["oldObject"], &asked["dryRun"]),
        (&json!("CREATE"), &Value::Null, &json!(false))
    );
    assert_eq!((&asked["name"], &asked["namespace"], asked.get("subResource")), (&json!("a"), &json!("default"), None));
}

#[test]
fn denials_keep_their_codes_and_reasons() {
    let denied = |status: Value| {
        let failure =
            validated(Ok(json!({"allowed": false, "status": status})), json!({"failurePolicy": "Ignore"})).unwrap_err();
        (failure.code, failure.reason, failure.message)
    };
    let text = |end: &str| format!("admission webhook \"vx.ex.dev\" denied the request{end}");
    assert_eq!(denied(Value::Null), (400, "".into(), text(" without explanation")));
    assert_eq!(denied(json!({"message": "nope"})), (400, "".into(), text(": nope")));
    assert_eq!(
        denied(json!({"message": "nope", "code": 418, "reason": "Teapot"})),
        (418, "Teapot".into(), text(": nope"))
    );
    assert_eq!(denied(json!({"message": "nope", "code": 200})).0, 400);
}

#[test]
fn invalid_answers_fail_the_request_unless_failures_are_ignored() {
    let failure = |answer: Result<Value, String>| validated(answer, json!({})).unwrap_err();
    let wrong = failure(Ok(json!({"allowed": true, "uid": "zzz"})));
    assert_eq!((wrong.code, &*wrong.reason), (500, "InternalError"));
    let text = "Internal error occurred: failed calling webhook \"vx.ex.dev\": received invalid webhook response: expected \
                response.uid=\"u1\", got \"zzz\"";
    assert_eq!(wrong.message, text);
    assert!(failure(Ok(Value::Null)).message.ends_with("webhook response was absent"));
    assert_eq!(
        failure(Err("boom".to_owned())).message,
        "Internal error occurred: failed calling webhook \"vx.ex.dev\": boom"
    );
    for answer in [Ok(json!({"allowed": true, "uid": "zzz"})), Ok(Value::Null), Err("boom".to_owned())] {
        assert_eq!(validated(answer, json!({"failurePolicy": "Ignore"})), Ok(vec![]));
    }
}

#[test]
fn warnings_reach_the_client() {
    let answer = Ok(json!({"allowed": true, "warnings": ["careful", "really"]}));
    assert_eq!(validated(answer, json!({})), Ok(vec!["careful".to_owned(), "really".to_owned()]));
}

#[test]
fn patches_change_the_object() {
    let operations = json!([{"op": "add", "path": "/spec/color", "value": "red"}]);
    let admitted = mutated(Operation::Create, patch(operations.clone())).unwrap();
    assert_eq!(admitted.object.unwrap()["spec"], json!({"size": 1, "color": "red"}));
    let failure = mutated(Operation::Create, patch(json!([{"op": "remove", "path": "/none"}]))).unwrap_err();
    assert_eq!((failure.code, &*failure.reason), (500, "InternalError"));
    let failure = mutated(Operation::Delete, patch(operations)).unwrap_err();
    assert!(failure.message.ends_with("attempted to modify the object, which is not supported for this operation"));
    assert_eq!(mutated(Operation::Create, json!({"allowed": true, "patchType": "JSONPatch"})).unwrap_err().code, 500);
    assert_eq!(mutated(Operation::Create, json!({"allowed": true, "patch": "W10="})).unwrap_err().code, 500);
}

#[test]
fn a_webhook_sees_earlier_changes_and_can_be_reinvoked_after_later_ones() {
    let declared =
        vec![webhook("first.ex.dev", json!({"reinvocationPolicy": "IfNeeded"})), webhook("second.ex.dev", json!({}))];
    let calls = scripted(|name, review| {
        let size = review["request"]["object"]["spec"]["size"].as_i64().unwrap();
        let grown = json!([{"op": "replace", "path": "/spec/size", "value": size * 10}]);
        Ok(if name == "second.ex.dev" { patch(grown) } else { json!({"allowed": true}) })
    });
    let configuration = configuration(declared);
    let admitted = with(Operation::Create, |attributes| {
        now(mutate(&calls, &[&configuration], &attributes, || "u".to_owned())).unwrap()
    });
    assert_eq!(admitted.object.unwrap()["spec"]["size"], 10);
    let sizes: Vec<Value> =
        calls.1.lock().unwrap().iter().map(|request| request["object"]["spec"]["size"].clone()).collect();
    assert_eq!(sizes, [1, 1, 10]);
}

#[test]
fn a_dry_run_does_not_reach_webhooks_with_side_effects() {
    let dry = |effects: &str| {
        with(Operation::Create, |attributes| {
            let webhook = Webhook::read(&webhook("v.ex.dev", json!({"sideEffects": effects})));
            is_called(&webhook, &Attributes { dry_run: true, ..attributes }).map_err(|failure| failure.code)
        })
    };
    assert_eq!((dry("NoneOnDryRun"), dry("Some")), (Ok(true), Err(400)));
}

#[test]
fn webhook_configurations_are_not_sent_to_webhooks() {
    let kind = Kind { group: "admissionregistration.k8s.io".to_owned(), ..widget() };
    assert!(!with(Operation::Create, |attributes| {
        is_called(&Webhook::read(&webhook("v.ex.dev", rule(json!({})))), &Attributes { kind: &kind, ..attributes })
            .unwrap()
    }));
}
