//! A crash between any two steps: the operator is killed right after its n-th write, for every n that its work needs.
//!
//! The server has carried out the write, but the operator gets no answer.

use serde_json::{Value, json};

use super::cases;
use super::examples::{DATABASE, apply_definition, database_children, example};
use crate::harness::{Case, Engine, Handler, Launch, Scene};

pub(crate) const CASES: &[Case] = cases![
    a_database_outlives_a_crash_after_any_first_write_of_four,
    a_database_outlives_a_crash_after_any_second_write_of_four,
    a_database_outlives_a_crash_after_any_third_write_of_four,
    a_database_outlives_a_crash_after_any_fourth_write_of_four,
    an_object_outlives_a_crash_after_any_write,
];

/// More writes than any of these cases needs; a case that reaches this does not end.
const TOO_MANY: usize = 80;

fn a_database_outlives_a_crash_after_any_first_write_of_four(scene: &Scene<'_>) {
    database_with_crashes(scene, 1);
}

fn a_database_outlives_a_crash_after_any_second_write_of_four(scene: &Scene<'_>) {
    database_with_crashes(scene, 2);
}

fn a_database_outlives_a_crash_after_any_third_write_of_four(scene: &Scene<'_>) {
    database_with_crashes(scene, 3);
}

fn a_database_outlives_a_crash_after_any_fourth_write_of_four(scene: &Scene<'_>) {
    database_with_crashes(scene, 4);
}

fn an_object_outlives_a_crash_after_any_write(scene: &Scene<'_>) {
    let kind = scene.thing();
    let handlers = [
        Handler::on("create", "first"),
        Handler::on("create", "second"),
        Handler::on("update", "wider"),
        Handler::on("update", "taller"),
        Handler::on("delete", "empty"),
        Handler::on("delete", "remove"),
    ];
    let launch = scene.launch(Engine::under_test(), std::slice::from_ref(&kind), &handlers);
    crash_after_each(scene, &launch, 1, 1, |name| {
        scene.create(&kind, name, json!({"size": 1}));
        scene.handled(&kind, name);
        scene.merge(&kind, name, json!({"spec": {"size": 2}}));
        scene.handled_again(&kind, name);
        scene.delete(&kind, name);
        scene.gone(&kind, name);
        let mut calls = scene.calls_of(name);
        // The interrupted call is repeated.
        calls.dedup();
        let expected = ["first#0", "second#0", "wider#0", "taller#0", "empty#0", "remove#0"];
        // As in kopf, the end of a deletion first purges the progress and then removes the finalizer, in two requests.
        // After a crash between the two, the object has no record of the handled deletion.
        let repeated = [&expected[..], &["empty#0", "remove#0"]].concat();
        assert!(calls == expected || calls == repeated, "the calls for {name} are {calls:?}");
    });
}

fn database_with_crashes(scene: &Scene<'_>, first: usize) {
    apply_definition(scene, "database");
    let launch = scene.launch_source(&example("database").join("operator.yaml"));
    crash_after_each(scene, &launch, first, 4, |name| life_of_a_database(scene, name));
}

/// Runs a case once for every write, until it ends before its crash was due.
fn crash_after_each(scene: &Scene<'_>, launch: &Launch, first: usize, step: usize, life: impl Fn(&str)) {
    for writes in (first..TOO_MANY).step_by(step) {
        scene.start_and_crash_after(launch, writes);
        life(&format!("crash-{writes:02}"));
        if !scene.end_crashing() {
            assert!(writes > 4, "a life takes more than {writes} writes");
            return;
        }
    }
    panic!("a life that takes {TOO_MANY} writes");
}

fn life_of_a_database(scene: &Scene<'_>, name: &str) {
    let kind = DATABASE.kind();
    scene.create(&kind, name, json!({"engine": "mysql", "version": "8", "storage": "10Gi", "replicas": 2}));
    let object = scene.handled(&kind, name);
    assert_eq!(object["status"]["state"], "Provisioning", "{object}");
    let backups = |object: &Value| database_children(scene, object).iter().any(|child| child["kind"] == "CronJob");
    assert!(backups(&object) && database_children(scene, &object).len() == 4, "a database has all its children");
    scene.merge(&kind, name, json!({"spec": {"replicas": 3, "backupEnabled": false}}));
    let object = scene.handled_again(&kind, name);
    assert_eq!(object["status"]["replicas"], 3, "{object}");
    let children = database_children(scene, &object);
    let set = children.iter().find(|child| child["kind"] == "StatefulSet").expect("the set stays");
    assert_eq!((set["spec"]["replicas"].as_u64(), children.len()), (Some(3), 3), "it is scaled, and its backups are gone");
    scene.merge(&kind, name, json!({"spec": {"backupEnabled": true}}));
    let object = scene.handled_again(&kind, name);
    assert!(backups(&object), "the backups are back");
    scene.delete(&kind, name);
    scene.gone(&kind, name);
    scene.eventually(&format!("all children of {name} are gone"), || database_children(scene, &object).is_empty().then_some(()));
}
