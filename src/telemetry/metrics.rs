//! The metrics of the process, in the text format of Prometheus. No label has the name of an object.
//!
//! Everything is counted in memory by atomic numbers; the text is made for each request of `/metrics`.

mod background;
mod custom;
mod hooks;
mod peering;
mod reviews;
mod scripts;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

pub use background::{ScheduleMetrics, TaskGauge, TaskMetrics};
pub use custom::{Change, MAX_METRICS, MAX_SERIES, OTHER, SeriesLabels, check_name};
pub use hooks::HookOutcome;
pub use reviews::ReviewOutcome;
pub use scripts::{IndexMetrics, LoadedRevision, ScriptMetrics};
pub use table::{Description, MetricKind, TABLE};

type Labels = Vec<(&'static str, String)>;
type Seconds = Gauge<f64, AtomicU64>;
type SecondsTotal = Counter<f64, AtomicU64>;
/// Updates gauges before they are read. Returns whether it is still of use.
type Refresh = Box<dyn Fn() -> bool + Send + Sync>;
type Histograms = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of the process. Cheap to clone.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

struct Families {
    registry: Registry,
    watch_events: Family<Labels, Counter>,
    last_event: Family<Labels, Seconds>,
    watches: Family<Labels, Gauge>,
    watch_failures: Family<Labels, Counter>,
    queued: Family<Labels, Gauge>,
    queue_wait: Histograms,
    workers: Family<Labels, Gauge>,
    handler_calls: Family<Labels, Counter>,
    handler_seconds: Histograms,
    handler_retries: Family<Labels, Counter>,
    waiting: Family<Labels, Gauge>,
    lateness: Histograms,
    last_success: Family<Labels, Seconds>,
    tasks: Family<Labels, Gauge>,
    cycles: Family<Labels, Counter>,
    reviews: Family<Labels, Counter>,
    review_seconds: Histograms,
    hooks: Family<Labels, Counter>,
    hook_seconds: Histograms,
    loops: Family<Labels, Counter>,
    slowed: Family<Labels, Gauge>,
    requests: Family<Labels, Counter>,
    request_seconds: Histograms,
    request_retries: Family<Labels, Counter>,
    conflicts: Family<Labels, Counter>,
    throttled: Family<Labels, SecondsTotal>,
    budget_wait: Family<Labels, SecondsTotal>,
    logins: Family<Labels, Counter>,
    index_objects: Family<Labels, Gauge>,
    index_keys: Family<Labels, Gauge>,
    operations: Family<Labels, Counter>,
    overruns: Family<Labels, Counter>,
    script_memory: Family<Labels, Gauge>,
    scripts_waiting: Family<Labels, Gauge>,
    info: Family<Labels, Gauge>,
    loaded: Family<Labels, Gauge>,
    loaded_at: Family<Labels, Seconds>,
    in_memory: Family<Labels, Gauge>,
    trial: Family<Labels, Gauge>,
    trials: Family<Labels, Counter>,
    paused: Family<Labels, Gauge>,
    peers: Family<Labels, Gauge>,
    keep_alive_failures: Family<Labels, Counter>,
    leader: Family<Labels, Gauge>,
    leader_changes: Family<Labels, Counter>,
    custom: custom::CustomMetrics,
    /// The loaded revision of each operator.
    revisions: Mutex<BTreeMap<String, String>>,
    refreshes: Mutex<Vec<Refresh>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let histograms = || Histograms::new_with_constructor(|| Histogram::new(table::BUCKETS));
        let build: Family<Labels, Gauge> = register(&mut registry, table::BUILD, Family::default());
        build.get_or_create(&labels(table::BUILD, [env!("CARGO_PKG_VERSION")])).set(1);
        let custom = custom::CustomMetrics::default();
        let mut families = Families {
            watch_events: register(&mut registry, table::WATCH_EVENTS, Family::default()),
            last_event: register(&mut registry, table::LAST_EVENT, Family::default()),
            watches: register(&mut registry, table::WATCHES, Family::default()),
            watch_failures: register(&mut registry, table::WATCH_FAILURES, Family::default()),
            queued: register(&mut registry, table::QUEUED, Family::default()),
            queue_wait: register(&mut registry, table::QUEUE_WAIT, histograms()),
            workers: register(&mut registry, table::WORKERS, Family::default()),
            handler_calls: register(&mut registry, table::HANDLER_CALLS, Family::default()),
            handler_seconds: register(&mut registry, table::HANDLER_SECONDS, histograms()),
            handler_retries: register(&mut registry, table::HANDLER_RETRIES, Family::default()),
            waiting: register(&mut registry, table::WAITING, Family::default()),
            lateness: register(&mut registry, table::LATENESS, histograms()),
            last_success: register(&mut registry, table::LAST_SUCCESS, Family::default()),
            tasks: register(&mut registry, table::TASKS, Family::default()),
            cycles: register(&mut registry, table::CYCLES, Family::default()),
            reviews: register(&mut registry, table::REVIEWS, Family::default()),
            review_seconds: register(&mut registry, table::REVIEW_SECONDS, histograms()),
            hooks: register(&mut registry, table::HOOKS, Family::default()),
            hook_seconds: register(&mut registry, table::HOOK_SECONDS, histograms()),
            loops: register(&mut registry, table::LOOPS, Family::default()),
            slowed: register(&mut registry, table::SLOWED, Family::default()),
            requests: register(&mut registry, table::REQUESTS, Family::default()),
            request_seconds: register(&mut registry, table::REQUEST_SECONDS, histograms()),
            request_retries: register(&mut registry, table::REQUEST_RETRIES, Family::default()),
            conflicts: register(&mut registry, table::CONFLICTS, Family::default()),
            throttled: register(&mut registry, table::THROTTLED, Family::default()),
            budget_wait: register(&mut registry, table::BUDGET_WAIT, Family::default()),
            logins: register(&mut registry, table::LOGINS, Family::default()),
            index_objects: register(&mut registry, table::INDEX_OBJECTS, Family::default()),
            index_keys: register(&mut registry, table::INDEX_KEYS, Family::default()),
            operations: register(&mut registry, table::OPERATIONS, Family::default()),
            overruns: register(&mut registry, table::OVERRUNS, Family::default()),
            script_memory: register(&mut registry, table::SCRIPT_MEMORY, Family::default()),
            scripts_waiting: register(&mut registry, table::SCRIPTS_WAITING, Family::default()),
            info: register(&mut registry, table::INFO, Family::default()),
            loaded: register(&mut registry, table::LOADED, Family::default()),
            loaded_at: register(&mut registry, table::LOADED_AT, Family::default()),
            in_memory: register(&mut registry, table::IN_MEMORY, Family::default()),
            trial: register(&mut registry, table::TRIAL, Family::default()),
            trials: register(&mut registry, table::TRIALS, Family::default()),
            paused: register(&mut registry, table::PAUSED, Family::default()),
            peers: register(&mut registry, table::PEERS, Family::default()),
            keep_alive_failures: register(&mut registry, table::KEEP_ALIVE_FAILURES, Family::default()),
            leader: register(&mut registry, table::LEADER, Family::default()),
            leader_changes: register(&mut registry, table::LEADER_CHANGES, Family::default()),
            custom: custom.clone(),
            revisions: Mutex::default(),
            refreshes: Mutex::default(),
            registry,
        };
        families.registry.register_collector(Box::new(custom));
        Self(Arc::new(families))
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The content type of the text.
    pub const CONTENT_TYPE: &'static str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Returns all metrics as text.
    pub fn text(&self) -> String {
        self.refresh();
        let mut text = String::new();
        encode(&mut text, &self.0.registry).expect("a string takes any text");
        text
    }

    /// Returns the metrics of an operator.
    pub fn operator(&self, name: &str) -> OperatorMetrics {
        OperatorMetrics { metrics: self.clone(), operator: Arc::from(name) }
    }
}

/// Registers a metric. The client adds the suffix of counters itself.
fn register<M: Metric + Clone>(registry: &mut Registry, description: Description, metric: M) -> M {
    let name = match description.kind {
        MetricKind::Counter => description.name.trim_end_matches("_total"),
        MetricKind::Gauge | MetricKind::Histogram => description.name,
    };
    registry.register(name, description.help, metric.clone());
    metric
}

/// Returns the value of a metric that holds a time.
fn unix_seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

fn labels<const N: usize>(description: Description, values: [&str; N]) -> Labels {
    debug_assert_eq!(description.labels.len(), N, "{}", description.name);
    description.labels.iter().copied().zip(values.map(str::to_owned)).collect()
}

/// The metrics of one operator. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OperatorMetrics {
    metrics: Metrics,
    operator: Arc<str>,
}

impl Default for OperatorMetrics {
    fn default() -> Self {
        Metrics::default().operator("")
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome {
    /// No further attempt is needed, or its error is ignored.
    Succeeded,
    /// It will be repeated.
    Retried,
    /// It has failed for good.
    Failed,
}

impl OperatorMetrics {
    /// Changes a series of a metric of scripts.
    ///
    /// # Errors
    /// If the name, a label or the value is not allowed, or the metric has another type.
    pub fn record(&self, name: &str, labels: SeriesLabels, change: Change) -> Result<(), String> {
        self.metrics.0.custom.record(&self.operator, name, labels, change)
    }

    /// Sets the text that describes a metric of scripts.
    ///
    /// # Errors
    /// If the name is not allowed, or too many metrics are described.
    pub fn describe(&self, name: &str, help: &str) -> Result<(), String> {
        self.metrics.0.custom.describe(name, help)
    }

    /// Returns the metrics of a kind.
    pub fn kind(&self, resource: &str) -> KindMetrics {
        let families = &self.metrics.0;
        let events = |event_type: &str| {
            families.watch_events.get_or_create_owned(&labels(table::WATCH_EVENTS, [&self.operator, resource, event_type]))
        };
        let both = |description| labels(description, [&*self.operator, resource]);
        KindMetrics {
            events: ["listed", "added", "modified", "deleted"].map(events),
            last_event: families.last_event.get_or_create_owned(&both(table::LAST_EVENT)),
            states: ["listing", "watching", "failing", "paused"]
                .map(|state| families.watches.get_or_create_owned(&labels(table::WATCHES, [&self.operator, resource, state]))),
            failures: families.watch_failures.get_or_create_owned(&both(table::WATCH_FAILURES)),
            queued: families.queued.get_or_create_owned(&both(table::QUEUED)),
            queue_wait: families.queue_wait.get_or_create_owned(&both(table::QUEUE_WAIT)),
            workers: families.workers.get_or_create_owned(&both(table::WORKERS)),
        }
    }

    /// Counts an attempt of a handler.
    pub fn attempt(&self, handler: &str, retry: u64, outcome: AttemptOutcome) {
        let families = &self.metrics.0;
        let outcome = match outcome {
            AttemptOutcome::Succeeded => "succeeded",
            AttemptOutcome::Retried => "retried",
            AttemptOutcome::Failed => "failed",
        };
        families.handler_calls.get_or_create(&labels(table::HANDLER_CALLS, [&self.operator, handler, outcome])).inc();
        if retry > 0 {
            families.handler_retries.get_or_create(&labels(table::HANDLER_RETRIES, [&self.operator, handler])).inc();
        }
    }

    /// Returns the counted attempts of a handler: succeeded, retried, and failed ones.
    pub fn attempts(&self, handler: &str) -> [u64; 3] {
        ["succeeded", "retried", "failed"].map(|outcome| {
            let counter = self.metrics.0.handler_calls.get(&labels(table::HANDLER_CALLS, [&self.operator, handler, outcome]));
            counter.map(|counter| counter.get()).unwrap_or_default()
        })
    }

    /// Observes the duration of a call.
    pub fn call(&self, handler: &str, duration: Duration) {
        let family = &self.metrics.0.handler_seconds;
        family.get_or_create(&labels(table::HANDLER_SECONDS, [&self.operator, handler])).observe(duration.as_secs_f64());
    }

    /// Sets how many objects wait for the next attempt of a handler.
    pub fn waiting(&self, handler: &str, objects: usize) {
        self.metrics.0.waiting.get_or_create(&labels(table::WAITING, [&*self.operator, handler])).set(objects as i64);
    }

    /// Counts a cycle.
    pub fn cycle(&self, is_failed: bool) {
        let outcome = if is_failed { "failed" } else { "succeeded" };
        self.metrics.0.cycles.get_or_create(&labels(table::CYCLES, [&*self.operator, outcome])).inc();
    }

    /// Counts an object that is slowed down because of a handler.
    pub fn looped(&self, handler: &str) {
        self.metrics.0.loops.get_or_create(&labels(table::LOOPS, [&*self.operator, handler])).inc();
    }

    /// Sets how many objects are slowed down.
    pub fn slowed(&self, objects: usize) {
        self.metrics.0.slowed.get_or_create(&labels(table::SLOWED, [&*self.operator])).set(objects as i64);
    }

    /// Counts a login.
    pub fn login(&self, is_failed: bool) {
        let outcome = if is_failed { "failed" } else { "succeeded" };
        self.metrics.0.logins.get_or_create(&labels(table::LOGINS, [&*self.operator, outcome])).inc();
    }

    /// Sets whether this replica leads.
    pub fn leading(&self, is_leader: bool) {
        self.metrics.0.leader.get_or_create(&labels(table::LEADER, [&*self.operator])).set(is_leader.into());
    }

    /// Counts a change of the leadership of this replica: gained, lost, released.
    pub fn leadership(&self, change: &str) {
        self.metrics.0.leader_changes.get_or_create(&labels(table::LEADER_CHANGES, [&*self.operator, change])).inc();
    }

    /// Counts a request to the API server, and observes its duration. The code is the HTTP status, or a word.
    pub fn request(&self, verb: &str, resource: &str, code: &str, duration: Duration) {
        let families = &self.metrics.0;
        families.requests.get_or_create(&labels(table::REQUESTS, [&self.operator, verb, resource, code])).inc();
        let seconds = labels(table::REQUEST_SECONDS, [&self.operator, verb, resource]);
        families.request_seconds.get_or_create(&seconds).observe(duration.as_secs_f64());
        if code == "409" {
            families.conflicts.get_or_create(&labels(table::CONFLICTS, [&*self.operator, resource])).inc();
        }
    }

    /// Counts the repetition of a request.
    pub fn repetition(&self, verb: &str, resource: &str) {
        self.metrics.0.request_retries.get_or_create(&labels(table::REQUEST_RETRIES, [&self.operator, verb, resource])).inc();
    }

    /// Counts time waited because the server asked for it.
    pub fn throttled(&self, wait: Duration) {
        self.metrics.0.throttled.get_or_create(&labels(table::THROTTLED, [&*self.operator])).inc_by(wait.as_secs_f64());
    }

    /// Counts time that a request waited for the budget of requests.
    pub fn waited_for_budget(&self, wait: Duration) {
        self.metrics.0.budget_wait.get_or_create(&labels(table::BUDGET_WAIT, [&*self.operator])).inc_by(wait.as_secs_f64());
    }
}

/// The metrics of one kind. Cheap to clone.
#[derive(Debug, Clone)]
pub struct KindMetrics {
    events: [Counter; 4],
    last_event: Seconds,
    states: [Gauge; 4],
    failures: Counter,
    queued: Gauge,
    queue_wait: Histogram,
    workers: Gauge,
}

/// The state of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchState {
    /// It has not listed its objects yet.
    Listing,
    /// It receives events.
    Watching,
    /// Its last request failed.
    Failing,
    /// The operator is paused.
    Paused,
}

/// One watch among those of its kind, until it is dropped.
#[derive(Debug)]
pub struct WatchGauge {
    metrics: KindMetrics,
    state: WatchState,
}

impl KindMetrics {
    /// Counts a received object.
    pub fn event(&self, kind: crate::object::EventKind, at: Timestamp) {
        use crate::object::EventKind::{Added, Deleted, Listed, Modified, Revisited, Touched};
        let index = match kind {
            Listed => 0,
            Added => 1,
            Modified => 2,
            Deleted => 3,
            // No watch has sent it.
            Revisited | Touched => return,
        };
        self.events[index].inc();
        self.last_event.set(unix_seconds(at));
    }

    /// Counts a failed request of a watch.
    pub fn watch_failed(&self) {
        self.failures.inc();
    }

    /// Returns the gauge of a new watch.
    pub fn watch(&self) -> WatchGauge {
        self.states[WatchState::Listing as usize].inc();
        WatchGauge { metrics: self.clone(), state: WatchState::Listing }
    }

    /// Counts events that are queued.
    pub fn queued(&self) {
        self.queued.inc();
    }

    /// Counts events that leave their queue.
    pub fn unqueued(&self, events: usize) {
        self.queued.dec_by(events as i64);
    }

    /// Observes how long an event was queued.
    pub fn waited(&self, duration: Duration) {
        self.queue_wait.observe(duration.as_secs_f64());
    }

    /// Returns the number of queued events.
    pub fn queued_events(&self) -> usize {
        usize::try_from(self.queued.get()).unwrap_or_default()
    }

    /// Returns the number of watches in a state.
    pub fn watches(&self, state: WatchState) -> usize {
        usize::try_from(self.states[state as usize].get()).unwrap_or_default()
    }

    /// Counts a worker that begins.
    pub fn worker_began(&self) {
        self.workers.inc();
    }

    /// Counts a worker that ends.
    pub fn worker_ended(&self) {
        self.workers.dec();
    }
}

impl WatchGauge {
    /// Sets the state of the watch.
    pub fn set(&mut self, state: WatchState) {
        if state != self.state {
            self.metrics.states[self.state as usize].dec();
            self.metrics.states[state as usize].inc();
            self.state = state;
        }
    }
}

impl Drop for WatchGauge {
    fn drop(&mut self) {
        self.metrics.states[self.state as usize].dec();
    }
}

#[cfg(test)]
mod tests {
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
        let types: Vec<(&str, &str)> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
        let expected: Vec<(&str, &str)> = TABLE
            .iter()
            .map(|one| (if one.kind == MetricKind::Counter { one.name.trim_end_matches("_total") } else { one.name }, one.kind.as_str()))
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
            assert!(one.name.starts_with("kopfd_") && one.name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{}", one.name);
            assert_eq!(one.name.ends_with("_total"), one.kind == MetricKind::Counter, "{}", one.name);
            assert!(one.kind != MetricKind::Histogram || one.name.ends_with("_seconds"), "{}", one.name);
            assert!(!one.labels.iter().any(|label| matches!(*label, "name" | "namespace" | "uid" | "object")), "{}", one.name);
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

    #[test]
    fn a_watch_is_counted_in_one_state_until_it_ends() {
        let metrics = Metrics::default();
        let kind = metrics.operator("demo").kind("pods");
        let states = || kind.states.clone().map(|state| state.get());
        let (mut one, other) = (kind.watch(), kind.watch());
        one.set(WatchState::Watching);
        assert_eq!(states(), [1, 1, 0, 0]);
        one.set(WatchState::Failing);
        drop(other);
        assert_eq!(states(), [0, 0, 1, 0]);
        one.set(WatchState::Paused);
        assert_eq!(states(), [0, 0, 0, 1]);
        drop(one);
        assert_eq!(states(), [0, 0, 0, 0]);
    }
}
