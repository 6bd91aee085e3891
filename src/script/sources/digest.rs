//! Digests of texts.

use sha2::{Digest, Sha256};

use crate::kit::hexadecimal;

/// Returns the SHA-256 digest of consecutive texts as hexadecimal digits.
pub(crate) fn sha256<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let pieces: Result<_, std::convert::Infallible> = sha256_of(&mut texts.into_iter().map(|text| Ok(text.as_bytes())));
    let Ok(digits) = pieces;
    digits
}

/// Returns the SHA-256 digest of consecutive bytes as hexadecimal digits.
///
/// # Errors
/// The first error among them.
pub(crate) fn sha256_of<E>(pieces: &mut dyn Iterator<Item = Result<&[u8], E>>) -> Result<String, E> {
    let mut hasher = Sha256::new();
    for piece in pieces {
        hasher.update(piece?);
    }
    Ok(hexadecimal(&hasher.finalize()))
}
