//! Subjects of certificates, and the names that they are valid for.

use std::net::IpAddr;

use rcgen::{DistinguishedName, DnType, SanType};

use super::error::CryptoError;

/// The attributes of subjects, with the names of RFC 4514.
const ATTRIBUTES: [(&str, DnType); 6] = [
    ("CN", DnType::CommonName),
    ("O", DnType::OrganizationName),
    ("OU", DnType::OrganizationalUnitName),
    ("C", DnType::CountryName),
    ("ST", DnType::StateOrProvinceName),
    ("L", DnType::LocalityName),
];

/// Returns the subject with some attributes.
///
/// # Errors
/// If an attribute is unknown or occurs twice.
pub(super) fn subject(attributes: &[(String, String)]) -> Result<DistinguishedName, CryptoError> {
    let mut subject = DistinguishedName::new();
    for (name, value) in attributes {
        let known = ATTRIBUTES.iter().find(|(known, _)| known == name);
        let Some((_, kind)) = known else {
            let known = ATTRIBUTES.map(|(known, _)| known).join(", ");
            return Err(CryptoError::argument(format!("a subject has no attribute {name:?}: there are {known}")));
        };
        subject.push(kind.clone(), value.as_str());
    }
    Ok(subject)
}

/// Returns a name: an IP address, a URI, an e-mail address, or else a host name.
///
/// # Errors
/// If it has signs that such names cannot have.
pub(super) fn alternative_name(name: &str) -> Result<SanType, CryptoError> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(SanType::IpAddress(address));
    }
    let wrong = |_| CryptoError::argument(format!("{name:?} is no name of a certificate: it must be ASCII"));
    let text = name.try_into().map_err(wrong)?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(CryptoError::argument(format!("{name:?} is no name of a certificate")));
    }
    Ok(if name.contains("://") {
        SanType::URI(text)
    } else if name.contains('@') {
        SanType::Rfc822Name(text)
    } else {
        SanType::DnsName(text)
    })
}
