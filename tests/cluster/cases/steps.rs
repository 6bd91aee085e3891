//! A crash between any two steps: the operator is killed right after its n-th write, for every n that its work needs.
//!
//! The server has carried out the write, but the operator gets no answer.

use serde_json::{Value, json};

use super::cases;
use super::examples::{DATABASE, apply_definition, database_children, example};
use crate::harness::{Case, Engine, Handler, Launch, TestContext};

pub(crate) const CASES: &[Case] = cases![
    a_database_survives_a_crash_after_any_first_write_of_four,
    a_database_survives_a_crash_after_any_second_write_of_four,
    a_database_survives_a_crash_after_any_third_write_of_four,
    a_database_survives_a_crash_after_any_fourth_write_of_four,
    an_object_survives_a_crash_after_any_write,
];

/// More writes than any of these cases needs; a case that reaches this does not end.
const TOO_MANY: usize = 80;

fn a_database_survives_a_crash_after_any_first_write_of_four(context: &TestContext<'_>) {
    database_with_crashes(context, 1);
}

fn a_database_survives_a_crash_after_any_second_write_of_four(context: &TestContext<'_>) {
    database_with_crashes(context, 2);
}

fn a_database_survives_a_crash_after_any_third_write_of_four(context: &TestContext<'_>) {
    database_with_crashes(context, 3);
}

fn a_database_survives_a_crash_after_any_fourth_write_of_four(context: &TestContext<'_>) {
    database_with_crashes(context, 4);
}

fn an_object_survives_a_crash_after_any_write(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = [
        Handler::on("create", "first"),
        Handler::on("create", "second"),
        Handler::on("update", "wider"),
        Handler::on("update", "taller"),
        Handler::on("delete", "empty"),
        Handler::on("delete", "remove"),
    ];
    let launch = context.launch(Engine::under_test(), std::slice::from_ref(&kind), &handlers);
    crash_after_each(context, &launch, 1, 1, |name| {
        context.create(&kind, name, json!({"size": 1}));
        context.handled(&kind, name);
        context.merge(&kind, name, json!({"spec": {"size": 2}}));
        context.handled_again(&kind, name);
        context.delete(&kind, name);
        context.gone(&kind, name);
        let mut calls = context.calls_of(name);
        // The interrupted call is repeated.
        calls.dedup();
        let expected = ["first#0", "second#0", "wider#0", "taller#0", "empty#0", "remove#0"];
        // As in kopf, the end of a deletion first purges the progress and then removes the finalizer, in two requests.
        // After a crash between the two, the object has no record of the handled deletion.
        let repeated = [&expected[..], &["empty#0", "remove#0"]].concat();
        assert!(calls == expected || calls == repeated, "the calls for {name} are {calls:?}");
    });
}

fn database_with_crashes(context: &TestContext<'_>, first: usize) {
    apply_definition(context, "database");
    let launch = context.launch_source(&example("database").join("operator.yaml"));
    crash_after_each(context, &launch, first, 4, |name| life_of_a_database(context, name));
}

/// Runs a case once for every write, until it ends before its crash was due.
fn crash_after_each(context: &TestContext<'_>, launch: &Launch, first: usize, step: usize, life: impl Fn(&str)) {
    for writes in (first..TOO_MANY).step_by(step) {
        context.start_and_crash_after(launch, writes);
        life(&format!("crash-{writes:02}"));
        if !context.end_crashing() {
            assert!(writes > 4, "a life takes more than {writes} writes");
            return;
        }
    }
    panic!("a life that takes {TOO_MANY} writes");
}

fn life_of_a_database(context: &TestContext<'_>, name: &str) {
    let kind = DATABASE.kind();
    context.create(&kind, name, json!({"engine": "mysql", "version": "8", "storage": "10Gi", "replicas": 2}));
    let object = context.handled(&kind, name);
    assert_eq!(object["status"]["state"], "Provisioning", "{object}");
    let backups = |object: &Value| database_children(context, object).iter().any(|child| child["kind"] == "CronJob");
    assert!(backups(&object) && database_children(context, &object).len() == 4, "a database has all its children");
    context.merge(&kind, name, json!({"spec": {"replicas": 3, "backupEnabled": false}}));
    let object = context.handled_again(&kind, name);
    assert_eq!(object["status"]["replicas"], 3, "{object}");
    let children = database_children(context, &object);
    let set = children.iter().find(|child| child["kind"] == "StatefulSet").expect("the set stays");
    assert_eq!((set["spec"]["replicas"].as_u64(), children.len()), (Some(3), 3), "it is scaled, and its backups are gone");
    context.merge(&kind, name, json!({"spec": {"backupEnabled": true}}));
    let object = context.handled_again(&kind, name);
    assert!(backups(&object), "the backups are back");
    context.delete(&kind, name);
    context.gone(&kind, name);
    context.eventually(&format!("all children of {name} are gone"), || database_children(context, &object).is_empty().then_some(()));
}
