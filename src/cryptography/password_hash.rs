//! Hashes of passwords: bcrypt, and Argon2id in the text form of PHC.

use std::ops::RangeInclusive;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher as _, PasswordVerifier as _, Version};

use super::error::CryptoError;

/// The costs of bcrypt that are allowed: each step doubles the time.
pub(crate) const BCRYPT_COSTS: RangeInclusive<u32> = 4..=15;

/// The bytes of a password that bcrypt uses, without the zero at the end.
const BCRYPT_LENGTH: usize = 72;

/// The cost of Argon2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Argon2Cost {
    /// Memory in KiB.
    pub memory: u32,
    /// Passes over the memory.
    pub iterations: u32,
    /// Lanes.
    pub parallelism: u32,
}

/// The recommendation of OWASP.
impl Default for Argon2Cost {
    fn default() -> Self {
        Self { memory: 19 << 10, iterations: 2, parallelism: 1 }
    }
}

/// Returns bcrypt's hash of a password, as `htpasswd -B` writes it.
///
/// # Errors
/// If the password is longer than the part that bcrypt uses, or has a zero byte.
pub(crate) fn bcrypt(password: &[u8], cost: u32, salt: [u8; 16]) -> Result<String, CryptoError> {
    if password.len() > BCRYPT_LENGTH {
        return Err(CryptoError::argument(format!(
            "the password has {} bytes: bcrypt looks at {BCRYPT_LENGTH} only",
            password.len()
        )));
    }
    if password.contains(&0) {
        return Err(CryptoError::argument("the password has a zero byte, at which bcrypt would stop"));
    }
    let hashed = bcrypt::hash_with_salt(password, cost, salt).map_err(CryptoError::failed)?;
    Ok(hashed.format_for_version(bcrypt::Version::TwoB))
}

/// Returns the hash of a password by Argon2id.
///
/// # Errors
/// If the cost is out of range.
pub(crate) fn argon2(password: &[u8], cost: Argon2Cost, salt: [u8; 16]) -> Result<String, CryptoError> {
    let params = Params::new(cost.memory, cost.iterations, cost.parallelism, None).map_err(CryptoError::argument)?;
    let hash: PasswordHash = Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
        .hash_password_with_salt(password, &salt)
        .map_err(CryptoError::failed)?;
    Ok(hash.to_string())
}

/// Tells whether a hash of bcrypt or of Argon2 is that of a password.
///
/// # Errors
/// If it is no such hash, or its cost is out of range.
pub(crate) fn verify_password(
    password: &[u8],
    hash: &str,
    max_memory: u32,
    max_iterations: u32,
) -> Result<bool, CryptoError> {
    if hash.starts_with("$2") {
        let parts: bcrypt::HashParts =
            hash.parse().map_err(|_| CryptoError::unreadable("the hash of bcrypt is broken"))?;
        if !BCRYPT_COSTS.contains(&parts.get_cost()) {
            return Err(CryptoError::argument(format!(
                "the cost {} of the hash is not in {BCRYPT_COSTS:?}",
                parts.get_cost()
            )));
        }
        return bcrypt::verify(password, hash).map_err(|_| CryptoError::unreadable("the hash of bcrypt is broken"));
    }
    let broken = || CryptoError::unreadable("it is not a hash of bcrypt (\"$2b$…\") or of Argon2 (\"$argon2id$…\")");
    let parsed = PasswordHash::new(hash).map_err(|_| broken())?;
    let params = Params::try_from(&parsed).map_err(|_| broken())?;
    if params.m_cost() > max_memory || params.t_cost() > max_iterations {
        let cost = format!("{} KiB and {} passes", params.m_cost(), params.t_cost());
        return Err(CryptoError::argument(format!(
            "the hash takes {cost}, more than {max_memory} KiB or {max_iterations} passes"
        )));
    }
    match Argon2::default().verify_password(password, &parsed) {
        Ok(()) => Ok(true),
        Err(argon2::password_hash::Error::PasswordInvalid) => Ok(false),
        Err(_) => Err(broken()),
    }
}
