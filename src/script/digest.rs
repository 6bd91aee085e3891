//! Digests of texts.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 digest of consecutive texts as hexadecimal digits.
pub(super) fn sha256<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let digest = texts.into_iter().fold(Sha256::new(), Digest::chain_update).finalize();
    digest.iter().fold(String::with_capacity(64), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
