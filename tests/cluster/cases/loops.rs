//! Objects that keep triggering themselves, at the pace of a real API server, and budgets of requests.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Kind, TestContext, is_handled};

pub(crate) const CASES: &[Case] =
    cases![objects_that_trigger_themselves_are_slowed_down_until_others_change_them, a_budget_spreads_requests];

/// How long the writes of slowed objects are counted.
const WATCHED: Duration = Duration::from_secs(20);

/// The names of the objects, which are those of their handlers.
const LOOPING: [&str; 3] = ["impatient", "counting", "events"];

/// Starts an operator with these settings and handlers.
fn start(
    context: &TestContext<'_>,
    kind: &Kind,
    settings: &str,
    handlers: &str,
) -> std::rc::Rc<crate::harness::Operator> {
    let directory = context.directory().join("looping");
    fs::create_dir_all(&directory).expect("the directory of the case is writable");
    let resource = kind.selector();
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: looping}}\nspec:\n  settings: {settings}\n  resources:\n    - resource: {resource}\n      handlers:\n{handlers}"
    );
    fs::write(directory.join("operator.yaml"), manifest).expect("the manifest is written");
    context.start(&context.launch_source(&directory))
}

fn objects_that_trigger_themselves_are_slowed_down_until_others_change_them(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = r#"        - {on: create, id: impatient, when: 'name == "impatient"', run: 'if spec?.ready != true { throw temporary("not ready", 0); }'}
        - {on: update, id: counting, when: 'name == "counting"', run: 'if spec?.ready != true { patch.spec.n = spec.n + 1; }'}
        - {on: event, id: events, when: 'name == "events" && spec?.ready != true', run: 'patch.status.seen = (status?.seen ?? 0) + 1;'}
"#;
    let operator = start(context, &kind, "{queueing: {breaker: {cycles: 100, condition: Looping}}}", handlers);
    for name in LOOPING {
        context.create(&kind, name, json!({"n": 0}));
    }
    context.object(&kind, "counting", "was created", is_handled);
    context.merge(&kind, "counting", json!({"spec": {"n": 1}}));
    for name in LOOPING {
        let text = format!("handlers: '{name}'");
        let is_named =
            |line: &str| line.contains("The object keeps triggering itself: 101 cycles") && line.contains(&text);
        context.eventually(&format!("{name} is slowed down"), || operator.log().lines().any(is_named).then_some(()));
        context.object(&kind, name, "has the condition", |object| condition(object) == Some("True"));
    }
    let record = context.record(&kind);
    std::thread::sleep(WATCHED);
    for name in LOOPING {
        // Cycles after 1, 2, 4, 8, … seconds, each with up to two writes; without the breaker there are thousands.
        let writes = record.versions(name).len();
        assert!((1..=16).contains(&writes), "{name} was written {writes} times within {WATCHED:?}");
    }
    for name in LOOPING {
        let began = Instant::now();
        context.merge(&kind, name, json!({"spec": {"ready": true}}));
        context.object(&kind, name, "has recovered", |object| condition(object) == Some("False"));
        assert!(began.elapsed() < Duration::from_secs(5), "a change by others is handled at once");
    }
    context.object(&kind, "impatient", "is handled", is_handled);
    let recoveries = operator.log().matches("The object is not slowed down any more").count();
    assert_eq!(recoveries, LOOPING.len());
}

fn a_budget_spreads_requests(context: &TestContext<'_>) {
    let kind = context.thing();
    let handlers = "        - {on: create, id: made, run: 'patch.spec.made = true;'}\n";
    start(context, &kind, "{networking: {requests: {perSecond: 5, burst: 5}}}", handlers);
    context.create(&kind, "first", json!({}));
    context.object(&kind, "first", "is handled", is_handled);
    let began = Instant::now();
    for number in 0..20 {
        context.create(&kind, &format!("object-{number}"), json!({}));
    }
    for number in 0..20 {
        context.object(&kind, &format!("object-{number}"), "is handled", is_handled);
    }
    // At least one request for each object; five of them at once.
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
}

/// Returns the status of the condition.
fn condition(object: &Value) -> Option<&str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == "Looping")?["status"].as_str()
}
