//! Reads the settings tree.

use std::time::Duration;

use crate::handling::Lifecycle;
use crate::kit::Rate;

use super::reader::{Fields, Item, Reader};
use super::settings::{Breaker, Settings};
use super::tree::Kind;
use super::values::MAX_DURATION;
use super::{admission, canary, hook_server, ranges, storages};

/// The settings of manifests and scripts: sections, and their keys.
pub(super) const KNOWN: [(&str, &[&str]); 14] = [
    ("process", &["ultimateExitingTimeout"]),
    (
        "posting",
        &["enabled", "loggers", "level", "reportingComponent", "reportingInstance", "eventNamePrefix", "aggregated"],
    ),
    ("peering", &["name", "stealth", "priority", "lifetime", "mandatory", "standalone", "clusterwide"]),
    ("watching", &["serverTimeout", "clientTimeout", "connectTimeout", "reconnectBackoff", "inactivityTimeout"]),
    ("queueing", &["workerLimit", "idleTimeout", "exitTimeout", "errorDelays", "breaker"]),
    ("scanning", &["disabled"]),
    ("admission", &["server", "managed", "derivedConditions"]),
    ("hooks", &["server"]),
    ("execution", &["defaultBackoff", "lifecycle"]),
    ("background", &["cancellationPolling", "instantExitTimeout", "instantExitZeroTimeCycles"]),
    ("scripts", &["memory"]),
    ("networking", &["requestTimeout", "connectTimeout", "errorBackoffs", "enforceRetryAfter", "trustEnv", "requests"]),
    ("persistence", &["finalizer", "progressStorage", "diffbaseStorage", "secrets", "consistencyTimeout"]),
    ("reload", &["canary"]),
];

/// Reads `spec.settings`.
pub(super) fn read(reader: &Reader, item: &Item<'_>) -> Settings {
    let mut settings = Settings::default();
    let sections = KNOWN.map(|(section, _)| section);
    let Some(fields) = reader.fields(item, "the settings", &sections) else { return settings };
    for (section, known) in KNOWN {
        let Some(item) = fields.get(section) else { continue };
        let special = |key: &str| special(section, key);
        if let Some(fields) = reader.fields_but(&item, "these settings", known, special) {
            read_section(reader, section, &fields, &mut settings);
        }
    }
    settings
}

/// The hint for a value out of its range.
const DEFAULT: &str = "leave it out for the default";

fn duration(reader: &Reader, section: &str, item: &Item<'_>) -> Option<Duration> {
    reader.duration_in(item, &(ranges::least(section, item.name())..=MAX_DURATION), DEFAULT)
}

fn special(section: &str, key: &str) -> Option<(String, String)> {
    let reason = match (section, key) {
        ("execution", "executor" | "maxWorkers") => "scripts need no threads of their own while they wait",
        ("queueing", "batchWindow") => "it has no effect in kopf either",
        ("peering", "namespaced") => {
            return Some((
                "unknown field `namespaced` in these settings".into(),
                "write its opposite, `clusterwide`".into(),
            ));
        }
        _ => return None,
    };
    Some((format!("the setting `{section}.{key}` is not offered"), format!("leave it out: {reason}")))
}

fn read_section(reader: &Reader, section: &str, fields: &Fields<'_>, settings: &mut Settings) {
    let timed = |reader: &Reader, item: &Item<'_>| duration(reader, section, item);
    match section {
        "process" => {
            reader.set_option(fields, "ultimateExitingTimeout", &mut settings.process.ultimate_exiting_timeout, timed);
        }
        "posting" => posting(reader, fields, settings),
        "peering" => peering(reader, fields, settings),
        "watching" => {
            let watching = &mut settings.watching;
            reader.set_option(fields, "serverTimeout", &mut watching.server_timeout, timed);
            reader.set_option(fields, "clientTimeout", &mut watching.client_timeout, timed);
            reader.set_option(fields, "connectTimeout", &mut watching.connect_timeout, timed);
            reader.set(fields, "reconnectBackoff", &mut watching.reconnect_backoff, timed);
            reader.set(fields, "inactivityTimeout", &mut watching.inactivity_timeout, timed);
        }
        "queueing" => {
            let queueing = &mut settings.queueing;
            let limit = |reader: &Reader, item: &Item<'_>| {
                reader.whole_in(item, &(1..=ranges::MAX_WORKERS), DEFAULT).map(|limit| limit as usize)
            };
            reader.set_option(fields, "workerLimit", &mut queueing.worker_limit, limit);
            reader.set(fields, "idleTimeout", &mut queueing.idle_timeout, timed);
            reader.set(fields, "exitTimeout", &mut queueing.exit_timeout, timed);
            reader.set(fields, "errorDelays", &mut queueing.error_delays, durations);
            reader.set_option(fields, "breaker", &mut queueing.breaker, breaker);
        }
        "scanning" => reader.set(fields, "disabled", &mut settings.scanning.disabled, Reader::boolean),
        "admission" => {
            reader.set_option(fields, "server", &mut settings.admission.server, admission::read);
            reader.set_option(fields, "managed", &mut settings.admission.managed, managed);
            reader.set(fields, "derivedConditions", &mut settings.admission.derived_conditions, Reader::boolean);
        }
        "hooks" => reader.set_option(fields, "server", &mut settings.hooks.server, hook_server::read),
        "execution" => {
            reader.set(fields, "defaultBackoff", &mut settings.execution.default_backoff, timed);
            reader.set(fields, "lifecycle", &mut settings.execution.lifecycle, lifecycle);
        }
        "background" => {
            let background = &mut settings.background;
            let cycles = |reader: &Reader, item: &Item<'_>| {
                reader.whole_in(item, &(0..=ranges::MAX_CYCLES), DEFAULT).map(|cycles| cycles as u64)
            };
            reader.set(fields, "cancellationPolling", &mut background.cancellation_polling, timed);
            reader.set_option(fields, "instantExitTimeout", &mut background.instant_exit_timeout, timed);
            reader.set_option(
                fields,
                "instantExitZeroTimeCycles",
                &mut background.instant_exit_zero_time_cycles,
                cycles,
            );
        }
        "scripts" => reader.set(fields, "memory", &mut settings.scripts.memory, Reader::size),
        "networking" => {
            let networking = &mut settings.networking;
            reader.set_option(fields, "requestTimeout", &mut networking.request_timeout, timed);
            reader.set_option(fields, "connectTimeout", &mut networking.connect_timeout, timed);
            reader.set(fields, "errorBackoffs", &mut networking.error_backoffs, durations);
            reader.set(fields, "enforceRetryAfter", &mut networking.enforce_retry_after, Reader::boolean);
            reader.set(fields, "trustEnv", &mut networking.trust_env, Reader::boolean);
            reader.set_option(fields, "requests", &mut networking.requests, requests);
        }
        "reload" => reader.set_option(fields, "canary", &mut settings.reload.canary, canary::read),
        _ => {
            let persistence = &mut settings.persistence;
            reader.set(fields, "finalizer", &mut persistence.storages.finalizer, storages::finalizer);
            reader.set(fields, "progressStorage", &mut persistence.storages.progress, storages::progress);
            reader.set(fields, "diffbaseStorage", &mut persistence.storages.diffbase, storages::diffbase);
            reader.set(fields, "secrets", &mut persistence.storages.secrets.form, storages::secrets);
            reader.set(fields, "consistencyTimeout", &mut persistence.consistency_timeout, timed);
        }
    }
}

fn posting(reader: &Reader, fields: &Fields<'_>, settings: &mut Settings) {
    let posting = &mut settings.posting;
    reader.set(fields, "enabled", &mut posting.enabled, Reader::boolean);
    reader.set(fields, "loggers", &mut posting.loggers, Reader::boolean);
    reader.set(fields, "level", &mut posting.level, level);
    reader.set_option(fields, "reportingComponent", &mut posting.reporting_component, Reader::owned);
    reader.set(fields, "reportingInstance", &mut posting.reporting_instance, Reader::owned);
    reader.set(fields, "eventNamePrefix", &mut posting.event_name_prefix, Reader::owned);
    reader.set(fields, "aggregated", &mut posting.aggregated, Reader::boolean);
}

fn peering(reader: &Reader, fields: &Fields<'_>, settings: &mut Settings) {
    let peering = &mut settings.peering;
    let priority = |reader: &Reader, item: &Item<'_>| reader.whole(item, i64::MIN);
    let lifetime = |reader: &Reader, item: &Item<'_>| duration(reader, "peering", item).map(whole_seconds);
    reader.set(fields, "name", &mut peering.name, Reader::owned);
    reader.set(fields, "stealth", &mut peering.stealth, Reader::boolean);
    reader.set(fields, "priority", &mut peering.priority, priority);
    reader.set(fields, "lifetime", &mut peering.lifetime, lifetime);
    reader.set(fields, "mandatory", &mut peering.mandatory, Reader::boolean);
    reader.set(fields, "standalone", &mut peering.standalone, Reader::boolean);
    reader.set_option(fields, "clusterwide", &mut peering.clusterwide, Reader::boolean);
}

fn level(reader: &Reader, item: &Item<'_>) -> Option<i64> {
    if matches!(item.node.kind, Kind::Number(_)) {
        return reader.whole(item, 0);
    }
    let word = reader.word(item, &["debug", "info", "warning", "error"])?;
    Some(match word {
        "debug" => 10,
        "info" => 20,
        "warning" => 30,
        _ => 40,
    })
}

fn lifecycle(reader: &Reader, item: &Item<'_>) -> Option<Lifecycle> {
    let word = reader.word(item, &["asap", "allAtOnce", "oneByOne", "randomized", "shuffled"])?;
    Some(match word {
        "asap" => Lifecycle::Asap,
        "allAtOnce" => Lifecycle::AllAtOnce,
        "oneByOne" => Lifecycle::OneByOne,
        "randomized" => Lifecycle::Randomized,
        _ => Lifecycle::Shuffled,
    })
}

/// The most requests per second, and at once: more than a process can send.
const MAX_REQUESTS: i64 = 1_000_000;

/// The most cycles of an object before it is slowed down: more than it can have in a day.
const MAX_CYCLES: i64 = 1_000_000_000;

fn requests(reader: &Reader, item: &Item<'_>) -> Option<Rate> {
    let fields = reader.fields(item, "the budget of requests", &["perSecond", "burst"])?;
    let count = |item: &Item<'_>| up_to(reader, item, MAX_REQUESTS);
    let given =
        reader.required(&fields, "perSecond", "add such as `perSecond: 50`, or write `requests: null` for no limit");
    let per_second = given.and_then(|item| count(&item));
    let burst = fields.get("burst").map(|item| count(&item));
    let per_second = per_second?;
    // A burst with a mistake was reported.
    let burst = burst.unwrap_or_else(|| Some(per_second.saturating_mul(2).min(MAX_REQUESTS as u32)))?;
    Some(Rate { per_second, burst })
}

fn breaker(reader: &Reader, item: &Item<'_>) -> Option<Breaker> {
    let fields = reader.fields(item, "the breaker", &["cycles", "period", "maxDelay", "condition"])?;
    let mut breaker = Breaker::default();
    let threshold = &mut breaker.threshold;
    reader.set(&fields, "cycles", &mut threshold.cycles, |reader, item| up_to(reader, item, MAX_CYCLES));
    reader.set(&fields, "period", &mut threshold.period, at_least_a_second);
    reader.set(&fields, "maxDelay", &mut threshold.max_delay, at_least_a_second);
    reader.set_option(&fields, "condition", &mut breaker.condition, condition);
    Some(breaker)
}

fn up_to(reader: &Reader, item: &Item<'_>, most: i64) -> Option<u32> {
    u32::try_from(reader.whole_in(item, &(1..=most), DEFAULT)?).ok()
}

fn at_least_a_second(reader: &Reader, item: &Item<'_>) -> Option<Duration> {
    let hint = "leave it out for the default; `breaker: null` turns the breaker off";
    reader.duration_in(item, &(Duration::from_secs(1)..=MAX_DURATION), hint)
}

/// Kubernetes' rule for the types of conditions, without a prefix.
fn condition(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    let is_known = |c: char| c.is_ascii_alphanumeric();
    if text.len() <= 63 && text.chars().all(is_known) && text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Some(text);
    }
    reader.error_with(
        item,
        format!("`{text}` cannot be the type of a condition"),
        "write a word in CamelCase, such as `Looping`",
    );
    None
}

/// One duration counts as a list of one, as in kopf.
fn durations(reader: &Reader, item: &Item<'_>) -> Option<Vec<Duration>> {
    if matches!(item.node.kind, Kind::List(_)) {
        return reader.list(item).iter().map(|item| reader.duration(item)).collect();
    }
    reader.duration(item).map(|duration| vec![duration])
}

/// Returns a duration rounded up to whole seconds.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}

fn managed(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    if !storages::is_domain(&text) {
        reader.error_with(
            item,
            format!("`{text}` cannot be the name of a webhook configuration"),
            "write a name such as `my-operator.example.com`",
        );
        return None;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::script::check::settings::GROUPS;

    #[test]
    fn scripts_and_manifests_know_the_same_settings() {
        let known: BTreeMap<&str, BTreeSet<&str>> =
            super::KNOWN.into_iter().map(|(section, keys)| (section, keys.iter().copied().collect())).collect();
        let of_scripts = GROUPS.iter().map(|(section, keys)| (*section, keys.iter().copied().collect())).collect();
        assert_eq!(known, of_scripts);
    }
}
