//! The colours of the change log.

use tracing::Level;

/// The style of a line, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Success.
    Success,
    /// Failure.
    Failure,
    /// Warning.
    Warning,
    /// Of little importance.
    Dim,
    /// Without colour.
    Plain,
}

/// Tells whether a message describes an event or a request of the change log, not a step of the engine.
pub(crate) fn is_change(message: &str) -> bool {
    message.starts_with(['┌', '│'])
}

impl Style {
    /// Returns the style of a message by its level and by the fixed messages of the engine, which are kopf's.
    pub(crate) fn of(level: Level, message: &str) -> Self {
        match level {
            Level::ERROR => Self::Failure,
            Level::WARN => Self::Warning,
            _ if message.starts_with("│ !") => Self::Failure,
            _ if is_change(message) => Self::Dim,
            _ if message.contains(" is processed: ") && !message.ends_with("; 0 failed.") => Self::Failure,
            _ if message.contains(" is processed: ") || message.ends_with(" succeeded.") => Self::Success,
            Level::INFO => Self::Plain,
            _ => Self::Dim,
        }
    }

    /// Returns a text in its colour.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Self::Success => 32,
            Self::Failure => 31,
            Self::Warning => 33,
            Self::Dim => 2,
            Self::Plain => return text.to_owned(),
        };
        if text.is_empty() { String::new() } else { format!("\u{1b}[{code}m{text}\u{1b}[0m") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_and_failure_have_different_styles() {
        let style = |message| Style::of(Level::INFO, message);
        assert_eq!(style("Handler 'f' succeeded."), Style::Success);
        assert_eq!(style("Creation is processed: 1 succeeded; 0 failed."), Style::Success);
        assert_eq!(style("Creation is processed: 0 succeeded; 1 failed."), Style::Failure);
        assert_eq!(style("│ + Pod x created"), Style::Dim);
        assert_eq!(style("│ ! Pod x: HTTP 403"), Style::Failure);
        assert_eq!(style("hello"), Style::Plain);
        assert_eq!(Style::of(Level::ERROR, "Handler 'f' failed."), Style::Failure);
    }
}
