//! kopfd and Python kopf 1.44.6: each continues the work of the other, as if one operator was restarted.

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Engine, Handler, Kind, TestContext, has_finalizer, last_handled, progress};

pub(crate) const CASES: &[Case] = cases![
    a_creation_that_kopf_retries_is_finished_by_kopfd,
    a_creation_that_kopfd_retries_is_finished_by_kopf,
    a_chain_of_three_that_kopf_began_is_finished_by_kopfd,
    a_chain_of_three_that_kopfd_began_is_finished_by_kopf,
    a_creation_that_changes_while_kopfd_follows_kopf_stays_a_creation,
    a_creation_that_changes_while_kopf_follows_kopfd_stays_a_creation,
    an_update_that_continues_while_kopfd_follows_kopf_is_one_update,
    an_update_that_continues_while_kopf_follows_kopfd_is_one_update,
    an_object_handled_by_kopf_is_only_resumed_by_kopfd,
    an_object_handled_by_kopfd_is_only_resumed_by_kopf,
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

fn a_creation_that_kopf_retries_is_finished_by_kopfd(context: &TestContext<'_>) {
    a_retried_creation_is_finished(context, kopfd_follows_kopf());
}

fn a_creation_that_kopfd_retries_is_finished_by_kopf(context: &TestContext<'_>) {
    a_retried_creation_is_finished(context, kopf_follows_kopfd());
}

fn a_chain_of_three_that_kopf_began_is_finished_by_kopfd(context: &TestContext<'_>) {
    a_chain_is_finished(context, kopfd_follows_kopf());
}

fn a_chain_of_three_that_kopfd_began_is_finished_by_kopf(context: &TestContext<'_>) {
    a_chain_is_finished(context, kopf_follows_kopfd());
}

fn a_creation_that_changes_while_kopfd_follows_kopf_stays_a_creation(context: &TestContext<'_>) {
    a_changed_creation_stays_a_creation(context, kopfd_follows_kopf());
}

fn a_creation_that_changes_while_kopf_follows_kopfd_stays_a_creation(context: &TestContext<'_>) {
    a_changed_creation_stays_a_creation(context, kopf_follows_kopfd());
}

fn an_update_that_continues_while_kopfd_follows_kopf_is_one_update(context: &TestContext<'_>) {
    an_update_that_continues_is_one_update(context, kopfd_follows_kopf());
}

fn an_update_that_continues_while_kopf_follows_kopfd_is_one_update(context: &TestContext<'_>) {
    an_update_that_continues_is_one_update(context, kopf_follows_kopfd());
}

fn an_object_handled_by_kopf_is_only_resumed_by_kopfd(context: &TestContext<'_>) {
    a_handled_object_is_only_resumed(context, kopfd_follows_kopf());
}

fn an_object_handled_by_kopfd_is_only_resumed_by_kopf(context: &TestContext<'_>) {
    a_handled_object_is_only_resumed(context, kopf_follows_kopfd());
}

fn a_deletion_that_kopf_began_is_finished_by_kopfd(context: &TestContext<'_>) {
    a_deletion_is_finished(context, kopfd_follows_kopf());
}

fn a_deletion_that_kopfd_began_is_finished_by_kopf(context: &TestContext<'_>) {
    a_deletion_is_finished(context, kopf_follows_kopfd());
}

fn a_retried_creation_is_finished(context: &TestContext<'_>, pair: Pair) {
    let kind = context.thing();
    let handlers = [Handler::on("create", "on_create").with("retries", 5)];
    let first = context.operator_of(pair[0], &kind, &handlers);
    context.create(&kind, "one", json!({"steps": {"on_create": [{"temporary": 5}, {"temporary": 1}]}}));
    let before =
        context.object(&kind, "one", "waits for its second attempt", |object| attempts(object, "on_create") == 1);
    context.kill(&first);
    context.operator_of(pair[1], &kind, &handlers);
    let between =
        context.object(&kind, "one", "waits for its third attempt", |object| attempts(object, "on_create") == 2);
    let started = |object| progress(object, "on_create").expect("it is in progress")["started"].clone();
    assert_eq!(started(&before), started(&between), "the follower keeps the time of the start");
    let object = context.handled(&kind, "one");
    assert_eq!(object["status"]["on_create"]["retry"], 2);
    settled(context, &calls(pair, &["0 on_create#0", "1 on_create#1", "1 on_create#2"]));
}

fn a_chain_is_finished(context: &TestContext<'_>, pair: Pair) {
    let kind = context.thing();
    interrupt_chain(context, &kind, pair);
    context.operator_of(pair[1], &kind, &chain());
    let object = context.handled(&kind, "one");
    for handler in ["first", "second", "third"] {
        assert!(object["status"][handler].is_object(), "every result is in the status, of both engines: {object}");
    }
    settled(context, &calls(pair, &["0 first#0", "0 second#0", "0 third#0", "1 third#0", "1 second#1"]));
}

fn a_changed_creation_stays_a_creation(context: &TestContext<'_>, pair: Pair) {
    let kind = context.thing();
    interrupt_chain(context, &kind, pair);
    context.merge(&kind, "one", json!({"spec": {"size": 2}}));
    context.operator_of(pair[1], &kind, &chain());
    let object = context.handled_again(&kind, "one");
    assert_eq!([&object["status"]["first"]["size"], &object["status"]["third"]["size"]], [&json!(1), &json!(2)]);
    settled(context, &calls(pair, &["0 first#0", "0 second#0", "0 third#0", "1 third#0", "1 second#1"]));
}

fn an_update_that_continues_is_one_update(context: &TestContext<'_>, pair: Pair) {
    let kind = context.thing();
    let handlers =
        [Handler::on("create", "on_create"), Handler::on("update", "first"), Handler::on("update", "second")];
    let first = context.operator_of(pair[0], &kind, &handlers);
    context.create(&kind, "one", json!({"size": 1, "steps": {"second": [{"temporary": 3}]}}));
    context.handled(&kind, "one");
    context.merge(&kind, "one", json!({"spec": {"size": 2}}));
    context.object(&kind, "one", "waits in the middle of its update", |object| {
        succeeded(object, "first") && attempts(object, "second") == 1
    });
    context.kill(&first);
    context.merge(&kind, "one", json!({"spec": {"size": 3}}));
    context.operator_of(pair[1], &kind, &handlers);
    let object = context.handled_again(&kind, "one");
    assert_eq!([&object["status"]["first"]["size"], &object["status"]["second"]["size"]], [&json!(2), &json!(3)]);
    settled(context, &calls(pair, &["0 on_create#0", "0 first#0", "0 second#0", "1 second#1"]));
    let last = context.calls().pop().expect("the last call was noted");
    assert_eq!(
        last.change[2],
        json!([["change", ["spec", "size"], 1, 3]]),
        "the difference begins at what was handled last"
    );
}

fn a_handled_object_is_only_resumed(context: &TestContext<'_>, pair: Pair) {
    let kind = context.thing();
    let handlers =
        [Handler::on("create", "on_create"), Handler::on("update", "on_update"), Handler::on("resume", "on_resume")];
    let first = context.operator_of(pair[0], &kind, &handlers);
    let spec = json!({"size": 1, "text": "é \"quoted\" \u{1f600}\n", "nothing": [], "deep": {"list": [1, 2.5, true, "x"], "empty": {}}});
    context.create(&kind, "one", spec);
    let before = context.handled(&kind, "one");
    context.stop(&first);
    context.operator_of(pair[1], &kind, &handlers);
    settled(context, &calls(pair, &["0 on_create#0", "1 on_resume#0"]));
    let after = context.handled(&kind, "one");
    assert_eq!(last_handled(&before), last_handled(&after), "both engines store the same");
}

fn a_deletion_is_finished(context: &TestContext<'_>, pair: Pair) {
    let kind = context.thing();
    let handlers =
        [Handler::on("create", "on_create"), Handler::on("delete", "first"), Handler::on("delete", "second")];
    let first = context.operator_of(pair[0], &kind, &handlers);
    context.create(&kind, "one", json!({"steps": {"second": [{"temporary": 4}]}}));
    assert!(has_finalizer(&context.handled(&kind, "one")));
    context.delete(&kind, "one");
    context.object(&kind, "one", "waits in the middle of its deletion", |object| {
        succeeded(object, "first") && attempts(object, "second") == 1
    });
    context.kill(&first);
    context.operator_of(pair[1], &kind, &handlers);
    context.gone(&kind, "one");
    settled(context, &calls(pair, &["0 on_create#0", "0 first#0", "0 second#0", "1 second#1"]));
}

fn chain() -> [Handler; 4] {
    [
        Handler::on("create", "first"),
        Handler::on("create", "second"),
        Handler::on("create", "third"),
        Handler::on("update", "on_update"),
    ]
}

/// The first handler has succeeded, the second will be retried, and the operator is killed while the third is running.
fn interrupt_chain(context: &TestContext<'_>, kind: &Kind, pair: Pair) {
    let operator = context.operator_of(pair[0], kind, &chain());
    context.create(kind, "one", json!({"size": 1, "steps": {"second": [{"temporary": 2}], "third": [{"sleep": 4}]}}));
    context.expect_calls("one", &["first#0", "second#0", "third#0"]);
    context.kill(&operator);
    let object = context.get(kind, "one").expect("it is there");
    assert!(
        succeeded(&object, "first") && attempts(&object, "second") == 1 && attempts(&object, "third") == 0,
        "it stands in the middle: {object}"
    );
}

/// Checks which engine got which calls, again after a while.
fn settled(context: &TestContext<'_>, expected: &[String]) {
    let seen =
        || -> Vec<String> { context.calls().iter().map(|call| format!("{} {}", call.engine, call.short())).collect() };
    context.eventually(&format!("the calls are {expected:?}"), || (seen().len() >= expected.len()).then_some(()));
    std::thread::sleep(std::time::Duration::from_secs(2));
    assert_eq!(seen(), expected);
}

/// Replaces the numbers by the names of the first or the second engine.
fn calls(pair: Pair, numbered: &[&str]) -> Vec<String> {
    let name = |engine: Engine| if engine == Engine::Kopf { "kopf" } else { "kopfd" };
    numbered
        .iter()
        .map(|call| {
            call.replacen("0 ", &format!("{} ", name(pair[0])), 1).replacen("1 ", &format!("{} ", name(pair[1])), 1)
        })
        .collect()
}

fn attempts(object: &Value, handler: &str) -> u64 {
    progress(object, handler).and_then(|record| record["retries"].as_u64()).unwrap_or(0)
}

fn succeeded(object: &Value, handler: &str) -> bool {
    progress(object, handler).is_some_and(|record| record["success"] == true)
}
