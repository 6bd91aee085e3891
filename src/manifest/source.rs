//! Source files: limited in size, in UTF-8, with their lines for snippets.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kit::source::SourceSpan;

use super::diagnostic::{Diagnostic, Severity, Snippet};

/// The largest accepted file. The API server accepts no object above 1.5 MiB, so this is enough for several of the
/// largest.
pub(crate) const MAX_FILE: u64 = 8 << 20;

/// One text file.
#[derive(Debug, Clone)]
pub struct Source {
    /// The name, as given by the user.
    pub name: PathBuf,
    /// The content.
    pub text: Arc<str>,
    starts: Arc<[usize]>,
}

impl Source {
    /// Returns a text under a name.
    pub fn new(name: impl Into<PathBuf>, text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1)).collect();
        Self { name: name.into(), text: text.into(), starts }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, is too large, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Self, Box<Diagnostic>> {
        let fail = |message: String, hint: Option<&str>| {
            Box::new(Diagnostic::of_file(Severity::Error, path, message, hint.map(str::to_owned)))
        };
        let bytes = read_bounded(path)
            .map_err(|error| fail(format!("cannot read the file: {}", reason(&error)), Some(way_out(&error))))?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(fail(
                format!("the file is larger than {} MiB", MAX_FILE >> 20),
                Some("split it into several files"),
            ));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Self::new(path, &text)),
            Err(error) => {
                let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
                let line = valid.matches('\n').count() + 1;
                let column = valid.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                let readable = Self::new(path, &String::from_utf8_lossy(error.as_bytes()));
                let (message, hint) = ("the file is not valid UTF-8", Some("save it in the encoding UTF-8".to_owned()));
                Err(Box::new(readable.diagnostic(
                    Severity::Error,
                    SourceSpan { line, column, length: 1 },
                    message,
                    hint,
                )))
            }
        }
    }

    /// Returns a line by its number, from 1.
    pub fn line(&self, number: usize) -> Option<&str> {
        let start = *self.starts.get(number.checked_sub(1)?)?;
        let end = self.starts.get(number).copied().unwrap_or(self.text.len());
        Some(self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    /// Returns the snippet for a spot.
    pub fn snippet(&self, spot: SourceSpan) -> Option<Snippet> {
        self.line(spot.line).map(|text| Snippet::of(text, spot.column))
    }

    /// Returns a diagnostic about a spot.
    pub fn diagnostic(
        &self,
        severity: Severity,
        spot: SourceSpan,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Diagnostic {
        let (message, place, snippet) = (message.into(), spot.in_file(&self.name), self.snippet(spot));
        Diagnostic { severity, message, place, length: spot.length, path: None, hint, snippet }
    }
}

/// Returns why a file cannot be read, without error numbers of the operating system.
pub(crate) fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns a hint for an unreadable file.
pub(crate) fn way_out(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::NotFound => "check the path: it is relative to the current directory",
        std::io::ErrorKind::PermissionDenied => "let the current user read it",
        std::io::ErrorKind::IsADirectory => "name a file",
        _ => "check the path and the disk",
    }
}

/// Reads up to one byte more than allowed, so that the caller can detect it.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(std::io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::with_capacity(metadata.len().min(MAX_FILE + 1) as usize);
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the directory that paths of a manifest are relative to.
pub(crate) fn directory_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
