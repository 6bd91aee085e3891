//! Small values in words: durations and sizes.

/// What is said of a duration below zero.
pub const NEGATIVE: &str = "a duration is never negative";
/// What is said of a number in a string.
pub const NO_UNIT: &str = "a duration in a string needs a unit";

/// The longest duration in seconds: a hundred years. Moments beyond the year 9999 cannot be written.
pub const LONGEST: f64 = 36_500.0 * 86_400.0;

/// What is said of a longer one.
pub const TOO_LONG: &str = "a duration is at most 36500d";

/// Returns the seconds of a duration such as `500ms`, `1.5h`, or `1h30m`.
///
/// # Errors
/// If it is none, with what is wrong with it.
pub fn duration(text: &str) -> Result<f64, &'static str> {
    let mut rest = text.trim();
    if rest.starts_with('-') {
        return Err(NEGATIVE);
    }
    if rest.is_empty() {
        return Err("the duration is empty");
    }
    if rest.contains(char::is_whitespace) {
        return Err("a duration is written without spaces");
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let amount: f64 = rest[..digits].parse().map_err(|_| "not a duration")?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        seconds += amount
            * match &rest[..letters] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                "" => return Err(NO_UNIT),
                _ => return Err("the units of durations are ms, s, m, h, and d"),
            };
        rest = &rest[letters..];
    }
    if seconds <= LONGEST { Ok(seconds) } else { Err(TOO_LONG) }
}

/// Returns the bytes of a size such as `64Mi` or `1G`.
pub fn size(text: &str) -> Option<u64> {
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
    fn durations_add_up_and_need_units() {
        assert_eq!(duration("1h30m"), Ok(5400.0));
        assert_eq!(duration("500ms"), Ok(0.5));
        assert_eq!(duration("1.5h"), Ok(5400.0));
        assert_eq!(duration("2d"), Ok(172_800.0));
        assert_eq!(duration("30"), Err("a duration in a string needs a unit"));
        assert_eq!(duration("-1s"), Err("a duration is never negative"));
        assert_eq!(duration("1w"), Err("the units of durations are ms, s, m, h, and d"));
        assert_eq!(duration("36500d"), Ok(LONGEST));
        assert_eq!(duration("36500.1d"), Err(TOO_LONG));
        assert_eq!(duration(&format!("{}s", "9".repeat(400))), Err(TOO_LONG));
        assert_eq!(duration("soon"), Err("not a duration"));
        assert_eq!(duration("1..5s"), Err("not a duration"));
    }

    #[test]
    fn sizes_are_quantities() {
        assert_eq!(size("64Mi"), Some(64 << 20));
        assert_eq!(size("1.5k"), Some(1500));
        assert_eq!(size("64MB"), None);
    }
}
