//! Suggestions of known words for misspelt ones, and for the words of other tools.

use crate::kit::suggest;

/// Words of other tools.
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

/// Returns the known word that was probably meant: a synonym of another tool, or the nearest one if it is near enough.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
    if let Some(found) = known.clone().into_iter().find(|known| Some(*known) == synonym) {
        return Some(found);
    }
    suggest::nearest(word, known)
}

/// Returns `` `a`, `b` or `c` ``.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_tools_are_recognised() {
        assert_eq!(nearest("function", ["fn", "run"]), Some("fn"));
        assert_eq!(nearest("function", ["functional", "run"]), Some("functional"));
        assert_eq!(nearest("colour", ["retries", "timeout"]), None);
    }
}
