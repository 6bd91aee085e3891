//! Messages about decisions: the core does not log, it returns them.

use std::fmt;
use std::time::Duration;

/// The level of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// An explanation of a decision.
    Debug,
    /// A step shown by `kopfd dev`; otherwise a debug line.
    Step,
    /// A change that a user would notice.
    Info,
    /// Unusual, still working.
    Warning,
    /// An action is required.
    Error,
}

impl Level {
    /// Returns the level of a line about indexing, which happens at every event: information is for debugging, and
    /// steps are not logged.
    pub fn terse(self) -> Option<Self> {
        match self {
            Self::Debug | Self::Step => None,
            Self::Info => Some(Self::Debug),
            Self::Warning | Self::Error => Some(self),
        }
    }

    /// Returns the name of the level in capitals.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug | Self::Step => "DEBUG",
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        }
    }
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The level.
    pub level: Level,
    /// The text, as kopf words it.
    pub text: String,
    /// The next action, if kopf's text does not have it.
    pub next: Option<String>,
    /// The stack trace of a script, in several lines.
    pub trace: Option<String>,
}

impl Message {
    /// Returns a debugging line.
    pub fn debug(text: impl Into<String>) -> Self {
        Self::new(Level::Debug, text)
    }

    /// Returns a step.
    pub fn step(text: impl Into<String>) -> Self {
        Self::new(Level::Step, text)
    }

    /// Returns the line for debugging only, if a condition holds.
    #[must_use]
    pub fn demoted_if(self, is_routine: bool) -> Self {
        if is_routine { Self { level: Level::Debug, ..self } } else { self }
    }

    /// Returns an informing line.
    pub fn info(text: impl Into<String>) -> Self {
        Self::new(Level::Info, text)
    }

    /// Returns a warning.
    pub fn warning(text: impl Into<String>) -> Self {
        Self::new(Level::Warning, text)
    }

    /// Returns an error.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(Level::Error, text)
    }

    fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into(), next: None, trace: None }
    }

    /// Adds the next action.
    pub fn followed_by(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Message {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)?;
        if let Some(next) = &self.next {
            let stop = if self.text.ends_with(['.', '!', '?']) { "" } else { "." };
            write!(formatter, "{stop} {next}")?;
        }
        if let Some(trace) = &self.trace {
            write!(formatter, "\n{trace}")?;
        }
        Ok(())
    }
}

/// Returns the seconds of a duration, without a fraction if it is zero.
pub(crate) fn seconds(duration: Duration) -> String {
    let text = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the seconds of a duration as Python prints floats: always with a fraction.
pub(crate) fn float(duration: Duration) -> String {
    let text = seconds(duration);
    if text.contains('.') { text } else { text + ".0" }
}

/// Returns a duration as Python prints a `timedelta`: `[N day(s), ]H:MM:SS[.ffffff]`.
pub(crate) fn span(duration: Duration) -> String {
    let rounded = duration.saturating_add(Duration::from_nanos(500));
    let (seconds, microseconds) = (rounded.as_secs(), rounded.subsec_micros());
    let days = match seconds / 86_400 {
        0 => String::new(),
        1 => "1 day, ".to_owned(),
        days => format!("{days} days, "),
    };
    let fraction = if microseconds > 0 { format!(".{microseconds:06}") } else { String::new() };
    format!("{days}{}:{:02}:{:02}{fraction}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_as_python_does() {
        assert_eq!(span(Duration::from_secs(100)), "0:01:40");
        assert_eq!(span(Duration::from_millis(500)), "0:00:00.500000");
        assert_eq!(span(Duration::from_secs(90_061)), "1 day, 1:01:01");
        assert_eq!(span(Duration::from_secs(100_000)), "1 day, 3:46:40");
        assert_eq!(span(Duration::from_millis(180_000_250)), "2 days, 2:00:00.250000");
        assert_eq!(span(Duration::from_nanos(1_999_999_999)), "0:00:02");
    }

    #[test]
    fn seconds_have_a_fraction_only_where_there_is_one() {
        let texts =
            |nanoseconds| [seconds(Duration::from_nanos(nanoseconds)), float(Duration::from_nanos(nanoseconds))];
        assert_eq!(texts(60_000_000_000), ["60", "60.0"]);
        assert_eq!(texts(0), ["0", "0.0"]);
        assert_eq!(texts(2_300_000_000), ["2.3", "2.3"]);
        assert_eq!(texts(59_999_999_000), ["59.999999", "59.999999"]);
    }
}
