//! Durations with units, such as `500ms`, `30s`, `1.5h`, `1h30m`, `2d`.

use std::time::Duration;

/// The reason why a text is not a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// It is empty.
    #[error("the duration is empty")]
    Empty,
    /// There are spaces between the numbers and the units.
    #[error("a duration is written without spaces")]
    Spaces,
    /// It begins with a minus sign.
    #[error("a duration is never negative")]
    Negative,
    /// A number has no unit.
    #[error("a duration in a string needs a unit")]
    NoUnit,
    /// A number has an unknown unit.
    #[error("the units of durations are ms, s, m, h, and d")]
    UnknownUnit,
    /// A part of it is not a number.
    #[error("not a duration")]
    NoNumber,
    /// It is out of range.
    #[error("the duration is too long")]
    TooLong,
}

/// Parses a duration. Every number needs a unit; several are added.
///
/// # Errors
/// If the text is not a duration.
pub fn parse(text: &str) -> Result<Duration, ParseError> {
    let mut rest = text.trim();
    if rest.starts_with('-') {
        return Err(ParseError::Negative);
    }
    if rest.is_empty() {
        return Err(ParseError::Empty);
    }
    if rest.contains(char::is_whitespace) {
        return Err(ParseError::Spaces);
    }
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()));
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len()));
        let number: f64 = number.parse().map_err(|_| ParseError::NoNumber)?;
        seconds += number * seconds_of(unit)?;
        rest = tail;
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| ParseError::TooLong)
}

fn seconds_of(unit: &str) -> Result<f64, ParseError> {
    Ok(match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        "" => return Err(ParseError::NoUnit),
        _ => return Err(ParseError::UnknownUnit),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        assert_eq!(parse("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5h"), Ok(Duration::from_mins(90)));
        assert_eq!(parse("2d"), Ok(Duration::from_hours(48)));
        assert_eq!(parse(" 7ms "), Ok(Duration::from_millis(7)));
    }

    #[test]
    fn invalid_durations_have_a_reason() {
        let wrong = [
            ("", ParseError::Empty),
            ("5", ParseError::NoUnit),
            ("1h30", ParseError::NoUnit),
            ("h", ParseError::NoNumber),
            ("soon", ParseError::NoNumber),
            ("1..5s", ParseError::NoNumber),
            ("-5s", ParseError::Negative),
            ("5 s", ParseError::Spaces),
            ("5y", ParseError::UnknownUnit),
            ("1w", ParseError::UnknownUnit),
        ];
        for (text, error) in wrong {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        assert_eq!(parse(&format!("{}s", "9".repeat(400))), Err(ParseError::TooLong));
    }
}
