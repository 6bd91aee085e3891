//! Ten thousand handlers asleep at once, in a process of their own, so that its memory can be measured.
#![expect(clippy::unwrap_used, reason = "these are tests")]

#[path = "script/world.rs"]
#[expect(dead_code, reason = "the other tests of scripts use the rest")]
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kopfd::handling::Verdict;
use kopfd::script::{Limits, Threads};
use serde_json::json;

use world::{Operator, World};

const SLEEPERS: usize = 10_000;

/// Returns the megabytes that the process has in memory.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    (pages * 4096) >> 20
}

fn script_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("script-")).count()
}

/// Returns names of memories, the first of which belongs to another thread than the second.
fn on_two_threads() -> [Arc<str>; 2] {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let thread = |name: &str| {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        hasher.finish() % 2
    };
    let other = (0..1_000).map(|number| format!("u-{number}")).find(|name| thread(name) != thread("u-1")).unwrap();
    ["u-1".into(), other.into()]
}

#[test]
fn ten_thousand_handlers_sleep_in_little_memory_and_two_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let main = "fn f(spec, patch) { wait_for(spec); patch.status.done = spec.size; } fn wait_for(spec) { sleep(5); }";
        let operator = Operator::new(main).binds("f", Limits::default());
        let world = Arc::new(operator.start_on(Threads::Own(2)).await.unwrap());
        // The essences belong to whoever handles the object; each object's body is its own, as in a cluster.
        let change = world.arguments().change;
        let (before, begun) = (resident(), Instant::now());
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..SLEEPERS {
            let (world, done, change) = (Arc::clone(&world), Arc::clone(&done), Arc::clone(&change));
            tasks.spawn(async move {
                let mut call = world.a_call(0);
                call.arguments.memo = format!("u-{number}").into();
                call.arguments.change = change;
                let returned = world.host.call(&world.installed, call).await;
                assert_eq!(returned.verdict, Verdict::Returned(None));
                assert_eq!(serde_json::Value::Object(returned.patch.merge), json!({"status": {"done": 3}}));
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        tokio::time::sleep_until((begun + Duration::from_millis(4_800)).into()).await;
        let (grown, threads) = (resident() - before, script_threads());
        assert_eq!(done.load(Ordering::Relaxed), 0, "all are still asleep");
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        println!("{SLEEPERS} handlers asleep took {grown} MB and {threads} threads; all were done after {:?}", begun.elapsed());
        assert!(grown <= 400, "{grown} MB");
        assert_eq!(threads, 2);
        stop(world).await;
        assert_eq!(script_threads(), 0);
    });
}

async fn stop(world: Arc<World>) {
    let world = Arc::into_inner(world).expect("all calls have ended");
    Arc::into_inner(world.host).expect("nobody else has it").stop().await;
}

#[test]
fn a_spinning_script_delays_neither_the_other_thread_nor_other_tasks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let main = "fn spin() { loop {} } fn ready() { return 1; }";
        let limits = Limits { operations: 3_000_000, ..Limits::default() };
        let operator = Operator::new(main).binds("spin", limits).binds("ready", Limits::default());
        let world = Arc::new(operator.start_on(Threads::Own(2)).await.unwrap());
        let [here, there] = on_two_threads();
        let mut spinning = world.a_call(0);
        spinning.arguments.memo = here;
        let spinner = Arc::clone(&world);
        let spun = tokio::task::JoinSet::from_iter([async move { spinner.host.call(&spinner.installed, spinning).await }]);
        let (mut calls, mut longest_call, mut longest_tick) = (0, Duration::ZERO, Duration::ZERO);
        let mut spun = spun;
        while spun.try_join_next().is_none() {
            let begun = Instant::now();
            tokio::time::sleep(Duration::from_millis(2)).await;
            longest_tick = longest_tick.max(begun.elapsed());
            let begun = Instant::now();
            let mut ready = world.a_call(1);
            ready.arguments.memo = Arc::clone(&there);
            assert_eq!(world.host.call(&world.installed, ready).await.verdict, Verdict::Returned(Some(json!(1))));
            longest_call = longest_call.max(begun.elapsed());
            calls += 1;
        }
        println!("{calls} calls beside the spinning one, the longest {longest_call:?}; the longest tick of 2 ms {longest_tick:?}");
        assert!(calls > 10, "{calls} calls");
        assert!(longest_call < Duration::from_millis(200) && longest_tick < Duration::from_millis(200));
    });
}
