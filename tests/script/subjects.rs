//! Every kind of binding is called for its subject, and gets each of its arguments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopfd::handling::{Reason, Verdict};
use kopfd::object::{Body, EventKind};
use kopfd::script::interface::subject::{Activity, HookRequest, ReviewRequest};
use kopfd::script::language::arguments::known;
use kopfd::script::{BindingKind, Fibers, LiveBody, Object, Options, Returned, StopFlag, Stopped, Subject, Threads};
use serde_json::{Value, json};

use super::world::{Operator, START, World, in_virtual_time, object};

/// The arguments that are handles without a JSON form: calling them shows that they exist.
const HANDLES: [(&str, &str); 4] = [
    ("shared", "shared.get(\"x\")"),
    ("logger", "{ logger.info(\"x\"); true }"),
    ("stopped", "stopped.is_set()"),
    ("warnings", "warnings.len()"),
];

fn request(operation: &str) -> Arc<ReviewRequest> {
    Arc::new(ReviewRequest {
        dryrun: true,
        operation: operation.into(),
        subresource: Some("status".into()),
        userinfo: json!({"username": "me"}),
        sslpeer: json!({"subject": "cn"}),
        headers: json!({"x-a": "b"}),
    })
}

fn hook_request() -> HookRequest {
    let entry = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    HookRequest {
        method: "POST".to_owned(),
        path: "/a".to_owned(),
        query: entry("x", "1"),
        headers: entry("x-a", "b"),
        body: bytes::Bytes::from_static(b"{}"),
        json: Some(json!({})),
        certificate: None,
    }
}

fn bodies(name: &str) -> Arc<[Body]> {
    Arc::from([Body::from(json!({"metadata": {"name": name}}))])
}

fn settings() -> Arc<Value> {
    Arc::new(json!({"posting": {"enabled": false, "level": 20}}))
}

/// Returns the subject of a kind of binding.
fn subject(world: &World, kind: BindingKind) -> Subject {
    let object = world.object("u-1");
    let activity = |activity| Subject::Activity { activity, settings: settings() };
    let (live, stopped) = (LiveBody::new(object.body.clone()), Stopped::default());
    match kind {
        BindingKind::Change => world.creation("u-1"),
        BindingKind::Event => Subject::Event { object, event_kind: EventKind::Modified },
        BindingKind::Index => Subject::Index { object },
        BindingKind::Map => Subject::Related { object },
        BindingKind::Timer | BindingKind::Daemon => {
            let Object { resource, memo, .. } = object;
            Subject::Background { resource, live, memo, stopped }
        }
        BindingKind::Validate | BindingKind::Mutate => {
            let old = Body::from(json!({"spec": {"size": 1}}));
            let (old, new) = (Some(old.into()), Some(object.body.clone()));
            Subject::Review { object, old, new, request: request("UPDATE") }
        }
        BindingKind::Convert => {
            Subject::Conversion { resource: object.resource, body: object.body, version: "example.com/v2".into() }
        }
        BindingKind::Startup => activity(Activity::Startup),
        BindingKind::Activity => activity(Activity::Probe),
        BindingKind::Login => activity(Activity::Login),
        BindingKind::Schedule => Subject::Schedule { scheduled_at: START.parse().unwrap(), settings: settings() },
        BindingKind::Hook => Subject::Hook { request: Arc::new(hook_request()) },
        BindingKind::Reconcile => {
            Subject::Reconcile { object, live, stopped, children: bodies("child"), related: bodies("related") }
        }
    }
}

/// Returns the expected value of each argument, for a kind of binding.
fn expected(kind: BindingKind, name: &str) -> Value {
    let whole = object();
    let is_review = matches!(kind, BindingKind::Validate | BindingKind::Mutate);
    match name {
        "body" => whole,
        "spec" => whole["spec"].clone(),
        "meta" => whole["metadata"].clone(),
        "labels" => whole["metadata"]["labels"].clone(),
        "status" | "annotations" | "memo" | "patch" => json!({}),
        "name" => json!("obj"),
        "namespace" => json!("ns"),
        "uid" => json!("u-1"),
        "resource" => json!("examples"),
        "logger" | "dryrun" => json!(true),
        "param" => json!({"p": 1}),
        "retry" => json!(2),
        "started" | "scheduled_at" => json!(START),
        "runtime" => json!(0.0),
        "reason" => json!("create"),
        "old" if is_review => json!({"spec": {"size": 1}}),
        "old" | "shared" => json!(null),
        "new" if is_review => whole,
        "new" => json!({"spec": whole["spec"]}),
        "diff" if is_review => json!("change"),
        "diff" => json!("add"),
        "event" => json!({"type": "MODIFIED", "object": whole}),
        "type" => json!("MODIFIED"),
        "stopped" => json!(false),
        "children" => json!([{"metadata": {"name": "child"}}]),
        "related" => json!([{"metadata": {"name": "related"}}]),
        "operation" => json!("UPDATE"),
        "subresource" => json!("status"),
        "userinfo" => json!({"username": "me"}),
        "sslpeer" => json!({"subject": "cn"}),
        "headers" => json!({"x-a": "b"}),
        "warnings" => json!(0),
        "version" => json!("example.com/v2"),
        "request" => json!({
            "method": "POST", "path": "/a", "query": {"x": "1"}, "headers": {"x-a": "b"}, "body": "{}", "json": {}, "certificate": null,
        }),
        "settings" => (*settings()).clone(),
        "activity" if kind == BindingKind::Startup => json!("startup"),
        "activity" if kind == BindingKind::Login => json!("login"),
        "activity" => json!("probe"),
        other => panic!("the argument {other} is expected to be nothing"),
    }
}

/// Returns the expression that reads an argument.
fn look(name: &str) -> String {
    match name {
        // For lists and maps whose other entries are tested elsewhere, one entry is enough.
        "diff" => "if diff.some(|item| item.op == \"change\") { \"change\" } else { diff[0].op }".to_owned(),
        "resource" => "resource.plural".to_owned(),
        "memo" => "memo.copy()".to_owned(),
        _ => HANDLES
            .iter()
            .find(|(handle, _)| *handle == name)
            .map_or_else(|| name.to_owned(), |(_, look)| (*look).to_owned()),
    }
}

/// Returns the result; an index function's is an entry without a key, and a hook's is its answer.
fn result(returned: Returned) -> Value {
    if let Some(entries) = returned.entries {
        return entries[0].1.to_value();
    }
    if let Some(answer) = returned.answer {
        return serde_json::from_slice(&answer.body).unwrap();
    }
    match returned.verdict {
        Verdict::Returned(result) => result.unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

async fn run(kind: BindingKind, text: &str, subject: impl FnOnce(&World) -> Subject) -> Returned {
    let world = Operator::new("").runs_for(kind, text).start().await;
    let subject = subject(&world);
    world.call_for(0, subject).await
}

#[test]
fn every_kind_of_binding_sees_each_of_its_arguments() {
    for kind in BindingKind::ALL {
        for name in known(kind).into_iter().filter(|name| *name != "kwargs") {
            let text = format!("let seen = {}; return [seen];", look(name));
            let found = in_virtual_time(run(kind, &text, |world| subject(world, kind)));
            assert_eq!(result(found), json!([expected(kind, name)]), "{kind:?}: {name}");
        }
    }
}

#[test]
fn a_map_of_everything_has_exactly_the_arguments() {
    for kind in BindingKind::ALL {
        let found = in_virtual_time(run(kind, "return kwargs.keys();", |world| subject(world, kind)));
        let mut names: Vec<&str> = known(kind).into_iter().filter(|name| *name != "kwargs").collect();
        names.sort_unstable();
        assert_eq!(result(found), json!(names), "{kind:?}");
    }
}

#[test]
fn a_binding_is_not_called_for_a_subject_of_another_kind() {
    let returned =
        in_virtual_time(run(BindingKind::Change, "return 1;", |world| Subject::Index { object: world.object("u-1") }));
    assert!(matches!(returned.verdict, Verdict::Failed { .. }), "{:?}", returned.verdict);
}

#[test]
fn running_functions_see_the_newest_object_and_keep_what_they_took_out() {
    // Captured values are taken out, too.
    let text = "let before = spec.size; let taken = spec; let read = || spec.size; sleep(2); return [before, taken.size, spec.size, kwargs.spec.size, kwargs.labels.new, name, read.call()];";
    for kind in [BindingKind::Daemon, BindingKind::Timer, BindingKind::Reconcile] {
        let found = in_virtual_time(async {
            let world = Operator::new("").runs_for(kind, text).start().await;
            let called = subject(&world, kind);
            let live = Arc::clone(called.live().unwrap());
            let change = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut newer = object();
                newer["spec"]["size"] = json!(4);
                newer["metadata"]["labels"]["new"] = json!("yes");
                live.set(Body::from(newer));
            };
            tokio::join!(world.call_for(0, called), change).0
        });
        assert_eq!(result(found), json!([3, 3, 4, 4, "yes", "obj", 3]), "{kind:?}");
    }
}

#[test]
fn functions_about_the_handled_object_use_its_newest_state_in_a_daemon() {
    let found = in_virtual_time(async {
        let world = Operator::new("")
            .runs_for(BindingKind::Daemon, "sleep(2); return label(#{ kind: \"Pod\" }).metadata.labels;")
            .start()
            .await;
        let Object { resource, body, memo } = world.object("u-1");
        let live = LiveBody::new(body);
        let called = Subject::Background { resource, live: Arc::clone(&live), memo, stopped: Stopped::default() };
        let change = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut newer = object();
            newer["metadata"]["labels"] = json!({"new": "yes"});
            live.set(Body::from(newer));
        };
        tokio::join!(world.call_for(0, called), change).0
    });
    assert_eq!(result(found), json!({"new": "yes"}));
}

#[test]
fn a_running_function_waits_for_its_stop_and_learns_the_reasons() {
    let text = "let first = stopped.wait(1); let second = stopped.wait(); return [first, second, stopped.is_set(), stopped.reason];";
    let found = in_virtual_time(async {
        let world = Operator::new("").runs_for(BindingKind::Daemon, text).start().await;
        let (object, stopped) = (world.object("u-1"), Stopped::default());
        let live = LiveBody::new(object.body.clone());
        let Object { resource, memo, .. } = object;
        let called = Subject::Background { resource, live, memo, stopped: stopped.clone() };
        let stop = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            stopped.raise(StopFlag::ResourceDeleted);
            stopped.raise(StopFlag::ResourceDeleted);
            stopped.raise(StopFlag::DaemonSignalled);
        };
        tokio::join!(world.call_for(0, called), stop).0
    });
    assert_eq!(result(found), json!([false, true, true, ["RESOURCE_DELETED", "DAEMON_SIGNALLED"]]));
}

#[test]
fn daemons_leave_fibers_to_the_calls_that_end() {
    in_virtual_time(async {
        let operator =
            Operator::new("").runs_for(BindingKind::Daemon, "stopped.wait(); return name;").runs("return 1;");
        let options = Options { threads: Threads::Current, fibers: Fibers::up_to(4), ..Options::default() };
        let world = operator.start_with(options).await.unwrap();
        let daemons: Vec<_> = (0..5).map(|number| (world.object(&format!("u-{number}")), Stopped::default())).collect();
        let running = daemons.iter().map(|(object, stopped)| {
            let live = LiveBody::new(object.body.clone());
            let Object { resource, memo, .. } = object.clone();
            world.call_for(0, Subject::Background { resource, live, memo, stopped: stopped.clone() })
        });
        let others = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(result(world.call(1).await), json!(1), "with three running daemons and two that wait");
            daemons[4].1.raise(StopFlag::ResourceDeleted);
            tokio::time::sleep(Duration::from_secs(1)).await;
            daemons[..4].iter().for_each(|(_, stopped)| stopped.raise(StopFlag::OperatorExiting));
        };
        let (returned, ()) = tokio::join!(futures::future::join_all(running), others);
        let has_begun: Vec<_> = returned.into_iter().map(|returned| !returned.is_cancelled).collect();
        assert_eq!(has_begun, [true, true, true, false, false]);
    });
}

#[test]
fn a_review_returns_warnings_and_changes_the_patch() {
    let text = "warnings.push(\"old\"); warnings.push(#{a: 1}); patch.spec.size = 5;";
    let returned = in_virtual_time(run(BindingKind::Mutate, text, |world| subject(world, BindingKind::Mutate)));
    assert_eq!(returned.warnings, ["old", "{\"a\":1}"]);
    assert_eq!(Value::Object(returned.patch.merge), json!({"spec": {"size": 5}}));
}

#[test]
fn the_memo_of_an_object_that_is_being_created_ends_with_the_call() {
    let text = "memo.count = (memo.count ?? 0) + 1; return memo.count;";
    for (operation, second) in [("CREATE", 1), ("UPDATE", 2)] {
        let found = in_virtual_time(async {
            let world = Operator::new("").runs_for(BindingKind::Validate, text).start().await;
            let review =
                || Subject::Review { object: world.object("u-1"), old: None, new: None, request: request(operation) };
            world.call_for(0, review()).await;
            world.call_for(0, review()).await
        });
        assert_eq!(result(found), json!(second), "{operation}");
    }
}

#[test]
fn calls_of_the_operator_share_its_memo_and_objects_begin_with_a_copy() {
    let found = in_virtual_time(async {
        let operator = Operator::new("").runs_for(BindingKind::Startup, "memo.seen = [1];");
        let operator = operator.runs_for(BindingKind::Schedule, "memo.seen.push(2); return memo.seen;");
        let world = operator.runs("memo.seen.push(3); return memo.seen;").start().await;
        world.call_for(0, subject(&world, BindingKind::Startup)).await;
        let of_object = result(world.call_for(2, world.creation("u-1")).await);
        let of_schedule = result(world.call_for(1, subject(&world, BindingKind::Schedule)).await);
        (of_object, of_schedule)
    });
    assert_eq!(found, (json!([1, 3]), json!([1, 2])));
}

#[test]
fn an_object_has_the_operators_memo_of_its_first_event_on_every_thread() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let found = runtime.block_on(async {
        let operator = Operator::new("").runs_for(BindingKind::Schedule, "memo.round = (memo.round ?? 0) + 1;");
        let operator = operator.runs("return [memo.round, memo.keys()];").runs("memo.own = true; return memo.copy();");
        let world = operator.start_on(Threads::Own(3)).await.unwrap();
        let mut objects = Vec::new();
        for round in 0..8 {
            objects.push((round, world.creation(&format!("u-{round}"))));
            world.call_for(0, subject(&world, BindingKind::Schedule)).await;
        }
        let mut found = Vec::new();
        for (round, object) in objects {
            let read = result(world.call_for(1, object.clone()).await);
            let written = result(world.call_for(2, object).await);
            found.push((round, read, written));
        }
        found
    });
    for (round, read, written) in found {
        let expected = if round == 0 {
            (json!([null, []]), json!({"own": true}))
        } else {
            (json!([round, ["round"]]), json!({"own": true, "round": round}))
        };
        assert_eq!((read, written), expected);
    }
}

#[test]
fn only_a_startup_activity_changes_settings() {
    let text = "settings.posting.enabled = true; settings.posting.level += 10; return settings.posting.level;";
    let returned = in_virtual_time(run(BindingKind::Startup, text, |world| subject(world, BindingKind::Startup)));
    assert_eq!(returned.settings, Some(json!({"posting": {"enabled": true, "level": 30}})));
    assert_eq!(result(returned), json!(30));
    for kind in [BindingKind::Activity, BindingKind::Login, BindingKind::Schedule] {
        let returned = in_virtual_time(run(kind, text, |world| subject(world, kind)));
        assert_eq!(returned.settings, None);
        let Verdict::Failed { text, .. } = returned.verdict else { panic!("{kind:?}") };
        assert!(text.contains("startup activities only"), "{text}");
    }
}

#[test]
fn expressions_see_the_arguments_of_their_subject() {
    let found = in_virtual_time(async {
        let mut operator = Operator::new("").asks("retain && memo.is_empty()", false);
        operator.declaration.expressions[0].text = "operation == \"UPDATE\" && old.spec.size == 1 && dryrun".into();
        operator.declaration.expressions[0].kind = BindingKind::Validate;
        let world = operator.start().await;
        let evaluation = kopfd::script::Evaluation {
            predicate: kopfd::handling::Predicate(0),
            candidate: kopfd::handling::Candidate::Whole,
        };
        world.host.evaluate(&world.installed, &subject(&world, BindingKind::Validate), evaluation).await
    });
    assert_eq!(found, Ok(true));
}

#[test]
fn a_change_has_no_reason_beyond_its_own() {
    let subject =
        |world: &World| Subject::Change { object: world.object("u-1"), reason: Reason::Resume, change: Arc::default() };
    assert_eq!(
        result(in_virtual_time(run(BindingKind::Change, "return [reason, old, diff.len()];", subject))),
        json!(["resume", null, 0])
    );
}

#[test]
fn schedules_know_their_tick() {
    let tick = Timestamp::from_second(60).unwrap();
    let subject = |_: &World| Subject::Schedule { scheduled_at: tick, settings: settings() };
    let text = "return scheduled_at.to_string();";
    assert_eq!(result(in_virtual_time(run(BindingKind::Schedule, text, subject))), json!("1970-01-01T00:01:00Z"));
}
