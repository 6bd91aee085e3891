//! Schedules of cron jobs, in the syntax of the cron controller's library.

/// Checks a schedule: an optional time zone, and five fields or a word such as `@daily`.
///
/// # Errors
/// The text of the error.
pub(super) fn check(text: &str) -> Result<(), String> {
    let text = match text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) {
        Some(rest) => rest.split_once(' ').ok_or("there is nothing after the time zone")?.1.trim(),
        None => text,
    };
    if let Some(word) = text.strip_prefix('@') {
        return word_of(word);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    };
    field(minute, 0, 59, &[])?;
    field(hour, 0, 23, &[])?;
    field(day, 1, 31, &[])?;
    field(month, 1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"])?;
    field(weekday, 0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"])
}

fn word_of(word: &str) -> Result<(), String> {
    const WORDS: &[&str] = &["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
    match word.strip_prefix("every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => Err(format!("failed to parse duration {duration:?}")),
        None if WORDS.contains(&word) => Ok(()),
        None => Err(format!("unrecognized descriptor: @{word}")),
    }
}

/// Tells whether a text is a duration in Go's syntax, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let unit = ["ns", "us", "µs", "ms", "s", "m", "h"]
            .iter()
            .filter(|unit| tail.starts_with(**unit))
            .max_by_key(|unit| unit.len());
        let (true, Some(unit)) = (number.parse::<f64>().is_ok(), unit) else { return false };
        rest = &tail[unit.len()..];
    }
    !text.is_empty()
}

/// Checks a list of numbers, names, ranges and steps.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<(), String> {
    text.split(',').filter(|part| !part.is_empty()).try_for_each(|part| range(part, least, most, names))
}

fn range(text: &str, least: u32, most: u32, names: &[&str]) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let value = |text: &str| -> Result<u32, String> {
        let named = names.iter().position(|name| *name == text.to_lowercase());
        let number = named.map(|index| index as u32 + u32::from(names.len() == 12));
        number.map_or_else(|| text.parse().map_err(|_| format!("failed to parse number: {text:?}")), Ok)
    };
    let (start, end) = match ends[..] {
        ["*" | "?"] => (least, most),
        [one] => {
            let one = value(one)?;
            // A step without an end covers the rest of the range.
            (one, if parts.len() > 1 { most } else { one })
        }
        [first, last] => (value(first)?, value(last)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => step.parse::<u32>().map_err(|_| format!("failed to parse step: {step:?}"))?,
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn schedules_are_read_field_by_field() {
        for right in
            ["* * * * *", "*/5 1-3 1,15 * mon-FRI", "0 0 ? jan-mar *", "@daily", "@every 1h30m", "TZ=UTC 5/10 * * * *"]
        {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 7",
            "5-1 * * * *",
            "*/0 * * * *",
        ] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["1-2-3 * * * *", "1/2/3 * * * *", "x * * * *", "@nonsense", "@every", "@every x", "TZ=UTC", "*/x * * * *"]
        {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
