//! Keys, certificates, tokens and ciphers for scripts. The module knows neither scripts nor a clock: moments and random
//! bytes are given.

mod asn1;
mod certificate;
mod chain;
mod cipher;
mod details;
mod error;
mod fernet;
mod jwt;
mod key_kind;
mod key_store;
mod openssh;
mod password_hash;
mod pem;
mod private_key;
mod public_key;
mod rsa_hash;
mod subject;
mod usage;

#[cfg(test)]
mod tests;

pub(crate) use certificate::{CertificateOptions, Role, request, self_signed, signed};
pub(crate) use chain::{Expected, Peer, verify};
pub(crate) use cipher::{NONCE_SIZE, decrypt, encrypt};
pub(crate) use details::{Details, details, is_of_key};
pub(crate) use error::CryptoError;
pub(crate) use fernet::Fernet;
pub(crate) use jwt::{Claims, Expectations, jwk, read_unverified, sign, verify_with_key, verify_with_set};
pub(crate) use key_kind::KeyKind;
pub(crate) use key_store::{key_store, trust_store};
pub(crate) use password_hash::{Argon2Cost, BCRYPT_COSTS, argon2, bcrypt, verify_password};
pub(crate) use private_key::{PrivateFormat, PrivateKey, public_key_of};
pub(crate) use public_key::{PublicFormat, PublicKey};
pub(crate) use rsa_hash::RsaHash;
pub(crate) use usage::Usage;

pub(crate) use crate::http::Validity;
