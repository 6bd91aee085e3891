//! Sizes with suffixes, durations, and their ranges.

use std::time::Duration;

/// The longest duration: a hundred years. Moments beyond the year 9999 cannot be written.
pub(super) const MAX_DURATION: Duration = Duration::from_hours(36_500 * 24);

/// The largest size: 1 EiB, more than any machine has.
pub(super) const MAX_SIZE: u64 = 1 << 60;

/// Returns a duration in words.
pub(super) fn shown(duration: Duration) -> String {
    const DAY: Duration = Duration::from_hours(24);
    const MINUTE: Duration = Duration::from_mins(1);
    let is_whole = |unit: Duration| {
        duration >= unit && duration.as_secs().is_multiple_of(unit.as_secs()) && duration.subsec_nanos() == 0
    };
    if duration.is_zero() {
        "0s".to_owned()
    } else if is_whole(DAY) {
        format!("{}d", duration.as_secs() / DAY.as_secs())
    } else if is_whole(MINUTE) {
        format!("{}m", duration.as_secs() / MINUTE.as_secs())
    } else {
        format!("{duration:?}")
    }
}

/// Returns a size in words.
pub(super) fn shown_size(bytes: u64) -> String {
    let units = [("Ei", 60), ("Pi", 50), ("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let unit = units.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

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
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => f64::from(1 << 20),
        "Gi" => f64::from(1 << 30),
        "Ti" => 1024.0 * f64::from(1 << 30),
        "Pi" => 1024.0 * 1024.0 * f64::from(1 << 30),
        "Ei" => 1024.0 * 1024.0 * 1024.0 * f64::from(1 << 30),
        _ => return None,
    };
    let bytes = (amount * factor).ceil();
    (bytes.is_finite() && bytes <= MAX_SIZE as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(size("64Mi"), Some(64 << 20));
        assert_eq!(size("1.5k"), Some(1500));
        assert_eq!(size("1Ei"), Some(MAX_SIZE));
        assert_eq!((size("64MB"), size("2E")), (None, None));
    }

    #[test]
    fn sizes_and_durations_are_shown_with_the_largest_whole_unit() {
        assert_eq!(
            [1, 1 << 20, 32 << 20, MAX_SIZE, (1 << 20) + 1024].map(shown_size),
            ["1", "1Mi", "32Mi", "1Ei", "1025Ki"]
        );
        let durations = [
            Duration::ZERO,
            Duration::from_millis(100),
            Duration::from_secs(61),
            Duration::from_mins(10),
            MAX_DURATION,
        ];
        assert_eq!(durations.map(shown), ["0s", "100ms", "61s", "10m", "36500d"]);
    }
}
