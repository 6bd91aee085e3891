//! The provider of cryptography.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// Sets the provider of cryptography for the whole process, unless one is set already.
pub fn install_crypto_provider() {
    if CryptoProvider::get_default().is_some() {
        return;
    }
    #[cfg(feature = "aws-lc")]
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    #[cfg(all(feature = "ring", not(feature = "aws-lc")))]
    let provider = rustls::crypto::ring::default_provider();
    // Another thread may have been faster; its provider is as good.
    let _ = provider.install_default();
}

/// Returns the provider of the process, and sets it if there is none.
pub(super) fn crypto_provider() -> Arc<CryptoProvider> {
    install_crypto_provider();
    Arc::clone(CryptoProvider::get_default().expect("a provider was installed"))
}
