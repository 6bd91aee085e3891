//! The contents of certificates and requests.

use jiff::Timestamp;
use sha2::Digest as _;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer as _;

use super::error::CryptoError;
use super::key_kind::KeyKind;
use super::pem;
use super::public_key::PublicKey;
use super::usage::Usage;
use crate::kit::hexadecimal;

/// The content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Details {
    /// The subject, in the form of OpenSSL.
    pub subject: String,
    /// The common name of the subject.
    pub common_name: Option<String>,
    /// The subject of the issuer.
    pub issuer: String,
    /// The serial number, in hexadecimal digits.
    pub serial: String,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// Its end.
    pub not_after: Timestamp,
    /// The host names, IP addresses, e-mail addresses and URIs that it is valid for.
    pub names: Vec<String>,
    /// The permitted uses; empty if they are not restricted.
    pub usages: Vec<&'static str>,
    /// Whether it is the certificate of an authority.
    pub is_authority: bool,
    /// SHA-256 of the certificate, in hexadecimal digits.
    pub fingerprint: String,
    /// The kind of its key.
    pub key: String,
    /// The certificate alone in PEM.
    pub pem: Vec<u8>,
}

/// Returns the content of all certificates of a PEM text.
///
/// # Errors
/// If one is broken, or there is none.
pub(crate) fn details(bytes: &[u8]) -> Result<Vec<Details>, CryptoError> {
    pem::certificates(bytes)?.iter().map(|certificate| of(certificate)).collect()
}

fn parsed(der: &[u8]) -> Result<X509Certificate<'_>, CryptoError> {
    let (_, certificate) =
        X509Certificate::from_der(der).map_err(|_| CryptoError::unreadable("the certificate is broken"))?;
    Ok(certificate)
}

fn of(der: &[u8]) -> Result<Details, CryptoError> {
    let certificate = parsed(der)?;
    // A positive number may begin with a zero byte.
    let serial = certificate.tbs_certificate.raw_serial();
    let serial = serial.strip_prefix(&[0]).unwrap_or(serial);
    let moment = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).unwrap_or(Timestamp::MAX);
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(alternative) => {
                names.extend(alternative.general_names.iter().filter_map(shown));
            }
            ParsedExtension::ExtendedKeyUsage(usage) => {
                let flags = [usage.server_auth, usage.client_auth, usage.code_signing, usage.email_protection];
                usages.extend(Usage::ALL.iter().zip(flags).filter(|(_, has)| *has).map(|((name, _), _)| *name));
            }
            _ => {}
        }
    }
    Ok(Details {
        subject: certificate.subject().to_string(),
        common_name: certificate
            .subject()
            .iter_common_name()
            .next()
            .and_then(|name| name.as_str().ok())
            .map(str::to_owned),
        issuer: certificate.issuer().to_string(),
        serial: hexadecimal(serial),
        not_before: moment(certificate.validity().not_before),
        not_after: moment(certificate.validity().not_after),
        names,
        usages,
        is_authority: certificate.is_ca(),
        fingerprint: hexadecimal(&sha2::Sha256::digest(der)),
        key: PublicKey::of_certificate(der).map_or_else(|_| "unknown".to_owned(), |key| key.kind().to_string()),
        pem: pem::encode("CERTIFICATE", der),
    })
}

fn shown(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) | GeneralName::RFC822Name(name) | GeneralName::URI(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
            16 => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::IpAddr::from(bytes).to_string()),
            _ => None,
        },
        _ => None,
    }
}

/// Tells whether the first certificate of a PEM text has this key.
///
/// # Errors
/// If there is no certificate.
pub(crate) fn is_of_key(certificate: &[u8], key: &PublicKey) -> Result<bool, CryptoError> {
    Ok(PublicKey::of_certificate(&pem::certificates(certificate)?[0])? == *key)
}

/// Tells whether a certificate may sign others.
pub(super) fn may_sign(der: &[u8]) -> Result<bool, CryptoError> {
    let certificate = parsed(der)?;
    let usage = certificate.key_usage().ok().flatten();
    Ok(certificate.is_ca() && usage.is_none_or(|usage| usage.value.key_cert_sign()))
}

/// Returns the kind of the key of a request in DER.
pub(super) fn kind_of_request(der: &[u8]) -> Result<KeyKind, CryptoError> {
    let (_, request) = X509CertificationRequest::from_der(der)
        .map_err(|_| CryptoError::unreadable("the request for a certificate is broken"))?;
    Ok(PublicKey::of_spki(request.certification_request_info.subject_pki.raw.to_vec())?.kind())
}
