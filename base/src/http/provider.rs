//! The TLS crypto provider.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Installs the crypto provider for the whole process, unless there is one.
pub fn install_crypto_provider() {
    if CryptoProvider::get_default().is_some() {
        return;
    }
    #[cfg(feature = "aws-lc")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(all(feature = "ring", not(feature = "aws-lc")))]
    let provider = rustls::crypto::ring::default_provider();
    // Another thread may have installed it first.
    let _ = provider.install_default();
}

/// Returns the provider of the process, and installs it if there is none.
pub fn crypto_provider() -> Arc<CryptoProvider> {
    install_crypto_provider();
    Arc::clone(CryptoProvider::get_default().expect("a provider was installed"))
}
