//! All metrics: their names, types, labels and meanings. The documentation is checked against this table.

/// The upper bounds of durations in seconds: from a request in memory to a slow handler.
pub(super) const BUCKETS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The name as exposed; that of a counter ends in `_total`.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The meaning.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that may also fall.
    Gauge,
    /// Observations by size.
    Histogram,
}

impl MetricKind {
    /// Returns the name of the type in Prometheus.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Description {
    Description { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Description {
    Description { name, kind: MetricKind::Gauge, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Description {
    Description { name, kind: MetricKind::Histogram, labels, help }
}

pub(super) const BUILD: Description =
    gauge("kopfd_build_info", &["version"], "Always 1; the version of kopfd is its label");

pub(super) const WATCH_EVENTS: Description = counter(
    "kopfd_watch_events_total",
    &["operator", "resource", "type"],
    "Objects received by watches: listed, added, modified, deleted",
);
pub(super) const LAST_EVENT: Description = gauge(
    "kopfd_watch_last_event_timestamp_seconds",
    &["operator", "resource"],
    "Time of the last received object, in seconds since 1970",
);
pub(super) const WATCHES: Description =
    gauge("kopfd_watches", &["operator", "resource", "state"], "Watches by state: listing, watching, failing, paused");
pub(super) const WATCH_FAILURES: Description =
    counter("kopfd_watch_failures_total", &["operator", "resource"], "Failed requests of watches and their lists");

pub(super) const QUEUED: Description =
    gauge("kopfd_queue_events", &["operator", "resource"], "Events that wait for the worker of their object");
pub(super) const QUEUE_WAIT: Description = histogram(
    "kopfd_queue_wait_seconds",
    &["operator", "resource"],
    "Time that events wait for the worker of their object",
);
pub(super) const WORKERS: Description = gauge("kopfd_workers", &["operator", "resource"], "Objects that have a worker");

pub(super) const HANDLER_CALLS: Description = counter(
    "kopfd_handler_calls_total",
    &["operator", "handler", "outcome"],
    "Attempts of handlers, activities and schedules by outcome: succeeded, retried, failed",
);
pub(super) const HANDLER_SECONDS: Description = histogram(
    "kopfd_handler_duration_seconds",
    &["operator", "handler"],
    "Duration of the calls of handlers, activities and schedules",
);
pub(super) const HANDLER_RETRIES: Description = counter(
    "kopfd_handler_retries_total",
    &["operator", "handler"],
    "Calls of handlers, activities and schedules after the first attempt",
);
pub(super) const WAITING: Description = gauge(
    "kopfd_objects_waiting_for_retry",
    &["operator", "handler"],
    "Objects that wait for the next attempt of the handler",
);
pub(super) const LATENESS: Description = histogram(
    "kopfd_timer_lateness_seconds",
    &["operator", "handler"],
    "Time from when runs of timers and schedules are due until they begin",
);
pub(super) const LAST_SUCCESS: Description = gauge(
    "kopfd_schedule_last_success_timestamp_seconds",
    &["operator", "handler"],
    "Time of the last successful run of a schedule, in seconds since 1970",
);
pub(super) const TASKS: Description = gauge(
    "kopfd_background_tasks",
    &["operator", "handler", "type", "state"],
    "Tasks of timers and daemons, one for each object, by state: waiting, calling, stopping, abandoned",
);
pub(super) const CYCLES: Description = counter(
    "kopfd_cycles_total",
    &["operator", "outcome"],
    "Processed events of objects by outcome: succeeded, failed",
);

pub(super) const REVIEWS: Description = counter(
    "kopfd_reviews_total",
    &["operator", "webhook", "outcome"],
    "Reviews by outcome: allowed, denied, converted, failed",
);
pub(super) const REVIEW_SECONDS: Description =
    histogram("kopfd_review_duration_seconds", &["operator", "webhook"], "Time from a received review to its answer");

pub(super) const HOOKS: Description = counter(
    "kopfd_hook_requests_total",
    &["operator", "hook", "outcome"],
    "Requests to hooks by outcome: answered, unauthenticated, forbidden, invalid, limited, unavailable, failed",
);
pub(super) const HOOK_SECONDS: Description = histogram(
    "kopfd_hook_duration_seconds",
    &["operator", "hook"],
    "Time from the head of a request to a hook until its answer",
);

pub(super) const LOOPS: Description = counter(
    "kopfd_loops_total",
    &["operator", "handler"],
    "Objects that were slowed down because they kept triggering themselves, for each of the handlers involved",
);
pub(super) const SLOWED: Description = gauge(
    "kopfd_objects_slowed_down",
    &["operator"],
    "Objects that are slowed down because they keep triggering themselves",
);

pub(super) const REQUESTS: Description = counter(
    "kopfd_api_requests_total",
    &["operator", "verb", "resource", "code"],
    "Requests to the API server by HTTP status; without an answer the code is connect, connection, timeout, or other",
);
pub(super) const REQUEST_SECONDS: Description = histogram(
    "kopfd_api_request_duration_seconds",
    &["operator", "verb", "resource"],
    "Duration of requests to the API server; of watches, until they are open",
);
pub(super) const REQUEST_RETRIES: Description =
    counter("kopfd_api_request_retries_total", &["operator", "verb", "resource"], "Repeated requests after failures");
pub(super) const CONFLICTS: Description =
    counter("kopfd_api_conflicts_total", &["operator", "resource"], "Requests refused because of a conflict (409)");
pub(super) const THROTTLED: Description = counter(
    "kopfd_api_throttled_seconds_total",
    &["operator"],
    "Time waited because the API server asked for it: 429, or `Retry-After`",
);
pub(super) const BUDGET_WAIT: Description = counter(
    "kopfd_api_budget_wait_seconds_total",
    &["operator"],
    "Time that requests to the API server waited because of `settings.networking.requests`",
);
pub(super) const LOGINS: Description =
    counter("kopfd_logins_total", &["operator", "outcome"], "Logins by outcome: succeeded, failed");

pub(super) const INDEX_OBJECTS: Description =
    gauge("kopfd_index_objects", &["operator", "index"], "Objects with entries in an index");
pub(super) const INDEX_KEYS: Description = gauge("kopfd_index_keys", &["operator", "index"], "Keys of an index");

pub(super) const OPERATIONS: Description = counter(
    "kopfd_script_operations_total",
    &["operator", "handler"],
    "Steps of the interpreter in calls that have ended",
);
pub(super) const OVERRUNS: Description = counter(
    "kopfd_script_budget_overruns_total",
    &["operator", "handler", "limit"],
    "Calls ended because a budget was used up, by the limit: operations, time, memory, depth, stringSize, arraySize, mapSize, apiCalls, apiCallsPerMinute, output",
);
pub(super) const SCRIPT_MEMORY: Description = gauge(
    "kopfd_script_memory_bytes",
    &[],
    "Memory that the running and waiting scripts of the process hold, which `settings.scripts.memory` limits",
);
pub(super) const SCRIPTS_WAITING: Description = gauge(
    "kopfd_script_calls_waiting_for_memory",
    &[],
    "Calls of scripts that wait until others hold less memory than `settings.scripts.memory`",
);

pub(super) const INFO: Description = gauge(
    "kopfd_operator_info",
    &["operator", "revision"],
    "Always 1; the revision is a digest of the manifest and the scripts",
);
pub(super) const LOADED: Description = gauge(
    "kopfd_config_last_load_successful",
    &["operator"],
    "1 if the manifest and the scripts were loaded at the last attempt, else 0",
);
pub(super) const LOADED_AT: Description = gauge(
    "kopfd_config_last_load_timestamp_seconds",
    &["operator"],
    "Time of the last successful load, in seconds since 1970",
);
pub(super) const IN_MEMORY: Description = gauge(
    "kopfd_revisions_in_memory",
    &["operator"],
    "Revisions whose scripts are in memory: more than one while calls of earlier revisions run",
);

pub(super) const TRIAL: Description = gauge(
    "kopfd_trial_info",
    &["operator", "revision"],
    "1 while this revision is on trial: while it serves a share of the objects",
);
pub(super) const TRIALS: Description = counter(
    "kopfd_trials_total",
    &["operator", "outcome"],
    "Ended trials of revisions by outcome: promoted; replaced or withdrawn by changes of the files; rolled back because of errors, writes, or time",
);

pub(super) const PAUSED: Description = gauge(
    "kopfd_operator_paused",
    &["operator"],
    "1 while the operator is paused, such as in favour of its peers, else 0",
);
pub(super) const PEERS: Description = gauge(
    "kopfd_peers",
    &["operator", "relation"],
    "Other live peers in the peerings of the operator, by their priority: higher, same, lower",
);
pub(super) const KEEP_ALIVE_FAILURES: Description = counter(
    "kopfd_peering_keepalive_failures_total",
    &["operator"],
    "Keep-alives that could not be written, and were repeated",
);

pub(super) const LEADER: Description = gauge(
    "kopfd_leader",
    &["operator"],
    "1 while this replica leads, 0 while it stands by; only with `--leader-elect`",
);
pub(super) const LEADER_CHANGES: Description = counter(
    "kopfd_leader_changes_total",
    &["operator", "change"],
    "Changes of the leadership of this replica: gained, lost, released; only with `--leader-elect`",
);

/// All metrics, in the order of the documentation.
pub const TABLE: [Description; 46] = [
    BUILD,
    WATCH_EVENTS,
    LAST_EVENT,
    WATCHES,
    WATCH_FAILURES,
    QUEUED,
    QUEUE_WAIT,
    WORKERS,
    HANDLER_CALLS,
    HANDLER_SECONDS,
    HANDLER_RETRIES,
    WAITING,
    LATENESS,
    LAST_SUCCESS,
    TASKS,
    CYCLES,
    REVIEWS,
    REVIEW_SECONDS,
    HOOKS,
    HOOK_SECONDS,
    LOOPS,
    SLOWED,
    REQUESTS,
    REQUEST_SECONDS,
    REQUEST_RETRIES,
    CONFLICTS,
    THROTTLED,
    BUDGET_WAIT,
    LOGINS,
    INDEX_OBJECTS,
    INDEX_KEYS,
    OPERATIONS,
    OVERRUNS,
    SCRIPT_MEMORY,
    SCRIPTS_WAITING,
    INFO,
    LOADED,
    LOADED_AT,
    IN_MEMORY,
    TRIAL,
    TRIALS,
    PAUSED,
    PEERS,
    KEEP_ALIVE_FAILURES,
    LEADER,
    LEADER_CHANGES,
];
