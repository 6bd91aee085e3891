//! Bytes as hexadecimal digits.

use std::fmt::Write as _;

/// Returns bytes as hexadecimal digits, in small letters.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}
