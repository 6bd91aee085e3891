//! AES-GCM: bytes are encrypted, and changes of them are found.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};

use super::error::CryptoError;

/// The size of the number that is used once, which stands before the ciphertext.
pub(crate) const NONCE_SIZE: usize = 12;

/// Encrypts bytes with a key of 16 or 32 bytes. The result is the nonce, the ciphertext, and 16 bytes that authenticate
/// both and the additional data.
///
/// # Errors
/// If the key has another size.
pub(crate) fn encrypt(
    key: &[u8],
    plain: &[u8],
    additional: &[u8],
    nonce: [u8; NONCE_SIZE],
) -> Result<Vec<u8>, CryptoError> {
    let payload = Payload { msg: plain, aad: additional };
    let number = Nonce::from(nonce);
    let encrypted = match key.len() {
        16 => Aes128Gcm::new_from_slice(key).ok().and_then(|cipher| cipher.encrypt(&number, payload).ok()),
        32 => Aes256Gcm::new_from_slice(key).ok().and_then(|cipher| cipher.encrypt(&number, payload).ok()),
        size => return Err(wrong_size(size)),
    };
    let encrypted = encrypted.ok_or_else(|| CryptoError::failed("the value is too large"))?;
    Ok([&nonce[..], &encrypted].concat())
}

/// Decrypts what [`encrypt`] has made.
///
/// # Errors
/// If the key is another one, or anything was changed.
pub(crate) fn decrypt(key: &[u8], encrypted: &[u8], additional: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let refused =
        || CryptoError::refused("the value was encrypted with another key or other additional data, or was changed");
    let (nonce, rest) = encrypted.split_first_chunk::<NONCE_SIZE>().ok_or_else(refused)?;
    let payload = Payload { msg: rest, aad: additional };
    let number = Nonce::from(*nonce);
    let plain = match key.len() {
        16 => Aes128Gcm::new_from_slice(key).ok().and_then(|cipher| cipher.decrypt(&number, payload).ok()),
        32 => Aes256Gcm::new_from_slice(key).ok().and_then(|cipher| cipher.decrypt(&number, payload).ok()),
        size => return Err(wrong_size(size)),
    };
    plain.ok_or_else(refused)
}

fn wrong_size(size: usize) -> CryptoError {
    CryptoError::argument(format!("the key has {size} bytes: AES takes 16 or 32, such as those of `random::bytes(32)`"))
}
