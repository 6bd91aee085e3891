//! Tests of the metrics as text.

use std::time::Duration;

use super::*;
use crate::object::EventKind;

/// Returns metrics in which every family has a member.
fn filled() -> Metrics {
    let metrics = Metrics::default();
    let operator = metrics.operator("demo");
    let kind = operator.kind("pods");
    kind.event(EventKind::Added, Timestamp::from_millisecond(1500).unwrap());
    kind.watch_failed();
    kind.queued();
    kind.waited(Duration::from_millis(30));
    kind.worker_began();
    operator.attempt("made", 1, AttemptOutcome::Retried);
    operator.call("made", Duration::from_secs(2));
    operator.waiting("made", 3);
    metrics.measure_scripts(|| (1_000, 2));
    let schedule = operator.schedule("nightly");
    schedule.late(Duration::from_millis(7));
    schedule.succeeded(jiff::Timestamp::from_second(60).unwrap());
    operator.timer("repair");
    operator.cycle(true);
    operator.review("valid", ReviewOutcome::Denied, Duration::from_millis(3));
    operator.hook("pushed", HookOutcome::Forbidden, Duration::from_millis(3));
    operator.looped("made");
    operator.slowed(4);
    operator.index("by_team").set(3, 2);
    operator.script("made").ran(70);
    operator.script("made").overran("time");
    operator.loaded("abc", jiff::Timestamp::from_second(60).unwrap());
    drop(operator.revision_in_memory());
    operator.trial_began("def");
    operator.trial_ended("abc", "promoted");
    operator.paused(true);
    operator.peers(1, 0, 2);
    operator.keep_alive_failed();
    operator.leading(true);
    operator.leadership("gained");
    operator.login(false);
    operator.request("patch", "pods/status", "409", Duration::from_millis(5));
    operator.repetition("patch", "pods/status");
    operator.throttled(Duration::from_millis(1_500));
    operator.waited_for_budget(Duration::from_millis(2_500));
    metrics
}

#[test]
fn every_metric_of_the_table_is_exposed_with_its_labels_and_no_other() {
    let text = filled().text();
    let types: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let expected: Vec<(&str, &str)> = TABLE
        .iter()
        .map(|one| {
            (
                if one.kind == MetricKind::Counter { one.name.trim_end_matches("_total") } else { one.name },
                one.kind.as_str(),
            )
        })
        .collect();
    assert_eq!(types, expected);
    for one in TABLE {
        let name = if one.kind == MetricKind::Histogram { format!("{}_count", one.name) } else { one.name.to_owned() };
        let mut samples = text.lines().filter_map(|line| Some((line, line.strip_prefix(&name)?)));
        let is_sample = |(_, rest): &(&str, &str)| rest.starts_with(['{', ' ']);
        let (sample, rest) = samples.find(is_sample).unwrap_or_else(|| panic!("{name}: {text}"));
        let inside = rest.strip_prefix('{').and_then(|rest| rest.rsplit_once('}')).map_or("", |(inside, _)| inside);
        let labels = inside.split("\",").filter(|label| !label.is_empty());
        let found: Vec<&str> = labels.map(|label| label.split('=').next().unwrap()).collect();
        assert_eq!(found, one.labels, "{sample}");
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn names_and_units_follow_the_conventions() {
    for one in TABLE {
        assert!(
            one.name.starts_with("kopfd_") && one.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{}",
            one.name
        );
        assert_eq!(one.name.ends_with("_total"), one.kind == MetricKind::Counter, "{}", one.name);
        assert!(one.kind != MetricKind::Histogram || one.name.ends_with("_seconds"), "{}", one.name);
        assert!(
            !one.labels.iter().any(|label| matches!(*label, "name" | "namespace" | "uid" | "object")),
            "{}",
            one.name
        );
    }
}

#[test]
fn values_are_those_that_were_counted() {
    let text = filled().text();
    for line in [
        "kopfd_watch_events_total{operator=\"demo\",resource=\"pods\",type=\"added\"} 1",
        "kopfd_watch_events_total{operator=\"demo\",resource=\"pods\",type=\"listed\"} 0",
        "kopfd_watch_last_event_timestamp_seconds{operator=\"demo\",resource=\"pods\"} 1.5",
        "kopfd_queue_wait_seconds_bucket{le=\"0.05\",operator=\"demo\",resource=\"pods\"} 1",
        "kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"retried\"} 1",
        "kopfd_handler_retries_total{operator=\"demo\",handler=\"made\"} 1",
        "kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 3",
        "kopfd_timer_lateness_seconds_bucket{le=\"0.01\",operator=\"demo\",handler=\"nightly\"} 1",
        "kopfd_schedule_last_success_timestamp_seconds{operator=\"demo\",handler=\"nightly\"} 60.0",
        "kopfd_cycles_total{operator=\"demo\",outcome=\"failed\"} 1",
        "kopfd_reviews_total{operator=\"demo\",webhook=\"valid\",outcome=\"denied\"} 1",
        "kopfd_hook_requests_total{operator=\"demo\",hook=\"pushed\",outcome=\"forbidden\"} 1",
        "kopfd_hook_duration_seconds_bucket{le=\"0.005\",operator=\"demo\",hook=\"pushed\"} 1",
        "kopfd_review_duration_seconds_bucket{le=\"0.005\",operator=\"demo\",webhook=\"valid\"} 1",
        "kopfd_loops_total{operator=\"demo\",handler=\"made\"} 1",
        "kopfd_objects_slowed_down{operator=\"demo\"} 4",
        "kopfd_script_memory_bytes{} 1000",
        "kopfd_script_calls_waiting_for_memory{} 2",
        "kopfd_operator_paused{operator=\"demo\"} 1",
        "kopfd_peers{operator=\"demo\",relation=\"lower\"} 2",
        "kopfd_peering_keepalive_failures_total{operator=\"demo\"} 1",
        "kopfd_background_tasks{operator=\"demo\",handler=\"repair\",type=\"timer\",state=\"waiting\"} 0",
        "kopfd_index_objects{operator=\"demo\",index=\"by_team\"} 3",
        "kopfd_index_keys{operator=\"demo\",index=\"by_team\"} 2",
        "kopfd_script_operations_total{operator=\"demo\",handler=\"made\"} 70",
        "kopfd_script_budget_overruns_total{operator=\"demo\",handler=\"made\",limit=\"time\"} 1",
        "kopfd_api_requests_total{operator=\"demo\",verb=\"patch\",resource=\"pods/status\",code=\"409\"} 1",
        "kopfd_api_conflicts_total{operator=\"demo\",resource=\"pods/status\"} 1",
        "kopfd_api_throttled_seconds_total{operator=\"demo\"} 1.5",
        "kopfd_api_budget_wait_seconds_total{operator=\"demo\"} 2.5",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}
