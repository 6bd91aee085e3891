//! The metrics of the process, in the text format of Prometheus. No label has the name of an object.
//!
//! Everything is counted in memory by atomic numbers; the text is made for each request of `/metrics`.

mod background;
mod custom;
mod hooks;
mod kinds;
mod leading;
mod operator;
mod peering;
mod requests;
mod reviews;
mod scripts;
mod series;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

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
pub use kinds::{KindMetrics, WatchGauge, WatchState};
pub use operator::{AttemptOutcome, OperatorMetrics};
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

#[cfg(test)]
mod tests;
