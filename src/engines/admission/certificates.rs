//! The certificates of servers: read from the files of the settings, or made in memory.

use std::net::IpAddr;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use crate::http::{Authority, Certificate, CertificateError, Validity};
use crate::manifest::admission::AdmissionServer;

use super::client_config::accessible;

/// The common name of made authorities.
const AUTHORITY: &str = "kopfd admission webhooks";

/// The validity of made certificates, as in kopf.
pub const VALIDITY: SignedDuration = SignedDuration::from_hours(365 * 24);

/// The certificate of a server, and the authorities that the API server is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The certificate with its key.
    pub certificate: Certificate,
    /// The authorities, as PEM.
    pub authorities: Option<String>,
}

/// Why a server has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateProblem {
    /// One of the two files is missing in the settings.
    #[error("`certfile` and `pkeyfile` belong together: the settings have only one of them")]
    Unpaired,
    /// The key is encrypted.
    #[error("encrypted keys are not supported: decrypt `pkeyfile`, and leave out `password`")]
    Encrypted,
    /// A file cannot be read.
    #[error("cannot read {0}")]
    File(String, #[source] std::io::Error),
    /// The certificate cannot be used or made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
}

impl ServerCertificate {
    /// Returns the certificate of the settings, or makes one for these hosts.
    ///
    /// # Errors
    /// If the files of the settings cannot be used.
    pub fn of_settings(settings: &AdmissionServer, hosts: &[String], now: Timestamp) -> Result<Self, CertificateProblem> {
        let files = &settings.certificate;
        match (&files.certfile, &files.pkeyfile) {
            (Some(chain), Some(key)) => Self::read(settings, Path::new(chain), Path::new(key)),
            (None, None) => Ok(Self::make(hosts, now)?),
            _ => Err(CertificateProblem::Unpaired),
        }
    }

    /// Reads a certificate and its authorities. Without authorities in the settings, the certificate is its own authority.
    fn read(settings: &AdmissionServer, chain: &Path, key: &Path) -> Result<Self, CertificateProblem> {
        if settings.certificate.password.is_some() {
            return Err(CertificateProblem::Encrypted);
        }
        let certificate = Certificate::read(chain, key)?;
        let authorities = match (&settings.certificate.cadata, &settings.certificate.cafile) {
            (Some(data), _) => data.clone(),
            (None, Some(file)) => std::fs::read_to_string(file).map_err(|error| CertificateProblem::File(file.clone(), error))?,
            (None, None) => certificate.chain.clone(),
        };
        Ok(Self { certificate, authorities: Some(authorities) })
    }

    /// Makes an authority, and a certificate for these hosts.
    ///
    /// # Errors
    /// If a host is invalid in a certificate.
    pub fn make(hosts: &[String], now: Timestamp) -> Result<Self, CertificateError> {
        let validity = Validity::starting(now, VALIDITY);
        let authority = Authority::make(AUTHORITY, validity)?;
        Ok(Self { certificate: authority.issue(&names(hosts), validity)?, authorities: Some(authority.pem()) })
    }
}

/// Returns the hosts of a server for its certificate: the one that the API server is told, the bound address, and further names.
pub fn hosts(settings: &AdmissionServer, host: &str) -> Vec<String> {
    let own = [host.to_owned(), accessible(settings.addr.as_deref())];
    let mut hosts: Vec<String> = Vec::new();
    for host in own.into_iter().chain(settings.extra_sans.iter().cloned()) {
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

/// Returns the names of a certificate: a host name first, since it becomes the common name. Nobody connects to unspecified addresses.
fn names(hosts: &[String]) -> Vec<String> {
    let is_usable = |host: &&String| host.parse::<IpAddr>().map_or(true, |address| !address.is_unspecified());
    let (mut names, addresses): (Vec<String>, Vec<String>) =
        hosts.iter().filter(is_usable).cloned().partition(|host| host.parse::<IpAddr>().is_err());
    names.extend(addresses);
    names
}
