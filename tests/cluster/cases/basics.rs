//! The life of one object: creation, update, deletion, resuming, fields, events, retries.

use serde_json::json;

use super::cases;
use crate::harness::{Case, Handler, TestContext, has_finalizer, last_handled, progress};

pub(crate) const CASES: &[Case] = cases![
    a_created_object_is_handled_once_and_its_result_is_in_the_status,
    a_changed_object_is_handled_with_the_difference,
    a_deleted_object_stays_until_its_handler_is_done,
    an_object_that_was_handled_before_the_start_is_resumed_once,
    a_field_handler_sees_its_field_only,
    an_event_handler_sees_every_event_and_writes_nothing,
    a_temporary_error_is_retried_after_its_delay,
    an_arbitrary_error_is_retried_after_the_back_off_until_the_limit,
    a_permanent_error_is_final_and_lets_the_next_change_through,
    three_handlers_run_one_by_one_in_their_order,
    filters_keep_other_objects_out,
    a_stopped_operator_does_not_change_its_objects,
];

fn a_created_object_is_handled_once_and_its_result_is_in_the_status(context: &TestContext<'_>) {
    let kind = context.thing();
    let operator = context.operator(&kind, &[Handler::on("create", "on_create")]);
    context.create(&kind, "one", json!({"size": 1}));
    let object = context.handled(&kind, "one");
    assert_eq!(object["status"]["on_create"], json!({"retry": 0, "size": 1}));
    assert_eq!(last_handled(&object).expect("it is handled")["spec"], json!({"size": 1}));
    assert!(!has_finalizer(&object), "nothing here needs a finalizer: {object}");
    context.expect_no_more_calls("one", &["on_create#0"]);
    assert!(operator.log().contains("Handler 'on_create' succeeded"), "the log names the handler and its success");
    assert!(operator.log().contains(&format!("{}/one", context.namespace)), "the log names the object");
}

fn a_changed_object_is_handled_with_the_difference(context: &TestContext<'_>) {
    let kind = context.thing();
    context.operator(&kind, &[Handler::on("create", "on_create"), Handler::on("update", "on_update")]);
    context.create(&kind, "one", json!({"size": 1, "colour": "red"}));
    context.handled(&kind, "one");
    context.merge(&kind, "one", json!({"spec": {"size": 2, "colour": null}}));
    let object = context.handled_again(&kind, "one");
    assert_eq!(object["status"]["on_update"], json!({"retry": 0, "size": 2}));
    context.expect_no_more_calls("one", &["on_create#0", "on_update#0"]);
    let update = context.calls().pop().expect("the update was noted");
    let [old, new, diff] = update.change;
    assert_eq!(
        (update.reason.as_str(), &old["spec"], &new["spec"]),
        ("update", &json!({"size": 1, "colour": "red"}), &json!({"size": 2}))
    );
    let mut items = diff.as_array().expect("the difference is a list").clone();
    items.sort_by_key(|item| item[1].to_string());
    assert_eq!(items, [json!(["remove", ["spec", "colour"], "red", null]), json!(["change", ["spec", "size"], 1, 2])]);
}

fn a_deleted_object_stays_until_its_handler_is_done(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = [Handler::on("create", "on_create"), Handler::on("delete", "on_delete")];
    context.operator(&kind, &handlers);
    context.create(&kind, "one", json!({"steps": {"on_delete": [{"temporary": 3}]}}));
    assert!(has_finalizer(&context.handled(&kind, "one")), "a deletion handler needs a finalizer");
    context.delete(&kind, "one");
    context.expect_calls("one", &["on_create#0", "on_delete#0"]);
    let object = context
        .object(&kind, "one", "waits for its deletion handler", |object| progress(object, "on_delete").is_some());
    assert!(
        has_finalizer(&object) && object["metadata"]["deletionTimestamp"].is_string(),
        "it is still there: {object}"
    );
    context.gone(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_delete#0", "on_delete#1"]);
}

fn an_object_that_was_handled_before_the_start_is_resumed_once(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers =
        [Handler::on("create", "on_create"), Handler::on("resume", "on_resume"), Handler::on("update", "on_update")];
    let first = context.operator(&kind, &handlers);
    context.create(&kind, "old", json!({}));
    context.handled(&kind, "old");
    context.expect_no_more_calls("old", &["on_create#0"]);
    context.stop(&first);
    context.operator(&kind, &handlers);
    context.expect_calls("old", &["on_create#0", "on_resume#0"]);
    context.create(&kind, "new", json!({}));
    context.merge(&kind, "old", json!({"spec": {"size": 1}}));
    context.handled(&kind, "new");
    context.handled_again(&kind, "old");
    context.expect_no_more_calls("new", &["on_create#0"]);
    context.expect_no_more_calls("old", &["on_create#0", "on_resume#0", "on_update#0"]);
}

fn a_field_handler_sees_its_field_only(context: &TestContext<'_>) {
    let kind = context.thing();
    context.operator(
        &kind,
        &[Handler::on("create", "on_create"), Handler::on("field", "on_size").with("field", "spec.size")],
    );
    context.create(&kind, "one", json!({"size": 1}));
    context.handled(&kind, "one");
    context.merge(&kind, "one", json!({"spec": {"colour": "red"}}));
    context.handled_again(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_size#0"]);
    context.merge(&kind, "one", json!({"spec": {"size": 2}}));
    let object = context.handled_again(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_size#0", "on_size#0"]);
    assert_eq!(
        object["status"]["on_size/spec.size"],
        json!({"retry": 0, "size": 2}),
        "the id of a field handler has its field"
    );
    let changes: Vec<_> = context
        .calls()
        .into_iter()
        .filter(|call| call.handler == "on_size")
        .map(|call| (call.reason, call.change))
        .collect();
    assert_eq!(changes[0], ("create".into(), [json!(null), json!(1), json!([["add", [], null, 1]])]));
    assert_eq!(changes[1], ("update".into(), [json!(1), json!(2), json!([["change", [], 1, 2]])]));
}

fn an_event_handler_sees_every_event_and_writes_nothing(context: &TestContext<'_>) {
    let kind = context.thing();
    context.create(&kind, "early", json!({}));
    context.operator(&kind, &[Handler::on("event", "on_event")]);
    context.wait_for_operator(&kind);
    context.create(&kind, "late", json!({}));
    context.eventually("the creation was seen", || (context.calls_of("late").len() == 1).then_some(()));
    context.merge(&kind, "late", json!({"spec": {"size": 1}}));
    context.eventually("the change was seen", || (context.calls_of("late").len() == 2).then_some(()));
    context.delete(&kind, "late");
    context.eventually("the deletion was seen", || (context.calls_of("late").len() == 3).then_some(()));
    let types_of = |name: &str| -> Vec<String> {
        context.calls().into_iter().filter(|call| call.object == name).map(|call| call.reason).collect()
    };
    assert_eq!(types_of("late"), ["ADDED", "MODIFIED", "DELETED"]);
    assert_eq!(types_of("early"), ["LISTED"]);
    let object = context.get(&kind, "early").expect("it was not touched");
    assert_eq!(object["metadata"].get("annotations"), None, "events leave no trace: {object}");
}

fn a_temporary_error_is_retried_after_its_delay(context: &TestContext<'_>) {
    let kind = context.thing();
    let operator = context.operator(&kind, &[Handler::on("create", "on_create")]);
    context.create(&kind, "one", json!({"steps": {"on_create": [{"temporary": 4}, {"temporary": 3}]}}));
    let between = context.object(&kind, "one", "waits for its second attempt", |object| {
        progress(object, "on_create").is_some_and(|record| record["retries"] == 1)
    });
    let record = progress(&between, "on_create").expect("the attempt is recorded");
    assert_eq!(
        (&record["purpose"], &record["success"], &record["failure"]),
        (&json!("create"), &json!(false), &json!(false))
    );
    assert_eq!(record["message"], "not yet");
    let moment = |key: &str| -> jiff::Timestamp {
        let text = record[key].as_str().unwrap_or_else(|| panic!("`{key}` is a time: {record}"));
        assert!(
            text.ends_with("+00:00") && text.len() == "2020-12-31T23:59:59.123456+00:00".len(),
            "`{key}` is written as kopf does: {text}"
        );
        text.parse().expect("a time of the progress can be read")
    };
    let waits = moment("delayed").duration_since(moment("started")).as_secs_f64();
    assert!((4.0..14.0).contains(&waits), "the next attempt is due 4 s after the first, not {waits}");
    assert_eq!(last_handled(&between), None, "a creation in progress is not stored as handled");
    context.handled(&kind, "one");
    context.expect_no_more_calls("one", &["on_create#0", "on_create#1", "on_create#2"]);
    let calls = context.calls();
    let pauses: Vec<f64> = calls.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_secs_f64()).collect();
    assert!(
        pauses[0] >= 4.0 && pauses[0] < 14.0 && pauses[1] >= 3.0 && pauses[1] < 13.0,
        "pauses between attempts: {pauses:?}"
    );
    assert!(operator.log().contains("Handler 'on_create' failed temporarily: not yet"), "the log tells the failure");
}

fn an_arbitrary_error_is_retried_after_the_back_off_until_the_limit(context: &TestContext<'_>) {
    let kind = context.thing();
    let create = Handler::on("create", "on_create").with("backoff", 2).with("retries", 3);
    context.operator(&kind, &[create]);
    let failing = json!([{"error": "boom"}, {"error": "boom"}, {"error": "boom"}, {"error": "boom"}]);
    context.create(&kind, "fails", json!({"steps": {"on_create": failing}}));
    context.create(&kind, "heals", json!({"steps": {"on_create": [{"error": "boom"}]}}));
    let failed = context.handled(&kind, "fails");
    assert_eq!(failed.get("status"), None, "a failure has no result");
    let healed = context.handled(&kind, "heals");
    assert_eq!(healed["status"]["on_create"]["retry"], 1);
    context.expect_no_more_calls("fails", &["on_create#0", "on_create#1", "on_create#2"]);
    context.expect_no_more_calls("heals", &["on_create#0", "on_create#1"]);
}

fn a_permanent_error_is_final_and_lets_the_next_change_through(context: &TestContext<'_>) {
    let kind = context.thing();
    let operator = context.operator(
        &kind,
        &[
            Handler::on("create", "fails"),
            Handler::on("create", "ignored").with("errors", "ignored"),
            Handler::on("create", "strict").with("errors", "permanent"),
            Handler::on("update", "on_update"),
        ],
    );
    let steps = json!({"fails": [{"permanent": "never"}], "ignored": [{"error": "never mind"}], "strict": [{"error": "enough"}]});
    context.create(&kind, "one", json!({"steps": steps}));
    context.handled(&kind, "one");
    context.merge(&kind, "one", json!({"spec": {"size": 1}}));
    context.handled_again(&kind, "one");
    context.expect_no_more_calls("one", &["fails#0", "ignored#0", "strict#0", "on_update#0"]);
    assert!(operator.log().contains("Handler 'fails' failed permanently: never"), "the log tells the failure");
}

fn three_handlers_run_one_by_one_in_their_order(context: &TestContext<'_>) {
    let kind = context.thing();
    let record = context.record(&kind);
    context.operator(
        &kind,
        &[Handler::on("create", "first"), Handler::on("create", "second"), Handler::on("create", "third")],
    );
    context.create(&kind, "one", json!({}));
    let object = context.handled(&kind, "one");
    context.expect_no_more_calls("one", &["first#0", "second#0", "third#0"]);
    for handler in ["first", "second", "third"] {
        assert_eq!(object["status"][handler]["retry"], 0, "every result is in the status");
    }
    let done: Vec<Vec<bool>> = record
        .versions("one")
        .iter()
        .filter_map(|version| version.object.as_ref())
        .map(|object| {
            ["first", "second"].map(|id| progress(object, id).is_some_and(|record| record["success"] == true)).to_vec()
        })
        .collect();
    assert!(
        done.contains(&vec![true, false]) && done.contains(&vec![true, true]),
        "each success is stored before the next call: {done:?}"
    );
}

fn filters_keep_other_objects_out(context: &TestContext<'_>) {
    let kind = context.thing();
    context.operator(
        &kind,
        &[
            Handler::on("create", "on_large").with("field", "spec.size").with("value", 9),
            Handler::on("create", "on_red").with("labels", json!({"colour": "red"})),
        ],
    );
    context.create(&kind, "small", json!({"size": 1}));
    context.create(&kind, "large", json!({"size": 9}));
    let red = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": "red", "labels": {"colour": "red"}}});
    context.client().create(&kind.collection(&context.namespace), &red);
    context.handled(&kind, "large");
    context.handled(&kind, "red");
    context.expect_calls("large", &["on_large#0"]);
    context.expect_calls("red", &["on_red#0"]);
    context.expect_no_more_calls("small", &[]);
    let small = context.get(&kind, "small").expect("it is there");
    assert_eq!(small["metadata"].get("annotations"), None, "what no handler matches is left alone: {small}");
}

fn a_stopped_operator_does_not_change_its_objects(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = [Handler::on("create", "on_create"), Handler::on("delete", "on_delete")];
    let operator = context.operator(&kind, &handlers);
    context.create(&kind, "waits", json!({"steps": {"on_create": [{"temporary": 600}]}}));
    context.create(&kind, "done", json!({}));
    context.handled(&kind, "done");
    context.object(&kind, "waits", "waits for its second attempt", |object| progress(object, "on_create").is_some());
    let before = [context.get(&kind, "waits"), context.get(&kind, "done")];
    context.stop(&operator);
    assert_eq!([context.get(&kind, "waits"), context.get(&kind, "done")], before);
}
