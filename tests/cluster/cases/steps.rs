//! A crash between any two steps: the operator is killed right after its n-th write, for every n that its work needs.
//!
//! The server has carried out the write, but the operator gets no answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cases;
use super::database::{self, DATABASE, children, run_pods, stateful_set};
use super::examples::{apply_definition, example};
use crate::harness::{Case, Engine, Handler, Kind, Launch, Record, TestContext};

pub(crate) const CASES: &[Case] = cases![
    a_database_survives_a_crash_after_any_first_write_of_four,
    a_database_survives_a_crash_after_any_second_write_of_four,
    a_database_survives_a_crash_after_any_third_write_of_four,
    a_database_survives_a_crash_after_any_fourth_write_of_four,
    a_repair_survives_a_crash_after_any_write,
    an_object_survives_a_crash_after_any_write,
];

/// The children of a database: group, kind, plural, the end of the name, and how often a life makes them. The backups
/// are toggled.
const CHILDREN: [(&str, &str, &str, &str, usize); 4] = [
    ("apps", "StatefulSet", "statefulsets", "db", 1),
    ("", "Service", "services", "db", 1),
    ("", "PersistentVolumeClaim", "persistentvolumeclaims", "data", 1),
    ("batch", "CronJob", "cronjobs", "backup", 2),
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
    let records = CHILDREN.map(|(group, kind, plural, ..)| context.record(&Kind::of_group(group).named(kind, plural)));
    let states = RefCell::<BTreeSet<String>>::default();
    crash_after_each(context, &launch, first, 4, |name| {
        states.borrow_mut().insert(life_of_a_database(context, name));
        for (record, (_, kind, _, suffix, times)) in records.iter().zip(CHILDREN) {
            assert_eq!(
                times_made(record, &format!("{name}-{suffix}")),
                times,
                "how often the {kind} of {name} was made"
            );
        }
    });
    let states = states.into_inner();
    assert_eq!(states.len(), 1, "a crash changes nothing in the end: {states:#?}");
}

/// Returns how many objects of a name there have been.
fn times_made(record: &Record, name: &str) -> usize {
    let versions = record.versions(name);
    let uids = versions.iter().filter_map(|version| version.object.as_ref()?["metadata"]["uid"].as_str());
    uids.collect::<BTreeSet<_>>().len()
}

/// The timer repairs what happens behind the operator's back, and the operator crashes meanwhile.
fn a_repair_survives_a_crash_after_any_write(context: &TestContext<'_>) {
    let (kind, name) = (DATABASE.kind(), "repaired");
    let sets = context.record(&Kind::of_group("apps").named("StatefulSet", "statefulsets"));
    let launch = database::launch(context);
    let operator = context.start(&launch);
    context.create(&kind, name, json!({"engine": "mariadb", "version": "11", "storage": "1Gi", "replicas": 2}));
    context.handled(&kind, name);
    context.kill(&operator);
    let set = stateful_set(&context.namespace, name);
    let repaired = |what: &str| {
        context.eventually(what, || {
            run_pods(context, &context.namespace, name);
            let (object, set) = (context.get(&kind, name)?, context.client().get(&set)?);
            let is_seen = object["status"]["state"] == "Ready" && object["status"]["readyReplicas"] == 2;
            (is_seen && set["spec"]["replicas"] == 2 && set["status"]["readyReplicas"] == 2).then_some(object)
        })
    };
    let made = Cell::new(1);
    crash_after_each(context, &launch, 1, 1, |life| {
        repaired(&format!("{life}: the database is ready"));
        context.client().merge(&set, &json!({"spec": {"replicas": 1}}));
        repaired(&format!("{life}: the StatefulSet is scaled back"));
        context.client().delete(&set);
        made.set(made.get() + 1);
        let object = repaired(&format!("{life}: the StatefulSet is made again"));
        assert_eq!(
            (times_made(&sets, "repaired-db"), children(context, &object).len()),
            (made.get(), 4),
            "{life}: it is made once"
        );
    });
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

/// Returns what the database and its children are before the deletion.
fn life_of_a_database(context: &TestContext<'_>, name: &str) -> String {
    let kind = DATABASE.kind();
    context.create(&kind, name, json!({"engine": "mysql", "version": "8", "storage": "10Gi", "replicas": 2}));
    let object = context.handled(&kind, name);
    assert_eq!(object["status"]["state"], "Provisioning", "{object}");
    let backups = |object: &Value| children(context, object).iter().any(|child| child["kind"] == "CronJob");
    assert!(backups(&object) && children(context, &object).len() == 4, "a database has all its children");
    context.merge(&kind, name, json!({"spec": {"replicas": 3, "backupEnabled": false}}));
    let object = context.handled_again(&kind, name);
    assert_eq!(object["status"]["replicas"], 3, "{object}");
    let left = children(context, &object);
    let set = left.iter().find(|child| child["kind"] == "StatefulSet").expect("the set stays");
    assert_eq!((set["spec"]["replicas"].as_u64(), left.len()), (Some(3), 3), "it is scaled, and its backups are gone");
    context.merge(&kind, name, json!({"spec": {"backupEnabled": true}}));
    let object = context.handled_again(&kind, name);
    assert!(backups(&object), "the backups are back");
    let in_the_end = outcome(&object, &children(context, &object));
    context.delete(&kind, name);
    context.gone(&kind, name);
    context.eventually(&format!("all children of {name} are gone"), || {
        children(context, &object).is_empty().then_some(())
    });
    in_the_end
}

/// Returns what must be the same after any crash.
fn outcome(database: &Value, children: &[Value]) -> String {
    let status = &database["status"];
    let [database_spec, finalizers] = [&database["spec"], &database["metadata"]["finalizers"]];
    let of_child = |child: &Value| {
        json!([child["kind"], child["metadata"]["ownerReferences"].as_array().map(Vec::len), child["spec"]["replicas"]])
    };
    let children: Vec<Value> = children.iter().map(of_child).collect();
    json!([database_spec, finalizers, status["engine"], status["version"], status["replicas"], children]).to_string()
}
