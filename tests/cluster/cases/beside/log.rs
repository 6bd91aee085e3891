//! The JSON log of the operators of one side: calls of handlers, and the messages of the engines.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use jiff::Timestamp;
use serde_json::Value;

/// What the message of a call begins with.
const CALL: &str = "CALL ";

/// A log file that grows. Any thread may read it.
pub(super) struct Log {
    path: PathBuf,
    read: Mutex<ReadLines>,
}

#[derive(Default)]
struct ReadLines {
    offset: u64,
    unfinished: Vec<u8>,
    lines: Vec<LogLine>,
}

/// A line of the log.
#[derive(Debug, Clone)]
pub(super) struct LogLine {
    /// The operator's time.
    pub(super) at: Timestamp,
    /// `debug`, `info`, `warn`, `error` or `fatal`.
    pub(super) severity: String,
    /// The name of its object.
    pub(super) object: Option<String>,
    /// What it says.
    pub(super) content: LogContent,
}

/// The content of a line.
#[derive(Debug, Clone)]
pub(super) enum LogContent {
    /// A handler tells its call.
    Call(LoggedCall),
    /// Any other message.
    Message(String),
}

/// A call told by a handler.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LoggedCall {
    /// The name given by the handler.
    pub(super) name: String,
    /// What the handler has told.
    pub(super) arguments: Value,
}

impl Log {
    /// Returns the log in a file, which need not exist yet.
    pub(super) fn of(path: PathBuf) -> Self {
        Self { path, read: Mutex::default() }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the complete lines so far that pass a test.
    pub(super) fn lines(&self, is_wanted: impl Fn(&LogLine) -> bool) -> Vec<LogLine> {
        let mut read = self.read.lock().expect("no thread panics while holding the lines");
        read.continue_with(&self.path);
        read.lines.iter().filter(|line| is_wanted(line)).cloned().collect()
    }
}

impl ReadLines {
    fn continue_with(&mut self, path: &Path) {
        let Ok(mut file) = File::open(path) else { return };
        let mut bytes = Vec::new();
        let read = file
            .seek(SeekFrom::Start(self.offset))
            .and_then(|_| file.read_to_end(&mut bytes))
            .expect("the log can be read");
        self.offset += read as u64;
        self.unfinished.extend(bytes);
        while let Some(end) = self.unfinished.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unfinished.drain(..=end).collect();
            // Warnings of Python itself are not JSON.
            self.lines.extend(serde_json::from_slice(&line).ok().as_ref().and_then(LogLine::of));
        }
    }
}

impl LogLine {
    fn of(line: &Value) -> Option<Self> {
        let text = |pointer: &str| line.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let message = text("/message")?;
        let content = message
            .strip_prefix(CALL)
            .and_then(LoggedCall::of)
            .map_or(LogContent::Message(message.clone()), LogContent::Call);
        Some(Self {
            at: text("/timestamp")?.parse().ok()?,
            severity: text("/severity")?,
            object: text("/object/name"),
            content,
        })
    }

    /// Returns the call told by the line.
    pub(super) fn call(&self) -> Option<&LoggedCall> {
        match &self.content {
            LogContent::Call(call) => Some(call),
            LogContent::Message(_) => None,
        }
    }
}

impl LoggedCall {
    fn of(text: &str) -> Option<Self> {
        let (name, arguments) = text.split_once(' ')?;
        Some(Self { name: name.to_owned(), arguments: serde_json::from_str(arguments).ok()? })
    }
}
