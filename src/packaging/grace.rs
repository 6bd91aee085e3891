//! How long a pod may take to end: long enough for daemons to stop by their protocol.

use std::time::Duration;

use crate::manifest::operator::Moment;
use crate::manifest::{Daemon, Operator};

/// The time of Kubernetes for pods that say nothing, which is never shortened.
const LEAST: Duration = Duration::from_secs(30);

/// Time of the exit for the last patches, the Lease, the peering records, and the reviews of webhooks that have begun.
const REST: Duration = Duration::from_secs(15);

/// The time for a daemon that is never cancelled, in an operator whose exit has no limit.
const WITHOUT_LIMIT: Duration = Duration::from_hours(1);

/// Returns the grace period of the pods of operators.
pub(crate) fn grace(operators: &[Operator]) -> Duration {
    operators.iter().map(of_operator).max().unwrap_or_default().max(LEAST)
}

fn of_operator(operator: &Operator) -> Duration {
    let limit = operator.settings.process.ultimate_exiting_timeout;
    let longest = limit.unwrap_or(WITHOUT_LIMIT);
    let daemons = operator.daemons.iter().map(|daemon| of_daemon(daemon).unwrap_or(longest)).max().unwrap_or_default();
    // Attempts of cleanup functions follow each other; without limits of their own, only that of the exit ends them.
    let cleanups = operator.activities.iter().filter(|activity| activity.moment == Moment::Cleanup);
    let cleanups: Duration = cleanups.map(|cleanup| cleanup.handler.policy.timeout.unwrap_or(REST)).sum();
    let needed = daemons + operator.settings.queueing.exit_timeout + cleanups + REST;
    // A process ends at its own limit, whatever is left.
    limit.map_or(needed, |limit| needed.min(limit + REST))
}

/// Returns the time after which a stopping daemon has ended or is abandoned; `None` if it is never cancelled.
fn of_daemon(daemon: &Daemon) -> Option<Duration> {
    Some(daemon.cancellation_backoff.unwrap_or_default() + daemon.cancellation_timeout?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read;

    fn seconds(spec: &str) -> u64 {
        let manifest = format!(
            "{{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {{name: x}}, spec: {{settings: {{process: {{ultimateExitingTimeout: 600s}}}}, {spec}}}}}"
        );
        let loaded = read("operator.yaml", &manifest);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        grace(&loaded.operators).as_secs()
    }

    fn daemons(options: &str) -> u64 {
        seconds(&format!("resources: [{{resource: v1/pods, daemons: [{{id: a, run: 'let x = 1;', {options}}}]}}]"))
    }

    #[test]
    fn a_pod_ends_no_sooner_than_its_daemons() {
        assert_eq!(seconds("resources: []"), 30);
        assert_eq!(daemons("cancellationBackoff: 10s, cancellationTimeout: 60s"), 10 + 60 + 2 + 15);
        assert_eq!(daemons("cancellationBackoff: 10s"), 600 + 15, "it is never cancelled, and the exit has a limit");
        assert_eq!(daemons("cancellationTimeout: 5s"), 30);
    }

    #[test]
    fn cleanup_functions_have_their_time() {
        let cleanup = "{id: a, timeout: 2m, run: 'let x = 1;'}, {id: b, run: 'let x = 1;'}";
        assert_eq!(seconds(&format!("activities: {{cleanup: [{cleanup}]}}")), 120 + 15 + 2 + 15);
    }
}
