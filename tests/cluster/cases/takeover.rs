//! kopfd and Python kopf 1.44.6: each continues the work of the other, as if one operator was restarted.

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Engine, Handler, Kind, Scene, has_finalizer, last_handled, progress};

pub(crate) const CASES: &[Case] = cases![
    a_creation_that_kopf_retries_is_finished_by_kopfd,
    a_creation_that_kopfd_retries_is_finished_by_kopf,
    a_chain_of_three_that_kopf_began_is_finished_by_kopfd,
    a_chain_of_three_that_kopfd_began_is_finished_by_kopf,
    a_creation_that_changes_while_kopfd_follows_kopf_stays_a_creation,
    a_creation_that_changes_while_kopf_follows_kopfd_stays_a_creation,
    an_update_that_goes_on_while_kopfd_follows_kopf_is_one_update,
    an_update_that_goes_on_while_kopf_follows_kopfd_is_one_update,
    what_kopf_has_handled_is_only_resumed_by_kopfd,
    what_kopfd_has_handled_is_only_resumed_by_kopf,
    a_deletion_that_kopf_began_is_finished_by_kopfd,
    a_deletion_that_kopfd_began_is_finished_by_kopf,
];

/// The first and the second engine.
type Pair = [Engine; 2];

fn kopfd_follows_kopf() -> Pair {
    [Engine::Kopf, Engine::under_test()]
}

fn kopf_follows_kopfd() -> Pair {
    [Engine::under_test(), Engine::Kopf]
}

fn a_creation_that_kopf_retries_is_finished_by_kopfd(scene: &Scene<'_>) {
    a_retried_creation_is_finished(scene, kopfd_follows_kopf());
}

fn a_creation_that_kopfd_retries_is_finished_by_kopf(scene: &Scene<'_>) {
    a_retried_creation_is_finished(scene, kopf_follows_kopfd());
}

fn a_chain_of_three_that_kopf_began_is_finished_by_kopfd(scene: &Scene<'_>) {
    a_chain_is_finished(scene, kopfd_follows_kopf());
}

fn a_chain_of_three_that_kopfd_began_is_finished_by_kopf(scene: &Scene<'_>) {
    a_chain_is_finished(scene, kopf_follows_kopfd());
}

fn a_creation_that_changes_while_kopfd_follows_kopf_stays_a_creation(scene: &Scene<'_>) {
    a_changed_creation_stays_a_creation(scene, kopfd_follows_kopf());
}

fn a_creation_that_changes_while_kopf_follows_kopfd_stays_a_creation(scene: &Scene<'_>) {
    a_changed_creation_stays_a_creation(scene, kopf_follows_kopfd());
}

fn an_update_that_goes_on_while_kopfd_follows_kopf_is_one_update(scene: &Scene<'_>) {
    an_update_that_goes_on_is_one_update(scene, kopfd_follows_kopf());
}

fn an_update_that_goes_on_while_kopf_follows_kopfd_is_one_update(scene: &Scene<'_>) {
    an_update_that_goes_on_is_one_update(scene, kopf_follows_kopfd());
}

fn what_kopf_has_handled_is_only_resumed_by_kopfd(scene: &Scene<'_>) {
    what_is_handled_is_only_resumed(scene, kopfd_follows_kopf());
}

fn what_kopfd_has_handled_is_only_resumed_by_kopf(scene: &Scene<'_>) {
    what_is_handled_is_only_resumed(scene, kopf_follows_kopfd());
}

fn a_deletion_that_kopf_began_is_finished_by_kopfd(scene: &Scene<'_>) {
    a_deletion_is_finished(scene, kopfd_follows_kopf());
}

fn a_deletion_that_kopfd_began_is_finished_by_kopf(scene: &Scene<'_>) {
    a_deletion_is_finished(scene, kopf_follows_kopfd());
}

fn a_retried_creation_is_finished(scene: &Scene<'_>, pair: Pair) {
    let kind = scene.thing();
    let handlers = [Handler::on("create", "on_create").with("retries", 5)];
    let first = scene.operator_of(pair[0], &kind, &handlers);
    scene.create(&kind, "one", json!({"steps": {"on_create": [{"temporary": 5}, {"temporary": 1}]}}));
    let before = scene.object(&kind, "one", "waits for its second attempt", |object| attempts(object, "on_create") == 1);
    scene.kill(&first);
    scene.operator_of(pair[1], &kind, &handlers);
    let between = scene.object(&kind, "one", "waits for its third attempt", |object| attempts(object, "on_create") == 2);
    let started = |object| progress(object, "on_create").expect("it is in progress")["started"].clone();
    assert_eq!(started(&before), started(&between), "the follower keeps the time of the start");
    let object = scene.handled(&kind, "one");
    assert_eq!(object["status"]["on_create"]["retry"], 2);
    settled(scene, &calls(pair, &["0 on_create#0", "1 on_create#1", "1 on_create#2"]));
}

fn a_chain_is_finished(scene: &Scene<'_>, pair: Pair) {
    let kind = scene.thing();
    interrupt_chain(scene, &kind, pair);
    scene.operator_of(pair[1], &kind, &chain());
    let object = scene.handled(&kind, "one");
    for handler in ["first", "second", "third"] {
        assert!(object["status"][handler].is_object(), "every result is in the status, whoever got it: {object}");
    }
    settled(scene, &calls(pair, &["0 first#0", "0 second#0", "0 third#0", "1 third#0", "1 second#1"]));
}

fn a_changed_creation_stays_a_creation(scene: &Scene<'_>, pair: Pair) {
    let kind = scene.thing();
    interrupt_chain(scene, &kind, pair);
    scene.merge(&kind, "one", json!({"spec": {"size": 2}}));
    scene.operator_of(pair[1], &kind, &chain());
    let object = scene.handled_again(&kind, "one");
    assert_eq!([&object["status"]["first"]["size"], &object["status"]["third"]["size"]], [&json!(1), &json!(2)]);
    settled(scene, &calls(pair, &["0 first#0", "0 second#0", "0 third#0", "1 third#0", "1 second#1"]));
}

fn an_update_that_goes_on_is_one_update(scene: &Scene<'_>, pair: Pair) {
    let kind = scene.thing();
    let handlers = [Handler::on("create", "on_create"), Handler::on("update", "first"), Handler::on("update", "second")];
    let first = scene.operator_of(pair[0], &kind, &handlers);
    scene.create(&kind, "one", json!({"size": 1, "steps": {"second": [{"temporary": 3}]}}));
    scene.handled(&kind, "one");
    scene.merge(&kind, "one", json!({"spec": {"size": 2}}));
    scene.object(&kind, "one", "waits in the middle of its update", |object| succeeded(object, "first") && attempts(object, "second") == 1);
    scene.kill(&first);
    scene.merge(&kind, "one", json!({"spec": {"size": 3}}));
    scene.operator_of(pair[1], &kind, &handlers);
    let object = scene.handled_again(&kind, "one");
    assert_eq!([&object["status"]["first"]["size"], &object["status"]["second"]["size"]], [&json!(2), &json!(3)]);
    settled(scene, &calls(pair, &["0 on_create#0", "0 first#0", "0 second#0", "1 second#1"]));
    let last = scene.calls().pop().expect("the last call was noted");
    assert_eq!(last.change[2], json!([["change", ["spec", "size"], 1, 3]]), "the difference begins at what was handled last");
}

fn what_is_handled_is_only_resumed(scene: &Scene<'_>, pair: Pair) {
    let kind = scene.thing();
    let handlers = [Handler::on("create", "on_create"), Handler::on("update", "on_update"), Handler::on("resume", "on_resume")];
    let first = scene.operator_of(pair[0], &kind, &handlers);
    let spec = json!({"size": 1, "text": "é \"quoted\" \u{1f600}\n", "nothing": [], "deep": {"list": [1, 2.5, true, "x"], "empty": {}}});
    scene.create(&kind, "one", spec);
    let before = scene.handled(&kind, "one");
    scene.stop(&first);
    scene.operator_of(pair[1], &kind, &handlers);
    settled(scene, &calls(pair, &["0 on_create#0", "1 on_resume#0"]));
    let after = scene.handled(&kind, "one");
    assert_eq!(last_handled(&before), last_handled(&after), "both engines store the same");
}

fn a_deletion_is_finished(scene: &Scene<'_>, pair: Pair) {
    let kind = scene.thing();
    let handlers = [Handler::on("create", "on_create"), Handler::on("delete", "first"), Handler::on("delete", "second")];
    let first = scene.operator_of(pair[0], &kind, &handlers);
    scene.create(&kind, "one", json!({"steps": {"second": [{"temporary": 4}]}}));
    assert!(has_finalizer(&scene.handled(&kind, "one")));
    scene.delete(&kind, "one");
    scene.object(&kind, "one", "waits in the middle of its deletion", |object| {
        succeeded(object, "first") && attempts(object, "second") == 1
    });
    scene.kill(&first);
    scene.operator_of(pair[1], &kind, &handlers);
    scene.gone(&kind, "one");
    settled(scene, &calls(pair, &["0 on_create#0", "0 first#0", "0 second#0", "1 second#1"]));
}

fn chain() -> [Handler; 4] {
    [Handler::on("create", "first"), Handler::on("create", "second"), Handler::on("create", "third"), Handler::on("update", "on_update")]
}

/// The first handler has succeeded, the second will be retried, and the operator is killed while the third is running.
fn interrupt_chain(scene: &Scene<'_>, kind: &Kind, pair: Pair) {
    let operator = scene.operator_of(pair[0], kind, &chain());
    scene.create(kind, "one", json!({"size": 1, "steps": {"second": [{"temporary": 2}], "third": [{"sleep": 4}]}}));
    scene.expect_calls("one", &["first#0", "second#0", "third#0"]);
    scene.kill(&operator);
    let object = scene.get(kind, "one").expect("it is there");
    assert!(
        succeeded(&object, "first") && attempts(&object, "second") == 1 && attempts(&object, "third") == 0,
        "it stands in the middle: {object}"
    );
}

/// Checks which engine got which calls, again after a while.
fn settled(scene: &Scene<'_>, expected: &[String]) {
    let seen = || -> Vec<String> { scene.calls().iter().map(|call| format!("{} {}", call.engine, call.short())).collect() };
    scene.eventually(&format!("the calls are {expected:?}"), || (seen().len() >= expected.len()).then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(seen(), expected);
}

/// Replaces the numbers by the names of the first or the second engine.
fn calls(pair: Pair, numbered: &[&str]) -> Vec<String> {
    let name = |engine: Engine| if engine == Engine::Kopf { "kopf" } else { "kopfd" };
    numbered
        .iter()
        .map(|call| call.replacen("0 ", &format!("{} ", name(pair[0])), 1).replacen("1 ", &format!("{} ", name(pair[1])), 1))
        .collect()
}

fn attempts(object: &Value, handler: &str) -> u64 {
    progress(object, handler).and_then(|record| record["retries"].as_u64()).unwrap_or(0)
}

fn succeeded(object: &Value, handler: &str) -> bool {
    progress(object, handler).is_some_and(|record| record["success"] == true)
}
