//! Certificates of servers: given as PEM, or issued by a new authority.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use x509_cert::Certificate as Fields;
use x509_cert::der::Decode as _;

use super::encrypted_key::decrypted;
use super::peer_certificate::PeerCertificate;
use super::provider::crypto_provider;
use super::trust::Trust;
use super::validity::Validity;

/// Errors of certificates.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be created.
    #[error("cannot create the certificate")]
    Make(#[source] rcgen::Error),
    /// The certificate or the key is not PEM.
    #[error("cannot read the certificate or its key")]
    Read(#[source] rustls::pki_types::pem::Error),
    /// The certificate and the key are no pair, or the key is of an unknown type.
    #[error("cannot use the certificate")]
    Use(#[source] rustls::Error),
    /// The certificate is not X.509.
    #[error("cannot read the fields of the certificate")]
    Fields(#[source] x509_cert::der::Error),
    /// It is not the authority that it should be.
    #[error("the certificate is not that of the authority {0:?}")]
    OtherAuthority(String),
    /// The authorities of clients cannot be used.
    #[error("cannot use the authorities of clients")]
    Authorities(#[source] rustls::server::VerifierBuilderError),
    /// The key cannot be decrypted.
    #[error("cannot decrypt the key: {0}")]
    Decrypt(String),
    /// A file cannot be read.
    #[error("cannot read {0}")]
    File(String, #[source] std::io::Error),
}

/// A certificate with its chain and its key, both as PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate with its intermediate ones.
    pub chain: String,
    /// The private key.
    pub key: String,
}

impl Certificate {
    /// Reads a certificate and its key from files.
    ///
    /// # Errors
    /// If they cannot be read, or do not belong together.
    pub fn read(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        Self::read_encrypted(chain, key, None)
    }

    /// Reads a certificate and its key from files. With a password, the key may be encrypted.
    ///
    /// # Errors
    /// If they cannot be read, do not belong together, or the password is wrong.
    pub fn read_encrypted(chain: &Path, key: &Path, password: Option<&str>) -> Result<Self, CertificateError> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| CertificateError::File(path.display().to_string(), error))
        };
        let (chain, key) = (read(chain)?, read(key)?);
        let key = match password {
            Some(password) => decrypted(&key, password).map_err(CertificateError::Decrypt)?,
            None => key,
        };
        let certificate = Self { chain, key };
        certificate.certified_key()?;
        Ok(certificate)
    }

    /// Returns the end of its validity.
    ///
    /// # Errors
    /// If it is not a certificate.
    pub fn not_after(&self) -> Result<Timestamp, CertificateError> {
        Ok(self.validity()?.not_after)
    }

    /// Returns its validity.
    ///
    /// # Errors
    /// If it is not a certificate.
    pub fn validity(&self) -> Result<Validity, CertificateError> {
        let fields = fields(&self.chain)?;
        Ok(Validity::of(fields.tbs_certificate().validity()))
    }

    /// Returns the host names and addresses that it is valid for; none if it is not a certificate.
    pub fn names(&self) -> Vec<String> {
        let first = CertificateDer::from_pem_slice(self.chain.as_bytes()).ok();
        let fields = first.as_ref().and_then(PeerCertificate::read);
        let names = fields.map(|fields| fields.alternative_names).unwrap_or_default();
        names.into_iter().filter(|(kind, _)| kind == "DNS" || kind == "IP Address").map(|(_, name)| name).collect()
    }

    /// Tells whether a client of these authorities (PEM) trusts it for a host name or an address at a moment.
    pub fn is_trusted(&self, authorities: &str, name: &str, now: Timestamp) -> bool {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.chain.as_bytes()).collect();
        let (Ok(chain), Ok(name)) = (chain, ServerName::try_from(name)) else { return false };
        let Some((leaf, intermediates)) = chain.split_first() else { return false };
        let moment =
            UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default()));
        Trust::of_pem(authorities.as_bytes()).verify_server_cert(leaf, intermediates, &name, &[], moment).is_ok()
    }

    /// Tells whether its key is that of its first certificate.
    pub fn is_pair(&self) -> bool {
        self.certified_key().is_ok()
    }

    /// Returns the certificate and key for rustls.
    pub(super) fn certified_key(&self) -> Result<Arc<CertifiedKey>, CertificateError> {
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(CertificateError::Read)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(CertificateError::Read)?;
        let certified = CertifiedKey::from_der(chain, key, &crypto_provider()).map_err(CertificateError::Use)?;
        Ok(Arc::new(certified))
    }
}

fn fields(pem: &str) -> Result<Fields, CertificateError> {
    let first = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(CertificateError::Read)?;
    Fields::from_der(&first).map_err(CertificateError::Fields)
}

/// An authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    /// Creates an authority with this common name.
    ///
    /// # Errors
    /// If there is no randomness for its key.
    pub fn make(name: &str, validity: Validity) -> Result<Self, CertificateError> {
        let params = Self::params(name, validity);
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let pem = params.self_signed(&key).map_err(CertificateError::Make)?.pem();
        Ok(Self { issuer: Issuer::new(params, key), pem })
    }

    /// Returns an authority of this name that was made earlier, from its certificate and its key.
    ///
    /// # Errors
    /// If they cannot be read, do not belong together, or the authority has another name.
    pub fn read(name: &str, certificate: &Certificate) -> Result<Self, CertificateError> {
        certificate.certified_key()?;
        let fields = fields(&certificate.chain)?;
        if fields.tbs_certificate().subject().to_string() != format!("CN={name}") {
            return Err(CertificateError::OtherAuthority(name.to_owned()));
        }
        let key = KeyPair::from_pem(&certificate.key).map_err(CertificateError::Make)?;
        let issuer = Issuer::new(Self::params(name, certificate.validity()?), key);
        Ok(Self { issuer, pem: certificate.chain.clone() })
    }

    fn params(name: &str, validity: Validity) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        validity.set(&mut params);
        params
    }

    /// Returns its own certificate as PEM, for clients.
    pub fn pem(&self) -> String {
        self.pem.clone()
    }

    /// Returns its own certificate with its key, to store them.
    pub fn to_certificate(&self) -> Certificate {
        Certificate { chain: self.pem.clone(), key: self.issuer.key().serialize_pem() }
    }

    /// Issues a server certificate with these host names and addresses; the first is its common name.
    ///
    /// # Errors
    /// If a name is invalid in a certificate.
    pub fn issue(&self, names: &[String], validity: Validity) -> Result<Certificate, CertificateError> {
        let mut params = CertificateParams::new(names).map_err(CertificateError::Make)?;
        params.distinguished_name.push(DnType::CommonName, names.first().map_or("localhost", String::as_str));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params, validity)
    }

    /// Issues a client certificate with this common name.
    ///
    /// # Errors
    /// If there is no randomness for its key.
    pub fn issue_for_client(&self, name: &str, validity: Validity) -> Result<Certificate, CertificateError> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params, validity)
    }

    fn sign(&self, mut params: CertificateParams, validity: Validity) -> Result<Certificate, CertificateError> {
        validity.set(&mut params);
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(CertificateError::Make)?;
        Ok(Certificate { chain: certificate.pem(), key: key.serialize_pem() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;

    #[test]
    fn an_issued_certificate_is_trusted_for_its_names_while_it_is_valid() {
        let now: Timestamp = "2027-05-01T12:00:00Z".parse().unwrap();
        let authority = Authority::make("an authority", Validity::unlimited()).unwrap();
        let names = ["hook.default.svc".to_owned(), "10.0.0.1".to_owned()];
        let issued = authority.issue(&names, Validity::starting(now, SignedDuration::from_hours(24))).unwrap();
        assert_eq!(issued.not_after().unwrap().to_string(), "2027-05-02T12:00:00Z");
        let trust = Trust::of_pem(authority.pem().as_bytes());
        let leaf = CertificateDer::from_pem_slice(issued.chain.as_bytes()).unwrap();
        let is_trusted = |name: &'static str, moment: &str| {
            let moment: Timestamp = moment.parse().unwrap();
            let moment = UnixTime::since_unix_epoch(Duration::from_secs(moment.as_second() as u64));
            trust.verify_server_cert(&leaf, &[], &ServerName::try_from(name).unwrap(), &[], moment).is_ok()
        };
        assert!(is_trusted("hook.default.svc", "2027-05-01T11:56:00Z"));
        assert!(is_trusted("10.0.0.1", "2027-05-02T11:59:59Z"));
        assert!(!is_trusted("other.default.svc", "2027-05-01T12:00:00Z"));
        assert!(!is_trusted("hook.default.svc", "2027-05-02T12:00:01Z"));
    }

    #[test]
    fn a_stored_authority_issues_as_the_original_one() {
        let now: Timestamp = "2027-05-01T12:00:00Z".parse().unwrap();
        let original =
            Authority::make("an authority", Validity::starting(now, SignedDuration::from_hours(48))).unwrap();
        let stored = original.to_certificate();
        let authority = Authority::read("an authority", &stored).unwrap();
        assert_eq!((authority.pem(), authority.to_certificate()), (original.pem(), stored.clone()));
        let issued = authority.issue(&["a.b".to_owned()], Validity::unlimited()).unwrap();
        let trust = Trust::of_pem(original.pem().as_bytes());
        let leaf = CertificateDer::from_pem_slice(issued.chain.as_bytes()).unwrap();
        let moment = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second() as u64));
        assert!(trust.verify_server_cert(&leaf, &[], &ServerName::try_from("a.b").unwrap(), &[], moment).is_ok());
        assert!(matches!(Authority::read("another", &stored), Err(CertificateError::OtherAuthority(_))));
        let mixed = Certificate { key: issued.key, ..stored };
        assert!(!mixed.is_pair() && Authority::read("an authority", &mixed).is_err());
    }

    #[test]
    fn a_key_of_another_certificate_is_refused() {
        let authority = Authority::make("an authority", Validity::unlimited()).unwrap();
        let issue = || authority.issue(&["localhost".to_owned()], Validity::unlimited()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let one = issue();
        std::fs::write(&chain, &one.chain).unwrap();
        std::fs::write(&key, &one.key).unwrap();
        assert_eq!(Certificate::read(&chain, &key).unwrap(), one);
        std::fs::write(&key, issue().key).unwrap();
        assert!(matches!(Certificate::read(&chain, &key), Err(CertificateError::Use(_))));
        std::fs::write(&key, "nonsense").unwrap();
        assert!(matches!(Certificate::read(&chain, &key), Err(CertificateError::Read(_))));
    }
}
