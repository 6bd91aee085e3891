//! Two hundred crashes at seeded random moments: no handler is lost, and none is called again after its success was
//! stored.
//!
//! Every call creates an object in the same store as the handled objects, so the revisions order calls and progress. A
//! call is correct if the newest version of its object before it has no success of this handler and exactly its number
//! of attempts.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::cases;
use crate::harness::{Call, Case, Engine, Handler, Kind, TestContext, Version, is_handled, last_handled, progress};

pub(crate) const CASES: &[Case] = cases![
    crashes_of_the_first_operator_lose_and_repeat_nothing,
    crashes_of_the_second_operator_lose_and_repeat_nothing,
    crashes_of_the_third_operator_lose_and_repeat_nothing,
    crashes_of_the_fourth_operator_lose_and_repeat_nothing,
];

/// Number of operators that are crashed in parallel.
const LANES: u64 = 4;

fn crashes_of_the_first_operator_lose_and_repeat_nothing(context: &TestContext<'_>) {
    crashes(context, 1);
}

fn crashes_of_the_second_operator_lose_and_repeat_nothing(context: &TestContext<'_>) {
    crashes(context, 2);
}

fn crashes_of_the_third_operator_lose_and_repeat_nothing(context: &TestContext<'_>) {
    crashes(context, 3);
}

fn crashes_of_the_fourth_operator_lose_and_repeat_nothing(context: &TestContext<'_>) {
    crashes(context, 4);
}

const CREATION: [&str; 3] = ["first", "second", "third"];
const UPDATE: [&str; 2] = ["wider", "taller"];
const DELETION: [&str; 2] = ["empty", "remove"];

/// The steps of the case for an object, each as soon as the object is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is only created.
    Created,
    /// It is changed once.
    Changed,
    /// It is changed and deleted.
    Deleted,
}

fn crashes(context: &TestContext<'_>, lane: u64) {
    let from_environment =
        |name: &str, usual: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let crashes = from_environment("KOPFD_CLUSTER_KILLS", 200) / LANES;
    let seed = from_environment("KOPFD_CLUSTER_SEED", 1) * 100 + lane;
    let mut dice = StdRng::seed_from_u64(seed);
    let kind = context.thing();
    let record = context.record(&kind);
    let handlers = handlers();
    let mut objects: Vec<(String, Fate)> = Vec::new();
    for number in 0..crashes {
        let operator = context.operator_of(Engine::under_test(), &kind, &handlers);
        let noted = context.calls().len();
        let name = format!("object-{number:03}");
        context.create(&kind, &name, spec(&mut dice));
        objects.push((name, [Fate::Created, Fate::Changed, Fate::Deleted][dice.random_range(0..3)]));
        push_on(context, &kind, &objects);
        // Most crashes happen during the work of an operator, some during its start.
        if dice.random_ratio(4, 5) {
            context.eventually(&format!("a call after crash {number} (seed {seed})"), || {
                (context.calls().len() > noted).then_some(())
            });
        }
        std::thread::sleep(Duration::from_millis(dice.random_range(0..700)));
        context.kill(&operator);
    }
    let _last = context.operator_of(Engine::under_test(), &kind, &handlers);
    context.eventually_within(
        Duration::from_mins(3),
        &format!("everything is handled in the end (seed {seed})"),
        || push_on(context, &kind, &objects).then_some(()),
    );
    std::thread::sleep(Duration::from_secs(2));
    let calls = context.calls();
    for (name, fate) in &objects {
        let calls: Vec<&Call> = calls.iter().filter(|call| call.object == *name).collect();
        check(name, *fate, &calls, &record.versions(name), seed);
    }
    println!("       {crashes} crashes, {} objects, {} calls, seed {seed}", objects.len(), calls.len());
}

fn handlers() -> Vec<Handler> {
    let of = |cause: &'static str, ids: &[&'static str]| -> Vec<Handler> {
        ids.iter().map(|id| Handler::on(cause, id).with("backoff", 1)).collect()
    };
    [of("create", &CREATION), of("update", &UPDATE), of("delete", &DELETION)].concat()
}

/// Every handler sleeps briefly or not, and fails up to two times.
fn spec(dice: &mut StdRng) -> Value {
    let mut steps = serde_json::Map::new();
    for handler in CREATION.iter().chain(&UPDATE).chain(&DELETION) {
        let failures = dice.random_range(0..3);
        let mut plan: Vec<Value> =
            (0..failures).map(|_| json!({"temporary": f64::from(dice.random_range(1..8)) / 10.0})).collect();
        plan.push(json!({}));
        for step in &mut plan {
            step["sleep"] = json!(f64::from(dice.random_range(0..4)) / 10.0);
        }
        steps.insert((*handler).to_owned(), Value::Array(plan));
    }
    json!({"size": 1, "steps": steps})
}

/// Takes the next step for every handled object, and tells whether all are finished.
fn push_on(context: &TestContext<'_>, kind: &Kind, objects: &[(String, Fate)]) -> bool {
    let present = context.client().list(&kind.collection(&context.namespace));
    objects.iter().all(|(name, fate)| {
        let Some(object) = present.iter().find(|object| object["metadata"]["name"] == **name) else {
            return *fate == Fate::Deleted;
        };
        let settled =
            is_handled(object) && last_handled(object).is_some_and(|essence| essence["spec"] == object["spec"]);
        match (fate, object["spec"]["size"].as_u64()) {
            _ if !settled || object["metadata"]["deletionTimestamp"].is_string() => false,
            (Fate::Created, _) | (Fate::Changed, Some(2)) => true,
            (Fate::Changed | Fate::Deleted, Some(1)) => {
                context.merge(kind, name, json!({"spec": {"size": 2}}));
                false
            }
            (Fate::Deleted, _) => {
                context.delete(kind, name);
                false
            }
            (Fate::Changed, size) => panic!("an object of size {size:?}"),
        }
    })
}

fn check(name: &str, fate: Fate, calls: &[&Call], versions: &[Version], seed: u64) {
    let expected: Vec<&str> = match fate {
        Fate::Created => CREATION.to_vec(),
        Fate::Changed => [&CREATION[..], &UPDATE].concat(),
        Fate::Deleted => [&CREATION[..], &UPDATE, &DELETION].concat(),
    };
    let report = || {
        format!(
            "{name} (seed {seed}): {:#?}",
            calls.iter().map(|call| (call.revision, call.short())).collect::<Vec<_>>()
        )
    };
    for handler in &expected {
        assert!(calls.iter().any(|call| call.handler == *handler), "{handler} was lost for {}", report());
    }
    for call in calls {
        assert!(expected.contains(&call.handler.as_str()), "{} had no reason for {}", call.short(), report());
        let before = versions
            .iter()
            .rev()
            .find(|version| version.revision < call.revision)
            .and_then(|version| version.object.as_ref());
        let object = before.unwrap_or_else(|| panic!("{} was called for no object at all: {}", call.short(), report()));
        let stored = progress(object, &call.handler);
        let done = stored.as_ref().is_some_and(|record| record["success"] == true) || is_over(object, &call.handler);
        assert!(
            !done,
            "{} at {} was repeated after its success was stored, for {}",
            call.short(),
            call.revision,
            report()
        );
        let attempts = stored.and_then(|record| record["retries"].as_u64()).unwrap_or(0);
        assert_eq!(
            call.retry,
            attempts,
            "{} at {} has another count than the object, for {}",
            call.short(),
            call.revision,
            report()
        );
    }
}

/// Tells whether the cause of a handler is processed: its records are purged, and the essence is stored.
fn is_over(object: &Value, handler: &str) -> bool {
    let handled = last_handled(object).map(|essence| essence["spec"]["size"].clone());
    if CREATION.contains(&handler) {
        handled.is_some()
    } else if UPDATE.contains(&handler) {
        handled == Some(json!(2))
    } else {
        false
    }
}
