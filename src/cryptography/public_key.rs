//! Public keys: read, converted, and used to verify signatures.

use pkcs8::Document;
use pkcs8::der::Decode as _;
use pkcs8::spki::SubjectPublicKeyInfoRef;
use rustls::pki_types::pem::SectionKind;
use rustls::pki_types::{AlgorithmIdentifier, alg_id};

use super::asn1::{self, Curve, bits, oids};
use super::error::CryptoError;
use super::key_kind::KeyKind;
use super::rsa_hash::RsaHash;
use super::{openssh, pem};

/// The forms of public keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublicFormat {
    /// `BEGIN PUBLIC KEY`.
    Pem,
    /// PKCS #1 in PEM, of RSA keys only: `BEGIN RSA PUBLIC KEY`.
    Traditional,
    /// The line of OpenSSH's `authorized_keys`.
    Openssh,
    /// The content of `BEGIN PUBLIC KEY`.
    Der,
}

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicKey {
    kind: KeyKind,
    spki: Vec<u8>,
}

impl PublicKey {
    /// Reads a key: PEM, DER, a line of OpenSSH, or a certificate.
    ///
    /// # Errors
    /// If it is no key, or one of an unknown kind.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, CryptoError> {
        if !pem::is_pem(bytes) {
            return match std::str::from_utf8(bytes)
                .ok()
                .filter(|text| text.starts_with("ssh-") || text.starts_with("ecdsa-"))
            {
                Some(line) => Self::of_spki(openssh::read_public(line)?),
                None => Self::of_spki(bytes.to_vec()),
            };
        }
        if pem::contains(bytes, b"-----BEGIN RSA PUBLIC KEY-----") {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            let (_, key) =
                Document::from_pem(text).map_err(|_| CryptoError::unreadable("the PEM of the public key is broken"))?;
            return Self::of_rsa(key.as_bytes());
        }
        let (section, content) = pem::first(bytes, &[SectionKind::PublicKey, SectionKind::Certificate], "public key")?;
        if section == SectionKind::Certificate { Self::of_certificate(&content) } else { Self::of_spki(content) }
    }

    /// Returns the key of a certificate in DER.
    pub(super) fn of_certificate(der: &[u8]) -> Result<Self, CryptoError> {
        use x509_parser::prelude::FromDer as _;
        let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(der)
            .map_err(|_| CryptoError::unreadable("the certificate is broken"))?;
        Self::of_spki(certificate.public_key().raw.to_vec())
    }

    /// Returns the key of an RSA key in PKCS #1.
    fn of_rsa(pkcs1: &[u8]) -> Result<Self, CryptoError> {
        Self::of_spki(asn1::public(oids::RSA, Some(Curve::Null), pkcs1)?)
    }

    /// Returns the key of its DER form.
    pub(super) fn of_spki(spki: Vec<u8>) -> Result<Self, CryptoError> {
        let unreadable =
            || CryptoError::unreadable("it is not a public key in PEM, in DER, or of OpenSSH, and not a certificate");
        let info = SubjectPublicKeyInfoRef::from_der(&spki).map_err(|_| unreadable())?;
        let raw = info.subject_public_key.as_bytes().ok_or_else(unreadable)?;
        let modulus_bits = || {
            let key = pkcs1::RsaPublicKey::<pkcs8::der::asn1::UintRef<'_>>::try_from(raw).ok()?;
            Some(bits(key.modulus.as_bytes()))
        };
        let kind = asn1::kind_of("public key", &info.algorithm, modulus_bits)?.ok_or_else(unreadable)?;
        Ok(Self { kind, spki })
    }

    /// Returns its kind.
    pub(crate) fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns the point of a curve, the key of Ed25519, or PKCS #1.
    pub(super) fn raw(&self) -> &[u8] {
        let info = SubjectPublicKeyInfoRef::from_der(&self.spki).expect("the key was read before");
        info.subject_public_key.as_bytes().expect("the key was read before")
    }

    /// Returns it in a form.
    ///
    /// # Errors
    /// If its kind has no such form.
    pub(crate) fn to_format(&self, format: PublicFormat, comment: &str) -> Result<Vec<u8>, CryptoError> {
        Ok(match format {
            PublicFormat::Pem => pem::encode("PUBLIC KEY", &self.spki),
            PublicFormat::Der => self.spki.clone(),
            PublicFormat::Openssh => openssh::public(self.kind, self.raw(), comment)?.into_bytes(),
            PublicFormat::Traditional if matches!(self.kind, KeyKind::Rsa(_)) => {
                pem::encode("RSA PUBLIC KEY", self.raw())
            }
            PublicFormat::Traditional => return Err(CryptoError::argument("only RSA keys have a traditional form")),
        })
    }

    /// Tells whether a signature of a private key is genuine.
    ///
    /// # Errors
    /// If the build knows no signatures of this kind.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8], hash: RsaHash) -> Result<bool, CryptoError> {
        let (key, with) = match (self.kind, hash) {
            (KeyKind::Rsa(_), RsaHash::Sha256) => (alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA256),
            (KeyKind::Rsa(_), RsaHash::Sha384) => (alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA384),
            (KeyKind::Rsa(_), RsaHash::Sha512) => (alg_id::RSA_ENCRYPTION, alg_id::RSA_PKCS1_SHA512),
            (KeyKind::P256, _) => (alg_id::ECDSA_P256, alg_id::ECDSA_SHA256),
            (KeyKind::P384, _) => (alg_id::ECDSA_P384, alg_id::ECDSA_SHA384),
            (KeyKind::P521, _) => (alg_id::ECDSA_P521, alg_id::ECDSA_SHA512),
            (KeyKind::Ed25519, _) => (alg_id::ED25519, alg_id::ED25519),
        };
        self.verify_with(key, with, message, signature)
    }

    fn verify_with(
        &self,
        key: AlgorithmIdentifier,
        with: AlgorithmIdentifier,
        message: &[u8],
        signature: &[u8],
    ) -> Result<bool, CryptoError> {
        let provider = crate::http::crypto_provider();
        let known = provider.signature_verification_algorithms.all.iter();
        let algorithm =
            known.copied().find(|known| known.public_key_alg_id() == key && known.signature_alg_id() == with);
        let algorithm = algorithm.ok_or_else(|| {
            CryptoError::failed(format!("this build of kopfd verifies no signatures of the kind {}", self.kind))
        })?;
        Ok(algorithm.verify_signature(self.raw(), message, signature).is_ok())
    }
}
