//! Single cycles: what they send, tell and wait for, and which events need none.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kopfd::object::{Body, EventKind, Resource};
use kopfd::reactor::worker::Worker;
use serde_json::{Value, json};

use crate::world::{Scene, in_virtual_time};

const MINUTE: Duration = Duration::from_mins(1);

/// Plays a case to its end.
fn played(input: &Value) -> Scene {
    in_virtual_time(async {
        let scene = Scene::example(input);
        scene.run(input).await;
        scene
    })
}

#[test]
fn a_function_that_met_a_conflict_is_applied_before_the_next_handler_is_called() {
    let set = json!({"fns": [{"fn": "set", "path": "spec.y", "value": 1}]});
    let scene = played(&json!({
        "handlers": [{"on": "create", "id": "a", "script": [set]}, {"on": "create", "id": "b", "script": [{}]}],
        "lifecycle": "one_by_one",
        "fail_requests": [{"nth": 2, "status": 422}],
    }));
    let calls = scene.world.timeline.with("call");
    let seen: Vec<_> =
        calls.iter().map(|call| (call.shown["call"].as_str().unwrap(), &call.shown["new"]["spec"])).collect();
    assert_eq!(seen, [("a", &json!({"x": 0})), ("b", &json!({"x": 0, "y": 1}))]);
    assert_eq!(scene.world.server.object()["spec"]["y"], 1);
}

thread_local! {
    /// How many objects were read.
    static READS: Cell<usize> = const { Cell::new(0) };
}

fn counted(text: &str, resource: &Resource) -> Result<Body, serde_json::Error> {
    READS.set(READS.get() + 1);
    kopfd::cluster::watch::read(text, resource)
}

#[test]
fn events_of_own_patches_at_the_end_of_a_cause_are_not_read_unless_states_are_followed() {
    let reads = |ignores_states| {
        READS.set(0);
        let scene = Scene::example(
            &json!({"handlers": [{"on": "create", "id": "a", "script": [{}]}, {"on": "update", "id": "b", "script": [{}]}]}),
        );
        scene.world.ignores_states.store(ignores_states, Ordering::Relaxed);
        let handle = async {
            while !scene.mailbox.sleep(MINUTE).await {
                Worker { read: counted, ..scene.worker() }.run().await;
            }
        };
        let act = async {
            scene.world.server.announce(EventKind::Added);
            tokio::time::sleep(Duration::from_secs(20)).await;
            scene.world.server.merge(&json!({"spec": {"x": 1}})).await;
        };
        in_virtual_time(async {
            tokio::select! {
                ((), ()) = async { tokio::join!(handle, act) } => {}
                () = scene.world.server.deliver(&scene.mailbox) => unreachable!("events are delivered for ever"),
            }
        });
        let ids: Vec<Value> = scene.world.timeline.with("call").iter().map(|call| call.shown["call"].clone()).collect();
        assert_eq!(ids, ["a", "b"]);
        READS.get()
    };
    assert_eq!((reads(true), reads(false)), (2, 4));
}

#[test]
fn every_event_leads_to_one_decision() {
    let scene = played(
        &json!({"handlers": [{"on": "create", "id": "a", "script": [{"temporary": "wait", "delay": 5}, {}]}], "until": 60}),
    );
    let seconds: Vec<Vec<u64>> =
        scene.world.delays.lock().iter().map(|delays| delays.iter().map(Duration::as_secs).collect()).collect();
    let events = scene.world.timeline.with("event").len();
    assert_eq!(seconds, [vec![5], vec![5], vec![], vec![]]);
    assert_eq!(events, seconds.len());
}

#[test]
fn changes_are_told_in_full_unless_there_was_nothing_before() {
    let actions = json!([{"at": 10, "merge": {"spec": {"x": 1}}}]);
    let handlers = json!([{"on": "create", "id": "a", "script": [{}]}, {"on": "update", "id": "b", "script": [{}]}]);
    let details = played(&json!({"handlers": handlers, "actions": actions, "until": 60})).world.timeline.details();
    let beginnings: Vec<&str> = details.iter().map(|line| line.split('{').next().unwrap_or(line)).collect();
    let diff = r#"Updating diff: [["change",["spec","x"],0,1]]"#;
    assert_eq!(beginnings, ["Creation is in progress: ", "Updating is in progress: ", diff]);
}

#[test]
fn long_sleeps_are_cut_and_say_so() {
    let sleeps = |delay: u64| {
        let script = json!([{"temporary": "wait", "delay": delay}, {}]);
        let scene = played(&json!({"handlers": [{"on": "create", "id": "a", "script": script}], "until": 60}));
        let lines = scene.world.timeline.logs();
        lines
            .iter()
            .filter_map(|line| line[1].as_str()?.strip_prefix("Sleeping for ").map(str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(sleeps(600), ["600.0 seconds for the delayed handlers."]);
    assert_eq!(sleeps(601), ["601.0 (capped 600) seconds for the delayed handlers."]);
}

#[test]
fn daemons_are_told_whether_the_essence_has_changed() {
    let handlers = json!([{"on": "create", "id": "a", "script": [{}]}, {"on": "daemon", "id": "d", "script": [{}]}]);
    let actions = json!([{"at": 10, "merge": {"status": {"x": 1}}}, {"at": 20, "merge": {"spec": {"x": 1}}}]);
    let resets = played(&json!({"handlers": handlers, "actions": actions, "until": 60})).world.resets.lock().clone();
    assert_eq!(resets, [true, true, false, false, true, false]);
}
