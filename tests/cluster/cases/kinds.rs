//! Various kinds: without a status subresource, cluster-scoped, built-in, appearing late, forbidden; and namespaces by
//! pattern.

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Engine, Handler, Kind, Launch, TestContext, has_finalizer, is_handled, last_handled};

pub(crate) const CASES: &[Case] = cases![
    a_kind_that_is_removed_and_defined_again_is_served_again,
    namespaces_that_match_a_pattern_appear_and_vanish,
    a_kind_that_may_not_be_listed_does_not_stop_the_others,
    a_kind_without_a_status_subresource_is_handled,
    objects_outside_of_namespaces_are_handled,
    config_maps_are_handled,
    pods_are_handled,
    a_foreign_finalizer_is_kept,
];

fn life() -> [Handler; 3] {
    [Handler::on("create", "on_create"), Handler::on("update", "on_update"), Handler::on("delete", "on_delete")]
}

fn a_kind_without_a_status_subresource_is_handled(context: &TestContext<'_>) {
    let kind = context.own_kind().with_plain_status();
    context.install(&kind);
    context.operator(&kind, &life());
    context.create(&kind, "one", json!({"size": 1}));
    assert_eq!(context.handled(&kind, "one")["status"]["on_create"], json!({"retry": 0, "size": 1}));
    context.merge(&kind, "one", json!({"spec": {"size": 2}, "status": {"phase": "Fine"}}));
    let object = context.handled_again(&kind, "one");
    assert_eq!((&object["status"]["on_update"]["size"], &object["status"]["phase"]), (&json!(2), &json!("Fine")));
    context.delete(&kind, "one");
    context.gone(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_update#0", "on_delete#0"]);
}

fn objects_outside_of_namespaces_are_handled(context: &TestContext<'_>) {
    let kind = context.own_kind().cluster_scoped();
    context.install(&kind);
    let launch =
        Launch { namespaces: Vec::new(), ..context.launch(Engine::under_test(), std::slice::from_ref(&kind), &life()) };
    context.start(&launch);
    context.create(&kind, "one", json!({"size": 1}));
    context.handled(&kind, "one");
    context.merge(&kind, "one", json!({"spec": {"size": 2}}));
    context.handled_again(&kind, "one");
    context.delete(&kind, "one");
    context.gone(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_update#0", "on_delete#0"]);
    assert!(context.calls().iter().all(|call| call.namespace.is_empty()), "the object has no namespace");
}

fn config_maps_are_handled(context: &TestContext<'_>) {
    let kind = Kind::core("ConfigMap", "configmaps", false);
    let of_ours = json!({"suite": "yes"});
    context.operator(&kind, &life().map(|handler| handler.with("labels", of_ours.clone())));
    let object = |data: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": of_ours}, "data": {"text": data}});
    context.client().create(&kind.collection(&context.namespace), &object("a"));
    context.handled(&kind, "one");
    context.merge(&kind, "one", json!({"data": {"text": "b"}}));
    context.object(&kind, "one", "is handled again", |object| {
        is_handled(object) && last_handled(object).is_some_and(|essence| essence["data"]["text"] == "b")
    });
    context.delete(&kind, "one");
    context.gone(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_update#0", "on_delete#0"]);
}

fn pods_are_handled(context: &TestContext<'_>) {
    let kind = Kind::core("Pod", "pods", true);
    context.operator(
        &kind,
        &[Handler::on("event", "on_event"), Handler::on("create", "on_create"), Handler::on("delete", "on_delete")],
    );
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "only", "image": "none"}], "terminationGracePeriodSeconds": 0},
    });
    context.client().create(&kind.collection(&context.namespace), &pod);
    let object = context.handled(&kind, "one");
    assert!(has_finalizer(&object), "a deletion handler needs a finalizer");
    context.delete(&kind, "one");
    context.gone(&kind, "one");
    let calls = context.calls_of("one");
    assert_eq!(calls.iter().filter(|call| *call == "on_create#0").count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "on_delete#0").count(), 1, "{calls:?}");
    assert_eq!(
        calls.first().map(String::as_str),
        Some("on_event#0"),
        "the event comes before its consequences: {calls:?}"
    );
}

fn a_foreign_finalizer_is_kept(context: &TestContext<'_>) {
    let kind = context.thing();
    context.operator(&kind, &life());
    let theirs = "somebody.test/else";
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "one", "finalizers": [theirs]}, "spec": {}});
    context.client().create(&kind.collection(&context.namespace), &object);
    context.handled(&kind, "one");
    context.delete(&kind, "one");
    let released = context.object(&kind, "one", "is released by us", |object| {
        !has_finalizer(object) && object["metadata"]["deletionTimestamp"].is_string()
    });
    assert_eq!(released["metadata"]["finalizers"], json!([theirs]));
    context.merge(&kind, "one", json!({"spec": {"size": 1}}));
    context.expect_no_more_calls("one", &["on_create#0", "on_delete#0"]);
    assert_eq!(
        context.get(&kind, "one").expect("another finalizer keeps it")["metadata"]["finalizers"],
        json!([theirs])
    );
    context.merge(&kind, "one", json!({"metadata": {"finalizers": null}}));
    context.gone(&kind, "one");
}

fn a_kind_that_is_removed_and_defined_again_is_served_again(context: &TestContext<'_>) {
    let steady = context.thing();
    let late = context.own_kind().named("Guest", "guests");
    let launch =
        context.launch(Engine::under_test(), &[steady.clone(), late.clone()], &[Handler::on("create", "on_create")]);
    context.start(&launch);
    context.wait_for_operator(&steady);
    for name in ["first", "second"] {
        context.install(&late);
        context.create(&late, name, json!({}));
        context.handled(&late, name);
        context.client().delete(&late.definition_path());
        context
            .eventually("the kind is gone", || context.client().get(&late.definition_path()).is_none().then_some(()));
        context.eventually("the kind is not served", || {
            context
                .client()
                .request("GET", &late.collection(&context.namespace), "application/json", None)
                .is_err()
                .then_some(())
        });
        context.create(&steady, &format!("beside-{name}"), json!({}));
        context.handled(&steady, &format!("beside-{name}"));
    }
    assert_eq!(context.calls_of("first"), ["on_create#0"]);
    assert_eq!(context.calls_of("second"), ["on_create#0"]);
}

fn namespaces_that_match_a_pattern_appear_and_vanish(context: &TestContext<'_>) {
    let kind = context.thing();
    let (before, after, other) = (
        format!("{}-before", context.namespace),
        format!("{}-after", context.namespace),
        format!("other-{}", context.namespace),
    );
    context.make_namespace(&before);
    context.make_namespace(&other);
    let launch =
        context.launch(Engine::under_test(), std::slice::from_ref(&kind), &[Handler::on("create", "on_create")]);
    context.start(&Launch { namespaces: vec![format!("{}-*", context.namespace)], ..launch });
    let handled_in = |namespace: &str, name: &str| {
        context.create_in(namespace, &kind, name, json!({}));
        context.eventually(&format!("{namespace}/{name} is handled"), || {
            context.client().get(&kind.path(namespace, name)).filter(is_handled)
        });
    };
    handled_in(&before, "one");
    context.make_namespace(&after);
    handled_in(&after, "two");
    context.create_in(&other, &kind, "outside", json!({}));
    for name in ["three", "four"] {
        context.client().delete(&format!("/api/v1/namespaces/{after}"));
        context.eventually("the namespace is gone", || {
            context.client().get(&format!("/api/v1/namespaces/{after}")).is_none().then_some(())
        });
        context.make_namespace(&after);
        handled_in(&after, name);
    }
    handled_in(&before, "five");
    for (name, expected) in [("one", 1), ("two", 1), ("three", 1), ("four", 1), ("five", 1), ("outside", 0)] {
        assert_eq!(context.calls_of(name).len(), expected, "calls for {name}");
    }
}

fn a_kind_that_may_not_be_listed_does_not_stop_the_others(context: &TestContext<'_>) {
    let (open, closed) = (context.thing(), context.own_kind().named("Secretive", "secretives"));
    context.install(&closed);
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let all: &[&str] = &["*"];
    let allow = |name: &str, rules: Vec<Value>| {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let subject = json!([{"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"}]);
        context.client().ensure(&format!("{rbac}/clusterroles"), &json!({"metadata": {"name": name}, "rules": rules}));
        let role = json!({"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
        context.client().ensure(
            &format!("{rbac}/clusterrolebindings"),
            &json!({"metadata": {"name": name}, "subjects": subject, "roleRef": role}),
        );
    };
    allow(
        "suite-guest",
        vec![
            rule(&open.group, &open.plural, all),
            rule(&open.group, &format!("{}/status", open.plural), all),
            rule("", "configmaps", &["create"]),
            rule("", "namespaces", &["get", "list", "watch"]),
            rule("apiextensions.k8s.io", "customresourcedefinitions", &["get", "list", "watch"]),
        ],
    );
    let launch =
        context.launch(Engine::under_test(), &[closed.clone(), open.clone()], &[Handler::on("create", "on_create")]);
    let kubeconfig = context.cluster().api_server().guest_kubeconfig();
    let operator = context.start(&Launch { kubeconfig, ..launch });
    context.create(&closed, "shut", json!({}));
    context.create(&open, "one", json!({}));
    context.handled(&open, "one");
    assert!(operator.log().contains("secretives"), "the log names the kind that may not be listed");
    allow("suite-guest-later", vec![rule(&closed.group, "*", all)]);
    context.handled(&closed, "shut");
    context.expect_no_more_calls("shut", &["on_create#0"]);
}
