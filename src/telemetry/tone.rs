//! The colours of an account: what went well, what did not, and what is only said along the way.

use tracing::Level;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Something has succeeded.
    Good,
    /// Something has failed.
    Bad,
    /// Something is unusual.
    Odd,
    /// It is said along the way.
    Quiet,
    /// As people say things.
    Plain,
}

/// What is only said along the way.
pub const QUIET: Tone = Tone::Quiet;

/// Tells whether a message is a line of the account itself: what has come, and what was written.
pub fn is_account(message: &str) -> bool {
    message.starts_with(['┌', '│'])
}

impl Tone {
    /// Returns the tone of a message, by its level and by the sentences of the engine, which are kopf's and always the same.
    pub fn of(level: Level, message: &str) -> Self {
        match level {
            Level::ERROR => Self::Bad,
            Level::WARN => Self::Odd,
            _ if message.starts_with("│ !") => Self::Bad,
            _ if is_account(message) => Self::Quiet,
            _ if message.contains(" is processed: ") && !message.ends_with("; 0 failed.") => Self::Bad,
            _ if message.contains(" is processed: ") || message.ends_with(" succeeded.") => Self::Good,
            Level::INFO => Self::Plain,
            _ => Self::Quiet,
        }
    }

    /// Returns a text in its colour.
    pub fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Good => 32,
            Self::Bad => 31,
            Self::Odd => 33,
            Self::Quiet => 2,
            Self::Plain => return text.to_owned(),
        };
        if text.is_empty() { String::new() } else { format!("\u{1b}[{code}m{text}\u{1b}[0m") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_and_failure_are_told_apart() {
        let tone = |message| Tone::of(Level::INFO, message);
        assert_eq!(tone("Handler 'f' succeeded."), Tone::Good);
        assert_eq!(tone("Creation is processed: 1 succeeded; 0 failed."), Tone::Good);
        assert_eq!(tone("Creation is processed: 0 succeeded; 1 failed."), Tone::Bad);
        assert_eq!(tone("│ + Pod x created"), Tone::Quiet);
        assert_eq!(tone("│ ! Pod x: HTTP 403"), Tone::Bad);
        assert_eq!(tone("hello"), Tone::Plain);
        assert_eq!(Tone::of(Level::ERROR, "Handler 'f' failed."), Tone::Bad);
    }
}
