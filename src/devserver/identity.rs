//! What clients know a server by: its certificates, and the token of its administrator. Kept beside the objects, it outlives restarts.

use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};

use super::ids::Ids;
use super::private;

/// The file in the directory of the data.
const FILE: &str = "identity.json";

/// The certificates of a server, and a token that it knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The address that the certificate is for, besides the usual names.
    address: IpAddr,
    /// The certificate of the authority, which clients are given.
    authority: String,
    certificate: String,
    key: String,
    /// The token of the administrator.
    pub token: String,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificates cannot be made.
    #[error("cannot make the certificates")]
    Make(#[source] rcgen::Error),
    /// The certificates are not accepted.
    #[error("cannot use the certificates")]
    Use(#[source] rustls::Error),
    /// The kept certificates are no certificates.
    #[error("cannot read the kept certificates")]
    Read(#[source] rustls::pki_types::pem::Error),
    /// The file cannot be read or written.
    #[error("cannot keep the certificates in {0}")]
    File(String, #[source] std::io::Error),
    /// The file holds something else.
    #[error("{0} is damaged")]
    Damaged(String, #[source] serde_json::Error),
}

impl Identity {
    /// Makes a new one.
    ///
    /// # Errors
    /// If certificates cannot be made.
    pub fn new(address: IpAddr) -> Result<Self, Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "kopfd apiserver");
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().map_err(Error::Make)?;
        let authority = CertifiedIssuer::self_signed(params, key).map_err(Error::Make)?;

        let names = ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let mut names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        names.push(address.to_string());
        let key = KeyPair::generate().map_err(Error::Make)?;
        let mut params = CertificateParams::new(names).map_err(Error::Make)?;
        params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let certificate = params.signed_by(&key, &authority).map_err(Error::Make)?;
        Ok(Self {
            address,
            authority: authority.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            token: Ids::random().uid(),
        })
    }

    /// Returns the one that is kept in a directory, or makes one and keeps it there, readable by its owner only.
    ///
    /// # Errors
    /// If it cannot be read, made, or kept.
    pub fn kept(directory: &Path, address: IpAddr) -> Result<Self, Error> {
        let path = directory.join(FILE);
        let shown = path.display().to_string();
        match std::fs::read(&path) {
            Ok(text) => {
                let kept: Self = serde_json::from_slice(&text).map_err(|error| Error::Damaged(shown.clone(), error))?;
                if kept.address == address {
                    return Ok(kept);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::File(shown, error)),
        }
        let made = Self::new(address)?;
        made.keep(directory, &path).map_err(|error| Error::File(shown, error))?;
        Ok(made)
    }

    /// Half a file is never there: it is written beside, and moved into place.
    fn keep(&self, directory: &Path, path: &Path) -> std::io::Result<()> {
        private::make_directory(directory)?;
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    }

    /// Returns the certificate of the authority, as text.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the set-up of a server with these certificates.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn server_config(&self) -> Result<rustls::ServerConfig, Error> {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(Error::Read)?;
        let certificate = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(Error::Read)?;
        let builder = rustls::ServerConfig::builder().with_no_client_auth();
        let mut config = builder.with_single_cert(vec![certificate], key).map_err(Error::Use)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn clients_know_a_server_again_that_keeps_its_objects() {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        let first = Identity::kept(&data, IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        assert_eq!(Identity::kept(&data, IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap(), first);
        let mode = std::fs::metadata(data.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // Another address needs another certificate.
        assert_ne!(Identity::kept(&data, IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))).unwrap(), first);
        std::fs::write(data.join(FILE), "nonsense").unwrap();
        assert!(matches!(Identity::kept(&data, IpAddr::V4(Ipv4Addr::LOCALHOST)), Err(Error::Damaged(..))));
    }
}
