//! The TLS settings of a pool.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::super::roots::Roots;
use super::error;
use crate::http::{Trust, install_crypto_provider};
use crate::script::outside::{HttpConnection, HttpError, HttpProblem, Identity};

/// Returns the settings of a connection.
///
/// # Errors
/// If its certificates or its key cannot be used.
pub(super) async fn config(connection: &HttpConnection, roots: &Roots) -> Result<ClientConfig, HttpError> {
    install_crypto_provider();
    let trust = match &connection.authorities {
        Some(pem) => Trust::of_pem(pem),
        None => Trust::new(roots.get().await),
    };
    if connection.authorities.is_some() && trust.is_empty() {
        return Err(error::of(HttpProblem::Tls, "the option `ca` has no certificate in PEM"));
    }
    let Some(Identity { certificate, key }) = &connection.identity else { return Ok(trust.client_config()) };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok).collect();
    if certificates.is_empty() {
        return Err(error::of(HttpProblem::Tls, "the option `cert` has no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| error::of(HttpProblem::Tls, "the option `key` has no private key in PEM"))?;
    let unusable = |cause: rustls::Error| {
        error::of(HttpProblem::Tls, format!("the certificate of the client cannot be used: {cause}"))
    };
    let builder = ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(trust));
    builder.with_client_auth_cert(certificates, key).map_err(unusable)
}
