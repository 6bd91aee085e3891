//! The ends of calls: results, throws, budgets, cancellation, and error messages.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, pending, ready};
use kopfd::cluster::transformed;
use kopfd::handling::attempt::TEMPORARY_DELAY;
use kopfd::handling::{Level, Verdict};
use kopfd::kit::Tasks;
use kopfd::object::{Resource, Selector};
use kopfd::script::outside::api::{Api, ApiError, ApiRequest, EventRequest};
use kopfd::script::{Limits, Options, Returned, Threads};
use serde_json::{Value, json};

use super::world::{Operator, failure, in_virtual_time, result, run};

pub(crate) fn returned(returned: Returned) -> Value {
    match returned.verdict {
        Verdict::Returned(result) => result.unwrap_or_default(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn failed(returned: Returned) -> String {
    match returned.verdict {
        Verdict::Failed { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_an_explicit_return_is_a_result() {
    assert_eq!(result("1 + 1"), json!(null));
    assert_eq!(result("double(2);"), json!(null));
    assert_eq!(result("if spec.size > 5 { return 1; } double(2);"), json!(null));
    assert_eq!(result("if spec.size > 1 { return 1; } double(2);"), json!(1));
    assert_eq!(result("for i in 0..3 { if i == 2 { return i; } }"), json!(2));
    assert_eq!(result("let f = || { return 7; }; f.call();"), json!(null));
    assert_eq!(result("return;"), json!(null));
    assert_eq!(result("return double(4);"), json!(8));
}

#[test]
fn a_file_s_function_follows_the_same_rule() {
    in_virtual_time(async {
        let main = "fn f() { helper() } fn g() { return helper(); } fn helper() { #{a: 1} }";
        let world = Operator::new(main).binds("f", Limits::default()).binds("g", Limits::default()).start().await;
        assert_eq!(world.call(0).await.verdict, Verdict::Returned(None));
        assert_eq!(world.call(1).await.verdict, Verdict::Returned(Some(json!({"a": 1}))));
    });
}

#[test]
fn the_thrown_error_decides_the_outcome() {
    let temporary = |text: Option<&str>, delay| Verdict::Temporary { text: text.map(Into::into), delay };
    assert_eq!(run("throw temporary();").verdict, temporary(None, Some(TEMPORARY_DELAY)));
    assert_eq!(run("throw temporary(\"later\", 5);").verdict, temporary(Some("later"), Some(Duration::from_secs(5))));
    assert_eq!(
        run("throw temporary(\"later\", \"1m30s\");").verdict,
        temporary(Some("later"), Some(Duration::from_secs(90)))
    );
    assert_eq!(run("throw temporary(\"later\", ());").verdict, temporary(Some("later"), None));
    assert_eq!(run("throw permanent(\"never\");").verdict, Verdict::Permanent { text: "never".into() });
    for (throw, code) in [("reject(\"no\", 403)", 403), ("reject(\"no\")", 500), ("reject(\"no\", 0)", 500)] {
        assert_eq!(run(&format!("throw {throw};")).verdict, Verdict::Rejected { text: "no".into(), code });
    }
    assert_eq!(run("[1].map(|x| throw permanent(\"deep\"));").verdict, Verdict::Permanent { text: "deep".into() });
    assert_eq!(failure("throw \"text\";"), "text");
    assert_eq!(failure("throw #{message: \"m\", code: 1};"), "m");
    assert_eq!(failure("throw #{code: 1};"), "{\"code\":1}");
    assert_eq!(failure("throw 5;"), "5");
    assert_eq!(failure("throw ();"), "");
}

#[test]
fn caught_errors_can_be_inspected() {
    let text = "try { throw temporary(\"x\", 5) } catch (e) { return [e.kind, e.message, e.status, e.anything]; }";
    assert_eq!(result(text), json!(["temporary", "x", null, null]));
    assert_eq!(result("try { sleep(\"so\" + \"on\") } catch (e) { return e.kind; }"), json!("argument"));
    assert_eq!(result("try { spec.a.b } catch (e) { return type_of(e.message); }"), json!("string"));
    assert_eq!(
        run("try { throw permanent(\"x\") } catch (e) { throw e }").verdict,
        Verdict::Permanent { text: "x".into() }
    );
}

#[test]
fn changes_before_a_failure_are_kept() {
    let returned = run("patch.status.x = 1; throw \"no\";");
    assert_eq!(Value::Object(returned.patch.merge), json!({"status": {"x": 1}}));
}

#[test]
fn every_budget_ends_a_call_that_exceeds_it() {
    let small = Limits {
        operations: 100_000,
        time: Some(Duration::from_secs(10)),
        memory: 1 << 20,
        depth: 20,
        string_size: 1_000,
        array_size: 100,
        map_size: 100,
        output: 10,
        ..Limits::default()
    };
    in_virtual_time(async move {
        for (body, part) in [
            ("loop {}", "limits.operations"),
            ("[1].map(|x| loop {});", "limits.operations"),
            ("try { loop {} } catch { return 1; }", "limits.operations"),
            ("[3, 1, 2].sort(|a, b| { loop {} });", "limits.operations"),
            ("sleep(20);", "limits.time"),
            ("recursion(1);", "limits.depth"),
            ("let s = \"x\"; loop { s += s; }", "limits.stringSize"),
            ("let a = [1]; loop { a += a; }", "limits.arraySize"),
            ("for i in 0..20 { print(i); }", "limits.output"),
            ("for i in 0..20 { logger.info(i); }", "limits.output"),
        ] {
            let main = format!("fn f(logger) {{ {body} }} fn recursion(n) {{ recursion(n + 1) }}");
            let world = Operator::new(&main).binds("f", small.clone()).start().await;
            let text = failed(world.call(0).await);
            assert!(text.contains(part), "{body}: {text}");
        }
    });
}

#[test]
fn ways_out_are_closed() {
    for text in ["exit(1);", "eval(\"1\");", "timestamp();"] {
        let returned =
            in_virtual_time(async { Operator::new("").runs(text).start_on(kopfd::script::Threads::Current).await });
        match returned {
            Err(_) => {}
            Ok(_) => assert!(matches!(run(text).verdict, Verdict::Failed { .. }), "{text}"),
        }
    }
}

#[test]
fn an_error_shows_its_place_and_the_calls_that_led_there() {
    in_virtual_time(async {
        let main = "import \"lib/util\" as util;\n\nfn f(spec) {\n    [1].map(|x| util::check(spec));\n}\n";
        let util = "fn check(spec) {\n    deeper(spec);\n}\nfn deeper(spec) {\n    let x = spec.nope.oops;\n}\n";
        let mut operator = Operator::new(main)
            .with_file("lib/util.rhai", util)
            .binds("f", Limits::default())
            .runs("let a = 1;\nthrow \"inline\";")
            .runs("let f = || { loop {} };\n  f.call();");
        operator.declaration.bindings[2].limits.operations = 10_000;
        let world = operator.start().await;
        let message = |verdict| match verdict {
            Verdict::Failed { text, trace, .. } => format!("{text}\n{}", trace.unwrap_or_default()),
            other => panic!("{other:?}"),
        };
        insta::assert_snapshot!(message(world.call(0).await.verdict), @r"
        there is no `oops` in `()`: what is before it is missing (use `?.` where it may be)
          --> deeper (lib/util.rhai:5:23)
          5 |     let x = spec.nope.oops;
            |                       ^
          called from check (lib/util.rhai:2:5)
          called from closure (main.rhai:4:23)
          called from map (main.rhai:4:9)
          called from f (main.rhai:4:9)
        ");
        insta::assert_snapshot!(message(world.call(1).await.verdict), @r#"
        inline
          --> inline (operator.yaml:11:8)
          11 | throw "inline";
             | ^
        "#);
        insta::assert_snapshot!(message(world.call(2).await.verdict), @r"
        the call has used up its budget: 10000 operations (limits.operations, which can be raised)
          --> inline (operator.yaml:11:12)
          11 |   f.call();
             |     ^
        ");
    });
}

#[test]
fn sleeping_takes_virtual_time_only() {
    in_virtual_time(async {
        let world = Operator::new("").runs("sleep(600); sleep(0.5); sleep(\"10m\"); return runtime;").start().await;
        let begun = tokio::time::Instant::now();
        world.call(0).await;
        assert_eq!(begun.elapsed().as_secs(), 1200);
    });
}

/// A server that never answers.
struct SilentServer;

impl Api for SilentServer {
    fn resolve(&self, _: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>> {
        let (version, plural, kind) = ("v1".into(), "pods".into(), "Pod".into());
        let pods = Resource { version, plural, kind, namespaced: true, preferred: true, ..Resource::default() };
        Box::pin(ready(Ok(Arc::new(pods))))
    }

    fn send(&self, _: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>> {
        Box::pin(pending())
    }

    fn post(&self, _: EventRequest) {}

    fn posts_logs(&self) -> bool {
        false
    }

    fn post_log(&self, _: &Value, _: Level, _: &str) {}
}

#[test]
fn a_stop_ends_a_call_wherever_it_is() {
    in_virtual_time(async {
        let bodies = [
            "sleep(100);",
            "try { sleep(100) } catch {} patch.status.x = 1;",
            "[2, 1, 3].sort(|a, b| { sleep(100); a - b });",
            "loop {}",
            "k8s::get(\"pods\", \"ns\", \"x\"); patch.status.x = 1;",
            "try { k8s::list(\"pods\", \"ns\") } catch {} patch.status.x = 1;",
            "[1].map(|x| k8s::patch(\"pods\", \"ns\", \"x\", #{})); patch.status.x = 1;",
        ];
        for body in bodies {
            let options =
                Options { threads: Threads::Current, api: Some(Arc::new(SilentServer)), ..Options::default() };
            let world = Operator::new("").runs(body).start_with(options).await.unwrap();
            let call = world.a_call(0);
            let stop = call.stop.clone();
            let ended = tokio::join!(world.host.call(&world.installed, call), async {
                // A script in an endless loop stops virtual time, but not other tasks.
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
                stop.request("enough");
            });
            assert!(ended.0.is_cancelled, "{body}");
            assert!(ended.0.patch.is_empty(), "{body}");
        }
    });
}

#[test]
fn a_dropped_call_ends_its_script() {
    in_virtual_time(async {
        for body in [
            "memo.x = 1; sleep(100); memo.x = 2;",
            "memo.x = 1; [2, 1, 3].sort(|a, b| { sleep(100); memo.x = 2; a - b });",
        ] {
            let world = Operator::new("").runs(body).runs("return memo.x;").start().await;
            let call = world.host.call(&world.installed, world.a_call(0));
            assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
            tokio::time::sleep(Duration::from_secs(1000)).await;
            assert_eq!(returned(world.call(1).await), json!(1), "{body}");
        }
    });
}

#[test]
fn calls_of_one_object_do_not_mix_between_waits() {
    in_virtual_time(async {
        let body = "let n = memo.n ?? 0; for i in 0..20000 {} memo.n = n + 1;";
        let world = Operator::new("").runs(body).runs("return memo.n;").start().await;
        tokio::join!(world.call(0), world.call(0), world.call(0));
        assert_eq!(returned(world.call(1).await), json!(3));
    });
}

#[test]
fn a_spinning_script_yields_to_others_of_its_thread() {
    in_virtual_time(async {
        let world = Operator::new("").runs("loop {}").runs("return 1;").start().await;
        let world = Arc::new(world);
        let spinning = world.a_call(0);
        let stop = spinning.stop.clone();
        let mut ready = world.a_call(1);
        ready.subject = world.creation("another");
        let (spun, ()) = tokio::join!(world.host.call(&world.installed, spinning), async {
            assert_eq!(returned(world.host.call(&world.installed, ready).await), json!(1));
            stop.request("enough");
        });
        assert!(spun.is_cancelled);
    });
}

#[test]
fn a_spinning_script_lets_the_runtime_of_its_thread_go_on_after_each_slice() {
    in_virtual_time(async {
        // A slice has 8,192 operations: the script ends by itself after 300 of them.
        let limits = Limits { operations: 300 * 8_192, ..Limits::default() };
        let world = Operator::new("fn f() { loop {} }").binds("f", limits).start().await;
        let call = world.a_call(0);
        let stop = call.stop.clone();
        let mut others = Tasks::default();
        others.spawn("other", async move {
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            stop.request("enough");
        });
        assert!(world.host.call(&world.installed, call).await.is_cancelled);
    });
}

#[test]
fn a_transformation_runs_on_request() {
    in_virtual_time(async {
        let text = "let by = 2; patch.transform(|body| { body.spec.size += by; return body; });";
        let world = Operator::new("").runs(text).runs("patch.transform(|body| { sleep(1); body });").start().await;
        let returned = world.call(0).await;
        for size in [3, 10] {
            let body = transformed(&returned.patch.transforms[0], json!({"spec": {"size": size}})).await.unwrap();
            assert_eq!(body, json!({"spec": {"size": size + 2}}));
        }
        let returned = world.call(1).await;
        assert!(
            transformed(&returned.patch.transforms[0], json!({}))
                .await
                .unwrap_err()
                .contains("not available in transformations")
        );
    });
}
