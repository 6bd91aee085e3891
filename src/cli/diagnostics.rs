//! Formats diagnostics as text and as JSON.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value, json};

use crate::manifest::{Diagnostic, Severity};
use crate::telemetry;

/// Returns all diagnostics as text with colours, which the caller's stream may strip.
pub(super) fn render(diagnostics: &[Diagnostic]) -> String {
    let renderer = Renderer::styled().decor_style(DecorStyle::Ascii).term_width(120);
    let mut text = String::new();
    for diagnostic in diagnostics {
        for line in renderer.render(&[group(diagnostic)]).lines().filter(|line| !is_separator(line)) {
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// Prints all diagnostics to standard error, with colours on a terminal.
pub(super) fn print(diagnostics: &[Diagnostic]) {
    let text = render(diagnostics);
    match anstream::AutoStream::choice(&std::io::stderr()) {
        anstream::ColorChoice::Never => telemetry::write(&anstream::adapter::strip_str(&text).to_string()),
        _ => telemetry::write(&text),
    }
}

/// Tells whether a line is the renderer's separator between the location, which is ours, and the snippet.
fn is_separator(line: &str) -> bool {
    anstream::adapter::strip_str(line).to_string().trim() == ":::"
}

/// Returns all diagnostics and their counts.
pub(super) fn to_json(diagnostics: &[Diagnostic]) -> Value {
    let count = |severity: Severity| diagnostics.iter().filter(|one| one.severity == severity).count();
    json!({
        "diagnostics": diagnostics.iter().map(one_to_json).collect::<Vec<_>>(),
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "hints": count(Severity::Hint),
    })
}

fn one_to_json(diagnostic: &Diagnostic) -> Value {
    json!({
        "severity": diagnostic.severity.word(),
        "message": diagnostic.message,
        "file": diagnostic.file.display().to_string(),
        "line": diagnostic.line,
        "column": diagnostic.column,
        "length": diagnostic.length,
        "path": diagnostic.path,
        "hint": diagnostic.hint,
        "snippet": diagnostic.snippet.as_ref().map(|snippet| &snippet.text),
    })
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Hint => Level::HELP.with_name("hint"),
    };
    let mut group = level.primary_title(printable(&diagnostic.message)).element(Origin::path(location(diagnostic)));
    if let Some(snippet) = &diagnostic.snippet {
        let start = diagnostic.column.saturating_sub(1 + snippet.skipped);
        let annotation = AnnotationKind::Primary.span(span(&snippet.text, start, diagnostic.length));
        // The snippet has no location of its own: the one above it includes the YAML path.
        group = group.element(Snippet::source(snippet.text.as_str()).line_start(diagnostic.line).annotation(annotation));
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.with_name("hint").message(printable(hint)));
    }
    group
}

/// Returns the location: `operator.yaml:14:7  spec.resources[0].handlers[2].retries`.
fn location(diagnostic: &Diagnostic) -> String {
    let mut location = diagnostic.file.display().to_string();
    if diagnostic.line > 0 {
        let _ = write!(location, ":{}:{}", diagnostic.line, diagnostic.column);
    }
    if let Some(path) = &diagnostic.path {
        location.push_str("  ");
        location.push_str(path);
    }
    printable(&location)
}

/// Returns the byte range of some characters.
fn span(text: &str, start: usize, length: usize) -> std::ops::Range<usize> {
    let byte = |position: usize| text.char_indices().nth(position).map_or(text.len(), |(byte, _)| byte);
    let from = byte(start);
    from..byte(start + length).max(from)
}

/// Manifests may contain anything: control characters must not reach the terminal.
fn printable(text: &str) -> String {
    const MAX_LENGTH: usize = 500;
    let mut clean: String = text.chars().take(MAX_LENGTH).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(MAX_LENGTH).is_some() {
        clean.push('…');
    }
    clean
}
