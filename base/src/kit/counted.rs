//! Numbers with their nouns.

/// Returns a number with its noun in singular or plural.
pub fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
