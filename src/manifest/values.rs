//! Sizes with suffixes, and the range of durations.

use std::time::Duration;

/// The longest duration: a hundred years. Moments beyond the year 9999 cannot be written.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(36_500 * 24);

/// Returns the bytes of a size such as `64Mi` or `1G`.
pub(super) fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let amount: f64 = text[..digits].parse().ok()?;
    let factor = match &text[digits..] {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => f64::from(1 << 20),
        "Gi" => f64::from(1 << 30),
        "Ti" => 1024.0 * f64::from(1 << 30),
        _ => return None,
    };
    let bytes = (amount * factor).ceil();
    (bytes.is_finite() && bytes < 1e18).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(size("64Mi"), Some(64 << 20));
        assert_eq!(size("1.5k"), Some(1500));
        assert_eq!(size("64MB"), None);
    }
}
