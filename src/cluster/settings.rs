//! The settings of connections, requests and watches.

use std::time::Duration;

use crate::kit::Rate;

/// The settings of a client.
#[derive(Debug, Clone, Default)]
pub struct ConnectionSettings {
    /// Settings of all requests.
    pub networking: Networking,
    /// Settings of watches.
    pub watching: Watching,
}

/// Settings of all requests: kopf's `settings.networking`, and the budget of requests.
#[derive(Debug, Clone)]
pub struct Networking {
    /// Time limit of one attempt of a request.
    pub request_timeout: Option<Duration>,
    /// For how long a connection may take to open.
    pub connect_timeout: Option<Duration>,
    /// The pauses between the attempts of a request; there is one more attempt than pauses.
    pub error_backoffs: Vec<Duration>,
    /// Whether the server's `Retry-After` is used even if it is shorter than our own pause.
    pub enforce_retry_after: bool,
    /// Whether proxies of the environment are used.
    pub trust_env: bool,
    /// The budget of all requests; `None`: unlimited.
    pub requests: Option<Rate>,
}

impl Default for Networking {
    fn default() -> Self {
        Self {
            request_timeout: Some(Duration::from_mins(5)),
            connect_timeout: None,
            error_backoffs: [1, 1, 2, 3, 5, 8, 13, 21].map(Duration::from_secs).to_vec(),
            enforce_retry_after: false,
            trust_env: false,
            requests: None,
        }
    }
}

/// Settings of watches: kopf's `settings.watching`.
#[derive(Debug, Clone)]
pub struct Watching {
    /// Time limit of a watch, requested from the server.
    pub server_timeout: Option<Duration>,
    /// Time limit of a watch, enforced by the client.
    pub client_timeout: Option<Duration>,
    /// Time limit for connecting a watch.
    pub connect_timeout: Option<Duration>,
    /// The pause before the next list.
    pub reconnect_backoff: Duration,
    /// Time limit without data on a watch: the server sends bookmarks about once a minute.
    pub inactivity_timeout: Option<Duration>,
}

impl Default for Watching {
    fn default() -> Self {
        Self {
            server_timeout: None,
            client_timeout: None,
            connect_timeout: None,
            reconnect_backoff: Duration::from_millis(100),
            inactivity_timeout: Some(Duration::from_secs(70)),
        }
    }
}
