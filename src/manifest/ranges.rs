//! The ranges of settings, checked for manifests and for startup activities.

use std::time::Duration;

use super::settings::Settings;
use super::values::MAX_DURATION;

/// A setting outside of its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`settings.{section}.{key}` must be {range}, not {value}")]
pub struct OutOfRange {
    /// The section.
    pub section: &'static str,
    /// The key in the section.
    pub key: &'static str,
    /// The index, if the setting is a list.
    pub index: Option<usize>,
    /// The allowed range, in words.
    pub range: String,
    /// The actual value.
    pub value: String,
}

/// Returns the settings outside of their ranges.
pub fn check(settings: &Settings) -> Vec<OutOfRange> {
    let Settings { process, peering, watching, queueing, execution, background, networking, persistence, .. } = settings;
    let mut ranges = Ranges::default();
    ranges.duration("process", "ultimateExitingTimeout", process.ultimate_exiting_timeout, Duration::ZERO);
    ranges.duration("peering", "lifetime", Some(peering.lifetime), SECOND);
    // Shorter times would end every request before its answer.
    ranges.duration("watching", "serverTimeout", watching.server_timeout, SECOND);
    ranges.duration("watching", "clientTimeout", watching.client_timeout, SECOND);
    ranges.duration("watching", "connectTimeout", watching.connect_timeout, TENTH);
    ranges.duration("watching", "reconnectBackoff", Some(watching.reconnect_backoff), Duration::ZERO);
    ranges.duration("watching", "inactivityTimeout", Some(watching.inactivity_timeout), SECOND);
    ranges.count("queueing", "workerLimit", queueing.worker_limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)), 1, MAX_WORKERS);
    ranges.duration("queueing", "idleTimeout", Some(queueing.idle_timeout), Duration::ZERO);
    ranges.duration("queueing", "exitTimeout", Some(queueing.exit_timeout), Duration::ZERO);
    ranges.durations("queueing", "errorDelays", &queueing.error_delays);
    ranges.duration("execution", "defaultBackoff", Some(execution.default_backoff), Duration::ZERO);
    // A check without a pause would occupy a CPU.
    ranges.duration("background", "cancellationPolling", Some(background.cancellation_polling), TENTH);
    ranges.duration("background", "instantExitTimeout", background.instant_exit_timeout, Duration::ZERO);
    let cycles = background.instant_exit_zero_time_cycles.map(|cycles| i64::try_from(cycles).unwrap_or(i64::MAX));
    ranges.count("background", "instantExitZeroTimeCycles", cycles, 0, MAX_CYCLES);
    ranges.duration("networking", "requestTimeout", networking.request_timeout, TENTH);
    ranges.duration("networking", "connectTimeout", networking.connect_timeout, TENTH);
    ranges.durations("networking", "errorBackoffs", &networking.error_backoffs);
    ranges.duration("persistence", "consistencyTimeout", Some(persistence.consistency_timeout), Duration::ZERO);
    ranges.found
}

/// The minimum that leaves time for an answer of a distant server.
const SECOND: Duration = Duration::from_secs(1);

/// The minimum for connections, for requests, and between the checks of a daemon.
const TENTH: Duration = Duration::from_millis(100);

/// More workers than a process can have tasks and connections for.
const MAX_WORKERS: i64 = 1_000_000;

/// More turns of the scheduler than any exit takes.
const MAX_CYCLES: i64 = 1_000_000;

#[derive(Default)]
struct Ranges {
    found: Vec<OutOfRange>,
}

impl Ranges {
    fn duration(&mut self, section: &'static str, key: &'static str, value: Option<Duration>, least: Duration) {
        if let Some(value) = value {
            self.one(section, key, None, (value, least));
        }
    }

    fn durations(&mut self, section: &'static str, key: &'static str, values: &[Duration]) {
        for (index, value) in values.iter().enumerate() {
            self.one(section, key, Some(index), (*value, Duration::ZERO));
        }
    }

    fn one(&mut self, section: &'static str, key: &'static str, index: Option<usize>, (value, least): (Duration, Duration)) {
        if !(least..=MAX_DURATION).contains(&value) {
            let range = format!("from {} to {}", shown(least), shown(MAX_DURATION));
            self.found.push(OutOfRange { section, key, index, range, value: shown(value) });
        }
    }

    fn count(&mut self, section: &'static str, key: &'static str, value: Option<i64>, least: i64, most: i64) {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            let range = format!("from {least} to {most}");
            self.found.push(OutOfRange { section, key, index: None, range, value: value.to_string() });
        }
    }
}

fn shown(duration: Duration) -> String {
    const DAY: Duration = Duration::from_hours(24);
    if duration.is_zero() {
        "0s".to_owned()
    } else if duration >= DAY && duration.as_secs().is_multiple_of(DAY.as_secs()) && duration.subsec_nanos() == 0 {
        format!("{}d", duration.as_secs() / DAY.as_secs())
    } else {
        format!("{duration:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_their_ranges() {
        assert_eq!(check(&Settings::default()), []);
    }

    #[test]
    fn settings_outside_of_their_ranges_are_reported_with_the_range() {
        let mut settings = Settings::default();
        settings.queueing.worker_limit = Some(usize::MAX);
        settings.queueing.error_delays = vec![SECOND, Duration::MAX];
        settings.watching.inactivity_timeout = Duration::from_nanos(1);
        settings.networking.request_timeout = Some(Duration::ZERO);
        settings.background.cancellation_polling = Duration::from_millis(99);
        let messages: Vec<String> = check(&settings).iter().map(ToString::to_string).collect();
        let expected = [
            "`settings.watching.inactivityTimeout` must be from 1s to 36500d, not 1ns",
            "`settings.queueing.workerLimit` must be from 1 to 1000000, not 9223372036854775807",
            "`settings.queueing.errorDelays` must be from 0s to 36500d, not 18446744073709551615.999999999s",
            "`settings.background.cancellationPolling` must be from 100ms to 36500d, not 99ms",
            "`settings.networking.requestTimeout` must be from 100ms to 36500d, not 0s",
        ];
        assert_eq!(messages, expected);
        assert_eq!(check(&settings)[2].index, Some(1));
    }
}
