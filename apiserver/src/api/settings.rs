//! Settings of a server.

use super::latency::Latency;
use crate::admission::Caller;
use crate::auth::access::Authentication;
use crate::storage::store::Limits;

/// The settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The authentication of users.
    pub authentication: Authentication,
    /// The limits of the history.
    pub limits: Limits,
    /// The seed of unique ids and generated names; `None` for random ids.
    pub seed: Option<u64>,
    /// Number of recorded requests of clients; zero by default.
    pub requests: usize,
    /// Whether administrators may control the server under `/_dev`.
    pub has_control: bool,
    /// The caller of webhooks.
    pub webhooks: Caller,
    /// The delays of controllers and new definitions.
    pub latency: Latency,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            authentication: Authentication::Disabled,
            limits: Limits::default(),
            seed: None,
            requests: 0,
            has_control: false,
            webhooks: Caller::default(),
            latency: Latency::default(),
        }
    }
}
