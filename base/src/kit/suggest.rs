//! Suggestions of known words for misspelt ones.

/// Longer words are not compared: the time grows with the product of the lengths.
const MAX_LENGTH: usize = 64;

/// Returns the nearest known word, if it is near enough to be meant. Words that begin with it count as near.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = squash(word);
    let length = wanted.chars().count();
    if length > MAX_LENGTH {
        return None;
    }
    let allowed = match length {
        0..=5 => 1,
        6..=8 => 2,
        _ => 3,
    };
    let distance = |candidate: &str| {
        let candidate = squash(candidate);
        let is_cut = length >= 3 && candidate.len() > wanted.len() && candidate.starts_with(&wanted);
        if is_cut { 1 } else { strsim::osa_distance(&wanted, &candidate) }
    };
    let short = known.into_iter().filter(|candidate| candidate.chars().count() <= MAX_LENGTH);
    let near = short.map(|candidate| (distance(candidate), candidate));
    let (_, found) =
        near.filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count()).min()?;
    Some(found)
}

/// Returns a word without case and separators: `initial_delay` and `initialDelay` are equal.
fn squash(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn misspellings_are_recognised_and_other_words_are_not() {
        assert_eq!(nearest("nmae", ["name", "namespace", "uid"]), Some("name"));
        assert_eq!(nearest("inof", ["info", "error"]), Some("info"));
        assert_eq!(nearest("retires", ["retry", "retries"]), Some("retries"));
        assert_eq!(nearest("initial_delay", ["retries", "initialDelay"]), Some("initialDelay"));
        assert_eq!(nearest("created", ["create", "update"]), Some("create"));
        assert_eq!(nearest("Timeout", ["timeout"]), Some("timeout"));
        assert_eq!(nearest("warn", ["tan", "warning"]), Some("warning"));
        assert_eq!(nearest("foo", ["cos"]), None);
        assert_eq!(nearest("shout", ["shift"]), None);
        assert_eq!(nearest("fetch", ["patch"]), None);
        assert_eq!(nearest("frobnicate", ["name", "spec"]), None);
        assert_eq!(nearest("x", ["y", "spec"]), None);
        assert_eq!(nearest(&"x".repeat(65), [&*"x".repeat(64)]), None);
    }
}
