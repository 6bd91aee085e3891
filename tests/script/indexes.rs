//! Indexes and shared data in scripts.

use std::sync::Arc;
use std::time::Duration;

use kopfd::handling::index::Member;
use kopfd::handling::index_key::Key;
use kopfd::handling::{Candidate, Verdict};
use kopfd::object::Body;
use kopfd::script::{BindingKind, Limits, LiveBody, Object, Plain, Returned, Stopped, Subject};
use serde_json::{Value, json};

use super::endings::returned;
use super::world::{Operator, World, in_virtual_time};

fn operator(text: &str) -> Operator {
    let mut operator = Operator::new(text);
    operator.declaration.indexes = vec!["by_team".into(), "flat".into()];
    operator
}

fn member(name: &str) -> Member {
    Member::of(&Body::from(json!({"metadata": {"namespace": "ns", "name": name, "uid": name}})))
}

fn put(world: &World, index: &str, name: &str, entries: &[(Value, Value)]) {
    let entries = entries.iter().map(|(key, value)| (Key::of(key).unwrap(), Plain::from(value.clone()))).collect();
    world.installed.indexes().get(index).unwrap().replace(&member(name), entries);
}

fn fill(world: &World) {
    put(world, "by_team", "a", &[(json!("web"), json!({"name": "a", "ports": [80]}))]);
    put(world, "by_team", "b", &[(json!("web"), json!("b")), (json!(["n", 1]), json!(2))]);
    put(world, "by_team", "c", &[(json!(7), json!(null))]);
    put(world, "flat", "a", &[(json!(null), json!(1))]);
    put(world, "flat", "b", &[(json!(null), json!(2))]);
}

async fn evaluated(text: &str) -> Value {
    let world = operator("").runs(text).start().await;
    fill(&world);
    match world.call(0).await.verdict {
        Verdict::Returned(result) => result.unwrap_or_default(),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn indexes_are_read_by_keys() {
    for (text, expected) in [
        ("by_team[\"web\"]", json!([{"name": "a", "ports": [80]}, "b"])),
        ("by_team.web.len()", json!(2)),
        ("by_team[\"web\"][0].ports[0]", json!(80)),
        ("by_team[\"nobody\"]", json!([])),
        ("by_team[[\"n\", 1.0]]", json!([2])),
        ("by_team[[\"n\", true]]", json!([2])),
        ("by_team[7.0]", json!([null])),
        ("by_team[\"7\"]", json!([])),
        ("flat[()]", json!([1, 2])),
        ("flat.get(())", json!([1, 2])),
        ("\"web\" in by_team", json!(true)),
        ("\"nobody\" in by_team", json!(false)),
        ("[\"n\", 1] in by_team", json!(true)),
        ("() in flat", json!(true)),
        ("#{} in flat", json!(false)),
        ("by_team.len()", json!(3)),
        ("by_team.is_empty()", json!(false)),
        ("by_team.keys()", json!([7, "web", ["n", 1]])),
        ("let keys = []; for key in by_team { keys.push(key); } return keys;", json!([7, "web", ["n", 1]])),
        ("let sum = 0; for key in flat { for value in flat[key] { sum += value; } } return sum;", json!(3)),
        ("by_team[\"web\"].filter(|value| value != by_team.web[1]).len()", json!(1)),
        ("let all = by_team; return all.keys().map(|key| all[key].len());", json!([1, 2, 1])),
        ("let values = flat[()]; values.push(3); return [values, flat[()]];", json!([[1, 2, 3], [1, 2]])),
        ("kwargs.by_team.len() + kwargs[\"flat\"].len()", json!(4)),
        ("`${flat}`", json!("index flat with 1 keys")),
    ] {
        let text = if text.contains("return") { text.to_owned() } else { format!("return {text};") };
        assert_eq!(in_virtual_time(evaluated(&text)), expected, "{text}");
    }
}

#[test]
fn functions_expressions_and_subhandlers_get_indexes() {
    in_virtual_time(async {
        let main = "fn f(by_team, name) { subhandler(\"sub\", |flat| flat[()].len()); return by_team.len(); } fn wanted(flat) { 1 in flat[()] }";
        let operator = operator(main).binds("f", Limits::default()).asks("wanted(flat) && by_team.len() == 3", false);
        let world = operator.start().await;
        fill(&world);
        assert_eq!(returned(world.call(0).await), 3);
        assert_eq!(world.ask(0, Candidate::Whole).await, Ok(true));
    });
}

#[test]
fn closures_read_indexes_with_the_name_of_their_function() {
    let main = "fn by_team(name) { return name; }
        fn f(by_team) { return [by_team.keys().map(|key| by_team[key].len()), [1].map(|n| by_team.web.filter(|value| by_team.len() == 3).len())]; }";
    let found = in_virtual_time(async {
        let world = operator(main).binds("f", Limits::default()).start().await;
        fill(&world);
        returned(world.call(0).await)
    });
    assert_eq!(found, json!([[1, 2, 1], [2]]));
}

#[test]
fn indexes_are_read_only_and_have_keys_that_are_no_maps() {
    for (text, part) in [
        ("by_team[\"web\"] = [];", "the index `by_team` is read-only"),
        ("by_team.web.push(1);", "the index `by_team` is read-only"),
        ("by_team[#{a: 1}]", "a map cannot be a key"),
        ("return by_team;", "the result cannot be stored"),
        ("return entry(1, 2);", "the result cannot be stored"),
    ] {
        let verdict = in_virtual_time(async {
            let world = operator("").runs(text).start().await;
            fill(&world);
            world.call(0).await.verdict
        });
        let Verdict::Failed { text: found, .. } = &verdict else { panic!("{text}: {verdict:?}") };
        assert!(found.contains(part), "{text}: {found}");
    }
}

#[test]
fn a_call_sees_one_state_between_two_waits() {
    let text = "let before = by_team.len(); let first = by_team.web.len(); for i in 0..100000 { } \
                let same = [by_team.len(), by_team.web.len()]; sleep(1); return [before, first, same, by_team.len(), by_team.web.len()];";
    let found = in_virtual_time(async {
        let world = operator("").runs(text).start().await;
        fill(&world);
        let change = async {
            // The loop is interrupted from time to time, so that other tasks can go on.
            tokio::task::yield_now().await;
            world.installed.indexes().remove("b");
        };
        returned(tokio::join!(world.call(0), change).0)
    });
    assert_eq!(found, json!([3, 2, [3, 2], 2, 1]));
}

/// Returns the entries of a result of an index function.
async fn indexed(text: &str) -> Returned {
    let world = operator("").runs_for(BindingKind::Index, text).start().await;
    let subject = Subject::Index { object: world.object("u-1") };
    world.call_for(0, subject).await
}

#[test]
fn results_of_index_functions_become_entries() {
    let one = |key: Value, value: Value| Some(vec![(key, value)]);
    for (text, expected) in [
        ("return #{ team: spec.size, none: () };", Some(vec![(json!("none"), json!(null)), (json!("team"), json!(3))])),
        ("return spec.nested;", one(json!("deep"), json!({"leaf": true}))),
        ("return #{};", Some(vec![])),
        ("return;", None),
        ("return ();", None),
        ("name", None),
        ("return name;", one(json!(null), json!("obj"))),
        ("return 5;", one(json!(null), json!(5))),
        ("return false;", one(json!(null), json!(false))),
        ("return [1, 2];", one(json!(null), json!([1, 2]))),
        ("return spec.list;", one(json!(null), json!([1, 2, {"a": "b"}]))),
        ("return entry(5, name);", one(json!(5), json!("obj"))),
        ("return entry([namespace, name], ());", one(json!(["ns", "obj"]), json!(null))),
        ("return entry((), 1);", one(json!(null), json!(1))),
        (
            "return entries([[1, 2], [\"a\", spec.nested]]);",
            Some(vec![(json!(1), json!(2)), (json!("a"), json!({"deep": {"leaf": true}}))]),
        ),
        ("return entries([]);", Some(vec![])),
    ] {
        let returned = in_virtual_time(indexed(text));
        assert!(matches!(returned.verdict, Verdict::Returned(None)), "{text}: {:?}", returned.verdict);
        let found = returned
            .entries
            .map(|entries| entries.iter().map(|(key, value)| (key.to_value(), value.to_value())).collect::<Vec<_>>());
        assert_eq!(found, expected, "{text}");
    }
    for (text, part) in [
        ("return entry(#{}, 1);", "a map cannot be a key"),
        ("return entries([1]);", "a list of pairs"),
        ("return entries([[1, 2, 3]]);", "a list of pairs"),
        ("return entry(1, || 2);", "plain data only"),
        ("return #{ a: || 2 };", "the result cannot be indexed"),
        ("throw \"boom\";", "boom"),
    ] {
        let Verdict::Failed { text: found, .. } = in_virtual_time(indexed(text)).verdict else { panic!("{text}") };
        assert!(found.contains(part), "{text}: {found}");
    }
}

#[test]
fn times_stay_times_in_memories_indexes_and_shared_data() {
    let text = "memo.at = time(\"2020-01-01T00:00:00Z\"); memo.all = [memo.at]; shared.set(\"at\", #{ at: memo.at }); \
                return [memo.at + 1 > memo.at, memo.all[0] - memo.at, shared.get(\"at\").at - memo.at];";
    let found = in_virtual_time(async { returned(operator("").runs(text).start().await.call(0).await) });
    assert_eq!(found, json!([true, 0.0, 0.0]));
    let entries = in_virtual_time(indexed("return #{ at: time(\"2020-01-01T00:00:00Z\") };")).entries.unwrap();
    assert!(matches!(entries[0].1, Plain::Time(_)), "{entries:?}");
    let found = in_virtual_time(async {
        let world = operator("").runs("return by_team.at[0] - time(\"2019-12-31T23:59:59Z\");").start().await;
        world.installed.indexes().get("by_team").unwrap().replace(&member("a"), entries);
        returned(world.call(0).await)
    });
    assert_eq!(found, json!(1.0));
}

async fn all_of(operator: Operator, count: usize) -> Vec<Returned> {
    let world = Arc::new(operator.start().await);
    let call = |number: usize| {
        let world = Arc::clone(&world);
        async move {
            let mut call = world.a_call(0);
            call.subject = world.creation(&format!("u-{number}"));
            call.param = json!(number);
            world.host.call(&world.installed, call).await
        }
    };
    futures::future::join_all((0..count).map(call)).await
}

#[test]
fn shared_data_are_kept_for_the_whole_operator() {
    let text = "shared.set(\"list\", (shared.get(\"list\") ?? []) + [param]); let n = shared.update(\"n\", |n| (n ?? 0) + 1); return [shared.get(\"nothing\"), n];";
    let found = in_virtual_time(all_of(operator("").runs(text), 3));
    assert_eq!(
        found.into_iter().map(returned).collect::<Vec<_>>(),
        [json!([null, 1]), json!([null, 2]), json!([null, 3])]
    );
    let removed = "shared.set(\"a\", 1); shared.set(\"a\", ()); return shared.get(\"a\");";
    assert_eq!(returned(in_virtual_time(all_of(operator("").runs(removed), 1)).remove(0)), json!(null));
}

#[test]
fn nothing_comes_between_two_accesses_without_a_wait() {
    // The loop is long enough to let other scripts run.
    let text =
        "let n = shared.get(\"n\") ?? 0; for i in 0..30000 { } shared.set(\"n\", n + 1); return shared.get(\"n\");";
    let found: Vec<Value> = in_virtual_time(all_of(operator("").runs(text), 5)).into_iter().map(returned).collect();
    let mut sorted: Vec<i64> = found.iter().filter_map(Value::as_i64).collect();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 2, 3, 4, 5]);
}

#[test]
fn a_locked_section_may_wait() {
    for unlock in ["lock.unlock();", ""] {
        let text = format!(
            "let lock = shared.lock(\"x\"); shared.lock(\"x\"); let n = shared.get(\"n\") ?? 0; sleep(1); shared.set(\"n\", n + 1); {unlock} return n + 1;"
        );
        let found = in_virtual_time(async {
            let began = tokio::time::Instant::now();
            let all = all_of(operator("").runs(&text), 3).await;
            assert_eq!(began.elapsed().as_secs(), 3);
            all
        });
        let mut numbers: Vec<i64> = found.into_iter().filter_map(|one| returned(one).as_i64()).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2, 3]);
    }
}

#[test]
fn a_deadlock_ends_with_the_time_of_a_call_and_says_who_has_what() {
    let main = "fn f(param, shared) {\n    let keys = if param == 0 { [\"a\", \"b\"] } else { [\"b\", \"a\"] };\n    shared.lock(keys[0]);\n    sleep(1);\n    shared.lock(keys[1]);\n    return param;\n}";
    let limits = Limits { time: Some(Duration::from_mins(1)), ..Limits::default() };
    let found = in_virtual_time(all_of(operator(main).binds("f", limits), 2));
    let texts: Vec<String> = found
        .into_iter()
        .filter_map(|returned| match returned.verdict {
            Verdict::Failed { text, .. } => Some(text),
            _ => None,
        })
        .collect();
    let expected = "the call has used up its budget: 60 seconds (limits.time, which can be raised); it was waiting for the lock `b`, held by main.rhai:3 for Example ns/obj, \
                    which waits for the lock `a`, held by main.rhai:3 for Example ns/obj, which waits for the lock `b`";
    assert!(texts.iter().any(|text| text == expected), "{texts:#?}");
}

#[test]
fn a_deadlock_of_daemons_is_an_error_at_once() {
    let text = "let keys = if name == \"a\" { [\"a\", \"b\"] } else { [\"b\", \"a\"] }; shared.lock(keys[0]); sleep(1); shared.lock(keys[1]); return name;";
    let ended = in_virtual_time(async {
        let mut operator = Operator::new("").runs_for(BindingKind::Daemon, text);
        operator.declaration.bindings[0].limits.time = None;
        let world = operator.start().await;
        let daemon = |name: &str| {
            let mut object = world.object(name);
            object.body = Body::from(json!({"kind": "Example", "metadata": {"name": name}}));
            let live = LiveBody::new(object.body.clone());
            let Object { resource, memo, .. } = object;
            world.call_for(0, Subject::Background { resource, live, memo, stopped: Stopped::default() })
        };
        let (one, other) = tokio::join!(daemon("a"), daemon("b"));
        [one.verdict, other.verdict]
    });
    // The first one to wait gets its lock when the other one has failed.
    assert!(ended.iter().any(|verdict| matches!(verdict, Verdict::Returned(Some(_)))), "{ended:?}");
    let text = ended.iter().find_map(|verdict| match verdict {
        Verdict::Failed { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert!(
        text.is_some_and(|text| text.contains("`shared.lock` would never end: it waits for the lock `")),
        "{ended:?}"
    );
}

#[test]
fn the_function_of_an_update_must_not_wait() {
    let text = "shared.update(\"n\", |n| { sleep(1); 1 });";
    let verdict = in_virtual_time(all_of(operator("").runs(text), 1)).remove(0).verdict;
    let Verdict::Failed { text, .. } = verdict else { panic!("{verdict:?}") };
    assert!(text.contains("must not wait"), "{text}");
}
