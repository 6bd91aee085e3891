//! Answers to requests about containers in place of the cluster: a scenario has none.

use futures::future::BoxFuture;

use super::api::{ApiError, ExecError, ExecRequest, LogRequest};
use super::programs::Finished;

/// Answers requests about containers.
pub trait Pods: Send + Sync {
    /// Returns the log of a container.
    fn log(&self, request: LogRequest) -> BoxFuture<'_, Result<String, ApiError>>;
    /// Runs a command in a container.
    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Finished, ExecError>>;
}
