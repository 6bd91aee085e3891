//! The state that all parts of a client share: the settings, which may be replaced, the clock, and the metrics.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::kit::Clock;
use crate::telemetry::OperatorMetrics;

use super::super::address;
use super::super::error::Error;
use super::super::settings::ConnectionSettings;
use super::request::Request;

/// The settings, the clock, and the metrics of a client.
pub(super) struct Shared {
    settings: RwLock<Arc<ConnectionSettings>>,
    pub clock: Clock,
    metrics: OnceLock<OperatorMetrics>,
}

impl Shared {
    /// Returns them without metrics.
    pub(super) fn new(settings: ConnectionSettings, clock: Clock) -> Self {
        Self { settings: RwLock::new(Arc::new(settings)), clock, metrics: OnceLock::new() }
    }

    /// Returns the current settings.
    pub(super) fn settings(&self) -> Arc<ConnectionSettings> {
        Arc::clone(&self.settings.read())
    }

    /// Replaces the settings.
    pub(super) fn configure(&self, settings: ConnectionSettings) {
        *self.settings.write() = Arc::new(settings);
    }

    /// Returns the metrics, if there are any.
    pub(super) fn metrics(&self) -> Option<&OperatorMetrics> {
        self.metrics.get()
    }

    /// Counts by these metrics from now on. Only the first call has an effect.
    pub(super) fn measure(&self, metrics: OperatorMetrics) {
        // Clones of the client share the first metrics.
        drop(self.metrics.set(metrics));
    }

    /// Runs a request, and counts it by the status of its answer.
    pub(super) async fn counted<T>(
        &self,
        request: &Request,
        status_of: fn(&T) -> u16,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(metrics) = self.metrics() else { return work.await };
        let began = Instant::now();
        let done = work.await;
        let (verb, resource) = address::classify(&request.method, &request.path);
        let status = |status| StatusCode::from_u16(status).map_err(|_| "other");
        let outcome = match &done {
            Ok(answer) => status(status_of(answer)),
            Err(Error::Status { status: found, .. }) => status(*found),
            Err(Error::Connect(_)) => Err("connect"),
            Err(Error::Connection(_)) => Err("connection"),
            Err(Error::Timeout(_)) => Err("timeout"),
            Err(_) => Err("other"),
        };
        let code = outcome.as_ref().map_or_else(|word| *word, StatusCode::as_str);
        metrics.request(verb, &resource, code, began.elapsed());
        done
    }

    /// Counts that a request is going to be repeated after a pause.
    pub(super) fn count_repetition(&self, request: &Request, failure: &Error, pause: Duration) {
        let Some(metrics) = self.metrics() else { return };
        let (verb, resource) = address::classify(&request.method, &request.path);
        metrics.repetition(verb, &resource);
        if failure.status() == Some(429) || failure.retry_after().is_some() {
            metrics.throttled(pause);
        }
    }

    /// Returns the seconds of `Retry-After`, which come as a number or as a date. Fractions are dropped.
    pub(super) fn retry_after(&self, headers: &HeaderMap) -> Option<u64> {
        let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse::<f64>() {
            return (seconds.is_finite() && seconds >= 0.0).then_some(seconds as u64);
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Some(date.duration_since(self.clock.now()).as_secs().max(0).unsigned_abs())
    }

    /// Returns the pause before a repetition: that of the settings, or of `Retry-After`.
    pub(super) fn pause(&self, backoff: Duration, failure: &Error) -> Duration {
        match failure.retry_after() {
            Some(asked) if asked > backoff || self.settings().networking.enforce_retry_after => asked,
            _ => backoff,
        }
    }
}
