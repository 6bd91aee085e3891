//! What clients of a listener may take.

use std::time::Duration;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What clients of a listener may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at the same time; fewer if the process may not open so many files. Where there are more, those without a request
    /// are closed, the longest idle first.
    pub connections: usize,
    /// How long a client may take for its handshake, and for the head of a request.
    pub head_timeout: Duration,
    /// How long a connection may be without a request.
    pub idle_timeout: Duration,
    /// How long requests may take to end after a stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Each takes a few KiB.
            connections: 8_000,
            head_timeout: Duration::from_secs(10),
            // That of Go's servers for Kubernetes.
            idle_timeout: Duration::from_secs(90),
            grace: Duration::from_secs(1),
        }
    }
}
