//! The examples, run as described in their READMEs, with the promised results.

use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use kopfd::handling::hook::auth::{Algorithm, Encoding, Signature};

use super::cases;
use super::outside::send;
use super::peering::Peers;
use crate::harness::child::{ask, output};
use crate::harness::{Case, Kind, LIVENESS, Launch, Operator, TestContext, has_finalizer, last_handled};

pub(crate) const CASES: &[Case] = cases![
    the_errors_of_the_exceptions_example_match_its_table,
    the_sub_handlers_example_handles_each_item,
    the_handlers_example_calls_each_handler_for_its_cause,
    the_children_example_makes_a_job_that_is_deleted_with_its_parent,
    the_events_example_reports_pods_without_changing_them,
    the_filtering_example_calls_only_matching_handlers,
    the_hooks_example_calls_its_functions_in_their_order,
    the_indexing_example_publishes_what_the_indexes_have,
    the_minimal_example_returns_a_result,
    the_daemons_example_follows_its_object,
    the_timers_example_calls_its_functions_at_their_times,
    the_schedules_example_keeps_house,
    the_operators_of_the_peering_example_pause_for_each_other,
    the_admission_example_reviews_and_changes_objects,
    the_requests_to_the_hooks_example_touch_its_objects,
];

/// The kind of an example.
pub(crate) struct ExampleKind {
    /// Its group.
    pub(crate) group: &'static str,
    /// Its name.
    pub(crate) kind: &'static str,
    /// Its plural name.
    pub(crate) plural: &'static str,
}

/// The shared kind of the small examples.
pub(crate) const SMALL: ExampleKind = ExampleKind { group: "kopfd.dev", kind: "KopfdExample", plural: "kopfdexamples" };

impl ExampleKind {
    /// Returns the kind of its objects.
    pub(crate) fn kind(&self) -> Kind {
        Kind::of_group(self.group).named(self.kind, self.plural)
    }
}

/// Returns the directory of an example.
pub(crate) fn example(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(name)
}

/// Applies the definition of an example's kind, and waits until it is served.
pub(crate) fn apply_definition(context: &TestContext<'_>, name: &str) {
    let file = example(name).join("crd.yaml").display().to_string();
    // Several cases may do this at once, which server-side apply supports.
    context.cluster().kubectl_ok(&["apply", "--server-side", "--force-conflicts", "-f", &file]);
    context.cluster().kubectl_ok(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file]);
}

/// Starts an example's operator and applies its object in the namespace of the case.
fn run(context: &TestContext<'_>, name: &str) -> Rc<Operator> {
    run_with(context, name, &[])
}

/// Starts an example's operator with further options, and applies its object in the namespace of the case.
pub(crate) fn run_with(context: &TestContext<'_>, name: &str, options: &[&str]) -> Rc<Operator> {
    apply_definition(context, name);
    let operator = context.start(&launch_with(context, name, options));
    // Objects that exist before the watch are listed; later ones are added.
    log_says(context, &operator, " watches ");
    apply_object(context, name);
    operator
}

fn apply_object(context: &TestContext<'_>, name: &str) {
    let file = example(name).join("obj.yaml").display().to_string();
    context.cluster().kubectl_ok(&["apply", "-n", &context.namespace, "-f", &file]);
}

/// Returns the start options of an example with the derived rights and further options.
fn launch_with(context: &TestContext<'_>, name: &str, options: &[&str]) -> Launch {
    let launch = context.launch_source(&example(name).join("operator.yaml"));
    context
        .with_derived_rights(Launch { options: options.iter().map(|option| (*option).to_owned()).collect(), ..launch })
}

/// Copies an example into the directory of the case.
fn copy_example(context: &TestContext<'_>, name: &str) -> PathBuf {
    let copy = context.directory().join(name);
    let copied = output(Command::new("cp").arg("-r").arg(example(name)).arg(&copy));
    assert!(copied.status.success(), "the example can be copied");
    copy
}

/// Returns the start options of a copy of an example, with texts of its files replaced: its times are too long for a
/// case.
pub(crate) fn launch_copy(context: &TestContext<'_>, name: &str, changes: &[(&str, &str, &str)]) -> Launch {
    let copy = copy_example(context, name);
    for (file, text, replacement) in changes {
        let path = copy.join(file);
        let before = std::fs::read_to_string(&path).expect("the example has this file");
        assert!(before.contains(text), "{file} of {name} has {text:?}");
        std::fs::write(&path, before.replace(text, replacement)).expect("our own copy can be written");
    }
    context.launch_source(&copy.join("operator.yaml"))
}

/// Waits until the log of an operator has a line.
pub(crate) fn log_says(context: &TestContext<'_>, operator: &Operator, line: &str) {
    context.eventually(&format!("the log says {line:?}"), || operator.log().contains(line).then_some(()));
}

fn the_minimal_example_returns_a_result(context: &TestContext<'_>) {
    let operator = run(context, "01-minimal");
    let object = context.handled(&SMALL.kind(), "first-steps");
    assert_eq!(object["status"], json!({"on_create": {"message": "will take 1m"}}));
    log_says(context, &operator, "first-steps wants to take 1m.");
    log_says(context, &operator, "Handler 'on_create' succeeded.");
}

fn the_children_example_makes_a_job_that_is_deleted_with_its_parent(context: &TestContext<'_>) {
    run(context, "02-children");
    let parent = context.handled(&SMALL.kind(), "parent");
    let path = format!("/apis/batch/v1/namespaces/{}/jobs/parent-job", context.namespace);
    let job = context.client().get(&path).expect("the job is there");
    assert_eq!(parent["status"]["on_create"], json!({"job": "parent-job", "uid": job["metadata"]["uid"]}));
    assert_eq!(job["metadata"]["labels"]["family"], "example", "labels are inherited");
    let owner = &job["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["kind"]), (&parent["metadata"]["uid"], &json!("KopfdExample")));
    context.delete(&SMALL.kind(), "parent");
    context.eventually_within(Duration::from_mins(2), "the job goes with its parent", || {
        context.client().get(&path).is_none().then_some(())
    });
}

fn the_errors_of_the_exceptions_example_match_its_table(context: &TestContext<'_>) {
    let operator = run(context, "03-exceptions");
    let object = context.handled(&SMALL.kind(), "trouble");
    assert_eq!(object["status"], json!({"not_ready_yet": {"attempts": 3}}));
    for line in [
        "Handler 'not_ready_yet' failed temporarily: not ready yet",
        "Ready at attempt 3.",
        "Handler 'hopeless' failed permanently: cannot work with glass",
        "dropped it, attempt 3",
        "Handler 'slow' failed temporarily but will time out after 5",
        "Creation is processed: 2 succeeded; 3 failed.",
    ] {
        log_says(context, &operator, line);
    }
    assert!(!operator.log().contains("dropped it, attempt 4"), "three attempts are the limit");
}

fn the_handlers_example_calls_each_handler_for_its_cause(context: &TestContext<'_>) {
    let kind = SMALL.kind();
    let operator = run(context, "05-handlers");
    context.handled(&kind, "lifetime");
    for line in ["Event ADDED of lifetime.", "Created with size 1.", "The size goes from nothing to 1."] {
        log_says(context, &operator, line);
    }
    context.merge(&kind, "lifetime", json!({"spec": {"size": 2}}));
    context.handled_again(&kind, "lifetime");
    log_says(context, &operator, "change spec.size: 1 -> 2");
    log_says(context, &operator, "The size goes from 1 to 2.");
    context.merge(&kind, "lifetime", json!({"spec": {"colour": "blue"}}));
    let object = context.handled_again(&kind, "lifetime");
    assert_eq!(
        (&object["status"]["on_create"], &object["status"]["on_update"]),
        (&json!({"size": 1}), &json!({"changes": 1}))
    );
    assert_eq!(operator.log().matches("The size goes").count(), 2, "the field handler sees its field only");
    context.stop(&operator);
    let second = context.start(&launch_with(context, "05-handlers", &[]));
    log_says(context, &second, "Back at work on lifetime.");
    context.delete(&kind, "lifetime");
    context.gone(&kind, "lifetime");
    log_says(context, &second, "Farewell to lifetime.");
    log_says(context, &second, "Event DELETED of lifetime.");
    assert_eq!(second.log().matches("Created with size").count(), 1, "the creation is not repeated");
}

fn the_sub_handlers_example_handles_each_item(context: &TestContext<'_>) {
    let kind = SMALL.kind();
    let operator = run(context, "07-subhandlers");
    let object = context.handled(&kind, "list");
    for (item, attempts) in [("easy", 1), ("stubborn", 2), ("plain", 1)] {
        assert_eq!(object["status"][format!("each_item/{item}")], json!({"item": item, "attempts": attempts}));
        assert_eq!(operator.log().matches(&format!("Item {item} is done.")).count(), 1, "each item is done once");
    }
    context.merge(&kind, "list", json!({"spec": {"items": ["easy", "new"]}}));
    let object = context.handled_again(&kind, "list");
    assert_eq!(object["status"]["each_item/new"], json!({"item": "new", "attempts": 1}));
}

fn the_events_example_reports_pods_without_changing_them(context: &TestContext<'_>) {
    let operator = context.start(&launch_with(context, "08-events", &[]));
    let pods = Kind::core("Pod", "pods", true);
    apply_object(context, "08-events");
    log_says(context, &operator, "Event 1 of pod watched-pod:");
    log_says(context, &operator, "A marked pod: watched-pod at version");
    let before = context.get(&pods, "watched-pod").expect("it is there");
    context.merge(&pods, "watched-pod", json!({"metadata": {"labels": {"colour": "red"}}}));
    log_says(context, &operator, "of pod watched-pod: MODIFIED, phase Pending.");
    let after = context.get(&pods, "watched-pod").expect("it is there");
    for part in ["annotations", "finalizers"] {
        assert_eq!(before["metadata"].get(part), after["metadata"].get(part), "events leave no trace");
    }
    assert!(!has_finalizer(&after) && last_handled(&after).is_none());
    context.delete(&pods, "watched-pod");
    log_says(context, &operator, "of pod watched-pod: DELETED");
}

fn the_filtering_example_calls_only_matching_handlers(context: &TestContext<'_>) {
    let kind = SMALL.kind();
    run(context, "11-filtering");
    let called = |object: &Value| -> Vec<String> {
        object["status"].as_object().expect("there are results").keys().cloned().collect()
    };
    let mut expected = [
        "by_absence",
        "by_choice",
        "by_expression",
        "by_label",
        "by_length",
        "by_pattern",
        "by_presence",
        "by_value/spec.mode",
    ]
    .map(String::from)
    .to_vec();
    assert_eq!(called(&context.handled(&kind, "choosy")), expected);
    context.merge(&kind, "choosy", json!({"spec": {"mode": "slow", "replicas": 5}}));
    expected.extend(["by_change/spec.mode", "by_growth/spec.replicas"].map(String::from));
    expected.sort();
    assert_eq!(called(&context.handled_again(&kind, "choosy")), expected);
    context.merge(&kind, "choosy", json!({"spec": {"mode": "fast", "replicas": 1}}));
    assert_eq!(called(&context.handled_again(&kind, "choosy")), expected, "neither filter lets the way back through");
}

fn the_hooks_example_calls_its_functions_in_their_order(context: &TestContext<'_>) {
    let operator = context.start(&launch_with(context, "13-hooks", &[LIVENESS]));
    log_says(context, &operator, " watches ");
    apply_object(context, "13-hooks");
    let served = format!("{}/served", context.namespace);
    context.eventually("the pod is served", || {
        let (status, answer) = ask(&operator.endpoints(), "GET", "/healthz");
        (status == 200 && answer.ends_with(&json!({"served_count": 1, "served_pods": [served]}).to_string()))
            .then_some(())
    });
    context.stop(&operator);
    let log = operator.log();
    let lines = [
        "Everything is prepared.",
        "Activity 'wait_for_others' failed temporarily: 1 more attempts",
        "The others are ready.",
        "Signed in.",
        " watches ",
        "Serving is finished: [\"OPERATOR_EXITING\"].",
        "Goodbye; 0 pods are still served.",
    ];
    let places = lines.map(|line| log.find(line).unwrap_or_else(|| panic!("{line:?} is missing in:\n{log}")));
    assert!(places.is_sorted(), "the lines are in their order:\n{log}");
}

fn the_indexing_example_publishes_what_the_indexes_have(context: &TestContext<'_>) {
    let (kind, pods, namespace) = (SMALL.kind(), Kind::core("Pod", "pods", true), &context.namespace);
    apply_definition(context, "16-indexing");
    apply_object(context, "16-indexing");
    let operator = context.start(&launch_with(context, "16-indexing", &[LIVENESS]));
    let [first, second] = ["first", "second"].map(|name| format!("{namespace}/{name}"));
    let status = |running: &[&String], mine: &[&String]| json!({"running": running, "mine": mine});
    // The first call of the timer sees both pods, however long they take to be listed.
    let object = context.object(&kind, "reporter", "is reported", |object| object["status"].is_object());
    assert_eq!(object["status"], status(&[], &[&first, &second]));
    let path = format!("{}/status", pods.path(namespace, "first"));
    context.client().merge(&path, &json!({"status": {"phase": "Running"}}));
    context.merge(&pods, "second", json!({"metadata": {"labels": {"app": "other"}}}));
    context.object(&kind, "reporter", "follows the pods", |object| object["status"] == status(&[&first], &[&first]));
    let (_, answer) = ask(&operator.endpoints(), "GET", "/healthz");
    assert!(answer.ends_with(r#"{"pod_count":2,"pod_names":["first","second"]}"#), "{answer}");
    context.delete(&pods, "first");
    context.object(&kind, "reporter", "forgets the pod", |object| object["status"] == status(&[], &[]));
}

fn the_daemons_example_follows_its_object(context: &TestContext<'_>) {
    let kind = SMALL.kind();
    let operator = run(context, "14-daemons");
    let watched = context.object(&kind, "watched", "has the finalizer", has_finalizer);
    assert!(watched["status"].get("guard").is_none(), "the other daemon does not match");
    context.merge(&kind, "watched", json!({"spec": {"size": 2}}));
    log_says(context, &operator, "The size went from 1 to 2.");
    context.merge(&kind, "watched", json!({"metadata": {"labels": {"guarded": "yes"}}}));
    context.object(&kind, "watched", "is guarded", |object| object["status"]["guard"]["rounds"] == 2);
    context.merge(&kind, "watched", json!({"metadata": {"labels": {"guarded": null}}}));
    context.stop(&operator);
    log_says(context, &operator, "Stopped: [\"OPERATOR_EXITING\"].");
    let second = context.start(&launch_with(context, "14-daemons", &[LIVENESS]));
    let endpoints = second.endpoints();
    // The daemon compares the size with the one at its start.
    let is_running = "handler=\"watch_size\",type=\"daemon\",state=\"calling\"} 1";
    context.eventually("the daemon runs again", || {
        ask(&endpoints, "GET", "/metrics").1.contains(is_running).then_some(())
    });
    context.merge(&kind, "watched", json!({"spec": {"size": 3}}));
    log_says(context, &second, "to 3.");
    context.delete(&kind, "watched");
    context.gone(&kind, "watched");
    log_says(context, &second, "Stopped: [\"RESOURCE_DELETED\"].");
}

fn the_timers_example_calls_its_functions_at_their_times(context: &TestContext<'_>) {
    let kind = SMALL.kind();
    let changes = [
        ("operator.yaml", "interval: 60s", "interval: 2s"),
        ("operator.yaml", "spec.delay ?? 5", "spec.delay / 10"),
        ("operator.yaml", "idle: 30s", "idle: 2s"),
        ("operator.yaml", "0 6 * * *", "*/2 * * * * *"),
        ("timers.rhai", "temporary(\"not yet\", 10)", "temporary(\"not yet\", 1)"),
    ];
    apply_definition(context, "15-timers");
    let operator = context.start(&context.with_derived_rights(launch_copy(context, "15-timers", &changes)));
    log_says(context, &operator, " watches ");
    apply_object(context, "15-timers");
    log_says(context, &operator, "The size has settled at 1.");
    context.merge(&kind, "timed", json!({"spec": {"size": 2}}));
    context.merge(&kind, "timed", json!({"spec": {"size": 3}}));
    log_says(context, &operator, "The size has settled at 3.");
    context.object(&kind, "timed", "is called every two seconds", |object| {
        object["status"]["every_minute"]["calls"].as_u64() >= Some(4)
    });
    log_says(context, &operator, "Good morning.");
    let log = operator.log();
    assert!(!log.contains("The size has settled at 2."), "the object was not quiet:\n{log}");
    assert_eq!(
        log.matches("Timer 'every_minute' failed temporarily: not yet").count(),
        1,
        "one attempt is repeated:\n{log}"
    );
    context.delete(&kind, "timed");
    context.gone(&kind, "timed");
}

/// Returns the start options of the schedules example with ticks every few seconds, and with its report in the
/// namespace of the case.
pub(crate) fn launch_schedules(context: &TestContext<'_>) -> Launch {
    let namespace = format!("namespace: \"{}\"", context.namespace);
    let changes = [
        ("operator.yaml", "*/15 * * * *", "*/2 * * * * *"),
        ("operator.yaml", "0 6 * * mon-fri", "*/3 * * * * *"),
        ("housekeeping.rhai", "namespace: \"default\"", namespace.as_str()),
    ];
    launch_copy(context, "schedules", &changes)
}

fn the_schedules_example_keeps_house(context: &TestContext<'_>) {
    let maps = Kind::core("ConfigMap", "configmaps", true);
    let create = |name: &str, team: &str, expires: Option<&str>| {
        let annotations = expires.map(|expires| json!({"housekeeping/expires": expires})).unwrap_or_default();
        let metadata = json!({"name": name, "labels": {"housekeeping/team": team}, "annotations": annotations});
        context.client().create(
            &maps.collection(&context.namespace),
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}),
        );
    };
    create("draft", "web", Some("2024-03-01T12:20:00Z"));
    create("kept", "web", Some("2124-03-01T12:20:00Z"));
    create("other", "shop", None);
    let operator = context.start(&context.with_derived_rights(launch_schedules(context)));
    context.gone(&maps, "draft");
    log_says(context, &operator, &format!("{}/draft has expired.", context.namespace));
    let report = context
        .object(&maps, "report", "counts the teams", |object| object["data"] == json!({"web": "1", "shop": "1"}));
    context.object(&maps, "report", "is made at the next tick, too", |object| {
        object["metadata"]["annotations"]["housekeeping/of"] != report["metadata"]["annotations"]["housekeeping/of"]
    });
    assert!(context.get(&maps, "kept").is_some(), "what has not expired stays");
}

fn the_operators_of_the_peering_example_pause_for_each_other(context: &TestContext<'_>) {
    let (kind, peers) = (SMALL.kind(), Peers::new(context, false));
    apply_definition(context, "06-peering");
    let peering = format!("--peering={}", peers.name());
    let launch = |log: &str, options: &[&str]| {
        let launch = launch_with(context, "06-peering", &[&[peering.as_str()], options].concat());
        Launch { log: context.directory().join(log), ..launch }
    };
    let first = context.start(&launch("first.log", &[]));
    log_says(context, &first, " watches ");
    let create = |name: &str| {
        let object = json!({"apiVersion": "kopfd.dev/v1", "kind": "KopfdExample", "metadata": {"name": name}});
        context.client().create(&kind.collection(&context.namespace), &object);
        context.handled(&kind, name);
    };
    create("peered");
    let second = context.start(&launch("second.log", &[]));
    for operator in [&first, &second] {
        log_says(context, operator, "Possibly conflicting operators with the same priority: [<Peer ");
    }
    log_says(context, &first, "Pausing all operators, including self: [<Peer ");
    context.stop(&second);
    log_says(context, &first, "Resuming operations after the pause.");
    let developed = context.start(&launch("developed.log", &["--dev"]));
    log_says(context, &first, "Pausing operations in favour of [<Peer ");
    create("meanwhile");
    log_says(context, &developed, "Creation is processed: 1 succeeded; 0 failed.");
    context.stop(&developed);
    // A mandatory peering begins with a pause, and the second one was that of equal priorities.
    context.eventually("the first operator resumes again", || {
        (first.log().matches("Resuming operations after the pause.").count() == 3).then_some(())
    });
    context.stop(&first);
}

/// Copies the admission example with a kind of its own, since webhooks see the requests of all cases, and with a free
/// port.
pub(crate) fn copy_admission(context: &TestContext<'_>) -> PathBuf {
    let copy = copy_example(context, "17-admission");
    let (group, short_name) = (format!("{}.kopfd.dev", context.namespace), format!("guarded-{}", context.namespace));
    let files = ["crd.yaml", "obj.yaml", "operator.yaml", "scenarios/admission.yaml", "scenarios/disturbed.yaml"];
    for file in files.map(|file| copy.join(file)) {
        let text = std::fs::read_to_string(&file).expect("the example has this file");
        let text = text
            .replace("kopfd.dev", &group)
            .replace("KopfdExample", GUARDED.0)
            .replace("kopfdexample", &GUARDED.0.to_lowercase());
        // The manifest and the scenarios themselves are of kopfd's group.
        let text = ["Operator", "Scenario"].iter().fold(text, |text, kind| {
            text.replace(
                &format!("apiVersion: {group}/v1\nkind: {kind}"),
                &format!("apiVersion: kopfd.dev/v1\nkind: {kind}"),
            )
        });
        let text = text.replace("kex", &short_name).replace("port: 9443, host: localhost", "addr: 127.0.0.1");
        std::fs::write(&file, text).expect("our own copy can be written");
    }
    let definition = copy.join("crd.yaml").display().to_string();
    context.cluster().kubectl_ok(&["apply", "--server-side", "-f", &definition]);
    context.cluster().kubectl_ok(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &definition]);
    copy
}

/// The kind of the copy of the admission example, and its plural name: other examples name theirs without a group.
const GUARDED: (&str, &str) = ("GuardedExample", "guardedexamples");

fn the_admission_example_reviews_and_changes_objects(context: &TestContext<'_>) {
    let copy = copy_admission(context);
    let kind = Kind::of_group(&format!("{}.kopfd.dev", context.namespace)).named(GUARDED.0, GUARDED.1);
    let operator = context.start(&context.with_derived_rights(context.launch_source(&copy.join("operator.yaml"))));
    let create = |name: &str, value: &str, query: &str| {
        let object = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name}, "spec": {"field": value}});
        let path = format!("{}{query}", kind.collection(&context.namespace));
        context.client().request("POST", &path, "application/json", Some(&object))
    };
    // The webhooks may not be registered yet: a dry run leaves no object behind.
    context.eventually("the API server calls the webhooks", || create("lazy", "not-allowed", "?dryRun=All").err());
    let denied = create("wrong", "wrong", "").expect_err("it is denied");
    assert!(denied.status == 500 && denied.message.ends_with("Meh! I don't like it. Change the field."), "{denied}");
    let lazy = create("lazy", "not-allowed", "").expect_err("it is denied");
    assert!(lazy.status == 555 && lazy.message.ends_with("I'm too lazy anyway. Go away!"), "{lazy}");
    let object = copy.join("obj.yaml").display().to_string();
    let applied = context.cluster().kubectl(&["apply", "-n", &context.namespace, "-f", &object]);
    let warnings = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(applied.status.success(), "{warnings}");
    for warning in
        ["Accessing as user-agent: kube-apiserver-admission", "SSL peer is not identified.", "You are admin."]
    {
        assert!(warnings.contains(&format!("Warning: {warning}")), "{warning} is missing: {warnings}");
    }
    assert_eq!(
        context.get(&kind, "admitted").expect("it is there")["spec"],
        json!({"field": "value", "injected": 123})
    );
    context.delete(&kind, "admitted");
    context.stop(&operator);
}

fn the_requests_to_the_hooks_example_touch_its_objects(context: &TestContext<'_>) {
    let kind = Kind::of_group("example.com").named("Mirror", "mirrors");
    apply_definition(context, "hooks");
    // Secrets without a namespace are those of the operator's own.
    context.cluster().kubectl_ok(&[
        "apply",
        "-n",
        "default",
        "-f",
        &example("hooks").join("secret.yaml").display().to_string(),
    ]);
    let operator = context.start(&launch_with(context, "hooks", &[LIVENESS]));
    log_says(context, &operator, " watches ");
    apply_object(context, "hooks");
    let address = operator.endpoints();
    let refresh = |token: &str, name: &str| {
        let path = format!("/refresh?namespace={}&name={name}", context.namespace);
        send(&address, &format!("Authorization: Bearer {token}"), "POST", &path, Some(&json!({})))
    };
    context.eventually("the mirror is known", || (refresh("not-a-real-token", "hello").0 == 202).then_some(()));
    assert_eq!(refresh("not-a-real-token", "other").0, 404);
    assert_eq!(refresh("wrong", "hello").0, 403);
    let push = json!({"after": "6dcb09b", "repository": {"full_name": "octocat/hello-world"}});
    let form = Signature {
        header: String::new(),
        algorithm: Algorithm::Sha256,
        prefix: "sha256=".to_owned(),
        encoding: Encoding::Hex,
    };
    let signature = form.sign(b"It's a Secret to Everybody", push.to_string().as_bytes());
    let headers = format!("X-GitHub-Event: push\r\nX-GitHub-Delivery: 1\r\nX-Hub-Signature-256: {signature}");
    assert_eq!(send(&address, &headers, "POST", "/github", Some(&push)), (200, json!({"touched": 1})));
    context.object(&kind, "hello", "has the commit", |object| object["status"]["commit"] == "6dcb09b");
    context.stop(&operator);
}
