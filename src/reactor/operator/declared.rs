//! The options that the parts of an operator get from its settings.

use std::sync::Arc;

use tracing::warn;

use super::super::observer::{Declared, Scope};
use super::super::precedence::Precedence;
use super::super::worker::WorkerSettings;
use super::process::Shared;
use crate::cluster::{self, Client, ConnectionSettings};
use crate::engines::health::Health;
use crate::engines::leading::Lead;
use crate::engines::pause::Pause;
use crate::engines::peering::{PeeringContext, Peerings, Replicas, Terms};
use crate::handling::peering::replicas_identity;
use crate::handling::{Handler, Policy};
use crate::manifest::Settings;
use crate::script::Indexes;
use crate::telemetry::metrics::IndexMetrics;
use crate::telemetry::{Metrics, OperatorMetrics};

/// Returns the declarations of the manifest and the settings for the observer. The caller adds those of the process.
pub(super) fn declare(name: &str, handlers: Vec<Handler>, settings: &Settings, scope: Scope) -> Declared {
    let Settings { queueing, persistence, execution, scanning, .. } = settings;
    Declared {
        name: Arc::from(name),
        revision: Arc::default(),
        handlers: handlers.into_iter().map(Arc::new).collect(),
        webhooks: Vec::new(),
        storages: Arc::new(persistence.storages.clone()),
        lifecycle: execution.lifecycle,
        default_backoff: execution.default_backoff,
        sub_defaults: Policy::default(),
        monitor: None,
        health: Health::default(),
        pause: Pause::default(),
        metrics: OperatorMetrics::default(),
        lead: Lead::permanent(),
        earlier: Precedence::default(),
        settings: Arc::new(WorkerSettings::of(settings)),
        worker_limit: queueing.worker_limit,
        exit_timeout: queueing.exit_timeout,
        is_scanning_disabled: scanning.disabled,
        scope,
    }
}

/// Returns the peerings of an operator, unless it ignores its peers.
pub(super) fn peerings(
    name: &str,
    settings: &Settings,
    (shared, terms): (&Shared, &Terms),
    client: &Client,
    pause: &Pause,
) -> Option<Peerings> {
    let mut peering = settings.peering.clone();
    if peering.standalone {
        return None;
    }
    if matches!(shared.scope, Scope::Cluster) && peering.clusterwide == Some(false) {
        warn!(
            target: "kopfd::peering",
            "Operator '{name}' serves all namespaces, and so uses the cluster-wide peering, though settings.peering.clusterwide is false."
        );
        peering.clusterwide = Some(true);
    }
    let replicas = shared.leading.as_ref().map(|options| Replicas {
        terms: terms.clone(),
        // A Lease that cannot be released runs out, which is noticed at the next attempt to get it.
        election: options.timing.lease_duration + options.timing.retry_period,
    });
    let identity = shared.leading.as_ref().map_or_else(
        || Arc::clone(&shared.peering.identity),
        |options| replicas_identity(&options.peer, &options.lease_namespace(client)).into(),
    );
    Some(Peerings::new(PeeringContext {
        operator: Arc::from(name),
        identity,
        replicas,
        settings: peering,
        client: client.clone(),
        clock: shared.clock.clone(),
        pause: pause.clone(),
        metrics: shared.endpoints.metrics.operator(name),
        process: shared.peering.peers.clone(),
        seed: shared.seed,
    }))
}

/// Returns the client settings of an operator.
pub fn connection(settings: &Settings) -> ConnectionSettings {
    let networking = cluster::Networking {
        request_timeout: settings.networking.request_timeout,
        connect_timeout: settings.networking.connect_timeout,
        error_backoffs: settings.networking.error_backoffs.clone(),
        enforce_retry_after: settings.networking.enforce_retry_after,
        trust_env: settings.networking.trust_env,
        requests: settings.networking.requests,
    };
    let watching = cluster::Watching {
        server_timeout: settings.watching.server_timeout,
        client_timeout: settings.watching.client_timeout,
        connect_timeout: settings.watching.connect_timeout,
        reconnect_backoff: settings.watching.reconnect_backoff,
        inactivity_timeout: Some(settings.watching.inactivity_timeout),
    };
    ConnectionSettings { networking, watching }
}

/// Registers the sizes of indexes with the metrics, which read them when they are collected: they change at almost
/// every event.
pub(super) fn measure_indexes(metrics: &Metrics, operator: &OperatorMetrics, indexes: &Arc<Indexes>) {
    let gauges: Vec<IndexMetrics> = indexes.iter().map(|index| operator.index(index.name())).collect();
    let indexes = Arc::downgrade(indexes);
    metrics.refreshed_by(move || {
        let Some(indexes) = indexes.upgrade() else { return false };
        indexes.iter().zip(&gauges).for_each(|(index, gauge)| gauge.set(index.objects(), index.keys()));
        true
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::kit::Rate;
    use crate::manifest::settings;

    #[test]
    fn the_client_behaves_as_the_settings_say() {
        let mut settings = Settings::default();
        let seconds = Duration::from_secs;
        settings.networking = settings::Networking {
            request_timeout: Some(seconds(1)),
            connect_timeout: Some(seconds(2)),
            error_backoffs: vec![seconds(3), seconds(4)],
            enforce_retry_after: !settings.networking.enforce_retry_after,
            trust_env: !settings.networking.trust_env,
            requests: Some(Rate { per_second: 1, burst: 2 }),
        };
        settings.watching = settings::Watching {
            server_timeout: Some(seconds(5)),
            client_timeout: Some(seconds(6)),
            connect_timeout: Some(seconds(7)),
            reconnect_backoff: seconds(8),
            inactivity_timeout: seconds(9),
        };
        let ConnectionSettings { networking, watching } = connection(&settings);
        let of_requests = (networking.request_timeout, networking.connect_timeout, networking.error_backoffs);
        assert_eq!(of_requests, (Some(seconds(1)), Some(seconds(2)), vec![seconds(3), seconds(4)]));
        assert_eq!(networking.requests, settings.networking.requests);
        let flags = (networking.enforce_retry_after, networking.trust_env);
        assert_eq!(flags, (settings.networking.enforce_retry_after, settings.networking.trust_env));
        let of_streams = (watching.server_timeout, watching.client_timeout, watching.connect_timeout);
        assert_eq!(of_streams, (Some(seconds(5)), Some(seconds(6)), Some(seconds(7))));
        assert_eq!((watching.reconnect_backoff, watching.inactivity_timeout), (seconds(8), Some(seconds(9))));
    }
}
