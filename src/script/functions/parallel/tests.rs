use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{Dynamic, EvalAltResult};
use serde_json::{Value, json};

use crate::kit::Stop;
use crate::script::interpreter::engine;
use crate::script::language::convert;
use crate::script::language::shared::SharedHandle;
use crate::script::limits::{Limit, Limits};
use crate::script::runtime::budget::{Budget, Ending};
use crate::script::runtime::children::{Children, Failed, MAX_AT_ONCE, Task};
use crate::script::runtime::context::testing::{environment, run, run_as, run_in};
use crate::script::runtime::context::{Context, Environment, Mode, wait_in};
use crate::script::runtime::fiber::Fiber;
use crate::script::values::script_error::Failure;
use crate::script::values::shared::SharedData;

async fn value(script: &str) -> Value {
    convert::to_json(&run(script).await.unwrap_or_else(|error| panic!("{script}: {error}"))).unwrap()
}

/// Returns the message, the kind and the reason that a script has caught.
async fn caught(script: &str) -> Value {
    value(&format!(
        "let caught = (); try {{ {script} }} catch (e) {{ caught = [e.message, e.kind, e.status]; }} caught"
    ))
    .await
}

async fn limited(limits: Limits, script: &str) -> (Result<Dynamic, Box<EvalAltResult>>, Rc<Budget>) {
    let budget = Rc::new(Budget::new(&limits, Stop::new()));
    let ended = run_in(Context::new(Rc::new(environment()), Rc::clone(&budget), Mode::Function), script).await;
    (ended, budget)
}

fn is_over(budget: &Budget, limit: Limit) -> bool {
    matches!(budget.ending(), Some(Ending::Overrun(overrun)) if overrun.limit == limit)
}

#[tokio::test(start_paused = true)]
async fn values_are_in_the_order_of_the_functions_and_waits_overlap() {
    let begun = tokio::time::Instant::now();
    let script = "parallel([|| { sleep(10); 1 }, || { sleep(5); return #{a: [2]}; }, || { sleep(`10s`); }, || 4])";
    assert_eq!(value(script).await, json!([1, {"a": [2]}, null, 4]));
    assert_eq!(begun.elapsed().as_millis() / 100, 100);
    assert_eq!(value("parallel([])").await, json!([]));
    assert_eq!(value("fn one() { sleep(1); 1 } parallel([Fn(`one`), one])").await, json!([1, 1]));
}

#[tokio::test(start_paused = true)]
async fn as_many_run_at_once_as_the_limit_says() {
    for (limit, seconds) in [("", 20), (", 1", 160), (", #{limit: 16}", 10), (", 5", 40), (", ()", 20), (", #{}", 20)] {
        let begun = tokio::time::Instant::now();
        let script = format!(
            "let all = []; for i in 0..16 {{ let n = i; all.push(|| {{ sleep(10); n }}); }} parallel(all{limit})"
        );
        assert_eq!(value(&script).await, json!((0..16).collect::<Vec<_>>()));
        assert_eq!(begun.elapsed().as_secs(), seconds, "{limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_functions_run_with_a_limit_of_eight() {
    let script = "
        let (running, most) = (0, 0);
        let work = |i| {
            running += 1;
            if running > most { most = running; }
            sleep(1);
            running -= 1;
            i
        };
        let done = parallel((0..1000).map(|i| work.curry(i)), 8);
        [most, running, done.len(), done[0], done[999]]";
    let script = script
        .replace("let (running, most) = (0, 0);", "let running = 0; let most = 0;")
        .replace("(0..1000).map", "list.map");
    let script = format!("let list = []; for i in 0..1000 {{ list.push(i); }} {script}");
    let begun = tokio::time::Instant::now();
    assert_eq!(value(&script).await, json!([8, 0, 1000, 0, 999]));
    assert_eq!(begun.elapsed().as_secs(), 125);
}

#[tokio::test(start_paused = true)]
async fn the_first_error_ends_the_others_and_can_be_caught() {
    let begun = tokio::time::Instant::now();
    let script = "
        let seen = [];
        try {
            parallel([
                || { sleep(60); seen.push(`slow`); },
                || { try { sleep(60); } catch { seen.push(`caught`); } seen.push(`after`); },
                || { sleep(1); throw temporary(`later`, 5); },
                || { sleep(2); throw `never`; },
            ]);
        } catch (e) { seen.push(e.message); seen.push(e.kind); }
        sleep(100);
        seen";
    let seen = value(script).await;
    assert_eq!(
        seen.as_array().unwrap().iter().rev().take(2).rev().cloned().collect::<Vec<_>>(),
        [json!("later"), json!("temporary")]
    );
    assert!(!seen.to_string().contains("slow") && !seen.to_string().contains("after"), "{seen}");
    assert_eq!(begun.elapsed().as_secs(), 101);
    assert_eq!(
        value("let text = (); try { parallel([|| { throw `own`; }]) } catch (e) { text = e; } text").await,
        "own"
    );
    assert_eq!(caught("parallel([|| sleep(-1)])").await[1], "argument");
}

#[tokio::test(start_paused = true)]
async fn wrong_arguments_are_told_before_a_function_begins() {
    for (arguments, message) in [
        ("1", "it takes a list of functions"),
        ("[|| 1, 2]", "item 1 is no function: 2"),
        ("[|x| x]", "one has the parameter `x`"),
        ("[Fn(`sleep`)]", "there is no function `sleep`"),
        ("[|| 1], 0", "from 1 to 64"),
        ("[|| 1], 65", "from 1 to 64"),
        ("[|| 1], `2`", "must be a map"),
        ("[|| 1], #{limit: 1.5}", "from 1 to 64"),
        ("[|| 1], #{limits: 1}", "no option `limits`"),
    ] {
        let error = caught(&format!("parallel({arguments})")).await;
        assert!(error[0].as_str().unwrap().contains(message) && error[1] == "argument", "{arguments}: {error}");
    }
    for mode in [Mode::Expression, Mode::TopLevel, Mode::Transform] {
        let error = run_as(mode, environment(), "parallel([|| 1])").await.unwrap_err();
        let EvalAltResult::ErrorRuntime(value, _) = *error else { panic!("{error}") };
        assert_eq!(value.read_lock::<Failure>().unwrap().kind(), "unavailable");
    }
    let refused = caught("parallel([|| execute()])").await;
    assert_eq!(
        (&refused[0], &refused[1]),
        (
            &json!("`execute` is not available in the functions of `parallel`: call it before or after"),
            &json!("unavailable")
        )
    );
}

#[tokio::test(start_paused = true)]
async fn calls_may_be_nested_up_to_a_depth() {
    let begun = tokio::time::Instant::now();
    let nested =
        "parallel([|| parallel([|| parallel([|| { sleep(10); 1 }, || 2]), || { sleep(10); 3 }]), || { sleep(10); 4 }])";
    assert_eq!(value(nested).await, json!([[[1, 2], 3], 4]));
    assert_eq!(begun.elapsed().as_secs(), 10);
    let endless = value(
        "fn deeper() { parallel([|| deeper()]) } let text = (); try { deeper() } catch (e) { text = e.message; } text",
    )
    .await;
    assert!(endless.as_str().unwrap().contains("up to 3 levels deep"), "{endless}");
    // All levels together run up to a number of functions, and none of them waits for ever.
    let script = format!(
        "let now = 0; let most = 0;
         let leaf = || {{ now += 1; if now > most {{ most = now; }} sleep(1); now -= 1; }};
         let all = []; for i in 0..{MAX_AT_ONCE} {{ all.push(|| parallel([leaf, leaf, leaf, leaf], 4)); }}
         parallel(all, {MAX_AT_ONCE}); [most, now]"
    );
    assert_eq!(value(&script).await, json!([MAX_AT_ONCE, 0]));
}

#[tokio::test(start_paused = true)]
async fn the_functions_count_in_the_budgets_of_the_call() {
    let spinning = "try { parallel([|| { loop {} }, || { sleep(60); }]) } catch {} 42";
    let (ended, budget) = limited(Limits { operations: 100_000, ..Limits::default() }, spinning).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Operations));
    let shared = "let work = || { for i in 0..1000 { } }; parallel([work, work, work, work]); 1";
    let (ended, budget) = limited(Limits::default(), shared).await;
    assert!(ended.is_ok() && budget.used_operations() > 4_000, "{}", budget.used_operations());
    let (ended, budget) = limited(Limits { operations: 3_000, ..Limits::default() }, shared).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Operations));
    let logging = "let log = || print(`0123456789`); parallel([log, log, log, log])";
    let (ended, budget) = limited(Limits { output: 200, ..Limits::default() }, logging).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Output));
    let waiting = "try { parallel([|| { try { sleep(`2h`) } catch {} }, || sleep(`3h`)]) } catch {} 42";
    let (ended, budget) = limited(Limits { time: Some(Duration::from_secs(9)), ..Limits::default() }, waiting).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Time));
    let Some(Ending::Overrun(overrun)) = budget.ending() else { panic!("it has ended") };
    assert!(overrun.text.ends_with("; it was waiting for the functions of `parallel`"), "{}", overrun.text);
    // Nested calls count from the first function of the call on.
    let deep = "fn down(n) { if n > 0 { down(n - 1) } else { sleep(1); 7 } } parallel([|| down(40)])";
    let (ended, budget) = limited(Limits { depth: 30, ..Limits::default() }, deep).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Depth));
    assert!(limited(Limits::default(), deep).await.0.is_ok());
    let recursive = "fn down(n) { if n > 0 { down(n - 1) } else { parallel([|| down2(20)]) } } fn down2(n) { if n > 0 { down2(n - 1) } else { 7 } } down(20)";
    let (ended, budget) = limited(Limits { depth: 30, ..Limits::default() }, recursive).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Depth));
}

#[tokio::test(start_paused = true)]
async fn the_stacks_of_the_functions_count_in_the_memory_of_the_call() {
    let waiting = "let all = []; for i in 0..64 { all.push(|| sleep(1)); } parallel(all, LIMIT)";
    let limits = Limits { memory: 2 << 20, ..Limits::default() };
    let (ended, budget) = limited(limits.clone(), &waiting.replace("LIMIT", "64")).await;
    assert!(ended.is_err() && is_over(&budget, Limit::Memory));
    let (ended, budget) = limited(limits, &waiting.replace("LIMIT", "8")).await;
    assert!(ended.is_ok());
    assert_eq!(budget.children().get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_all_its_functions() {
    let stop = Stop::new();
    let budget = Rc::new(Budget::new(&Limits::default(), stop.clone()));
    let context = Context::new(Rc::new(environment()), Rc::clone(&budget), Mode::Function);
    let script =
        "parallel([|| sleep(1000), || parallel([|| { try { sleep(1000) } catch { loop {} } }]), || loop { sleep(1) }])";
    let request = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        stop.request("the operator ends");
    };
    let (ended, ()) = tokio::join!(run_in(context, script), request);
    assert!(ended.is_err());
    assert_eq!((budget.ending(), budget.children().get()), (Some(Ending::Cancelled), 0));
    // A call that is no longer awaited.
    let budget = Rc::new(Budget::new(&Limits::default(), Stop::new()));
    let context = Context::new(Rc::new(environment()), Rc::clone(&budget), Mode::Function);
    assert!(tokio::time::timeout(Duration::from_secs(5), run_in(context, script)).await.is_err());
    assert_eq!(budget.children().get(), 0);
}

#[tokio::test(start_paused = true)]
async fn between_two_waits_no_other_function_of_the_call_runs() {
    // The loops are long enough to let other scripts run.
    let script = "
        let busy = false; let met = 0;
        let work = || {
            for i in 0..3 {
                if busy { met += 1; }
                busy = true;
                for j in 0..10000 { }
                busy = false;
                sleep(0.001);
            }
        };
        parallel([work, work, work]);
        met";
    assert_eq!(value(script).await, 0);
}

#[tokio::test(start_paused = true)]
async fn functions_that_never_wait_let_other_scripts_run() {
    let ticks = async {
        let mut count = 0;
        loop {
            tokio::task::yield_now().await;
            count += 1;
            if count == 20 {
                return;
            }
        }
    };
    let script = "let all = []; for i in 0..2000 { all.push(|| { for j in 0..200 { } }); } parallel(all).len()";
    tokio::select! {
        biased;
        ended = run(script) => panic!("it ended first: {ended:?}"),
        () = ticks => {}
    }
    assert_eq!(value(script).await, 2000);
}

async fn on_fiber(
    run: impl FnOnce(Context) -> Result<Vec<i32>, Failed> + 'static,
) -> std::thread::Result<Result<Vec<i32>, Failed>> {
    let budget = Rc::new(Budget::new(&Limits::default(), Stop::new()));
    let context = Context::new(Rc::new(environment()), Rc::clone(&budget), Mode::Function);
    Fiber::new(budget, move || run(context)).unwrap().await
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_that_of_the_waiting_fiber_and_ends_the_others() {
    let held = Rc::new(());
    let kept = Rc::clone(&held);
    let ended = on_fiber(move |context| {
        let waiting: Task<i32> = Box::new({
            let context = context.clone();
            move |budget| {
                wait_in(&context.of_child(budget), std::future::pending::<()>())?;
                drop(kept);
                Ok(1)
            }
        });
        let panicking: Task<i32> = Box::new(|_| panic!("a bug"));
        wait_in(&context, Children::new(context.budget(), vec![waiting, panicking], 2)).unwrap()
    });
    assert!(matches!(ended.await, Ok(Err(Failed::Panicked(_)))));
    assert_eq!(Rc::strong_count(&held), 1);
}

#[tokio::test(start_paused = true)]
async fn locks_exclude_functions_from_each_other_and_end_with_them() {
    let shared = Arc::new(SharedData::default());
    let environment = || Environment { shared: Arc::clone(&shared), ..environment() };
    let run = async |script: &str| {
        let budget = Rc::new(Budget::new(&Limits::default(), Stop::new()));
        let context = Context::new(Rc::new(environment()), budget, Mode::Function);
        let script = script.to_owned();
        let data = Arc::clone(&shared);
        let own = Rc::clone(context.budget());
        let run = move || {
            let mut engine = engine::build(engine::Sizes::of(&Limits::default()));
            engine.set_default_tag(context.tag());
            let mut scope = rhai::Scope::new();
            scope.push("shared", SharedHandle::new(&data));
            engine.eval_with_scope::<Dynamic>(&mut scope, &script)
        };
        let value = Fiber::new(own, run).unwrap().await.unwrap();
        convert::to_json(&value.unwrap()).unwrap()
    };
    let script = "
        let inside = 0; let met = 0;
        let work = || {
            let lock = shared.lock(`a`);
            inside += 1; if inside > 1 { met += 1; }
            sleep(1);
            inside -= 1;
        };
        parallel([work, work, work]); met";
    let begun = tokio::time::Instant::now();
    assert_eq!(run(script).await, 0);
    assert_eq!(begun.elapsed().as_secs(), 3);
    // A lock of the call is one of its functions; the turn at the data ends with a function.
    let script = "
        shared.lock(`a`);
        let done = parallel([|| { shared.lock(`a`); shared.set(`x`, 1); 1 }, || { sleep(1); shared.lock(`a`); shared.get(`x`) }]);
        done";
    assert_eq!(run(script).await, json!([1, 1]));
    assert_eq!(run("shared.lock(`a`); 2").await, 2);
}
