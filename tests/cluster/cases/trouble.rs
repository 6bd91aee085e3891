//! Failures around an operator: crashes, downtime, servers that die, are silent or lose their data, and a burst of
//! objects.

use std::time::Duration;

use serde_json::{Value, json};

use super::cases;
use crate::harness::{
    Case, Cluster, Controllers, Engine, Handler, Kind, Launch, TestContext, has_finalizer, is_handled, last_handled,
    progress,
};

pub(crate) const CASES: &[Case] = cases![
    a_server_that_falls_silent_and_dies_is_waited_for,
    a_server_that_lost_its_data_is_served_again,
    a_thousand_objects_in_one_burst_are_all_handled,
    a_server_that_is_killed_and_restarted_is_served_on,
    changes_during_a_downtime_are_handled_after_the_restart,
    a_crash_between_attempts_loses_neither_the_count_nor_the_time,
    a_deletion_does_not_wait_for_a_retry_of_the_creation,
    a_deletion_waits_for_a_running_handler_only,
];

/// Silence is detected by timeouts, of which kopf has one of 70 seconds.
const SILENCE: Duration = Duration::from_secs(150);

/// The size of the burst.
const BURST: usize = 1_000;

fn create_and_update() -> [Handler; 2] {
    // A failed note is an error of the handler; the default delay of a minute would be long.
    ["create", "update"].map(|cause| Handler::on(cause, &format!("on_{cause}")).with("backoff", 2))
}

fn a_crash_between_attempts_loses_neither_the_count_nor_the_time(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = [Handler::on("create", "on_create").with("retries", 4)];
    let first = context.operator(&kind, &handlers);
    let step = json!({"temporary": 6});
    context.create(&kind, "one", json!({"steps": {"on_create": [step, step]}}));
    let before =
        context.object(&kind, "one", "waits for its second attempt", |object| progress(object, "on_create").is_some());
    context.kill(&first);
    let second = context.operator(&kind, &handlers);
    let after = context.object(&kind, "one", "waits for its third attempt", |object| {
        progress(object, "on_create").is_some_and(|record| record["retries"] == 2)
    });
    let started = |object| progress(object, "on_create").expect("it is in progress")["started"].clone();
    assert_eq!(started(&before), started(&after), "the start of a handler survives a crash");
    context.kill(&second);
    context.operator(&kind, &handlers);
    context.handled(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_create#1", "on_create#2"]);
    let calls = context.calls();
    assert!(
        calls.windows(2).all(|pair| pair[1].at.duration_since(pair[0].at).as_secs_f64() >= 6.0),
        "no attempt is early: {calls:?}"
    );
}

fn changes_during_a_downtime_are_handled_after_the_restart(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = [
        Handler::on("create", "on_create"),
        Handler::on("update", "on_update"),
        Handler::on("delete", "on_delete"),
        Handler::on("resume", "on_resume"),
    ];
    let first = context.operator(&kind, &handlers);
    for name in ["same", "changed", "reverted", "deleted"] {
        context.create(&kind, name, json!({"size": 1}));
    }
    for name in ["same", "changed", "reverted", "deleted"] {
        context.handled(&kind, name);
    }
    context.stop(&first);
    context.create(&kind, "created", json!({"size": 1}));
    context.merge(&kind, "changed", json!({"spec": {"size": 2}}));
    context.merge(&kind, "changed", json!({"spec": {"size": 3}}));
    context.merge(&kind, "reverted", json!({"spec": {"size": 2}}));
    context.merge(&kind, "reverted", json!({"spec": {"size": 1}}));
    context.delete(&kind, "deleted");
    assert!(has_finalizer(&context.get(&kind, "deleted").expect("a finalizer holds it")));
    context.operator(&kind, &handlers);
    context.gone(&kind, "deleted");
    context.handled(&kind, "created");
    context.handled_again(&kind, "changed");
    context.expect_calls("same", &["on_create#0", "on_resume#0"]);
    context.expect_calls("reverted", &["on_create#0", "on_resume#0"]);
    context.expect_calls("changed", &["on_create#0", "on_update#0", "on_resume#0"]);
    context.expect_calls("deleted", &["on_create#0", "on_delete#0"]);
    context.expect_no_more_calls("created", &["on_create#0"]);
    let update = context.calls().into_iter().find(|call| call.handler == "on_update").expect("the update was noted");
    assert_eq!(
        update.change[2],
        json!([["change", ["spec", "size"], 1, 3]]),
        "one update from the last handled to the present state"
    );
    let resumed = context
        .calls()
        .into_iter()
        .find(|call| call.handler == "on_resume" && call.object == "changed")
        .expect("it was noted");
    assert_eq!(resumed.reason, "update", "a resuming handler that is mixed in sees the actual cause");
}

fn a_deletion_does_not_wait_for_a_retry_of_the_creation(context: &TestContext<'_>) {
    let kind = context.thing();
    context.operator(&kind, &[Handler::on("create", "on_create"), Handler::on("delete", "on_delete")]);
    context.create(&kind, "one", json!({"steps": {"on_create": [{"temporary": 600}]}}));
    context.object(&kind, "one", "waits for its second attempt", |object| {
        progress(object, "on_create").is_some_and(|record| record["retries"] == 1)
    });
    context.delete(&kind, "one");
    context.gone(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_delete#0"]);
}

fn a_deletion_waits_for_a_running_handler_only(context: &TestContext<'_>) {
    let kind = context.thing();
    context.operator(
        &kind,
        &[Handler::on("create", "first"), Handler::on("create", "second"), Handler::on("delete", "on_delete")],
    );
    context.create(&kind, "one", json!({"steps": {"first": [{"sleep": 5}]}}));
    context.expect_calls("one", &["first#0"]);
    context.delete(&kind, "one");
    context.expect_no_more_calls("one", &["first#0"]);
    assert!(context.get(&kind, "one").is_some(), "the handler sleeps, and the object is still there");
    context.gone(&kind, "one");
    context.expect_no_more_calls("one", &["first#0", "on_delete#0"]);
}

fn a_thousand_objects_in_one_burst_are_all_handled(context: &TestContext<'_>) {
    let kind = context.thing();
    let operator = context.operator(&kind, &[Handler::on("create", "on_create")]);
    for number in 0..BURST {
        context.create(&kind, &format!("burst-{number:04}"), json!({"size": number, "quiet": true}));
    }
    let all = context.eventually_within(Duration::from_mins(4), "all objects of the burst are handled", || {
        let objects = context.client().list(&kind.collection(&context.namespace));
        let ready = objects.iter().all(|object| is_handled(object) && object["status"].is_object());
        (objects.len() == BURST && ready).then_some(objects)
    });
    for object in &all {
        assert_eq!(
            object["status"]["on_create"]["size"], object["spec"]["size"],
            "every object has its own result: {object}"
        );
        assert_eq!(last_handled(object).expect("it is handled")["spec"], object["spec"]);
    }
    let successes = operator.log().matches("Handler 'on_create' succeeded").count();
    assert_eq!(successes, BURST, "every object is handled once");
}

fn a_server_that_is_killed_and_restarted_is_served_on(context: &TestContext<'_>) {
    let kind = context.thing();
    let mut server = context.api_server();
    let launch = context.launch(Engine::under_test(), std::slice::from_ref(&kind), &create_and_update());
    context.start(&Launch { kubeconfig: server.kubeconfig(), ..launch });
    context.create(&kind, "before", json!({"size": 1}));
    context.create(&kind, "retried", json!({"steps": {"on_create": [{"temporary": 5}]}}));
    context.handled(&kind, "before");
    context.object(&kind, "retried", "waits for its second attempt", |object| progress(object, "on_create").is_some());
    server.kill();
    // The operator is disconnected; its user is not.
    context.create(&kind, "meanwhile", json!({}));
    context.merge(&kind, "before", json!({"spec": {"size": 2}}));
    std::thread::sleep(Duration::from_secs(6));
    server.restart();
    server.wait_until_ready(&context.cluster().client_of(&server));
    context.handled(&kind, "meanwhile");
    context.handled_again(&kind, "before");
    context.handled(&kind, "retried");
    context.create(&kind, "after", json!({}));
    context.handled(&kind, "after");
    context.expect_no_more_calls("before", &["on_create#0", "on_update#0"]);
    for name in ["meanwhile", "after"] {
        assert_eq!(context.calls_of(name), ["on_create#0"]);
    }
    // Notes use the same server: an attempt with a refused note failed before it was counted.
    let retried = context.calls_of("retried");
    assert_eq!(retried.first().map(String::as_str), Some("on_create#0"), "{retried:?}");
}

fn a_server_that_falls_silent_and_dies_is_waited_for(context: &TestContext<'_>) {
    let kind = context.thing();
    let mut server = context.api_server();
    let launch = context.launch(Engine::under_test(), std::slice::from_ref(&kind), &create_and_update());
    context.start(&Launch { kubeconfig: server.kubeconfig(), ..launch });
    context.wait_for_operator(&kind);
    server.silence();
    context.create(&kind, "in-silence", json!({}));
    std::thread::sleep(Duration::from_secs(10));
    server.revive();
    let handled = |name: &str| {
        context
            .eventually_within(SILENCE, &format!("{name} is handled"), || context.get(&kind, name).filter(is_handled));
    };
    handled("in-silence");
    server.silence();
    context.create(&kind, "in-the-long-silence", json!({}));
    std::thread::sleep(Duration::from_secs(10));
    server.kill();
    server.restart();
    server.wait_until_ready(&context.cluster().client_of(&server));
    handled("in-the-long-silence");
    context.create(&kind, "afterwards", json!({}));
    handled("afterwards");
    for name in ["in-silence", "in-the-long-silence", "afterwards"] {
        context.expect_calls(name, &["on_create#0"]);
    }
}

fn a_server_that_lost_its_data_is_served_again(context: &TestContext<'_>) {
    // kopf itself sees nothing of the reset server, at least not within this time.
    if Engine::under_test() == Engine::Kopf {
        return;
    }
    let kind = Kind::of_group("forgotten.kopfd.test");
    let mut cluster =
        Cluster::start(&context.directory().join("cluster"), context.cluster().tools(), Controllers::Absent);
    let launch =
        context.launch(Engine::under_test(), std::slice::from_ref(&kind), &[Handler::on("create", "on_create")]);
    let launch = Launch { kubeconfig: cluster.api_server().kubeconfig(), namespaces: Vec::new(), ..launch };
    {
        let own = TestContext::new(&cluster, "before", &context.directory().join("before"));
        own.install(&kind);
        // The operator belongs to the outer scene: it keeps running when the cluster is reset.
        context.start(&launch);
        // Raises the revision above the revisions that the reset store will reach soon.
        for number in 0..200 {
            own.create(&kind, &format!("old-{number}"), json!({"quiet": true}));
        }
        own.handled(&kind, "old-199");
    }
    cluster.start_over();
    let own = TestContext::new(&cluster, "after", &context.directory().join("after"));
    own.install(&kind);
    own.create(&kind, "new", json!({"size": 7, "quiet": true}));
    // The status is a separate request, after the one that marks the object as handled.
    let is_told = |object: &Value| is_handled(object) && object["status"]["on_create"]["size"] == 7;
    context
        .eventually_within(SILENCE, "an object of the new life is handled", || own.get(&kind, "new").filter(is_told));
}
