//! Sub-handlers registered by handlers.

use std::sync::Arc;
use std::time::Duration;

use kopfd::handling::{Lifecycle, Verdict};
use kopfd::script::Returned;
use serde_json::{Value, json};

use super::world::{Operator, Stored, World, in_virtual_time};

/// Calls the handler repeatedly, storing its records, until it is finished. Returns the last call.
async fn to_the_end(world: &mut World, lifecycle: Lifecycle) -> (Returned, usize) {
    for pass in 1..20 {
        let mut call = world.a_call(0);
        call.subhandling.as_mut().unwrap().lifecycle = lifecycle;
        let returned = world.host.call(&world.installed, call).await;
        let mut stored = (*world.records).clone();
        stored.0.extend(returned.records.clone());
        world.records = Arc::new(Stored(stored.0));
        match returned.verdict {
            Verdict::Unfinished { delay } => tokio::time::sleep(delay).await,
            _ => return (returned, pass),
        }
    }
    panic!("it does not end");
}

fn messages(returned: &Returned) -> Vec<String> {
    returned.messages.iter().map(ToString::to_string).collect()
}

#[test]
fn sub_handlers_run_after_the_parent_and_deliver_under_their_full_ids() {
    in_virtual_time(async {
        let text = "subhandler(\"a\", || { return 1; }); subhandler(\"b\", |name, spec| { return #{n: name, s: spec.size}; }); subhandler(\"c\", || 5); return 7;";
        let world = Operator::new("").runs(text).start().await;
        let returned = world.call(0).await;
        assert_eq!(returned.verdict, Verdict::Returned(Some(json!(7))));
        assert_eq!(
            Value::Object(returned.patch.merge.clone()),
            json!({"status": {"parent/a": 1, "parent/b": {"n": "obj", "s": 3}}})
        );
        assert_eq!(returned.subrefs, ["parent/a", "parent/b", "parent/c"]);
        assert!(returned.records.values().all(|record| record.success));
        assert_eq!(messages(&returned)[..2], ["Handler 'parent/a' is invoked.", "Handler 'parent/a' succeeded."]);
    });
}

#[test]
fn one_sub_handler_a_pass_by_default() {
    in_virtual_time(async {
        let text = "for item in [1, 2, 3] { subhandler(`s${item}`, #{param: item}, |param| { return param * 10; }); }";
        let mut world = Operator::new("").runs(text).start().await;
        let (returned, passes) = to_the_end(&mut world, Lifecycle::Asap).await;
        assert_eq!(passes, 3);
        assert_eq!(returned.verdict, Verdict::Returned(None));
        assert_eq!(world.records.0.len(), 3);
    });
}

#[test]
fn execute_returns_only_when_all_are_finished() {
    in_virtual_time(async {
        let text = "subhandler(\"a\", |retry| { if retry < 2 { throw temporary(\"not yet\", 10); } }); try { execute(); } catch {} patch.status.after = true;";
        let mut world = Operator::new("").runs(text).start().await;
        let first = world.call(0).await;
        assert_eq!(first.verdict, Verdict::Unfinished { delay: Duration::from_secs(10) });
        assert!(first.patch.is_empty());
        let (returned, passes) = to_the_end(&mut world, Lifecycle::AllAtOnce).await;
        assert_eq!(passes, 3);
        assert_eq!(Value::Object(returned.patch.merge), json!({"status": {"after": true}}));
    });
}

#[test]
fn failures_of_sub_handlers_do_not_fail_the_parent() {
    in_virtual_time(async {
        let text = "subhandler(\"a\", || throw permanent(\"never\")); subhandler(\"b\", #{errors: \"ignored\"}, || throw \"x\");
                    subhandler(\"c\", #{retries: 0}, || 1);";
        let world = Operator::new("").runs(text).start().await;
        let returned = world.call(0).await;
        assert_eq!(returned.verdict, Verdict::Returned(None));
        let flags: Vec<_> =
            returned.records.iter().map(|(id, record)| (id.as_str(), record.success, record.failure)).collect();
        assert_eq!(flags, [("parent/a", false, true), ("parent/b", true, false), ("parent/c", false, true)]);
        assert!(messages(&returned).iter().any(|line| line.contains("has exceeded 0 retries")));
    });
}

#[test]
fn sub_handlers_have_sub_handlers() {
    in_virtual_time(async {
        let text = "subhandler(\"a\", || { subhandler(\"b\", || { subhandler(\"c\", || { return 1; }); }); execute(); return 2; });";
        let mut world = Operator::new("").runs(text).start().await;
        let (returned, _) = to_the_end(&mut world, Lifecycle::AllAtOnce).await;
        assert_eq!(Value::Object(returned.patch.merge), json!({"status": {"parent/a": 2, "parent/a/b/c": 1}}));
        assert_eq!(world.records.0["parent/a"].subrefs, ["parent/a/b", "parent/a/b/c"]);
        assert_eq!(returned.subrefs, ["parent/a", "parent/a/b", "parent/a/b/c"]);
    });
}

#[test]
fn an_unfinished_sub_sub_handler_does_not_stop_its_uncle() {
    in_virtual_time(async {
        let text = "subhandler(\"a\", || { subhandler(\"b\", || throw temporary(\"later\", 5)); execute(); memo.never = 1; }); subhandler(\"d\", || { return 4; });";
        let world = Operator::new("").runs(text).start().await;
        let returned = world.call(0).await;
        assert_eq!(returned.verdict, Verdict::Unfinished { delay: Duration::from_secs(5) });
        assert_eq!(Value::Object(returned.patch.merge), json!({"status": {"parent/d": 4}}));
    });
}

#[test]
fn filters_of_sub_handlers_are_those_of_manifests() {
    in_virtual_time(async {
        let text = r#"
            subhandler("yes", #{labels: #{app: "web", tier: #{"in": ["db"]}}, when: "spec.size > 1"}, || { return 1; });
            subhandler("closure", #{when: |name| name == "obj"}, || { return 1; });
            subhandler("field", #{field: "spec.size", new: #{when: "value > 2"}}, |new, old| { return new; });
            subhandler("wrong", #{labels: #{app: "other"}}, || { return 1; });
            subhandler("absent", #{annotations: #{note: #{present: true}}}, || { return 1; });
            subhandler("never", #{when: "false"}, || { return 1; });
            subhandler("pattern", #{labels: #{app: #{matches: "^x"}}}, || { return 1; });
        "#;
        let returned = Operator::new("").runs(text).start().await.call(0).await;
        let expected = json!({"status": {"parent/yes": 1, "parent/closure": 1, "parent/field": 3}});
        assert_eq!(Value::Object(returned.patch.merge), expected, "{:?}", returned.verdict);
    });
}

#[test]
fn mistakes_in_options_are_reported() {
    in_virtual_time(async {
        for (text, part) in [
            ("subhandler(\"a\", #{retires: 1}, || 1);", "unknown option `retires`"),
            ("let f = |nmae| 1; subhandler(\"a\", f);", "unknown parameter `nmae`"),
            ("subhandler(\"a b\", || 1);", "id of a sub-handler"),
            ("subhandler(\"a\", #{value: 1}, || 1);", "needs a `field`"),
            ("subhandler(\"a\", #{when: \"1 +\"}, || 1);", "no expression"),
            ("subhandler(\"a\", #{labels: #{a: 1}}, || 1);", "in quotes"),
        ] {
            let error = super::endings::failed(Operator::new("").runs(text).start().await.call(0).await);
            assert!(error.contains(part), "{text}: {error}");
        }
    });
}

#[test]
fn missing_options_default_to_those_of_the_operator() {
    in_virtual_time(async {
        let text = r#"subhandler("once", || { throw "no"; }); subhandler("more", #{retries: 5}, || { throw "no"; });"#;
        let world = Operator::new("").runs(text).start().await;
        let mut call = world.a_call(0);
        if let Some(subhandling) = &mut call.subhandling {
            subhandling.defaults.retries = Some(1);
        }
        let returned = world.host.call(&world.installed, call).await;
        assert!(returned.records["parent/once"].failure, "one attempt is all it has");
        assert!(!returned.records["parent/more"].is_finished(), "its own options win");
    });
}

#[test]
fn functions_by_name_are_sub_handlers_too() {
    in_virtual_time(async {
        let main = "fn f() { subhandler(\"a\", Fn(\"sub\")); } fn sub(spec) { return spec.size; }";
        let world = Operator::new(main).binds("f", kopfd::script::Limits::default()).start().await;
        assert_eq!(Value::Object(world.call(0).await.patch.merge), json!({"status": {"parent/a": 3}}));
    });
}

#[test]
fn only_handlers_of_changes_have_sub_handlers() {
    in_virtual_time(async {
        let world = Operator::new("").runs("subhandler(\"a\", || 1);").start().await;
        let mut call = world.a_call(0);
        call.subhandling = None;
        let error = super::endings::failed(world.host.call(&world.installed, call).await);
        assert!(error.contains("handlers of changes only"), "{error}");
    });
}

#[test]
fn a_stop_ends_the_sub_handlers_too_and_concludes_nothing() {
    in_virtual_time(async {
        let world = Operator::new("")
            .runs("subhandler(\"a\", || sleep(100)); subhandler(\"b\", || { return 1; });")
            .start()
            .await;
        let call = world.a_call(0);
        let stop = call.stop.clone();
        let (returned, ()) = tokio::join!(world.host.call(&world.installed, call), async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            stop.request("enough");
        });
        assert!(returned.is_cancelled && returned.records.is_empty());
        assert_eq!(
            messages(&returned),
            ["Handler 'parent/a' is invoked.", "Handler 'parent/a' is cancelled. Will escalate."]
        );
    });
}
