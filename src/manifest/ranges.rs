//! The ranges of settings, for manifests and for startup activities.

use std::time::Duration;

/// Returns the minimum of a duration.
pub(super) fn least(section: &str, key: &str) -> Duration {
    LEAST.iter().find(|(known, name, _)| *known == section && *name == key).map_or(Duration::ZERO, |(.., least)| *least)
}

/// The minima of durations that are more than zero.
const LEAST: &[(&str, &str, Duration)] = &[
    ("peering", "lifetime", SECOND),
    // Shorter times would end every request before its answer.
    ("watching", "serverTimeout", SECOND),
    ("watching", "clientTimeout", SECOND),
    ("watching", "connectTimeout", TENTH),
    ("watching", "inactivityTimeout", SECOND),
    // A check without a pause would occupy a CPU.
    ("background", "cancellationPolling", TENTH),
    ("networking", "requestTimeout", TENTH),
    ("networking", "connectTimeout", TENTH),
];

/// The minimum that leaves time for an answer of a distant server.
const SECOND: Duration = Duration::from_secs(1);

/// The minimum for connections, for requests, and between the checks of a daemon.
const TENTH: Duration = Duration::from_millis(100);

/// More workers than a process can have tasks and connections for.
pub(super) const MAX_WORKERS: i64 = 1_000_000;

/// More turns of the scheduler than any exit takes.
pub(super) const MAX_CYCLES: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::Settings;
    use crate::manifest::settings_tree::{from_value, to_value};

    #[test]
    fn every_minimum_is_that_of_a_setting() {
        let tree = to_value(&Settings::default());
        for (section, key, _) in LEAST {
            assert!(tree[section].get(key).is_some(), "{section}.{key}");
        }
    }

    #[test]
    fn settings_outside_of_their_ranges_are_reported_with_the_range() {
        for (section, key, value, range) in [
            ("watching", "inactivityTimeout", json!(0.000_000_001), "from 1s to 36500d"),
            ("watching", "inactivityTimeout", json!(1e300), "from 1s to 36500d"),
            ("watching", "reconnectBackoff", json!(-1), "from 0s to 36500d"),
            ("queueing", "workerLimit", json!(0), "from 1 to 1000000"),
            ("queueing", "workerLimit", json!(i64::MAX), "from 1 to 1000000"),
            ("queueing", "workerLimit", json!(u64::MAX), "from 1 to 1000000"),
            ("queueing", "idleTimeout", json!("36501d"), "from 0s to 36500d"),
            ("background", "cancellationPolling", json!("99ms"), "from 100ms to 36500d"),
            ("background", "instantExitZeroTimeCycles", json!(-1), "from 0 to 1000000"),
            ("networking", "requestTimeout", json!(0), "from 100ms to 36500d"),
            ("scripts", "memory", json!(0), "a size from 1 byte to 1Ei"),
            ("scripts", "memory", json!(1e300), "a size from 1 byte to 1Ei"),
        ] {
            let mut tree = to_value(&Settings::default());
            tree[section][key] = value;
            assert_eq!(from_value(&tree), Err(vec![format!("settings.{section}.{key}: `{key}` must be {range}")]));
        }
        let mut tree = to_value(&Settings::default());
        tree["queueing"]["errorDelays"] = json!([1, 1e300]);
        let expected = "settings.queueing.errorDelays[1]: `errorDelays[1]` must be from 0s to 36500d";
        assert_eq!(from_value(&tree), Err(vec![expected.to_owned()]));
    }
}
