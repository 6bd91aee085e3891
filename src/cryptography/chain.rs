//! Chains of certificates: whether authorities vouch for one.

use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::error::CryptoError;
use super::{details, pem};

/// The side of a TLS connection that presents the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A TLS server.
    Server,
    /// A TLS client.
    Client,
}

/// The requirements on a certificate.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// The host name or address that it must be valid for.
    pub name: Option<String>,
    /// The side of a TLS connection that presents the certificate.
    pub peer: Peer,
    /// The moment at which it must be valid.
    pub at: Timestamp,
}

/// Verifies the first certificate of a PEM text. The others in the text and `intermediates` may stand between it and
/// the authorities. As in Go, a certificate that is itself one of the authorities is trusted.
///
/// # Errors
/// The reason why it is not trusted.
pub(crate) fn verify(
    certificate: &[u8],
    intermediates: Option<&[u8]>,
    authorities: &[u8],
    expected: &Expected,
) -> Result<(), CryptoError> {
    let mut chain = pem::certificates(certificate)?;
    let leaf = chain.remove(0);
    chain.extend(intermediates.map(pem::certificates).transpose()?.unwrap_or_default());
    let authorities = pem::certificates(authorities)?;
    let parsed = EndEntityCert::try_from(&leaf)
        .map_err(|error| CryptoError::unreadable(format!("the certificate cannot be read: {error}")));
    if authorities.contains(&leaf) {
        is_valid_now(&leaf, expected.at)?;
        return match (&expected.name, parsed) {
            (None, _) => Ok(()),
            (Some(name), Ok(parsed)) => has_name(&parsed, name),
            // webpki reads no certificates of authorities as those of servers.
            (Some(name), Err(_)) if details::details(certificate)?[0].names.contains(name) => Ok(()),
            (Some(name), Err(_)) => Err(other_name(name)),
        };
    }
    let parsed = parsed?;
    let anchors: Vec<TrustAnchor<'_>> = authorities
        .iter()
        .filter_map(|authority: &CertificateDer<'_>| anchor_from_trusted_cert(authority).ok())
        .collect();
    let seconds = u64::try_from(expected.at.as_second()).unwrap_or_default();
    let usage = match expected.peer {
        Peer::Server => KeyUsage::server_auth(),
        Peer::Client => KeyUsage::client_auth(),
    };
    let provider = crate::http::crypto_provider();
    let algorithms = provider.signature_verification_algorithms.all;
    let moment = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    parsed
        .verify_for_usage(algorithms, &anchors, &chain, moment, usage, None, None)
        .map_err(|error| refused(&error))?;
    expected.name.as_deref().map_or(Ok(()), |name| has_name(&parsed, name))
}

fn is_valid_now(leaf: &CertificateDer<'_>, at: Timestamp) -> Result<(), CryptoError> {
    let details = details::details(leaf)?;
    let [details] = details.as_slice() else { return Err(CryptoError::unreadable("the certificate is broken")) };
    if at < details.not_before {
        return Err(CryptoError::refused(format!("the certificate is not valid before {}", details.not_before)));
    }
    if at > details.not_after {
        return Err(CryptoError::refused(format!("the certificate has expired at {}", details.not_after)));
    }
    Ok(())
}

fn has_name(leaf: &EndEntityCert<'_>, name: &str) -> Result<(), CryptoError> {
    let server = ServerName::try_from(name)
        .map_err(|_| CryptoError::argument(format!("{name:?} is no host name and no IP address")))?;
    leaf.verify_is_valid_for_subject_name(&server).map_err(|_| other_name(name))
}

fn other_name(name: &str) -> CryptoError {
    CryptoError::refused(format!("the certificate is not valid for {name:?}"))
}

fn refused(error: &webpki::Error) -> CryptoError {
    use webpki::Error;
    let day =
        |time: &UnixTime| Timestamp::from_second(i64::try_from(time.as_secs()).unwrap_or_default()).unwrap_or_default();
    CryptoError::refused(match error {
        Error::UnknownIssuer => {
            "no authority that is given has signed the certificate, or one between them is missing".to_owned()
        }
        Error::InvalidSignatureForPublicKey => "a certificate is not signed by the authority that it names".to_owned(),
        Error::CertExpired { not_after, .. } => format!("a certificate has expired at {}", day(not_after)),
        Error::CertNotValidYet { not_before, .. } => format!("a certificate is not valid before {}", day(not_before)),
        Error::CaUsedAsEndEntity => {
            "the certificate is that of an authority, and is none of those that are given".to_owned()
        }
        other => format!("the certificate is not trusted: {other}"),
    })
}
