//! The fields of a client's certificate.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::name::Name;

use crate::kit::hexadecimal;

use super::validity::Validity;

/// The names of attributes in the names of certificates, as in OpenSSL.
const ATTRIBUTES: [(&str, &str); 13] = [
    ("2.5.4.3", "commonName"),
    ("2.5.4.4", "surname"),
    ("2.5.4.5", "serialNumber"),
    ("2.5.4.6", "countryName"),
    ("2.5.4.7", "localityName"),
    ("2.5.4.8", "stateOrProvinceName"),
    ("2.5.4.9", "streetAddress"),
    ("2.5.4.10", "organizationName"),
    ("2.5.4.11", "organizationalUnitName"),
    ("2.5.4.12", "title"),
    ("1.2.840.113549.1.9.1", "emailAddress"),
    ("0.9.2342.19200300.100.1.25", "domainComponent"),
    ("0.9.2342.19200300.100.1.1", "userId"),
];

/// The fields of a client's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The parts of the subject: the name of the attribute, as in OpenSSL, and its value.
    pub subject: Vec<(String, String)>,
    /// The parts of the issuer.
    pub issuer: Vec<(String, String)>,
    /// The version, which is 3 for all certificates of today.
    pub version: u8,
    /// The serial number in hexadecimal capitals.
    pub serial_number: String,
    /// The validity.
    pub validity: Validity,
    /// The alternative names: `DNS`, `IP Address`, `URI` or `email`, and the name.
    pub alternative_names: Vec<(String, String)>,
}

impl PeerCertificate {
    /// Reads a certificate; `None` if it is invalid, which a verified certificate never is.
    pub fn read(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::from_der(certificate).ok()?;
        let fields = certificate.tbs_certificate();
        let names = fields.get_extension::<SubjectAltName>().ok().flatten();
        Some(Self {
            subject: parts(fields.subject()),
            issuer: parts(fields.issuer()),
            version: fields.version() as u8 + 1,
            serial_number: hexadecimal(fields.serial_number().as_bytes()).to_uppercase(),
            validity: Validity::of(fields.validity()),
            alternative_names: names
                .map(|(_, names)| names.0.iter().filter_map(alternative_name).collect())
                .unwrap_or_default(),
        })
    }
}

fn parts(name: &Name) -> Vec<(String, String)> {
    let part = |attribute: &x509_cert::attr::AttributeTypeAndValue| {
        let oid = attribute.oid.to_string();
        let key =
            ATTRIBUTES.iter().find(|(known, _)| *known == oid).map_or(oid.clone(), |(_, name)| (*name).to_owned());
        (key, String::from_utf8_lossy(attribute.value.value()).into_owned())
    };
    name.iter().map(part).collect()
}

fn alternative_name(name: &GeneralName) -> Option<(String, String)> {
    let (kind, name) = match name {
        GeneralName::DnsName(name) => ("DNS", name.to_string()),
        GeneralName::IpAddress(octets) => ("IP Address", address(octets.as_bytes())?.to_string()),
        GeneralName::UniformResourceIdentifier(uri) => ("URI", uri.to_string()),
        GeneralName::Rfc822Name(address) => ("email", address.to_string()),
        _ => return None,
    };
    Some((kind.to_owned(), name))
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets).map(IpAddr::from).ok().or_else(|| <[u8; 16]>::try_from(octets).map(IpAddr::from).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Authority;
    use rustls::pki_types::pem::PemObject as _;

    #[test]
    fn the_fields_of_a_certificate_are_read() {
        let validity = Validity::unlimited();
        let authority = Authority::make("an authority", validity).unwrap();
        let names = ["hook.svc".to_owned(), "10.0.0.1".to_owned(), "::1".to_owned()];
        let issued = authority.issue(&names, validity).unwrap();
        let certificate =
            PeerCertificate::read(&CertificateDer::from_pem_slice(issued.chain.as_bytes()).unwrap()).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(certificate.issuer, [pair("commonName", "an authority")]);
        assert_eq!(certificate.subject.last(), Some(&pair("commonName", "hook.svc")));
        assert_eq!(
            certificate.alternative_names,
            [pair("DNS", "hook.svc"), pair("IP Address", "10.0.0.1"), pair("IP Address", "::1")]
        );
        assert_eq!((certificate.version, certificate.validity), (3, validity));
        assert!(PeerCertificate::read(&CertificateDer::from(b"nonsense".to_vec())).is_none());
    }
}
