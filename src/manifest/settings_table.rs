//! All settings with their types and meanings. The documentation is checked against this table.

use std::time::Duration;

use serde_json::Value;

use super::settings::Settings;
use super::settings_tree;

/// A setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The section.
    pub section: &'static str,
    /// The key in the section.
    pub key: &'static str,
    /// The type, in words.
    pub kind: &'static str,
    /// The meaning.
    pub meaning: &'static str,
}

const fn one(section: &'static str, key: &'static str, kind: &'static str, meaning: &'static str) -> Description {
    Description { section, key, kind, meaning }
}

/// All settings, in the order of the documentation.
pub const TABLE: [Description; 48] = [
    one(
        "process",
        "ultimateExitingTimeout",
        "duration or null",
        "the process ends at once if a graceful exit takes longer, and so does the cleanup; `null`: never",
    ),
    one("posting", "enabled", "boolean", "post Events"),
    one("posting", "loggers", "boolean", "also post Events for log lines of `logger`"),
    one(
        "posting",
        "level",
        "level",
        "the lowest posted level: `debug`, `info`, `warning`, `error`, or Python's numbers",
    ),
    one(
        "posting",
        "reportingComponent",
        "text or null",
        "the reporting component of Events; `null`: the operator's name",
    ),
    one("posting", "reportingInstance", "text", "the reporting instance of Events"),
    one("posting", "eventNamePrefix", "text", "the prefix of the names of Events"),
    one(
        "posting",
        "aggregated",
        "boolean",
        "count repetitions within ten minutes on one Event (`count`, `lastTimestamp`, `series`); beyond kopf",
    ),
    one("peering", "name", "text", "the peering object"),
    one("peering", "stealth", "boolean", "do not log keep-alives"),
    one("peering", "priority", "integer", "the peer with the highest priority is active"),
    one("peering", "lifetime", "duration", "how long a keep-alive is valid, in whole seconds"),
    one("peering", "mandatory", "boolean", "the peering object must exist"),
    one("peering", "standalone", "boolean", "ignore other peers"),
    one(
        "peering",
        "clusterwide",
        "boolean or null",
        "whether the peering object is cluster-wide; `null`: as the operator's scope",
    ),
    one("watching", "serverTimeout", "duration or null", "the server is asked to end a watch after this time"),
    one("watching", "clientTimeout", "duration or null", "the client restarts a watch after this time"),
    one("watching", "connectTimeout", "duration or null", "time limit for connecting a watch"),
    one(
        "watching",
        "reconnectBackoff",
        "duration",
        "pause before a kind is listed anew because its watch has lost its place",
    ),
    one(
        "watching",
        "inactivityTimeout",
        "duration",
        "a watch without any event or bookmark for this time is reconnected",
    ),
    one("queueing", "workerLimit", "integer or null", "limit of objects of a kind that are processed concurrently"),
    one("queueing", "idleTimeout", "duration", "how long a worker waits for more events of its object"),
    one("queueing", "exitTimeout", "duration", "time limit for workers at the exit"),
    one("queueing", "errorDelays", "durations", "pauses of an object after failed cycles: a list, or one duration"),
    one(
        "queueing",
        "breaker",
        "breaker or null",
        "slow down objects that keep triggering themselves: see [loops](limits.md#loops-and-failures); beyond kopf",
    ),
    one("scanning", "disabled", "boolean", "do not discover new kinds and namespaces"),
    one(
        "admission",
        "server",
        "server or null",
        "needed for webhooks, except in `dev` and `test`; `kind` is `server`, `k3d`, `minikube`, `dockerDesktop`, `ngrok`, `autoServer`, or `autoTunnel`; with kopf's options: see [webhooks](webhooks.md)",
    ),
    one(
        "admission",
        "managed",
        "text or null",
        "the name of the webhook configurations to manage; the value at the start applies",
    ),
    one(
        "admission",
        "derivedConditions",
        "boolean",
        "filters by annotations and fields also become match conditions of managed configurations, so that the API server sends fewer requests: see [webhooks](webhooks.md#match-conditions); beyond kopf",
    ),
    one(
        "hooks",
        "server",
        "server or null",
        "the listener of hooks: `port`, `addr`, `path`, and `certfile` with `pkeyfile`, or `insecure`; `null`: that of the probes; the value at the start applies: see [hooks](hooks.md#where-hooks-listen); beyond kopf",
    ),
    one("execution", "defaultBackoff", "duration", "the delay after arbitrary errors"),
    one(
        "execution",
        "lifecycle",
        "lifecycle",
        "which handlers run in one cycle: `asap` (the one with the fewest attempts), `allAtOnce`, `oneByOne`, `randomized`, `shuffled`",
    ),
    one("background", "cancellationPolling", "duration", "interval of checks of a daemon that does not stop"),
    one(
        "background",
        "instantExitTimeout",
        "duration or null",
        "how long a cycle waits for a stopped timer or daemon that ends at once",
    ),
    one(
        "background",
        "instantExitZeroTimeCycles",
        "integer or null",
        "without that time: event loop cycles, followed by 10 ms; `null` for no wait",
    ),
    one(
        "scripts",
        "memory",
        "size",
        "new calls wait while the running scripts of the process hold more than this; the value at the start applies",
    ),
    one("networking", "requestTimeout", "duration or null", "time limit of one request"),
    one("networking", "connectTimeout", "duration or null", "time limit for connecting"),
    one(
        "networking",
        "errorBackoffs",
        "durations",
        "pauses between the attempts of one request: a list, or one duration",
    ),
    one("networking", "enforceRetryAfter", "boolean", "obey `Retry-After` also where it shortens the pause"),
    one("networking", "trustEnv", "boolean", "use the proxy variables of the environment; read at each login"),
    one(
        "networking",
        "requests",
        "requests or null",
        "the budget of all requests to the API server, such as `{perSecond: 50, burst: 100}`: see [limits](limits.md#requests); beyond kopf",
    ),
    one("persistence", "finalizer", "text", "the finalizer"),
    one("persistence", "progressStorage", "storage", "where the progress of handlers is stored"),
    one("persistence", "diffbaseStorage", "storage", "where the last handled state is stored"),
    one(
        "persistence",
        "secrets",
        "`values` or `digests`",
        "what the last handled state of a Secret contains: its values, as kopf stores them, or keyed digests of them",
    ),
    one(
        "persistence",
        "consistencyTimeout",
        "duration",
        "how long handlers wait for the event of the operator's own patch; `0`: they do not",
    ),
    one(
        "reload",
        "canary",
        "canary or null",
        "how a new revision is [tried](reload.md#trials) on a share of the objects; `null`: it takes effect for all at once",
    ),
];

impl Description {
    /// Returns the default as it is written in manifests.
    pub fn default_text(&self) -> String {
        let value = settings_tree::to_value(&Settings::default())[self.section][self.key].take();
        match (self.kind, &value) {
            ("storage", value) => format!("{{kind: {}}}", value["kind"].as_str().unwrap_or_default()),
            ("level", _) => "info".to_owned(),
            ("breaker or null", Value::Object(breaker)) => {
                let [period, max_delay] = ["period", "maxDelay"].map(|key| shown(duration(&breaker[key])));
                format!("{{cycles: {}, period: {period}, maxDelay: {max_delay}}}", breaker["cycles"])
            }
            (_, Value::String(text)) => text.clone(),
            ("size", Value::Number(bytes)) => format!("{}Mi", bytes.as_u64().unwrap_or_default() >> 20),
            (kind, Value::Number(_)) if kind.starts_with("duration") => shown(duration(&value)),
            (_, Value::Array(items)) => {
                let items: Vec<String> = items.iter().map(|item| shown(duration(item))).collect();
                format!("[{}]", items.join(", "))
            }
            (_, value) => value.to_string(),
        }
    }
}

/// Returns the duration of a setting, which is a number of seconds in the tree.
fn duration(value: &Value) -> Duration {
    Duration::try_from_secs_f64(value.as_f64().unwrap_or_default()).unwrap_or_default()
}

/// Returns a duration as it is written in manifests.
fn shown(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{}ms", duration.as_millis())
    } else {
        format!("{}s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::settings_reader::KNOWN;

    #[test]
    fn the_table_has_all_settings_in_the_order_of_their_sections() {
        let known: Vec<(&str, &str)> =
            KNOWN.into_iter().flat_map(|(section, keys)| keys.iter().map(move |key| (section, *key))).collect();
        assert_eq!(TABLE.map(|one| (one.section, one.key)).to_vec(), known);
    }

    #[test]
    fn defaults_are_written_as_in_manifests() {
        let default = |key: &str| TABLE.iter().find(|one| one.key == key).unwrap().default_text();
        assert_eq!(default("ultimateExitingTimeout"), "600s");
        assert_eq!(default("reconnectBackoff"), "100ms");
        assert_eq!(default("workerLimit"), "null");
        assert_eq!(default("errorBackoffs"), "[1s, 1s, 2s, 3s, 5s, 8s, 13s, 21s]");
        assert_eq!(default("progressStorage"), "{kind: smart}");
        assert_eq!(default("level"), "info");
        assert_eq!(default("memory"), "512Mi");
        assert_eq!(default("name"), "default");
        assert_eq!(default("breaker"), "{cycles: 300, period: 600s, maxDelay: 300s}");
        assert_eq!(default("requests"), "null");
    }
}
