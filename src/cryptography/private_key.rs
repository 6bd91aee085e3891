//! Private keys: made, read, converted, and used for signatures.

use pkcs8::PrivateKeyInfoRef;
use pkcs8::der::Encode as _;
use pkcs8::der::asn1::UintRef;
use pkcs8::spki::ObjectIdentifier;
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::SectionKind;

use super::asn1::{self, Curve, bits, oids, wrapped};
use super::error::CryptoError;
use super::key_kind::KeyKind;
use super::public_key::PublicKey;
use super::rsa_hash::RsaHash;
use super::{openssh, pem};
use crate::http::decrypted_key;

/// The forms of private keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PrivateFormat {
    /// PKCS #8 in PEM: `BEGIN PRIVATE KEY`.
    Pkcs8,
    /// PKCS #1 or SEC 1 in PEM: `BEGIN RSA PRIVATE KEY`, `BEGIN EC PRIVATE KEY`.
    Traditional,
    /// OpenSSH's own: `BEGIN OPENSSH PRIVATE KEY`.
    Openssh,
    /// PKCS #8 in DER.
    Der,
}

/// A private key. Debugging shows its kind only.
#[derive(Clone)]
pub(crate) struct PrivateKey {
    kind: KeyKind,
    pkcs8: Vec<u8>,
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({})", self.kind)
    }
}

impl PrivateKey {
    /// Makes a key with the generator of the operating system. An RSA key of 4096 bits takes a second.
    ///
    /// # Errors
    /// If the build cannot make keys of this kind.
    pub(crate) fn generate(kind: KeyKind) -> Result<Self, CryptoError> {
        let pair = match kind {
            KeyKind::P256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            KeyKind::P384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            KeyKind::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
            KeyKind::P521 | KeyKind::Rsa(_) => generate_with_aws_lc(kind)?,
        };
        let pair = pair.map_err(|error| CryptoError::failed(format!("no key can be made: {error}")))?;
        Self::of_pkcs8(pair.serialize_der())
    }

    /// Reads a key: PEM in any usual form, or its content in DER. It may be encrypted as OpenSSL does it (PKCS #8),
    /// with a password.
    ///
    /// # Errors
    /// If it is no key, or one of an unknown kind.
    pub(crate) fn read(bytes: &[u8], password: Option<&str>) -> Result<Self, CryptoError> {
        if pem::is_openssh_private_key(bytes) {
            return Self::of_pkcs8(openssh::read_private(bytes)?);
        }
        if !pem::is_pem(bytes) {
            return Self::of_der(bytes);
        }
        if pem::contains(bytes, b"ENCRYPTED") {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| CryptoError::unreadable("the PEM of the private key is broken"))?;
            let Some(password) = password else {
                return Err(CryptoError::argument("the private key is encrypted: a password is needed"));
            };
            let plain = decrypted_key(text, password)
                .map_err(|reason| CryptoError::refused(format!("the private key: {reason}")))?;
            return Self::read(plain.as_bytes(), None);
        }
        let kinds = [SectionKind::PrivateKey, SectionKind::RsaPrivateKey, SectionKind::EcPrivateKey];
        let (section, content) = pem::first(bytes, &kinds, "private key")?;
        match section {
            SectionKind::RsaPrivateKey => Self::of_pkcs1(&content),
            SectionKind::EcPrivateKey => Self::of_sec1(&content),
            _ => Self::of_pkcs8(content),
        }
    }

    /// DER has no label: OpenSSL writes some keys in their traditional form.
    fn of_der(der: &[u8]) -> Result<Self, CryptoError> {
        if pkcs1::RsaPrivateKey::<UintRef<'_>>::try_from(der).is_ok() {
            Self::of_pkcs1(der)
        } else if sec1::EcPrivateKey::try_from(der).is_ok() {
            Self::of_sec1(der)
        } else {
            Self::of_pkcs8(der.to_vec())
        }
    }

    fn of_pkcs1(content: &[u8]) -> Result<Self, CryptoError> {
        Self::of_pkcs8(wrapped(oids::RSA, Some(Curve::Null), content)?)
    }

    fn of_sec1(content: &[u8]) -> Result<Self, CryptoError> {
        Self::of_pkcs8(wrapped(oids::EC, Some(Curve::Named(curve_of_sec1(content)?)), content)?)
    }

    /// Returns a key in PKCS #8.
    pub(super) fn of_pkcs8(pkcs8: Vec<u8>) -> Result<Self, CryptoError> {
        let unreadable = || CryptoError::unreadable("it is not a private key in PEM or DER");
        let info = PrivateKeyInfoRef::try_from(pkcs8.as_slice()).map_err(|_| unreadable())?;
        let modulus_bits = || {
            let key = pkcs1::RsaPrivateKey::<UintRef<'_>>::try_from(info.private_key.as_bytes()).ok()?;
            Some(bits(key.modulus.as_bytes()))
        };
        let kind = asn1::kind_of("private key", &info.algorithm, modulus_bits)?.ok_or_else(unreadable)?;
        // OpenSSL reads no keys of the second version, which have the public key beside the private one.
        let pkcs8 = match (info.public_key, kind) {
            (Some(_), KeyKind::Ed25519) => wrapped(oids::ED25519, None, info.private_key.as_bytes())?,
            _ => pkcs8,
        };
        let key = Self { kind, pkcs8 };
        // It finds keys that are inconsistent.
        key.pair(RsaHash::Sha256)?;
        Ok(key)
    }

    /// Returns its kind.
    pub(crate) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns it in a form.
    ///
    /// # Errors
    /// If its kind has no such form.
    pub(crate) fn to_format(&self, format: PrivateFormat, comment: &str) -> Result<Vec<u8>, CryptoError> {
        Ok(match format {
            PrivateFormat::Pkcs8 => pem::encode("PRIVATE KEY", &self.pkcs8),
            PrivateFormat::Der => self.pkcs8.clone(),
            PrivateFormat::Openssh => {
                openssh::private(self.kind, self.info().private_key.as_bytes(), self.public().raw(), comment)?
            }
            PrivateFormat::Traditional => match self.kind {
                KeyKind::Rsa(_) => pem::encode("RSA PRIVATE KEY", self.info().private_key.as_bytes()),
                KeyKind::Ed25519 => {
                    return Err(CryptoError::argument("keys of the kind ed25519 have no traditional form"));
                }
                _ => pem::encode("EC PRIVATE KEY", &self.sec1()?),
            },
        })
    }

    /// Returns the public key.
    pub(crate) fn public(&self) -> PublicKey {
        let pair = self.pair(RsaHash::Sha256).expect("the key was read before");
        PublicKey::of_spki(pair.subject_public_key_info()).expect("a pair has a public key")
    }

    /// Signs bytes: with PKCS #1 v1.5 and the digest for RSA, ECDSA in DER with the digest of the curve's size, or
    /// Ed25519.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub(crate) fn sign(&self, message: &[u8], hash: RsaHash) -> Result<Vec<u8>, CryptoError> {
        self.pair(hash)?.sign(message).map_err(|error| CryptoError::failed(format!("it cannot be signed: {error}")))
    }

    /// Returns it as the signing key of certificates.
    pub(super) fn pair(&self, hash: RsaHash) -> Result<KeyPair, CryptoError> {
        let algorithm = match (self.kind, hash) {
            (KeyKind::Rsa(_), RsaHash::Sha256) => &rcgen::PKCS_RSA_SHA256,
            (KeyKind::Rsa(_), RsaHash::Sha384) => &rcgen::PKCS_RSA_SHA384,
            (KeyKind::Rsa(_), RsaHash::Sha512) => &rcgen::PKCS_RSA_SHA512,
            (KeyKind::P256, _) => &rcgen::PKCS_ECDSA_P256_SHA256,
            (KeyKind::P384, _) => &rcgen::PKCS_ECDSA_P384_SHA384,
            (KeyKind::Ed25519, _) => &rcgen::PKCS_ED25519,
            (KeyKind::P521, _) => p521()?,
        };
        let der = PrivatePkcs8KeyDer::from(self.pkcs8.as_slice());
        KeyPair::from_pkcs8_der_and_sign_algo(&der, algorithm).map_err(|_| {
            CryptoError::unreadable(format!("the private key of the kind {} is invalid, or too small", self.kind))
        })
    }

    /// Returns its parts in PKCS #8.
    pub(super) fn info(&self) -> PrivateKeyInfoRef<'_> {
        PrivateKeyInfoRef::try_from(self.pkcs8.as_slice()).expect("the key was read before")
    }

    /// Returns an elliptic key in SEC 1, with its curve, as OpenSSL writes it.
    fn sec1(&self) -> Result<Vec<u8>, CryptoError> {
        let failed = || CryptoError::failed("the key has no traditional form");
        let info = self.info();
        let key = sec1::EcPrivateKey::try_from(info.private_key.as_bytes()).map_err(|_| failed())?;
        let curve = info.algorithm.parameters_oid().map_err(|_| failed())?;
        let public = self.public();
        let point = public.raw();
        let whole = sec1::EcPrivateKey {
            private_key: key.private_key,
            parameters: Some(curve.into()),
            public_key: Some(point),
        };
        whole.to_der().map_err(|_| failed())
    }
}

/// Reads a public key, or that of a private key.
///
/// # Errors
/// If it is no key, or one of an unknown kind.
pub(crate) fn public_key_of(bytes: &[u8]) -> Result<PublicKey, CryptoError> {
    let is_private = pem::contains(bytes, b"PRIVATE KEY-----");
    if is_private { Ok(PrivateKey::read(bytes, None)?.public()) } else { PublicKey::read(bytes) }
}

fn curve_of_sec1(content: &[u8]) -> Result<ObjectIdentifier, CryptoError> {
    let key =
        sec1::EcPrivateKey::try_from(content).map_err(|_| CryptoError::unreadable("the private key is broken"))?;
    key.parameters
        .and_then(sec1::EcParameters::named_curve)
        .ok_or_else(|| CryptoError::unreadable("the private key does not name its curve"))
}

#[cfg(feature = "aws-lc")]
fn generate_with_aws_lc(kind: KeyKind) -> Result<Result<KeyPair, rcgen::Error>, CryptoError> {
    use rcgen::RsaKeySize;
    let size = match kind {
        KeyKind::Rsa(2048) => RsaKeySize::_2048,
        KeyKind::Rsa(3072) => RsaKeySize::_3072,
        KeyKind::Rsa(_) => RsaKeySize::_4096,
        _ => return Ok(KeyPair::generate_for(p521()?)),
    };
    Ok(KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size))
}

#[cfg(not(feature = "aws-lc"))]
fn generate_with_aws_lc(kind: KeyKind) -> Result<Result<KeyPair, rcgen::Error>, CryptoError> {
    Err(CryptoError::failed(format!(
        "this build of kopfd has the crypto provider ring, which makes no keys of the kind {kind}"
    )))
}

#[cfg(feature = "aws-lc")]
#[expect(clippy::unnecessary_wraps, reason = "the other provider has no such curve")]
fn p521() -> Result<&'static rcgen::SignatureAlgorithm, CryptoError> {
    Ok(&rcgen::PKCS_ECDSA_P521_SHA512)
}

#[cfg(not(feature = "aws-lc"))]
fn p521() -> Result<&'static rcgen::SignatureAlgorithm, CryptoError> {
    Err(CryptoError::failed("this build of kopfd has the crypto provider ring, which knows no curve P-521"))
}
