//! Messages of commands, and their wording.

use std::borrow::Cow;

use crate::kit::visible;
use crate::telemetry::{self, credentials};

/// Begins the further lines of an error.
const CONTINUATION: &str = "  ";

/// Prints an error of the command itself. It may contain texts of objects and scripts.
pub(super) fn print_error(problem: &str) {
    telemetry::write(&format!("error: {}\n", printable(problem)));
}

/// Prints an error and how to fix it.
pub(super) fn print_error_with_hint(problem: &str, hint: &str) {
    telemetry::write(&format!("error: {}\nhint: {}\n", printable(problem), printable(hint)));
}

/// Prints a warning of the command itself, and how to avoid it.
pub(super) fn print_warning(warning: &str, hint: &str) {
    telemetry::write(&format!("warning: {}\nhint: {}\n", printable(warning), printable(hint)));
}

/// Returns a text without credentials, and without characters that control the terminal. Its further lines are
/// indented.
fn printable(text: &str) -> String {
    match credentials::hidden(text) {
        Cow::Borrowed(text) => visible::lines(text, CONTINUATION).into_owned(),
        Cow::Owned(text) => visible::lines(&text, CONTINUATION).into_owned(),
    }
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
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
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
    fn errors_have_their_further_lines_indented_and_control_no_terminal() {
        assert_eq!(
            printable("a\nerror: forged\u{1b}[2J at http://u:p@x"),
            "a\n  error: forged\\x1b[2J at http://***@x"
        );
    }

    #[test]
    fn a_path_with_blanks_is_one_word_of_a_shell() {
        assert_eq!([quoted("/a/b.c"), quoted("/a b"), quoted("it's")], ["/a/b.c", "'/a b'", r"'it'\''s'"]);
    }
}
