//! The options of replicas: how they elect the one that handles.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use uuid::Uuid;

use crate::engines::leading::LeadingOptions;
use crate::handling::leading::{Timing, TimingError};
use crate::handling::peering::replicas_name;
use crate::kit::duration;
use crate::manifest::Operator;

/// The file with the namespace of the pod, in each container.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Options of replicas.
#[derive(Debug, Clone, Args)]
pub(super) struct ReplicaOptions {
    /// Of all replicas with this option, only one calls handlers. The others stand by: they watch and fill their
    /// indexes.
    #[arg(long, env = "KOPFD_LEADER_ELECT")]
    pub leader_elect: bool,
    /// The name of the Lease by which the replicas elect their leader. By default, it is the name of the operator.
    #[arg(long, env = "KOPFD_LEASE", value_name = "NAME")]
    pub lease: Option<String>,
    /// The namespace of the Lease. By default, it is that of the pod, or else that of the context.
    #[arg(long, env = "KOPFD_LEASE_NAMESPACE", value_name = "NAMESPACE")]
    pub lease_namespace: Option<String>,
    /// How long the others wait for a leader that does not renew its Lease: whole seconds.
    #[arg(long, env = "KOPFD_LEASE_DURATION", value_name = "TIME", default_value = "15s", value_parser = time)]
    pub lease_duration: Duration,
    /// After this time without a successful renewal, a leader stops handling. It must be shorter than the duration of
    /// the Lease.
    #[arg(long, env = "KOPFD_RENEW_DEADLINE", value_name = "TIME", default_value = "10s", value_parser = time)]
    pub renew_deadline: Duration,
    /// The pause between attempts to get or to renew the Lease.
    #[arg(long, env = "KOPFD_RETRY_PERIOD", value_name = "TIME", default_value = "2s", value_parser = time)]
    pub retry_period: Duration,
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

/// The hint on the Leases of several operators.
const LEASE_HINT: &str =
    "leave the option out: each operator has a Lease with its own name; or run the operators in processes of their own";

/// The hint on valid times.
const TIMING_HINT: &str = "the defaults are --lease-duration=15s --renew-deadline=10s --retry-period=2s; the lease duration must be longer than the renew deadline, and that longer than 1.2 times the retry period";

impl ReplicaOptions {
    /// Returns how the replicas elect their leader; `None` if this process is the only one.
    ///
    /// # Errors
    /// A problem and a hint, if the options do not fit together.
    pub(super) fn leading(
        &self,
        operators: &[Operator],
        pod: Option<&str>,
    ) -> Result<Option<LeadingOptions>, (String, &'static str)> {
        if !self.leader_elect {
            return Ok(None);
        }
        if self.lease.is_some() && operators.len() > 1 {
            let problem = format!(
                "--lease names one Lease, but there are {} operators, which are elected separately",
                operators.len()
            );
            return Err((problem, LEASE_HINT));
        }
        let Self { lease_duration, renew_deadline, retry_period, .. } = *self;
        let timing = Timing { lease_duration, renew_deadline, retry_period };
        timing.check().map_err(|problem: TimingError| (problem.to_string(), TIMING_HINT))?;
        let host = pod.map_or_else(host_name, str::to_owned);
        Ok(Some(LeadingOptions {
            lease: self.lease.clone(),
            namespace: self.lease_namespace.clone().or_else(|| pod_namespace(Path::new(NAMESPACE_FILE))),
            // As client-go's users do it: a container that is restarted in its pod is another replica.
            identity: format!("{host}_{}", Uuid::new_v4()),
            peer: replicas_name(self.lease.as_deref(), operators.iter().map(|operator| &*operator.name)),
            timing,
        }))
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns the namespace of the pod, in a container.
fn pod_namespace(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(text.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> ReplicaOptions {
        ReplicaOptions {
            leader_elect: true,
            lease: None,
            lease_namespace: Some("ops".to_owned()),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    #[test]
    fn a_replica_is_identified_by_its_pod_and_its_start() {
        let leading = options().leading(&[Operator::default()], Some("demo-0")).unwrap().unwrap();
        let again = options().leading(&[Operator::default()], Some("demo-0")).unwrap().unwrap();
        assert!(leading.identity.starts_with("demo-0_") && leading.identity != again.identity);
        assert_eq!(
            (leading.lease, leading.namespace.as_deref(), leading.timing),
            (None, Some("ops"), Timing::default())
        );
        let outside = options().leading(&[], None).unwrap().unwrap();
        assert!(outside.identity.starts_with(&format!("{}_", host_name())) && !host_name().is_empty());
    }

    #[test]
    fn without_the_option_there_is_no_election_whatever_else_is_given() {
        let alone = ReplicaOptions { leader_elect: false, retry_period: Duration::ZERO, ..options() };
        assert!(alone.leading(&[], None).unwrap().is_none());
    }

    #[test]
    fn one_name_cannot_serve_the_leases_of_several_operators() {
        let named = ReplicaOptions { lease: Some("demo".to_owned()), ..options() };
        assert!(named.leading(&[Operator::default()], None).unwrap().is_some());
        let (problem, _) = named.leading(&[Operator::default(), Operator::default()], None).unwrap_err();
        assert_eq!(problem, "--lease names one Lease, but there are 2 operators, which are elected separately");
    }

    #[test]
    fn times_that_cannot_work_are_refused_with_their_rule() {
        let tight = ReplicaOptions { renew_deadline: Duration::from_secs(15), ..options() };
        let (problem, hint) = tight.leading(&[], None).unwrap_err();
        assert_eq!(problem, "the lease duration (15s) must be longer than the renew deadline (15s)");
        assert!(hint.contains("--lease-duration=15s"));
    }

    #[test]
    fn the_namespace_of_a_pod_is_read_from_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("namespace");
        assert_eq!(pod_namespace(&file), None);
        std::fs::write(&file, "ops\n").unwrap();
        assert_eq!(pod_namespace(&file).as_deref(), Some("ops"));
    }
}
