//! The kinds of keys.

use super::error::CryptoError;

/// The kind of a key. RSA has its size in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// RSA of a number of bits.
    Rsa(usize),
    /// ECDSA on the curve P-256.
    P256,
    /// ECDSA on the curve P-384.
    P384,
    /// ECDSA on the curve P-521.
    P521,
    /// Ed25519.
    Ed25519,
}

/// The sizes of RSA keys that can be made.
const RSA_SIZES: [usize; 3] = [2048, 3072, 4096];

impl std::fmt::Display for KeyKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rsa(bits) => write!(f, "rsa-{bits}"),
            Self::P256 => f.write_str("ec-p256"),
            Self::P384 => f.write_str("ec-p384"),
            Self::P521 => f.write_str("ec-p521"),
            Self::Ed25519 => f.write_str("ed25519"),
        }
    }
}

impl KeyKind {
    /// Returns the kind with a name.
    ///
    /// # Errors
    /// If no key of this kind can be made.
    pub(crate) fn of(name: &str) -> Result<Self, CryptoError> {
        let kinds = RSA_SIZES.map(Self::Rsa).into_iter().chain([Self::P256, Self::P384, Self::P521, Self::Ed25519]);
        let known: Vec<Self> = kinds.collect();
        known.iter().copied().find(|kind| kind.to_string() == name).ok_or_else(|| {
            let known: Vec<String> = known.iter().map(ToString::to_string).collect();
            CryptoError::argument(format!("there is no kind of key {name:?}: there are {}", known.join(", ")))
        })
    }
}
