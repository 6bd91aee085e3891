//! TLS for everything that listens or connects: trust and cryptography. It knows nothing of Kubernetes.

mod provider;
mod trust;

pub use provider::install_crypto_provider;
pub use trust::Trust;
