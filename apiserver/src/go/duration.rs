//! Durations, parsed as by Go.

use jiff::SignedDuration;

/// The units, in nanoseconds.
const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses numbers with units, such as `1h30m`, `-.5s` or `0`. Returns `None` if the text is no duration, or exceeds the
/// range of 292 years.
pub(crate) fn duration(text: &str) -> Option<SignedDuration> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Some(SignedDuration::ZERO);
    }
    if unsigned.is_empty() {
        return None;
    }
    let (mut rest, mut total) = (unsigned, 0_i128);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        total += amount(number, unit)?;
        rest = next;
    }
    let signed = if text.starts_with('-') { -total } else { total };
    i64::try_from(signed).ok().map(SignedDuration::from_nanos)
}

/// Returns a number with a fraction of a unit, in nanoseconds.
fn amount(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    // Durations have at most 19 digits, and fractions of nanoseconds are dropped.
    let fraction = &fraction[..fraction.len().min(18)];
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()?.into() };
    let parts: i128 = if fraction.is_empty() { 0 } else { fraction.parse().ok()? };
    Some(whole * unit + parts * unit / 10_i128.pow(fraction.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        let milliseconds = |text: &str| duration(text).map(|duration| duration.as_millis());
        assert_eq!(
            ["1m30s", "-1.5h", ".5s", "+2ms", "0", "-0"].map(milliseconds),
            [Some(90_000), Some(-5_400_000), Some(500), Some(2), Some(0), Some(0)]
        );
        assert_eq!(duration("1.5µs3ns"), Some(SignedDuration::from_nanos(1_503)));
        for wrong in ["", "-", "abc", "5", "5d", ".s", "1s2", "s", "1..5s", "--1s", " 1s"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_have_the_range_of_64_bits_of_nanoseconds() {
        assert_eq!(duration("2562047h"), Some(SignedDuration::from_hours(2_562_047)));
        assert_eq!(duration("-9223372036854775808ns"), Some(SignedDuration::from_nanos(i64::MIN)));
        assert_eq!(duration("9223372036854775808ns"), None);
        assert_eq!(duration("99999999h"), None);
    }
}
