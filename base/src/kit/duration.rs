//! Durations as people write them.

/// Returns the seconds of a text such as `500ms`, `30s`, `1.5h`, `1h30m`, `2d`; nothing if it is none. Every number needs a unit.
pub fn parse(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let length = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let number: f64 = rest[..length].parse().ok()?;
        rest = &rest[length..];
        let length = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        seconds += number * unit(&rest[..length])?;
        rest = &rest[length..];
    }
    Some(seconds)
}

fn unit(name: &str) -> Option<f64> {
    Some(match name {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        assert_eq!(parse("1h30m"), Some(5400.0));
        assert_eq!(parse("500ms"), Some(0.5));
        assert_eq!(parse("1.5h"), Some(5400.0));
        assert_eq!(parse("2d"), Some(172_800.0));
        for wrong in ["", "5", "h", "-5s", "5 s", "1h30", "5y", "1..5s"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
