//! The ranges of settings: one check for those of manifests and for those that a startup activity sets.

use super::settings::Settings;
use super::values::LONGEST;

/// A setting beyond its range.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("`settings.{section}.{key}` must be {range}, not {value}")]
pub struct OutOfRange {
    /// The section.
    pub section: &'static str,
    /// The key in the section.
    pub key: &'static str,
    /// The place in the list, where the setting is one.
    pub index: Option<usize>,
    /// What is allowed, in words.
    pub range: String,
    /// What it is.
    pub value: String,
}

/// Returns the settings beyond their ranges.
pub fn check(settings: &Settings) -> Vec<OutOfRange> {
    let Settings { process, peering, watching, queueing, execution, background, networking, persistence, .. } = settings;
    let mut ranges = Ranges::default();
    ranges.seconds("process", "ultimateExitingTimeout", process.ultimate_exiting_timeout, 0.0);
    ranges.count("peering", "lifetime", Some(peering.lifetime), 1, LONGEST as i64);
    // Shorter times would end every request before its answer: nothing would be served.
    ranges.seconds("watching", "serverTimeout", watching.server_timeout, 1.0);
    ranges.seconds("watching", "clientTimeout", watching.client_timeout, 1.0);
    ranges.seconds("watching", "connectTimeout", watching.connect_timeout, 0.1);
    ranges.seconds("watching", "reconnectBackoff", Some(watching.reconnect_backoff), 0.0);
    ranges.seconds("watching", "inactivityTimeout", Some(watching.inactivity_timeout), 1.0);
    ranges.count("queueing", "workerLimit", queueing.worker_limit.map(|limit| i64::try_from(limit).unwrap_or(i64::MAX)), 1, MOST_WORKERS);
    ranges.seconds("queueing", "idleTimeout", Some(queueing.idle_timeout), 0.0);
    ranges.seconds("queueing", "exitTimeout", Some(queueing.exit_timeout), 0.0);
    ranges.all_seconds("queueing", "errorDelays", &queueing.error_delays);
    ranges.seconds("execution", "defaultBackoff", Some(execution.default_backoff), 0.0);
    // What is looked at without a pause would take a processor for itself.
    ranges.seconds("background", "cancellationPolling", Some(background.cancellation_polling), 0.1);
    ranges.seconds("background", "instantExitTimeout", background.instant_exit_timeout, 0.0);
    let cycles = background.instant_exit_zero_time_cycles.map(|cycles| i64::try_from(cycles).unwrap_or(i64::MAX));
    ranges.count("background", "instantExitZeroTimeCycles", cycles, 0, MOST_CYCLES);
    ranges.seconds("networking", "requestTimeout", networking.request_timeout, 0.1);
    ranges.seconds("networking", "connectTimeout", networking.connect_timeout, 0.1);
    ranges.all_seconds("networking", "errorBackoffs", &networking.error_backoffs);
    ranges.seconds("persistence", "consistencyTimeout", Some(persistence.consistency_timeout), 0.0);
    ranges.found
}

/// More workers than a process can have tasks and connections for.
const MOST_WORKERS: i64 = 1_000_000;

/// More turns of the scheduler than are made in any exit.
const MOST_CYCLES: i64 = 1_000_000;

#[derive(Default)]
struct Ranges {
    found: Vec<OutOfRange>,
}

impl Ranges {
    fn seconds(&mut self, section: &'static str, key: &'static str, value: Option<f64>, least: f64) {
        if let Some(value) = value {
            self.one(section, key, None, value, least);
        }
    }

    fn all_seconds(&mut self, section: &'static str, key: &'static str, values: &[f64]) {
        for (index, value) in values.iter().enumerate() {
            self.one(section, key, Some(index), *value, 0.0);
        }
    }

    fn one(&mut self, section: &'static str, key: &'static str, index: Option<usize>, value: f64, least: f64) {
        // What is no number at all is in no range.
        if !(least..=LONGEST).contains(&value) {
            let range = format!("from {} to {}", shown(least), shown(LONGEST));
            self.found.push(OutOfRange { section, key, index, range, value: format!("{value:e}s") });
        }
    }

    fn count(&mut self, section: &'static str, key: &'static str, value: Option<i64>, least: i64, most: i64) {
        if let Some(value) = value.filter(|value| !(least..=most).contains(value)) {
            let range = format!("from {least} to {most}");
            self.found.push(OutOfRange { section, key, index: None, range, value: value.to_string() });
        }
    }
}

fn shown(seconds: f64) -> String {
    if seconds >= 86_400.0 {
        format!("{}d", seconds / 86_400.0)
    } else if seconds > 0.0 && seconds < 1.0 {
        format!("{}ms", seconds * 1000.0)
    } else {
        format!("{seconds}s")
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
    fn settings_beyond_their_ranges_are_told_with_the_range() {
        let mut settings = Settings::default();
        settings.queueing.worker_limit = Some(usize::MAX);
        settings.queueing.idle_timeout = f64::NAN;
        settings.queueing.error_delays = vec![1.0, 1e300];
        settings.watching.inactivity_timeout = 1e-9;
        settings.networking.request_timeout = Some(0.0);
        settings.background.cancellation_polling = -1.0;
        let told: Vec<String> = check(&settings).iter().map(ToString::to_string).collect();
        let expected = [
            "`settings.watching.inactivityTimeout` must be from 1s to 36500d, not 1e-9s",
            "`settings.queueing.workerLimit` must be from 1 to 1000000, not 9223372036854775807",
            "`settings.queueing.idleTimeout` must be from 0s to 36500d, not NaNs",
            "`settings.queueing.errorDelays` must be from 0s to 36500d, not 1e300s",
            "`settings.background.cancellationPolling` must be from 100ms to 36500d, not -1e0s",
            "`settings.networking.requestTimeout` must be from 100ms to 36500d, not 0e0s",
        ];
        assert_eq!(told, expected);
        assert_eq!(check(&settings)[3].index, Some(1));
    }
}
