//! The certificate that a server presents, its authorities, and the stages of a replacement.

use std::net::IpAddr;
use std::path::Path;

use crate::cluster;
use crate::http::{Certificate, CertificateError};
use crate::manifest::admission::AdmissionServer;

use crate::engines::admission::client_config::accessible;

/// The certificate of a server, and the authorities for the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate {
    /// The certificate with its key.
    pub certificate: Certificate,
    /// The authorities, as PEM.
    pub authorities: Option<String>,
}

/// The reason why a server has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateProblem {
    /// One of the two files is missing in the settings.
    #[error("`certfile` and `pkeyfile` belong together: the settings have only one of them")]
    Unpaired,
    /// A file cannot be read.
    #[error("cannot read {0}")]
    File(String, #[source] std::io::Error),
    /// The certificate cannot be used or made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The Secret may not be used.
    #[error(
        "no permission to {verb} the Secret {namespace}/{name}: the verbs get, create and update are needed for it"
    )]
    Forbidden {
        /// The verb of the refused request.
        verb: &'static str,
        /// The namespace of the Secret.
        namespace: String,
        /// Its name.
        name: String,
        /// The answer.
        #[source]
        source: cluster::Error,
    },
    /// The Secret cannot be read or written.
    #[error("failed to {verb} the Secret {namespace}/{name}")]
    Secret {
        /// The verb of the failed request.
        verb: &'static str,
        /// The namespace of the Secret.
        namespace: String,
        /// Its name.
        name: String,
        /// The cause.
        #[source]
        source: cluster::Error,
    },
    /// Other clients write the Secret all the time.
    #[error("the Secret {namespace}/{name} is written by other clients all the time")]
    Contended {
        /// The namespace of the Secret.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl ServerCertificate {
    /// Reads a certificate and its authorities. Without authorities in the settings, the certificate is its own
    /// authority.
    ///
    /// # Errors
    /// If a file cannot be read or used.
    pub(super) fn read(settings: &AdmissionServer, chain: &Path, key: &Path) -> Result<Self, CertificateProblem> {
        let certificate = Certificate::read_encrypted(chain, key, settings.certificate.password.as_deref())?;
        let authorities = match (&settings.certificate.cadata, &settings.certificate.cafile) {
            (Some(data), _) => data.clone(),
            (None, Some(file)) => {
                std::fs::read_to_string(file).map_err(|error| CertificateProblem::File(file.clone(), error))?
            }
            (None, None) => certificate.chain.clone(),
        };
        Ok(Self { certificate, authorities: Some(authorities) })
    }
}

/// The beginning of an item of PEM.
const BEGIN: &str = "-----BEGIN ";

/// Returns the items of a PEM text, without the text around them.
pub(super) fn items(text: &str) -> Vec<String> {
    let item = |rest: &str| {
        let end = rest.find("-----END ").and_then(|end| Some(end + rest[end..].find('\n')?)).unwrap_or(rest.len());
        format!("{BEGIN}{}\n", rest[..end].trim_end())
    };
    text.split(BEGIN).skip(1).map(item).collect()
}

/// Returns the stages of the replacement of a certificate. First the API server gets the new authorities besides the
/// old ones, then the server presents the new certificate, and then the old authorities are removed.
pub(super) fn stages(old: &ServerCertificate, new: ServerCertificate) -> Vec<ServerCertificate> {
    let (Some(before), Some(after)) = (&old.authorities, &new.authorities) else { return vec![new] };
    let after = items(after);
    let kept: Vec<String> = items(before).into_iter().filter(|authority| !after.contains(authority)).collect();
    if kept.is_empty() || old.certificate == new.certificate {
        return vec![new];
    }
    let both = Some(after.into_iter().chain(kept).collect::<String>());
    let announced = ServerCertificate { certificate: old.certificate.clone(), authorities: both.clone() };
    let replaced = ServerCertificate { certificate: new.certificate.clone(), authorities: both };
    vec![announced, replaced, new]
}

/// Returns the hosts of a server for its certificate: the one for the API server, the bound address, and further names.
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

/// Returns the names of a certificate: a host name first, since it becomes the common name. No client connects to
/// unspecified addresses.
pub fn names(hosts: &[String]) -> Vec<String> {
    let is_usable = |host: &&String| host.parse::<IpAddr>().map_or(true, |address| !address.is_unspecified());
    let (mut names, addresses): (Vec<String>, Vec<String>) =
        hosts.iter().filter(is_usable).cloned().partition(|host| host.parse::<IpAddr>().is_err());
    names.extend(addresses);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(name: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
    }

    fn served(key: &str, authorities: &[&str]) -> ServerCertificate {
        let certificate = Certificate { chain: key.to_owned(), key: key.to_owned() };
        ServerCertificate { certificate, authorities: Some(authorities.iter().map(|name| authority(name)).collect()) }
    }

    #[test]
    fn a_new_authority_is_told_before_its_certificate_is_served_and_the_old_one_forgotten_after_that() {
        let (old, new) = (served("1", &["a"]), served("2", &["b"]));
        assert_eq!(stages(&old, new.clone()), [served("1", &["b", "a"]), served("2", &["b", "a"]), new]);
    }

    #[test]
    fn a_certificate_of_known_authorities_is_replaced_at_once() {
        let old = served("1", &["a"]);
        for new in [served("2", &["a"]), served("2", &["b", "a"]), served("1", &["b", "a"])] {
            assert_eq!(stages(&old, new.clone()), [new]);
        }
        let dropped = served("1", &["a"]);
        assert_eq!(stages(&served("1", &["a", "expired"]), dropped.clone()), [dropped]);
    }

    #[test]
    fn items_of_a_text_are_separated_from_what_is_around_them() {
        let text = format!("a comment\n{}\n# another\n{}", authority("A"), authority("B").trim_end());
        assert_eq!(items(&text), [authority("A"), authority("B")]);
        assert_eq!(items("nothing"), [""; 0]);
    }

    #[test]
    fn names_are_those_of_the_server_and_a_host_name_comes_first() {
        let settings = |addr: Option<&str>, sans: &[&str]| {
            let manifest = serde_json::json!({"kind": "server", "addr": addr, "extraSans": sans});
            let tree = serde_json::json!({"admission": {"server": manifest}});
            crate::manifest::settings_tree::from_value(&tree).unwrap().admission.server.unwrap()
        };
        let named = |addr, host: &str, sans: &[&str]| names(&hosts(&settings(addr, sans), host));
        assert_eq!(named(None, "host.k3d.internal", &[]), ["host.k3d.internal", "localhost"]);
        assert_eq!(named(Some("0.0.0.0"), "127.0.0.1", &["a.b", "127.0.0.1"]), ["a.b", "127.0.0.1"]);
        assert_eq!(named(Some("::"), "10.0.0.7", &["::"]), ["10.0.0.7", "::1"]);
    }
}
