//! Hostile scripts in an operator of the real API server.

use std::fs;
use std::time::Duration;

use serde_json::json;

use super::cases;
use crate::harness::{Case, Kind, TestContext};
use crate::limits_operator::{LABEL, missing, write};

pub(crate) const CASES: &[Case] = cases![hostile_scripts_are_ended_by_their_limits_and_others_are_served];

/// The time for all scripts, on a busy machine.
const WITHIN: Duration = Duration::from_mins(3);

/// The peak of the operator's memory, in MiB. New calls wait while the scripts hold more than 256, but about 30 of
/// those that have begun may grow to their 64 at the same time.
const MAX_MEMORY: u64 = 2_048;

fn hostile_scripts_are_ended_by_their_limits_and_others_are_served(context: &TestContext<'_>) {
    let kind = context.thing();
    let folder = context.directory().join("hostile");
    fs::create_dir_all(&folder).expect("the directory of the case is writable");
    let ids = write(&folder, &kind.selector());
    let operator = context.start(&context.launch_source(&folder.join("operator.yaml")));
    for id in &ids {
        create(context, &kind, id, id);
        create(context, &kind, &format!("beside-{id}"), "served");
    }
    for id in &ids {
        context.handled(&kind, &format!("beside-{id}"));
    }
    let is_done = || missing(&ids, &operator.log()).is_empty().then_some(());
    context.eventually_within(WITHIN, "each script has used up its budget", is_done);
    let peak = operator.peak_memory();
    assert!(peak < MAX_MEMORY, "the operator took {peak} MiB");
    // It works on as before.
    create(context, &kind, "last", "served");
    context.handled(&kind, "last");
    operator.expect_running();
}

fn create(context: &TestContext<'_>, kind: &Kind, name: &str, label: &str) {
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name, "labels": {LABEL: label}}, "spec": {}});
    context.client().create(&kind.collection(&context.namespace), &object);
}
