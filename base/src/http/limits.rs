//! Limits for the clients of a listener.

use std::time::Duration;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Limits for the clients of a listener.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum number of connections; fewer if the process may not open as many files. Beyond it, idle connections are
    /// closed, the longest idle first.
    pub connections: usize,
    /// Time limit of a client for its handshake, and for the head of a request.
    pub head_timeout: Duration,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// Time limit of pending requests after a stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Each takes a few KiB.
            connections: 8_000,
            head_timeout: Duration::from_secs(10),
            // As in Kubernetes' own servers.
            idle_timeout: Duration::from_secs(90),
            grace: Duration::from_secs(1),
        }
    }
}
