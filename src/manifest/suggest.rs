//! Suggestions: which of the known words was probably meant.

/// What other tools call it.
const SYNONYMS: [(&str, &str); 23] = [
    ("function", "fn"),
    ("func", "fn"),
    ("call", "fn"),
    ("handler", "fn"),
    ("code", "run"),
    ("inline", "run"),
    ("name", "id"),
    ("filter", "when"),
    ("condition", "when"),
    ("if", "when"),
    ("every", "interval"),
    ("period", "interval"),
    ("attempts", "retries"),
    ("params", "param"),
    ("retry", "retries"),
    ("start", "startup"),
    ("stop", "cleanup"),
    ("shutdown", "cleanup"),
    ("health", "probe"),
    ("liveness", "probe"),
    ("batching", "queueing"),
    ("eq", "equals"),
    ("regex", "matches"),
];

/// Returns the known word that was probably meant: one that another tool calls so, or else the nearest if it is near enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
    if let Some(found) = known.clone().into_iter().find(|known| Some(*known) == synonym) {
        return Some(found);
    }
    let wanted = squash(word);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (distance(&wanted, &squash(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= limit && *distance < candidate.chars().count())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns `` `a`, `b` or `c` ``.
pub fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// `initial_delay` and `initialDelay` are one word written differently.
fn squash(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// The number of letters to change, insert, remove, or swap with the neighbour.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().take(64).collect(), right.chars().take(64).collect());
    let mut rows = vec![(0..=right.len()).collect::<Vec<usize>>()];
    for (i, a) in left.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in right.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(a != b)).min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == right[j - 1] && left[i - 1] == *b {
                best = best.min(rows[i - 1][j - 1] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[left.len()][right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_recognised_in_other_spellings() {
        let known = ["retries", "timeout", "initialDelay", "create"];
        assert_eq!(nearest("retires", known), Some("retries"));
        assert_eq!(nearest("initial_delay", known), Some("initialDelay"));
        assert_eq!(nearest("created", known), Some("create"));
        assert_eq!(nearest("Timeout", known), Some("timeout"));
        assert_eq!(nearest("colour", known), None);
    }
}
