//! HTTP listeners: TLS and certificates, connections and their limits, graceful shutdown; and the verification of
//! servers for clients.
//!
//! Independent of Kubernetes. The service of a [`Listener`] handles the requests.

mod body;
mod certificate;
mod connection;
mod encrypted_key;
mod limits;
mod listener;
mod peer_certificate;
mod presented;
mod provider;
mod tls;
mod trust;
mod validity;

pub use body::{BodyError, BodyLimits, Rest, SharedBodyError, read_body, read_body_within};
pub use certificate::{Authority, Certificate, CertificateError};
pub use connection::Connection;
pub use encrypted_key::decrypted as decrypted_key;
pub use limits::{BoxError, Limits};
pub use listener::Listener;
pub use peer_certificate::PeerCertificate;
pub use presented::presented_certificate;
pub use provider::{crypto_provider, install_crypto_provider};
pub use tls::{Clients, ServerTls};
pub use trust::Trust;
pub use validity::Validity;

#[cfg(test)]
mod tests;
