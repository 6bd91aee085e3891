//! Messages of commands, and their wording.

use crate::telemetry;

/// Prints an error of the command itself.
pub(super) fn print_error(problem: &str) {
    telemetry::write(&format!("error: {problem}\n"));
}

/// Returns a number with its noun in singular or plural.
pub(super) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Joins items as prose: `a`, `a and b`, `a, b and c`.
pub(super) fn enumerated(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Quotes a text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_like_a_sentence() {
        let listed = |text: &str| enumerated(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!([listed("a"), listed("a b"), listed("a b c")], ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn a_path_with_blanks_is_one_word_of_a_shell() {
        assert_eq!([quoted("/a/b.c"), quoted("/a b"), quoted("it's")], ["/a/b.c", "'/a b'", r"'it'\''s'"]);
    }
}
