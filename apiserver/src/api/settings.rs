//! How a server behaves.

use super::latency::Latency;
use crate::admission::Caller;
use crate::auth::access::Authentication;
use crate::storage::store::Limits;

/// How the server behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How users are told apart.
    pub authentication: Authentication,
    /// How much history is kept.
    pub limits: Limits,
    /// The seed of unique ids and generated names; none for random ids.
    pub seed: Option<u64>,
    /// How many requests are kept on record that came from clients; none by default.
    pub requests: usize,
    /// Whether administrators may control the server under `/_dev`.
    pub has_control: bool,
    /// How webhooks are called.
    pub webhooks: Caller,
    /// How long controllers and new definitions take.
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
