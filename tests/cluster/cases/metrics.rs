//! The metrics of an operator, read by Python's Prometheus client: an independent and strict parser of the format.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use kopfd::telemetry::metrics::TABLE;
use serde_json::{Value, json};

use super::cases;
use super::examples::{SMALL, launch_schedules, run_with};
use crate::harness::child::output;
use crate::harness::{Case, Engine, Handler, Kind, LIVENESS, Launch, TestContext, has_finalizer};

pub(crate) const CASES: &[Case] = cases![an_independent_parser_reads_all_metrics_of_a_working_operator];

/// Prints the samples of the page at a URL, by name, as JSON. The parser fails on anything that is not OpenMetrics.
const READER: &str = "
import json, sys, urllib.request
from prometheus_client.openmetrics.parser import text_string_to_metric_families
with urllib.request.urlopen(sys.argv[1], timeout=30) as page:
    assert page.headers['content-type'].startswith('application/openmetrics-text; version=1.0.0'), page.headers
    text = page.read().decode()
samples = [[family.type, sample.name, sample.labels, sample.value] for family in text_string_to_metric_families(text) for sample in family.samples]
print(json.dumps(samples))
";

fn an_independent_parser_reads_all_metrics_of_a_working_operator(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("create", "on_create")]);
    let operator = context.start(&Launch { options: vec![LIVENESS.into()], ..launch });
    context.create(&kind, "one", json!({"size": 1, "steps": {"on_create": [{"temporary": 1}]}}));
    context.handled(&kind, "one");
    let address = operator.endpoints();
    let samples = read(&format!("http://{address}/metrics"));
    let others =
        [samples_of_schedules_and_indexes(context), samples_of_daemons(context), samples_of_timers(context)].concat();
    let found: BTreeSet<&str> = samples.iter().chain(&others).filter_map(|sample| sample[1].as_str()).collect();
    // Nothing has failed or waited so far, and there are no webhooks, peers and replicas; other tests show that these
    // are counted.
    let idle = [
        "kopfd_reviews_total",
        "kopfd_review_duration_seconds",
        "kopfd_hook_requests_total",
        "kopfd_hook_duration_seconds",
        "kopfd_leader",
        "kopfd_leader_changes_total",
        "kopfd_peers",
        "kopfd_peering_keepalive_failures_total",
        "kopfd_watch_failures_total",
        "kopfd_api_request_retries_total",
        "kopfd_api_conflicts_total",
        "kopfd_api_throttled_seconds_total",
        "kopfd_script_budget_overruns_total",
        "kopfd_loops_total",
        "kopfd_objects_slowed_down",
        "kopfd_api_budget_wait_seconds_total",
        "kopfd_trial_info",
        "kopfd_trials_total",
    ];
    for metric in TABLE.iter().filter(|metric| !idle.contains(&metric.name)) {
        let name = format!("{}{}", metric.name, if metric.kind.as_str() == "histogram" { "_count" } else { "" });
        assert!(found.contains(name.as_str()), "{name} is missing: {found:?}");
    }
    let value = |name: &str, labels: &Value| {
        let is_wanted = |sample: &&Value| {
            sample[1] == name
                && labels.as_object().is_some_and(|labels| labels.iter().all(|(key, value)| sample[2][key] == *value))
        };
        samples.iter().find(is_wanted).and_then(|sample| sample[3].as_f64())
    };
    assert_eq!(value("kopfd_handler_calls_total", &json!({"handler": "on_create", "outcome": "retried"})), Some(1.0));
    assert_eq!(value("kopfd_handler_calls_total", &json!({"handler": "on_create", "outcome": "succeeded"})), Some(1.0));
    assert_eq!(value("kopfd_objects_waiting_for_retry", &json!({})), Some(0.0));
    assert_eq!(value("kopfd_watches", &json!({"state": "watching"})), Some(1.0));
}

/// Returns the samples of an operator with schedules and indexes, after a run of a schedule.
fn samples_of_schedules_and_indexes(context: &TestContext<'_>) -> Vec<Value> {
    let operator = context.start(&Launch { options: vec![LIVENESS.into()], ..launch_schedules(context) });
    let report = Kind::core("ConfigMap", "configmaps", true);
    let tick = |object: &Value| object["metadata"]["annotations"]["housekeeping/of"].clone();
    let first = tick(&context.object(&report, "report", "is made by a schedule", |object| tick(object).is_string()));
    context.object(&report, "report", "is made again", |object| tick(object) != first);
    let samples = read(&format!("http://{}/metrics", operator.endpoints()));
    context.stop(&operator);
    samples
}

/// Returns the samples of an operator with a running daemon.
fn samples_of_daemons(context: &TestContext<'_>) -> Vec<Value> {
    let operator = run_with(context, "14-daemons", &[LIVENESS]);
    context.object(&SMALL.kind(), "watched", "has a daemon", has_finalizer);
    read(&format!("http://{}/metrics", operator.endpoints()))
}

/// Returns the samples of an operator with timers, after the second call of one: only that has a time at which it was
/// due.
fn samples_of_timers(context: &TestContext<'_>) -> Vec<Value> {
    let kind = context.thing();
    let folder = context.directory().join("timers");
    std::fs::create_dir_all(&folder).expect("the directory of the case is writable");
    let manifest = json!({
        "apiVersion": "kopfd.dev/v1", "kind": "Operator", "metadata": {"name": "timers"},
        "spec": {"resources": [{"resource": kind.selector(), "timers": [{"id": "tick", "interval": 1, "run": "memo.n = (memo.n ?? 0) + 1; patch.status.ticks = memo.n;"}]}]},
    });
    // JSON is YAML.
    std::fs::write(folder.join("operator.yaml"), manifest.to_string()).expect("the directory is writable");
    let launch = context.launch_source(&folder.join("operator.yaml"));
    let operator = context.start(&Launch { options: vec![LIVENESS.into()], ..launch });
    context.create(&kind, "timed", json!({}));
    context.object(&kind, "timed", "is visited by a timer", |object| {
        object["status"]["ticks"].as_u64().is_some_and(|ticks| ticks >= 2)
    });
    read(&format!("http://{}/metrics", operator.endpoints()))
}

fn read(url: &str) -> Vec<Value> {
    let python =
        std::env::var("KOPFD_CLUSTER_PROMETHEUS").expect("`tests/cluster/run` installs Python's Prometheus client");
    let read = output(Command::new(python).args(["-c", READER, url]).stdin(Stdio::null()));
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).expect("the reader prints JSON")
}
