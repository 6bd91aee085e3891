//! The metrics of an operator, read by Python's Prometheus client: an independent and strict parser of the format.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use kopfd::telemetry::metrics::TABLE;
use serde_json::{Value, json};

use super::cases;
use crate::harness::child::output;
use crate::harness::{Case, Engine, Handler, LIVENESS, Launch, TestContext};

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
    let found: BTreeSet<&str> = samples.iter().filter_map(|sample| sample[1].as_str()).collect();
    // Nothing has failed so far, and there are no timers, daemons, schedules and indexes.
    let idle = [
        "kopfd_reviews_total",
        "kopfd_review_duration_seconds",
        "kopfd_watch_failures_total",
        "kopfd_api_request_retries_total",
        "kopfd_api_conflicts_total",
        "kopfd_api_throttled_seconds_total",
        "kopfd_timer_lateness_seconds",
        "kopfd_schedule_last_success_timestamp_seconds",
        "kopfd_background_tasks",
        "kopfd_index_objects",
        "kopfd_index_keys",
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
            sample[1] == name && labels.as_object().is_some_and(|labels| labels.iter().all(|(key, value)| sample[2][key] == *value))
        };
        samples.iter().find(is_wanted).and_then(|sample| sample[3].as_f64())
    };
    assert_eq!(value("kopfd_handler_calls_total", &json!({"handler": "on_create", "outcome": "retried"})), Some(1.0));
    assert_eq!(value("kopfd_handler_calls_total", &json!({"handler": "on_create", "outcome": "succeeded"})), Some(1.0));
    assert_eq!(value("kopfd_objects_waiting_for_retry", &json!({})), Some(0.0));
    assert_eq!(value("kopfd_watches", &json!({"state": "watching"})), Some(1.0));
}

fn read(url: &str) -> Vec<Value> {
    let python = std::env::var("KOPFD_CLUSTER_PROMETHEUS").expect("`tests/cluster/run` installs Python's Prometheus client");
    let read = output(Command::new(python).args(["-c", READER, url]).stdin(Stdio::null()));
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    serde_json::from_slice(&read.stdout).expect("the reader prints JSON")
}
