//! The certificate that a server presents, without verification: it is used to recognise the server, and nothing is
//! sent to it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::peer_certificate::PeerCertificate;
use super::provider::crypto_provider;

/// Returns the fields of the certificate that a server presents.
///
/// # Errors
/// If there is no TLS server, or it does not answer within the time limit.
pub async fn presented_certificate(host: &str, port: u16, limit: Duration) -> io::Result<PeerCertificate> {
    let provider = crypto_provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
    let builder =
        builder.with_safe_default_protocol_versions().expect("the provider supports the default versions of TLS");
    let verifier = Arc::new(Anyone(provider));
    let config = builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
    let host = host.trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let handshake = async {
        let stream = TcpStream::connect((host, port)).await?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let fields = chain.first().and_then(PeerCertificate::read);
        fields.ok_or_else(|| io::Error::other("the server has no certificate that can be read"))
    };
    timeout(limit, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Accepts the certificate of anyone.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
