//! OpenSSH's forms of keys.

use num_bigint::BigUint;
use pkcs8::der::Encode as _;
use pkcs8::der::asn1::{OctetStringRef, UintRef};
use ssh_key::encoding::Decode as _;
use ssh_key::private::{
    EcdsaKeypair, EcdsaPrivateKey, Ed25519Keypair, Ed25519PrivateKey, KeypairData, RsaKeypair, RsaPrivateKey,
};
use ssh_key::public::{EcdsaPublicKey, Ed25519PublicKey, KeyData, RsaPublicKey};
use ssh_key::{LineEnding, Mpint};

use super::asn1::{self, Curve, oids, wrapped};
use super::error::CryptoError;
use super::key_kind::KeyKind;

/// Returns a private key in OpenSSH's form, from its content in PKCS #8 and its public key.
///
/// # Errors
/// If it has none.
pub(super) fn private(kind: KeyKind, content: &[u8], public: &[u8], comment: &str) -> Result<Vec<u8>, CryptoError> {
    let failed = || CryptoError::failed(format!("the key of the kind {kind} has no form of OpenSSH"));
    let data: KeypairData = match kind {
        KeyKind::Ed25519 => {
            // The seed is the content of an octet string.
            let seed: [u8; 32] =
                content.strip_prefix(&[4, 32]).and_then(|seed| seed.try_into().ok()).ok_or_else(failed)?;
            let public = Ed25519PublicKey(public.try_into().map_err(|_| failed())?);
            Ed25519Keypair { public, private: Ed25519PrivateKey::from_bytes(&seed) }.into()
        }
        KeyKind::Rsa(_) => {
            let key = pkcs1::RsaPrivateKey::<UintRef<'_>>::try_from(content).map_err(|_| failed())?;
            let number = |number: UintRef<'_>| Mpint::from_positive_bytes(number.as_bytes());
            let public = RsaPublicKey::new(number(key.public_exponent), number(key.modulus)).map_err(|_| failed())?;
            let private = RsaPrivateKey::new(
                number(key.private_exponent),
                number(key.coefficient),
                number(key.prime1),
                number(key.prime2),
            );
            RsaKeypair::new(public, private.map_err(|_| failed())?).map_err(|_| failed())?.into()
        }
        KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => {
            let sec1 = sec1::EcPrivateKey::try_from(content).map_err(|_| failed())?;
            elliptic(public, sec1.private_key).ok_or_else(failed)?.into()
        }
    };
    let key = ssh_key::PrivateKey::new(data, comment).map_err(|_| failed())?;
    Ok(key.to_openssh(LineEnding::LF).map_err(|_| failed())?.as_bytes().to_vec())
}

fn elliptic(public: &[u8], scalar: &[u8]) -> Option<EcdsaKeypair> {
    fn scalar_of<const SIZE: usize>(scalar: &[u8]) -> Option<EcdsaPrivateKey<SIZE>> {
        let mut field = vec![0; SIZE.checked_sub(scalar.len())?];
        field.extend_from_slice(scalar);
        let mut prefixed = u32::try_from(SIZE).ok()?.to_be_bytes().to_vec();
        prefixed.append(&mut field);
        EcdsaPrivateKey::decode(&mut prefixed.as_slice()).ok()
    }
    Some(match EcdsaPublicKey::from_sec1_bytes(public).ok()? {
        EcdsaPublicKey::NistP256(public) => EcdsaKeypair::NistP256 { public, private: scalar_of(scalar)? },
        EcdsaPublicKey::NistP384(public) => EcdsaKeypair::NistP384 { public, private: scalar_of(scalar)? },
        EcdsaPublicKey::NistP521(public) => EcdsaKeypair::NistP521 { public, private: scalar_of(scalar)? },
    })
}

/// Returns the PKCS #8 of a private key in OpenSSH's form.
///
/// # Errors
/// If it is broken, encrypted, or of another kind.
pub(super) fn read_private(bytes: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let broken = || CryptoError::unreadable("the private key of OpenSSH is broken, or of a kind that is not supported");
    let key = ssh_key::PrivateKey::from_openssh(bytes).map_err(|_| broken())?;
    let der = |key: Result<Vec<u8>, pkcs8::der::Error>| key.map_err(|_| broken());
    match key.key_data() {
        data if data.is_encrypted() => Err(CryptoError::unreadable(
            "the private key of OpenSSH is encrypted: remove its password by `ssh-keygen -p`",
        )),
        KeypairData::Ed25519(pair) => {
            let seed = pair.private.to_bytes();
            wrapped(oids::ED25519, None, &der(OctetStringRef::new(&seed).and_then(|seed| seed.to_der()))?)
        }
        KeypairData::Ecdsa(pair) => {
            let curve = match pair {
                EcdsaKeypair::NistP256 { .. } => oids::P256,
                EcdsaKeypair::NistP384 { .. } => oids::P384,
                EcdsaKeypair::NistP521 { .. } => oids::P521,
            };
            let key = sec1::EcPrivateKey {
                private_key: pair.private_key_bytes(),
                parameters: None,
                public_key: Some(pair.public_key_bytes()),
            };
            wrapped(oids::EC, Some(Curve::Named(curve)), &key.to_der().map_err(|_| broken())?)
        }
        KeypairData::Rsa(pair) => wrapped(oids::RSA, Some(Curve::Null), &pkcs1_of(pair).ok_or_else(broken)?),
        _ => Err(broken()),
    }
}

/// Returns an RSA key in PKCS #1, which has two exponents more than OpenSSH's form.
fn pkcs1_of(pair: &RsaKeypair) -> Option<Vec<u8>> {
    let (public, private) = (pair.public(), pair.private());
    let exponent = |prime: &Mpint| reduced(private.d().as_positive_bytes()?, prime.as_positive_bytes()?);
    let (exponent1, exponent2) = (exponent(private.p())?, exponent(private.q())?);
    let key = pkcs1::RsaPrivateKey {
        modulus: uint(public.n())?,
        public_exponent: uint(public.e())?,
        private_exponent: uint(private.d())?,
        prime1: uint(private.p())?,
        prime2: uint(private.q())?,
        exponent1: UintRef::new(&exponent1).ok()?,
        exponent2: UintRef::new(&exponent2).ok()?,
        coefficient: uint(private.iqmp())?,
        other_prime_infos: None,
    };
    key.to_der().ok()
}

fn uint(number: &Mpint) -> Option<UintRef<'_>> {
    UintRef::new(number.as_positive_bytes()?).ok()
}

/// Returns the exponent modulo a prime less one.
fn reduced(exponent: &[u8], prime: &[u8]) -> Option<Vec<u8>> {
    let one = BigUint::from(1_u8);
    let prime = BigUint::from_bytes_be(prime);
    (prime > one).then(|| (BigUint::from_bytes_be(exponent) % (prime - one)).to_bytes_be())
}

/// Returns a public key as a line of OpenSSH.
///
/// # Errors
/// If it has no such form.
pub(super) fn public(kind: KeyKind, raw: &[u8], comment: &str) -> Result<String, CryptoError> {
    let failed = || CryptoError::failed(format!("the key of the kind {kind} has no form of OpenSSH"));
    let data: KeyData = match kind {
        KeyKind::Ed25519 => Ed25519PublicKey(raw.try_into().map_err(|_| failed())?).into(),
        KeyKind::Rsa(_) => {
            let key = pkcs1::RsaPublicKey::<UintRef<'_>>::try_from(raw).map_err(|_| failed())?;
            let number = |number: UintRef<'_>| Mpint::from_positive_bytes(number.as_bytes());
            RsaPublicKey::new(number(key.public_exponent), number(key.modulus)).map_err(|_| failed())?.into()
        }
        KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => {
            EcdsaPublicKey::from_sec1_bytes(raw).map_err(|_| failed())?.into()
        }
    };
    ssh_key::PublicKey::new(data, comment).to_openssh().map_err(|_| failed())
}

/// Returns the DER form of a public key in a line of OpenSSH.
///
/// # Errors
/// If it is broken, or of another kind.
pub(super) fn read_public(line: &str) -> Result<Vec<u8>, CryptoError> {
    let broken = || CryptoError::unreadable("the public key of OpenSSH is broken, or of a kind that is not supported");
    let key = ssh_key::PublicKey::from_openssh(line.trim()).map_err(|_| broken())?;
    match key.key_data() {
        KeyData::Ed25519(key) => asn1::public(oids::ED25519, None, &key.0),
        KeyData::Ecdsa(key) => {
            let curve = match key {
                EcdsaPublicKey::NistP256(_) => oids::P256,
                EcdsaPublicKey::NistP384(_) => oids::P384,
                EcdsaPublicKey::NistP521(_) => oids::P521,
            };
            asn1::public(oids::EC, Some(Curve::Named(curve)), key.as_sec1_bytes())
        }
        KeyData::Rsa(key) => {
            let key = pkcs1::RsaPublicKey {
                modulus: uint(key.n()).ok_or_else(broken)?,
                public_exponent: uint(key.e()).ok_or_else(broken)?,
            };
            asn1::public(oids::RSA, Some(Curve::Null), &key.to_der().map_err(|_| broken())?)
        }
        _ => Err(broken()),
    }
}
