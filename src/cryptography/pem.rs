//! PEM: the text form of keys and certificates.

use pkcs8::der::pem::{LineEnding, encode_string};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{PemObject as _, SectionKind};

use super::error::CryptoError;

/// The beginning of each PEM section.
const BEGIN: &[u8] = b"-----BEGIN ";

/// The beginning of a private key in OpenSSH's form.
const OPENSSH: &[u8] = b"-----BEGIN OPENSSH PRIVATE KEY-----";

/// Tells whether the bytes have a private key in OpenSSH's form.
pub(super) fn is_openssh_private_key(bytes: &[u8]) -> bool {
    contains(bytes, OPENSSH)
}

/// Tells whether the bytes have a PEM section.
pub(super) fn is_pem(bytes: &[u8]) -> bool {
    contains(bytes, BEGIN)
}

pub(super) fn contains(bytes: &[u8], searched: &[u8]) -> bool {
    memchr::memmem::find(bytes, searched).is_some()
}

/// Returns the content of the first section of one of the kinds.
///
/// # Errors
/// If the text is broken, or has none.
pub(super) fn first(bytes: &[u8], kinds: &[SectionKind], what: &str) -> Result<(SectionKind, Vec<u8>), CryptoError> {
    let mut rest = bytes;
    loop {
        match rustls::pki_types::pem::from_buf(&mut rest) {
            Ok(Some((kind, content))) if kinds.contains(&kind) => return Ok((kind, content)),
            Ok(Some(_)) => {}
            Ok(None) => return Err(CryptoError::unreadable(format!("there is no {what} in PEM"))),
            Err(_) => return Err(CryptoError::unreadable(format!("the PEM of the {what} is broken"))),
        }
    }
}

/// Returns all certificates of a PEM text; a certificate in DER is one.
///
/// # Errors
/// If the text is broken, or has none.
pub(super) fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, CryptoError> {
    if !is_pem(bytes) && bytes.first() == Some(&0x30) {
        return Ok(vec![CertificateDer::from(bytes.to_vec())]);
    }
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    let all = all.map_err(|_| CryptoError::unreadable("the PEM of the certificate is broken"))?;
    if all.is_empty() { Err(CryptoError::unreadable("there is no certificate in PEM")) } else { Ok(all) }
}

/// Returns bytes as PEM.
pub(super) fn encode(label: &str, content: &[u8]) -> Vec<u8> {
    encode_string(label, LineEnding::LF, content).expect("labels are valid").into_bytes()
}
