//! Admission webhooks: answers the API server's reviews with the functions of the operators, on their own HTTPS
//! listeners or in the process.
//!
//! `reviewer` answers one review for one operator, and knows no sockets. `reviewers` finds the reviewer of a webhook.
//! `server` listens, `service` reads and answers requests. `certificates` has the certificates of servers,
//! `client_config` has their address for the API server. `configurations` keeps the webhook configurations up to date.
//! `detection` finds out how the API server reaches the machine, `tunnel` opens a way. `local` has the webhooks for an
//! API server in the same process.

pub mod certificates;
pub mod client_config;
pub mod configurations;
pub(crate) mod detection;
pub mod local;
pub mod memos;
pub(crate) mod peer;
pub mod reviewer;
pub(crate) mod reviewers;
pub mod server;
pub(crate) mod servers;
pub(crate) mod service;
pub(crate) mod tunnel;

pub use client_config::ClientConfig;
pub use reviewer::{RequestPeer, Reviewed, Reviewer};
pub use reviewers::Reviewers;
pub use servers::Servers;
