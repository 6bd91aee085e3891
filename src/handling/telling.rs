//! What is to be told about a decision: the core does not log, it returns the lines.

use std::fmt;

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Why it took this path.
    Debug,
    /// A step that readers of `dev` follow; a debugging line for everybody else.
    Step,
    /// A change that a user would notice.
    Info,
    /// Unusual, still working.
    Warning,
    /// Somebody must act.
    Error,
}

impl Level {
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
pub struct Telling {
    /// How much it matters.
    pub level: Level,
    /// The sentence, in kopf's words.
    pub text: String,
    /// What happens next, where kopf leaves the reader to guess.
    pub next: Option<String>,
    /// Where in a script it went wrong, in several lines.
    pub trace: Option<String>,
}

impl Telling {
    /// Returns a debugging line.
    pub fn debug(text: impl Into<String>) -> Self {
        Self::new(Level::Debug, text)
    }

    /// Returns a step.
    pub fn step(text: impl Into<String>) -> Self {
        Self::new(Level::Step, text)
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

    /// Adds what happens next.
    pub fn followed_by(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Telling {
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

/// Prints seconds as a user would write them: without a fraction where there is none.
pub fn seconds(seconds: f64) -> String {
    if seconds.fract() == 0.0 && seconds.abs() < 1e15 { format!("{}", seconds as i64) } else { format!("{seconds}") }
}

/// Prints computed seconds as Python prints floats: always with a fraction.
pub fn float(seconds: f64) -> String {
    if seconds.fract() == 0.0 && seconds.abs() < 1e15 { format!("{seconds:.1}") } else { format!("{seconds}") }
}

/// Prints a span of time as Python does: `[N day(s), ]H:MM:SS[.ffffff]`.
pub fn span(seconds: f64) -> String {
    let microseconds = (seconds * 1e6).round() as i64;
    let (whole, fraction) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
    let (days, rest) = (whole.div_euclid(86_400), whole.rem_euclid(86_400));
    let days = match days {
        0 => String::new(),
        1 | -1 => format!("{days} day, "),
        _ => format!("{days} days, "),
    };
    let fraction = if fraction > 0 { format!(".{fraction:06}") } else { String::new() };
    format!("{days}{}:{:02}:{:02}{fraction}", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_printed_as_python_does() {
        assert_eq!(span(100.0), "0:01:40");
        assert_eq!(span(0.5), "0:00:00.500000");
        assert_eq!(span(90_061.0), "1 day, 1:01:01");
        assert_eq!(span(180_000.25), "2 days, 2:00:00.250000");
    }
}
