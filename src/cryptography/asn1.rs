//! The forms of keys in ASN.1.

use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::Encode as _;
use pkcs8::der::asn1::{AnyRef, BitStringRef, OctetStringRef};
use pkcs8::spki::{AlgorithmIdentifierRef, ObjectIdentifier, SubjectPublicKeyInfoRef};

use super::error::CryptoError;
use super::key_kind::KeyKind;

/// The object identifiers of keys and curves.
pub(super) mod oids {
    use pkcs8::spki::ObjectIdentifier;

    pub(in crate::cryptography) const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
    pub(in crate::cryptography) const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
    pub(in crate::cryptography) const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
    pub(in crate::cryptography) const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
    pub(in crate::cryptography) const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
    pub(in crate::cryptography) const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
}

/// The parameters of an algorithm.
#[derive(Clone, Copy)]
pub(super) enum Curve {
    Null,
    Named(ObjectIdentifier),
}

impl Curve {
    fn parameters(&self) -> AnyRef<'_> {
        match self {
            Self::Null => AnyRef::NULL,
            Self::Named(oid) => oid.into(),
        }
    }
}

/// Returns the private key of an algorithm in PKCS #8.
pub(super) fn wrapped(oid: ObjectIdentifier, curve: Option<Curve>, key: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let broken = |_| CryptoError::unreadable("the private key is broken");
    let parameters = curve.as_ref().map(Curve::parameters);
    let key = OctetStringRef::new(key).map_err(broken)?;
    PrivateKeyInfoRef::new(AlgorithmIdentifierRef { oid, parameters }, key).to_der().map_err(broken)
}

/// Returns the public key of an algorithm in its DER form.
pub(super) fn public(oid: ObjectIdentifier, curve: Option<Curve>, key: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let broken = |_| CryptoError::unreadable("the public key is broken");
    let algorithm = AlgorithmIdentifierRef { oid, parameters: curve.as_ref().map(Curve::parameters) };
    let subject_public_key = BitStringRef::from_bytes(key).map_err(broken)?;
    SubjectPublicKeyInfoRef { algorithm, subject_public_key }.to_der().map_err(broken)
}

/// Returns the kind of a key; `None` if its parts are broken. `what` names the key in messages.
///
/// # Errors
/// If its algorithm or its curve is not supported.
pub(super) fn kind_of(
    what: &str,
    algorithm: &AlgorithmIdentifierRef<'_>,
    modulus_bits: impl FnOnce() -> Option<usize>,
) -> Result<Option<KeyKind>, CryptoError> {
    Ok(match algorithm.oid {
        oids::RSA => modulus_bits().map(KeyKind::Rsa),
        oids::ED25519 => Some(KeyKind::Ed25519),
        oids::EC => match algorithm.parameters_oid() {
            Ok(oids::P256) => Some(KeyKind::P256),
            Ok(oids::P384) => Some(KeyKind::P384),
            Ok(oids::P521) => Some(KeyKind::P521),
            Ok(other) => {
                return Err(CryptoError::unreadable(format!("the curve {other} of the {what} is not supported")));
            }
            Err(_) => None,
        },
        other => return Err(CryptoError::unreadable(format!("{what}s of the algorithm {other} are not supported"))),
    })
}

/// Returns the number of bits of a positive number.
pub(super) fn bits(number: &[u8]) -> usize {
    let number = &number[number.iter().take_while(|byte| **byte == 0).count()..];
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}
