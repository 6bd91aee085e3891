//! The forms of log lines, which are those of kopf.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};
use tracing::Level;

use crate::kit::visible::{self, CONTINUATION};

use super::reference::ObjectReference;
use super::style::{self, Style};

/// Width of a terminal that does not report its size.
pub(crate) const DEFAULT_WIDTH: usize = 120;

/// Width that lines of the change log have in a narrower terminal.
const MIN_WIDTH: usize = 60;

/// The form of log lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// The message alone.
    Plain,
    /// Time of day and message: the change log of `dev`.
    ChangeLog,
    /// Time, logger, level and message.
    #[default]
    Full,
    /// One JSON object per line.
    Json,
}

/// A log line.
#[derive(Debug, Clone)]
pub struct Line {
    /// When it was logged.
    pub at: Timestamp,
    /// Level of the line.
    pub level: Level,
    /// Name of the logger.
    pub logger: String,
    /// The message without prefix and fields.
    pub message: String,
    /// Structured fields.
    pub fields: Map<String, Value>,
    /// The object of the line, if any.
    pub object: Option<Arc<ObjectReference>>,
}

impl Line {
    /// Formats the line without a line break at its end. If the message has several lines, each further one begins with
    /// a tab, as no other line does; JSON has no line breaks.
    pub fn print(&self, format: Format, reference_key: &str, has_prefix: bool) -> String {
        let prefix = self.prefix(has_prefix);
        match format {
            Format::Plain => format!("{prefix}{}", self.text()),
            Format::ChangeLog => self.change_log(&prefix, false, None),
            Format::Full => {
                let time = TimeZone::system().to_datetime(self.at);
                let (date, milliseconds) = (time.date(), time.millisecond());
                let (hour, minute, second) = (time.hour(), time.minute(), time.second());
                let (logger, level, text) = (&self.logger, level_name(self.level), self.text());
                let mut line = String::with_capacity(64 + prefix.len() + text.len());
                let _ = write!(
                    line,
                    "[{date} {hour:02}:{minute:02}:{second:02},{milliseconds:03}] {logger:<20.20} [{level:<8.8}] "
                );
                line + &prefix + &text
            }
            Format::Json => self.json(reference_key, has_prefix),
        }
    }

    /// Returns the object prefix of the message, if it is wanted.
    pub fn prefix(&self, is_wanted: bool) -> String {
        visible::one_line(&self.raw_prefix(is_wanted)).into_owned()
    }

    fn raw_prefix(&self, is_wanted: bool) -> String {
        self.object.as_ref().filter(|_| is_wanted).map(|object| object.prefix()).unwrap_or_default()
    }

    /// Formats the line for the change log, optionally with colours. Lines that describe events and requests are cut to
    /// the width.
    pub fn change_log(&self, prefix: &str, has_colours: bool, width: Option<usize>) -> String {
        let time = TimeZone::system().to_datetime(self.at);
        let time = format!("{:02}:{:02}:{:02}", time.hour(), time.minute(), time.second());
        let mut text = self.text();
        if let Some(width) = width.filter(|_| style::is_change(&text)) {
            let available = width.max(MIN_WIDTH).saturating_sub(time.len() + 1 + prefix.chars().count());
            if text.chars().count() > available {
                text = text.chars().take(available.saturating_sub(1)).chain(['…']).collect();
            }
        }
        if !has_colours {
            return format!("{time} {prefix}{text}");
        }
        format!(
            "{} {}{}",
            Style::Dim.paint(&time),
            Style::Dim.paint(prefix),
            Style::of(self.level, &self.message).paint(&text)
        )
    }

    /// Returns the message and the fields for terminals.
    fn text(&self) -> String {
        let mut text = visible::lines(&self.message, CONTINUATION).into_owned();
        for (key, value) in &self.fields {
            let value = value.as_str().map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed);
            text.extend([" ", key, "=", &visible::one_line(&value)]);
        }
        text
    }

    fn json(&self, reference_key: &str, has_prefix: bool) -> String {
        let mut map = self.fields.clone();
        map.insert("message".to_owned(), Value::String(format!("{}{}", self.raw_prefix(has_prefix), self.message)));
        let timestamp = self.at.strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00").to_string();
        map.insert("timestamp".to_owned(), Value::String(timestamp));
        map.entry("severity".to_owned()).or_insert_with(|| Value::String(severity(self.level).to_owned()));
        if let Some(object) = &self.object {
            map.insert(reference_key.to_owned(), object.to_json());
            if let Some(revision) = &object.revision {
                map.entry("revision".to_owned()).or_insert_with(|| Value::String(revision.clone()));
            }
        }
        visible::json(&Value::Object(map).to_string()).into_owned()
    }
}

fn level_name(level: Level) -> &'static str {
    match level {
        Level::ERROR => "ERROR",
        Level::WARN => "WARNING",
        Level::INFO => "INFO",
        Level::DEBUG => "DEBUG",
        Level::TRACE => "TRACE",
    }
}

fn severity(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        Level::DEBUG | Level::TRACE => "debug",
    }
}

/// Returns a number with thousands separators: `1,234`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut thousands = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            thousands.push(',');
        }
        thousands.push(digit);
    }
    thousands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(object: Option<ObjectReference>) -> Line {
        Line {
            at: "2024-02-29T12:34:56.789012Z".parse().unwrap(),
            level: Level::WARN,
            logger: "kopfd.objects".to_owned(),
            message: "Handler 'f' failed.".to_owned(),
            fields: Map::new(),
            object: object.map(Arc::new),
        }
    }

    fn reference() -> ObjectReference {
        let text = |text: &str| text.to_owned();
        ObjectReference {
            api_version: text("v1"),
            kind: text("Pod"),
            name: text("p"),
            uid: None,
            namespace: Some(text("ns")),
            revision: None,
        }
    }

    #[test]
    fn full_lines_have_columns() {
        let printed = line(Some(reference())).print(Format::Full, "object", true);
        assert!(printed.ends_with("56,789] kopfd.objects        [WARNING ] [ns/p] Handler 'f' failed."), "{printed}");
    }

    #[test]
    fn json_lines_about_an_object_name_the_revision_that_handles_it() {
        let reference = ObjectReference { revision: Some("r1".to_owned()), ..reference() };
        assert!(line(Some(reference.clone())).print(Format::Json, "object", true).contains("\"revision\":\"r1\""));
        assert!(!line(Some(reference)).print(Format::Full, "object", true).contains("r1"));
    }

    #[test]
    fn json_lines_refer_to_the_object() {
        let printed = line(Some(reference())).print(Format::Json, "k8s", false);
        let expected = r#"{"k8s":{"apiVersion":"v1","kind":"Pod","name":"p","namespace":"ns","uid":null},"message":"Handler 'f' failed.","severity":"warn","timestamp":"2024-02-29T12:34:56.789012+00:00"}"#;
        assert_eq!(printed, expected);
    }

    #[test]
    fn lines_of_the_change_log_have_the_time_of_day_and_a_width() {
        let printed = line(Some(reference())).change_log("[ns/p] ", false, Some(DEFAULT_WIDTH));
        assert!(printed.ends_with(":56 [ns/p] Handler 'f' failed."), "{printed}");
        let long = Line { message: format!("│ + x: {}", "y".repeat(200)), ..line(None) };
        assert_eq!(long.change_log("", false, Some(DEFAULT_WIDTH)).chars().count(), DEFAULT_WIDTH);
        assert!(long.change_log("", false, None).ends_with(&"y".repeat(200)), "nothing is cut where there is no width");
        let coloured = line(Some(reference())).change_log("[ns/p] ", true, Some(DEFAULT_WIDTH));
        assert!(coloured.ends_with("\u{1b}[2m[ns/p] \u{1b}[0m\u{1b}[33mHandler 'f' failed.\u{1b}[0m"), "{coloured:?}");
    }

    /// Texts that would forge other output if they reached a terminal or a file as they are.
    const HOSTILE: [&str; 14] = [
        "a\n[2024-02-29 12:34:56,789] kopfd.objects        [ERROR   ] forged",
        "a\r\nforged",
        "\rforged",
        "a\u{1b}[2K\u{1b}[1Aforged",
        "\u{1b}]0;title\u{7}",
        "\u{9b}2J",
        "a\u{85}forged",
        "a\u{2028}forged\u{2029}forged",
        "\u{202e}degrof",
        "\u{2067}a\u{2069}\u{200f}\u{61c}",
        "\tforged\u{b}\u{c}",
        "\u{0}\u{8}\u{8}\u{7f}",
        "\"}\n{\"message\": \"forged\", \"severity\": \"error\"}",
        "12:34:56 [ns/p] Handler 'f' succeeded.\n12:34:57 forged",
    ];

    /// Returns a line with a text in every place that another one than the engine may choose.
    fn hostile(text: &str) -> Line {
        let text = || text.to_owned();
        let object = ObjectReference {
            api_version: text(),
            kind: text(),
            name: text(),
            uid: Some(text()),
            namespace: Some(text()),
            revision: Some(text()),
        };
        Line {
            message: text(),
            fields: Map::from_iter([("error".to_owned(), Value::String(text()))]),
            ..line(Some(object))
        }
    }

    #[test]
    fn hostile_texts_neither_forge_lines_nor_control_terminals() {
        for text in HOSTILE {
            let line = hostile(text);
            for format in [Format::Plain, Format::Full, Format::ChangeLog, Format::Json] {
                for has_prefix in [true, false] {
                    let printed = line.print(format, "object", has_prefix);
                    let (first, further) = printed.split_once('\n').unwrap_or((&printed, ""));
                    assert!(!first.contains(visible::is_hidden), "{format:?} shows {first:?}");
                    for line in further.split('\n').filter(|_| printed.contains('\n')) {
                        let rest =
                            line.strip_prefix('\t').unwrap_or_else(|| panic!("{format:?} has the line {line:?}"));
                        assert!(!rest.contains(visible::is_hidden), "{format:?} shows {rest:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_texts_are_whole_in_json() {
        for text in HOSTILE {
            let printed = hostile(text).print(Format::Json, "object", true);
            assert!(!printed.contains('\n'), "{printed:?}");
            let document: Value = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed:?}"));
            assert_eq!(document["message"], format!("[{text}/{text}] {text}"));
            assert_eq!(
                (&document["error"], &document["object"]["name"], &document["revision"]),
                (&text.into(), &text.into(), &text.into())
            );
            assert_eq!(
                (&document["severity"], document.as_object().map(Map::len)),
                (&"warn".into(), Some(6)),
                "no key was added: {printed}"
            );
        }
    }

    #[test]
    fn colours_do_not_let_hostile_texts_through() {
        for text in HOSTILE {
            let line = hostile(text);
            let printed = line.change_log(&line.prefix(true), true, Some(DEFAULT_WIDTH));
            let without_colours =
                printed.replace("\u{1b}[2m", "").replace("\u{1b}[33m", "").replace("\u{1b}[0m", "").replace("\n\t", "");
            assert!(!without_colours.contains(visible::is_hidden), "{without_colours:?}");
        }
    }

    #[test]
    fn further_lines_of_a_message_are_indented() {
        let two = Line { message: "Handler 'f' failed.\n  --> f (x.rhai:1:2)".to_owned(), ..line(Some(reference())) };
        assert_eq!(two.print(Format::Plain, "object", true), "[ns/p] Handler 'f' failed.\n\t  --> f (x.rhai:1:2)");
        assert!(
            two.print(Format::Full, "object", true).ends_with("] [ns/p] Handler 'f' failed.\n\t  --> f (x.rhai:1:2)")
        );
        assert!(
            two.print(Format::Json, "object", true).contains(r#""[ns/p] Handler 'f' failed.\n  --> f (x.rhai:1:2)""#)
        );
    }

    #[test]
    fn numbers_have_thousands_separators() {
        assert_eq!([0, 999, 1_234, 1_234_567].map(thousands), ["0", "999", "1,234", "1,234,567"]);
    }

    #[test]
    fn plain_lines_are_the_message() {
        assert_eq!(line(None).print(Format::Plain, "object", true), "Handler 'f' failed.");
    }
}
