//! The identity of a server for clients: its certificates, and the token of its administrator. Stored with the objects,
//! it survives restarts.

use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::storage::ids::Ids;
use crate::storage::private_files;
use kopfd_base::http::{Authority, Certificate, CertificateError, ServerTls, Validity};

/// The file in the data directory.
const FILE: &str = "identity.json";

/// The certificates of a server, and its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The address in the certificate, besides the usual names.
    address: IpAddr,
    /// The certificate of the authority, for clients.
    authority: String,
    certificate: String,
    key: String,
    /// The token of the administrator.
    pub token: String,
}

/// Errors of identities.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The certificates cannot be created or used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The file cannot be read or written.
    #[error("cannot keep the certificates in {0}")]
    File(String, #[source] std::io::Error),
    /// The file cannot be parsed.
    #[error("{0} is damaged")]
    Damaged(String, #[source] serde_json::Error),
}

impl Identity {
    /// Creates an identity.
    ///
    /// # Errors
    /// If certificates cannot be created.
    pub fn new(address: IpAddr) -> Result<Self, Error> {
        let authority = Authority::make("kopfd apiserver", Validity::unlimited())?;
        let names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "::1"];
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).chain([address.to_string()]).collect();
        let Certificate { chain, key } = authority.issue(&names, Validity::unlimited())?;
        Ok(Self { address, authority: authority.pem(), certificate: chain, key, token: Ids::random().uid() })
    }

    /// Returns the identity stored in a directory, or creates and stores one, readable by its owner only.
    ///
    /// # Errors
    /// If it cannot be read, created, or stored.
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

    /// Writes the file atomically: to a temporary file that is then renamed.
    fn keep(&self, directory: &Path, path: &Path) -> std::io::Result<()> {
        private_files::make_directory(directory)?;
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

    /// Returns the TLS settings of a server with these certificates.
    ///
    /// # Errors
    /// If they cannot be used.
    pub fn tls(&self) -> Result<ServerTls, Error> {
        Ok(ServerTls::new(&Certificate { chain: self.certificate.clone(), key: self.key.clone() })?)
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
