//! A look-up in an index of 100,000 objects by a script, and the memory of the index.

use std::sync::Arc;
use std::time::Instant;

use kopfd::handling::Verdict;
use kopfd::handling::index::Member;
use kopfd::handling::index_key::Key;
use kopfd::object::Body;
use kopfd::script::host::Options;
use kopfd::script::{Host, Installed, Plain, Program, Threads};
use serde_json::json;
use tokio::task::LocalSet;

use super::calls;
use crate::support::process::resident;
use crate::support::table::{median, verdict};

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: bench}
spec:
  resources:
    - resource: things.bench.kopfd.dev
      script: bench.rhai
      handlers:
        - {on: create, fn: look_up}
        - {on: create, fn: count}
      indexes:
        - {fn: by_name}
";

/// The second function does the same without the look-ups.
const SCRIPT: &str = "fn by_name(name) { return entry(name, 1); }
fn look_up(by_name) {
    let n = 17;
    for i in 0..10000 { n = (n * 7919 + i) % 100000; by_name[`object-${n}`]; }
}
fn count() {
    let n = 17;
    for i in 0..10000 { n = (n * 7919 + i) % 100000; `object-${n}`; }
}
";

const OBJECTS: usize = 100_000;

const LOOK_UPS: f64 = 10_000.0;

const ROUNDS: usize = 9;

/// Microseconds of a look-up.
const GOAL: f64 = 2.0;

/// Bytes of an object beyond its value.
const MEMORY_GOAL: f64 = 400.0;

/// Returns rows of figures.
pub(crate) fn measure() -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().expect("a directory for the operator");
    let manifest = crate::write(directory.path(), &[("operator.yaml", MANIFEST), ("bench.rhai", SCRIPT)]);
    let operator = crate::load(manifest);
    let handlers = operator.handlers.clone();
    let program = Arc::new(Program::load(operator.declaration).expect("the script has no mistakes"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (bytes, micros) = runtime.block_on(LocalSet::new().run_until(async {
        let host = Host::start(Options { threads: Threads::Current, ..Options::default() }).expect("the host starts");
        let installed = host.install(program).await.expect("the script can be installed");
        let bytes = fill(&installed);
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let mut seconds = [0.0; 2];
            for (handler, seconds) in handlers.iter().zip(&mut seconds) {
                let call = calls::call(handler);
                let began = Instant::now();
                let returned = host.call(&installed, call).await;
                *seconds = began.elapsed().as_secs_f64();
                assert!(matches!(returned.verdict, Verdict::Returned(_)), "{:?}", returned.verdict);
            }
            rounds.push((seconds[0] - seconds[1]) * 1e6 / LOOK_UPS);
        }
        (bytes, median(&rounds))
    }));
    let row = |title: &str, figure: String, goal: f64, holds: bool| {
        vec![title.to_owned(), figure, format!("{goal:.0}"), verdict(holds)]
    };
    vec![
        row("index of 100,000 objects: a look-up by a script", format!("{micros:.2} µs"), GOAL, micros <= GOAL),
        row(
            "index of 100,000 objects: memory of an object beyond its value",
            format!("{bytes:.0} B"),
            MEMORY_GOAL,
            bytes <= MEMORY_GOAL,
        ),
    ]
}

/// Indexes the objects by their names. Returns the bytes of each; its value is a number.
fn fill(installed: &Installed) -> f64 {
    let index = installed.indexes().get("by_name").expect("it is declared");
    let before = resident(std::process::id());
    for number in 0..OBJECTS {
        let name = format!("object-{}", number * 7919 % OBJECTS);
        let metadata =
            json!({"namespace": "default", "name": name, "uid": format!("{number:08x}-0000-4000-8000-000000000000")});
        let member = Member::of(&Body::from(json!({"metadata": metadata})));
        index.replace(&member, vec![(Key::from(name.as_str()), Plain::from(json!(1)))]);
    }
    (resident(std::process::id()) - before) as f64 / OBJECTS as f64
}
