//! Verification of servers by configured authorities, with the rules of Go's clients.
//!
//! Go accepts a server certificate that is itself one of the configured authorities, even if it may sign others. kopf's
//! webhook servers and the API servers of small clusters have such certificates; webpki alone refuses them
//! (`CaUsedAsEndEntity`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tracing::warn;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::ExtendedKeyUsage;

use super::provider::crypto_provider;

/// Interval of rereading a file of authorities: about as often as kubelets update the volumes of service accounts.
const REREAD_INTERVAL: Duration = Duration::from_mins(1);

/// A certificate with one of these extended key usages, or without any, is valid for a server.
const SERVER_USAGES: [ObjectIdentifier; 2] =
    [ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"), ObjectIdentifier::new_unwrap("2.5.29.37.0")];

/// The trusted authorities of a client, as the verifier of its TLS connections.
#[derive(Debug)]
pub struct Trust {
    authorities: ArcSwap<Authorities>,
    /// The file of the authorities. It may change while the process runs.
    file: Option<PathBuf>,
    provider: Arc<CryptoProvider>,
}

#[derive(Debug)]
struct Authorities {
    /// Verifies certificates signed by an authority. `None` without authorities: then nothing is trusted.
    signed: Option<Arc<WebPkiServerVerifier>>,
    certificates: Vec<CertificateDer<'static>>,
    read_at: UnixTime,
}

impl Authorities {
    /// Skips certificates that webpki does not support, as clients generally do with large bundles.
    fn new(certificates: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok();
        Self { signed, certificates, read_at: UnixTime::now() }
    }
}

impl Trust {
    /// Trusts these authorities.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let provider = crypto_provider();
        Self {
            authorities: ArcSwap::from_pointee(Authorities::new(certificates, Arc::clone(&provider))),
            file: None,
            provider,
        }
    }

    /// Trusts the authorities of a PEM text; other sections in it are skipped.
    pub fn of_pem(text: &[u8]) -> Self {
        Self::new(CertificateDer::pem_slice_iter(text).filter_map(Result::ok).collect())
    }

    /// Trusts the authorities of a PEM file, which is reread periodically.
    ///
    /// # Errors
    /// If it cannot be read now. Later, the last readable content is used.
    pub fn of_file(path: &Path) -> Result<Self, rustls::pki_types::pem::Error> {
        Ok(Self { file: Some(path.to_owned()), ..Self::new(read(path)?) })
    }

    /// Tells whether there are no authorities.
    pub fn is_empty(&self) -> bool {
        self.authorities.load().signed.is_none()
    }

    /// Returns the TLS settings of a client without a certificate of its own.
    pub fn client_config(self) -> ClientConfig {
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder =
            builder.with_safe_default_protocol_versions().expect("the provider supports the default versions of TLS");
        builder.dangerous().with_custom_certificate_verifier(Arc::new(self)).with_no_client_auth()
    }

    fn current(&self, now: UnixTime) -> Arc<Authorities> {
        let known = self.authorities.load_full();
        let Some(file) = &self.file else { return known };
        if now.as_secs() < known.read_at.as_secs() + REREAD_INTERVAL.as_secs() {
            return known;
        }
        let certificates = read(file).unwrap_or_else(|error| {
            warn!(file = %file.display(), %error, "The file of authorities cannot be read again: its last content counts.");
            known.certificates.clone()
        });
        let mut authorities = Authorities::new(certificates, Arc::clone(&self.provider));
        authorities.read_at = now;
        let authorities = Arc::new(authorities);
        self.authorities.store(Arc::clone(&authorities));
        authorities
    }
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    let certificates = CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>()?;
    // A file that is being written may be empty briefly.
    if certificates.is_empty() { Err(rustls::pki_types::pem::Error::NoItemsFound) } else { Ok(certificates) }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let authorities = self.current(now);
        if authorities.certificates.iter().any(|authority| authority == end_entity) {
            verify_authority_as_server(end_entity, server_name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let signed = authorities.signed.as_ref().ok_or(CertificateError::UnknownIssuer)?;
        signed.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Runs Go's checks of a server certificate that is itself an authority: everything except signatures, since there is
/// no chain.
fn verify_authority_as_server(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), Error> {
    // Refuses unknown critical extensions.
    let parsed = ParsedCertificate::try_from(certificate)?;
    let fields = Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let validity = fields.tbs_certificate().validity();
    let not_before = UnixTime::since_unix_epoch(validity.not_before.to_unix_duration());
    let not_after = UnixTime::since_unix_epoch(validity.not_after.to_unix_duration());
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    let usages =
        fields.tbs_certificate().get_extension::<ExtendedKeyUsage>().map_err(|_| CertificateError::BadEncoding)?;
    if usages.is_some_and(|(_, usages)| !usages.0.iter().any(|usage| SERVER_USAGES.contains(usage))) {
        return Err(CertificateError::InvalidPurpose.into());
    }
    verify_server_name(&parsed, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};

    /// Self-signed, made by kopf 1.44.6 for `localhost`, `127.0.0.1` and `host.docker.internal`.
    const KOPF: &[u8] = include_bytes!("../../tests/certificates/kopf.crt");
    const IN_2027: u64 = 1_800_000_000;

    fn verify(trust: &Trust, certificate: &[u8], name: &str, seconds: u64) -> Result<(), Error> {
        let certificate = CertificateDer::from_pem_slice(certificate).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        trust.verify_server_cert(&certificate, &[], &ServerName::try_from(name).unwrap(), &[], now).map(drop)
    }

    fn refusal(trust: &Trust, certificate: &[u8], name: &str, seconds: u64) -> CertificateError {
        match verify(trust, certificate, name, seconds) {
            Err(Error::InvalidCertificate(error)) => error,
            other => panic!("{other:?}"),
        }
    }

    fn authority(usages: &[ExtendedKeyUsagePurpose]) -> (CertificateParams, KeyPair) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = usages.to_vec();
        (params, KeyPair::generate().unwrap())
    }

    #[test]
    fn a_certificate_that_is_an_authority_itself_is_accepted_by_its_names_and_in_its_time() {
        let trust = Trust::of_pem(KOPF);
        for name in ["localhost", "127.0.0.1", "host.docker.internal"] {
            assert_eq!(verify(&trust, KOPF, name, IN_2027), Ok(()), "{name}");
        }
        // Without the rule of Go, it would be refused.
        let authorities = trust.authorities.load();
        let (certificate, now) =
            (CertificateDer::from_pem_slice(KOPF).unwrap(), UnixTime::since_unix_epoch(Duration::from_secs(IN_2027)));
        let name = ServerName::try_from("localhost").unwrap();
        let error =
            authorities.signed.as_ref().unwrap().verify_server_cert(&certificate, &[], &name, &[], now).unwrap_err();
        assert!(error.to_string().contains("CaUsedAsEndEntity"), "{error}");
        assert!(matches!(refusal(&trust, KOPF, "127.0.0.2", IN_2027), CertificateError::NotValidForNameContext { .. }));
        assert!(matches!(
            refusal(&trust, KOPF, "docker.internal", IN_2027),
            CertificateError::NotValidForNameContext { .. }
        ));
        assert!(matches!(
            refusal(&trust, KOPF, "localhost", 1_767_225_599),
            CertificateError::NotValidYetContext { .. }
        ));
        assert!(matches!(refusal(&trust, KOPF, "localhost", 2_524_521_601), CertificateError::ExpiredContext { .. }));
    }

    #[test]
    fn an_authority_that_is_not_configured_is_refused() {
        let (params, key) = authority(&[]);
        let other = params.self_signed(&key).unwrap();
        // The same name and key, but different bytes.
        let again = params.self_signed(&key).unwrap();
        assert_ne!(other.der(), again.der());
        let trust = Trust::of_pem(other.pem().as_bytes());
        assert_eq!(verify(&trust, other.pem().as_bytes(), "localhost", IN_2027), Ok(()));
        assert!(verify(&trust, again.pem().as_bytes(), "localhost", IN_2027).is_err());
        assert_eq!(refusal(&Trust::of_pem(b""), KOPF, "localhost", IN_2027), CertificateError::UnknownIssuer);
        assert!(verify(&Trust::of_pem(KOPF), other.pem().as_bytes(), "localhost", IN_2027).is_err());
    }

    #[test]
    fn an_authority_that_is_for_clients_only_is_refused() {
        for (usages, accepted) in [
            (vec![ExtendedKeyUsagePurpose::ClientAuth], false),
            (vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth], true),
            (vec![ExtendedKeyUsagePurpose::Any], true),
        ] {
            let (params, key) = authority(&usages);
            let made = params.self_signed(&key).unwrap().pem();
            assert_eq!(
                verify(&Trust::of_pem(made.as_bytes()), made.as_bytes(), "localhost", IN_2027).is_ok(),
                accepted,
                "{usages:?}"
            );
        }
    }

    #[test]
    fn a_file_of_authorities_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.crt");
        let (params, key) = authority(&[]);
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap().pem();
        std::fs::write(&file, KOPF).unwrap();
        let trust = Trust::of_file(&file).unwrap();
        let start = UnixTime::now().as_secs();
        std::fs::write(&file, issuer.pem()).unwrap();
        assert_eq!(refusal(&trust, leaf.as_bytes(), "localhost", start), CertificateError::UnknownIssuer);
        assert_eq!(verify(&trust, leaf.as_bytes(), "localhost", start + 61), Ok(()));
        assert!(verify(&trust, KOPF, "localhost", start + 62).is_err());
        // An unreadable file changes nothing.
        std::fs::remove_file(&file).unwrap();
        assert_eq!(verify(&trust, leaf.as_bytes(), "localhost", start + 200), Ok(()));
        assert!(Trust::of_file(&file).is_err());
    }
}
