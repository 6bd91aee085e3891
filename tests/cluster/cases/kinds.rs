//! Various kinds: without a status subresource, cluster-scoped, built-in, appearing late, forbidden; and namespaces by pattern.

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Engine, Handler, Kind, Launch, Scene, has_finalizer, is_handled, last_handled};

pub(crate) const CASES: &[Case] = cases![
    a_kind_that_appears_disappears_and_comes_back_is_served_each_time,
    namespaces_that_match_a_pattern_come_and_go,
    a_kind_that_may_not_be_listed_does_not_stop_the_others,
    a_kind_without_a_status_subresource_is_handled,
    objects_outside_of_namespaces_are_handled,
    config_maps_are_handled,
    pods_are_handled,
    a_finalizer_of_somebody_else_is_left_alone,
];

fn life() -> [Handler; 3] {
    [Handler::on("create", "on_create"), Handler::on("update", "on_update"), Handler::on("delete", "on_delete")]
}

fn a_kind_without_a_status_subresource_is_handled(scene: &Scene<'_>) {
    let kind = scene.own_kind().with_plain_status();
    scene.install(&kind);
    scene.operator(&kind, &life());
    scene.create(&kind, "one", json!({"size": 1}));
    assert_eq!(scene.handled(&kind, "one")["status"]["on_create"], json!({"retry": 0, "size": 1}));
    scene.merge(&kind, "one", json!({"spec": {"size": 2}, "status": {"phase": "Fine"}}));
    let object = scene.handled_again(&kind, "one");
    assert_eq!((&object["status"]["on_update"]["size"], &object["status"]["phase"]), (&json!(2), &json!("Fine")));
    scene.delete(&kind, "one");
    scene.gone(&kind, "one");
    scene.expect_no_more_calls("one", &["on_create#0", "on_update#0", "on_delete#0"]);
}

fn objects_outside_of_namespaces_are_handled(scene: &Scene<'_>) {
    let kind = scene.own_kind().cluster_scoped();
    scene.install(&kind);
    let launch = Launch { namespaces: Vec::new(), ..scene.launch(Engine::under_test(), std::slice::from_ref(&kind), &life()) };
    scene.start(&launch);
    scene.create(&kind, "one", json!({"size": 1}));
    scene.handled(&kind, "one");
    scene.merge(&kind, "one", json!({"spec": {"size": 2}}));
    scene.handled_again(&kind, "one");
    scene.delete(&kind, "one");
    scene.gone(&kind, "one");
    scene.expect_no_more_calls("one", &["on_create#0", "on_update#0", "on_delete#0"]);
    assert!(scene.calls().iter().all(|call| call.namespace.is_empty()), "the object has no namespace");
}

fn config_maps_are_handled(scene: &Scene<'_>) {
    let kind = Kind::core("ConfigMap", "configmaps", false);
    let of_ours = json!({"suite": "yes"});
    scene.operator(&kind, &life().map(|handler| handler.with("labels", of_ours.clone())));
    let object = |data: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "labels": of_ours}, "data": {"text": data}});
    scene.client().create(&kind.collection(&scene.namespace), &object("a"));
    scene.handled(&kind, "one");
    scene.merge(&kind, "one", json!({"data": {"text": "b"}}));
    scene.object(&kind, "one", "is handled again", |object| {
        is_handled(object) && last_handled(object).is_some_and(|essence| essence["data"]["text"] == "b")
    });
    scene.delete(&kind, "one");
    scene.gone(&kind, "one");
    scene.expect_no_more_calls("one", &["on_create#0", "on_update#0", "on_delete#0"]);
}

fn pods_are_handled(scene: &Scene<'_>) {
    let kind = Kind::core("Pod", "pods", true);
    scene.operator(&kind, &[Handler::on("event", "on_event"), Handler::on("create", "on_create"), Handler::on("delete", "on_delete")]);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"},
        "spec": {"containers": [{"name": "only", "image": "none"}], "terminationGracePeriodSeconds": 0},
    });
    scene.client().create(&kind.collection(&scene.namespace), &pod);
    let object = scene.handled(&kind, "one");
    assert!(has_finalizer(&object), "a deletion handler needs a finalizer");
    scene.delete(&kind, "one");
    scene.gone(&kind, "one");
    let calls = scene.calls_of("one");
    assert_eq!(calls.iter().filter(|call| *call == "on_create#0").count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "on_delete#0").count(), 1, "{calls:?}");
    assert_eq!(calls.first().map(String::as_str), Some("on_event#0"), "the event comes before its consequences: {calls:?}");
}

fn a_finalizer_of_somebody_else_is_left_alone(scene: &Scene<'_>) {
    let kind = scene.thing();
    scene.operator(&kind, &life());
    let theirs = "somebody.test/else";
    let object =
        json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "one", "finalizers": [theirs]}, "spec": {}});
    scene.client().create(&kind.collection(&scene.namespace), &object);
    scene.handled(&kind, "one");
    scene.delete(&kind, "one");
    let released = scene
        .object(&kind, "one", "is released by us", |object| !has_finalizer(object) && object["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(released["metadata"]["finalizers"], json!([theirs]));
    scene.merge(&kind, "one", json!({"spec": {"size": 1}}));
    scene.expect_no_more_calls("one", &["on_create#0", "on_delete#0"]);
    assert_eq!(scene.get(&kind, "one").expect("it is held by somebody else")["metadata"]["finalizers"], json!([theirs]));
    scene.merge(&kind, "one", json!({"metadata": {"finalizers": null}}));
    scene.gone(&kind, "one");
}

fn a_kind_that_appears_disappears_and_comes_back_is_served_each_time(scene: &Scene<'_>) {
    let steady = scene.thing();
    let late = scene.own_kind().named("Guest", "guests");
    let launch = scene.launch(Engine::under_test(), &[steady.clone(), late.clone()], &[Handler::on("create", "on_create")]);
    scene.start(&launch);
    scene.wait_for_operator(&steady);
    for name in ["first", "second"] {
        scene.install(&late);
        scene.create(&late, name, json!({}));
        scene.handled(&late, name);
        scene.client().delete(&late.definition_path());
        scene.eventually("the kind is gone", || scene.client().get(&late.definition_path()).is_none().then_some(()));
        scene.eventually("the kind is not served", || {
            scene.client().request("GET", &late.collection(&scene.namespace), "application/json", None).is_err().then_some(())
        });
        scene.create(&steady, &format!("beside-{name}"), json!({}));
        scene.handled(&steady, &format!("beside-{name}"));
    }
    assert_eq!(scene.calls_of("first"), ["on_create#0"]);
    assert_eq!(scene.calls_of("second"), ["on_create#0"]);
}

fn namespaces_that_match_a_pattern_come_and_go(scene: &Scene<'_>) {
    let kind = scene.thing();
    let (before, after, other) =
        (format!("{}-before", scene.namespace), format!("{}-after", scene.namespace), format!("other-{}", scene.namespace));
    scene.make_namespace(&before);
    scene.make_namespace(&other);
    let launch = scene.launch(Engine::under_test(), std::slice::from_ref(&kind), &[Handler::on("create", "on_create")]);
    scene.start(&Launch { namespaces: vec![format!("{}-*", scene.namespace)], ..launch });
    let handled_in = |namespace: &str, name: &str| {
        scene.create_in(namespace, &kind, name, json!({}));
        scene.eventually(&format!("{namespace}/{name} is handled"), || scene.client().get(&kind.path(namespace, name)).filter(is_handled));
    };
    handled_in(&before, "one");
    scene.make_namespace(&after);
    handled_in(&after, "two");
    scene.create_in(&other, &kind, "outside", json!({}));
    for name in ["three", "four"] {
        scene.client().delete(&format!("/api/v1/namespaces/{after}"));
        scene.eventually("the namespace is gone", || scene.client().get(&format!("/api/v1/namespaces/{after}")).is_none().then_some(()));
        scene.make_namespace(&after);
        handled_in(&after, name);
    }
    handled_in(&before, "five");
    for (name, expected) in [("one", 1), ("two", 1), ("three", 1), ("four", 1), ("five", 1), ("outside", 0)] {
        assert_eq!(scene.calls_of(name).len(), expected, "calls for {name}");
    }
}

fn a_kind_that_may_not_be_listed_does_not_stop_the_others(scene: &Scene<'_>) {
    let (open, closed) = (scene.thing(), scene.own_kind().named("Secretive", "secretives"));
    scene.install(&closed);
    let rule = |group: &str, resource: &str, verbs: &[&str]| json!({"apiGroups": [group], "resources": [resource], "verbs": verbs});
    let all: &[&str] = &["*"];
    let allow = |name: &str, rules: Vec<Value>| {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let subject = json!([{"kind": "User", "name": "guest", "apiGroup": "rbac.authorization.k8s.io"}]);
        scene.client().ensure(&format!("{rbac}/clusterroles"), &json!({"metadata": {"name": name}, "rules": rules}));
        let role = json!({"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
        scene
            .client()
            .ensure(&format!("{rbac}/clusterrolebindings"), &json!({"metadata": {"name": name}, "subjects": subject, "roleRef": role}));
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
    let launch = scene.launch(Engine::under_test(), &[closed.clone(), open.clone()], &[Handler::on("create", "on_create")]);
    let kubeconfig = scene.cluster().api_server().guest_kubeconfig();
    let operator = scene.start(&Launch { kubeconfig, ..launch });
    scene.create(&closed, "shut", json!({}));
    scene.create(&open, "one", json!({}));
    scene.handled(&open, "one");
    assert!(operator.log().contains("secretives"), "the log names the kind that may not be listed");
    allow("suite-guest-later", vec![rule(&closed.group, "*", all)]);
    scene.handled(&closed, "shut");
    scene.expect_no_more_calls("shut", &["on_create#0"]);
}
