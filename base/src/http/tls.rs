//! TLS of a listener: its replaceable certificate, and the authorities of its clients.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use tracing::{info, warn};

use super::certificate::{Certificate, CertificateError};
use super::provider::crypto_provider;
use crate::kit::Stop;

/// Interval of rereading the files of a certificate: often enough, since certificates are renewed days before they
/// expire.
const REREAD_INTERVAL: Duration = Duration::from_secs(10);

/// The TLS settings of a listener. Clones share the certificate.
#[derive(Debug, Clone)]
pub struct ServerTls {
    certificate: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// The certificates of clients that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients<'a> {
    /// Clients are not asked for certificates.
    Anyone,
    /// Certificates of these authorities (PEM) are verified, and clients may have none.
    Verified(&'a str),
    /// Clients must have certificates of these authorities (PEM).
    Certified(&'a str),
}

/// The certificate for new connections.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl ServerTls {
    /// Returns settings with a certificate. Clients need none.
    ///
    /// # Errors
    /// If the certificate cannot be used.
    pub fn new(certificate: &Certificate) -> Result<Self, CertificateError> {
        Self::with_client_authorities(certificate, None)
    }

    /// Returns settings with a certificate that request client certificates of these authorities (PEM). Clients without
    /// a certificate are accepted, too: the service decides about their permissions. Certificates of other authorities
    /// are refused.
    ///
    /// # Errors
    /// If a certificate cannot be used.
    pub fn with_client_authorities(
        certificate: &Certificate,
        authorities: Option<&str>,
    ) -> Result<Self, CertificateError> {
        Self::for_clients(certificate, authorities.map_or(Clients::Anyone, Clients::Verified))
    }

    /// Returns settings with a certificate, for these clients.
    ///
    /// # Errors
    /// If a certificate cannot be used.
    pub fn for_clients(certificate: &Certificate, clients: Clients<'_>) -> Result<Self, CertificateError> {
        let provider = crypto_provider();
        let current = Arc::new(Current(ArcSwap::new(certificate.certified_key()?)));
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(CertificateError::Use)?;
        let builder = match clients {
            Clients::Anyone => builder.with_no_client_auth(),
            Clients::Verified(authorities) | Clients::Certified(authorities) => {
                let mut roots = RootCertStore::empty();
                for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
                    roots.add(authority.map_err(CertificateError::Read)?).map_err(CertificateError::Use)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier =
                    if matches!(clients, Clients::Verified(_)) { verifier.allow_unauthenticated() } else { verifier };
                builder.with_client_cert_verifier(verifier.build().map_err(CertificateError::Authorities)?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&current) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { certificate: current, config: Arc::new(config) })
    }

    /// Replaces the certificate for new connections; open ones continue.
    ///
    /// # Errors
    /// If the new certificate cannot be used: the old one is kept.
    pub fn replace(&self, certificate: &Certificate) -> Result<(), CertificateError> {
        self.certificate.0.store(certificate.certified_key()?);
        Ok(())
    }

    /// Watches the files of a certificate until the stop: changes apply to new connections. Unusable files, for example
    /// because only one of them was replaced yet, are logged once and change nothing.
    pub async fn follow(&self, chain: PathBuf, key: PathBuf, stop: Stop) {
        let mut known = Certificate::read(&chain, &key).ok();
        let mut is_broken = false;
        loop {
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep(REREAD_INTERVAL) => {}
            }
            let replaced = match Certificate::read(&chain, &key) {
                Ok(read) if known.as_ref() == Some(&read) => {
                    is_broken = false;
                    continue;
                }
                Ok(read) => self.replace(&read).map(|()| read),
                Err(error) => Err(error),
            };
            match replaced {
                Ok(read) => {
                    info!(certificate = %chain.display(), "The certificate was replaced.");
                    (known, is_broken) = (Some(read), false);
                }
                Err(error) if !is_broken => {
                    warn!(certificate = %chain.display(), %error, "The new certificate cannot be used: the old one stays.");
                    is_broken = true;
                }
                Err(_) => {}
            }
        }
    }

    /// Returns the certificate for new connections.
    #[cfg(test)]
    pub(super) fn served(&self) -> CertificateDer<'static> {
        self.certificate.0.load().cert[0].clone()
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}
