//! Diagnostics for people and for programs.

use std::fmt::Write as _;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value, json};

use crate::manifest::{Diagnostic, Severity};
use crate::telemetry;

/// Returns the text of all diagnostics, with colours that the caller's stream strips where there are none.
pub fn render(diagnostics: &[Diagnostic]) -> String {
    let renderer = Renderer::styled().decor_style(DecorStyle::Ascii).term_width(120);
    let mut text = String::new();
    for diagnostic in diagnostics {
        for line in renderer.render(&[group(diagnostic)]).lines().filter(|line| !is_seam(line)) {
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
    }
    text
}

/// Prints all diagnostics to the standard error stream, in colour if that is a terminal.
pub fn print(diagnostics: &[Diagnostic]) {
    let text = render(diagnostics);
    match anstream::AutoStream::choice(&std::io::stderr()) {
        anstream::ColorChoice::Never => telemetry::write(&anstream::adapter::strip_str(&text).to_string()),
        _ => telemetry::write(&text),
    }
}

/// The renderer sets its snippet apart from the place, which is ours because of the way through the YAML.
fn is_seam(line: &str) -> bool {
    anstream::adapter::strip_str(line).to_string().trim() == ":::"
}

/// Returns all diagnostics with their counts.
pub fn to_json(diagnostics: &[Diagnostic]) -> Value {
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
    let mut group = level.primary_title(printable(&diagnostic.message)).element(Origin::path(place(diagnostic)));
    if let Some(snippet) = &diagnostic.snippet {
        let start = diagnostic.column.saturating_sub(1 + snippet.skipped);
        let annotation = AnnotationKind::Primary.span(span(&snippet.text, start, diagnostic.length));
        // The path stands in the line above, as only there is room for the way through the YAML.
        group = group.element(Snippet::source(snippet.text.as_str()).line_start(diagnostic.line).annotation(annotation));
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.with_name("hint").message(printable(hint)));
    }
    group
}

/// `operator.yaml:14:7  spec.resources[0].handlers[2].retries`
fn place(diagnostic: &Diagnostic) -> String {
    let mut place = diagnostic.file.display().to_string();
    if diagnostic.line > 0 {
        let _ = write!(place, ":{}:{}", diagnostic.line, diagnostic.column);
    }
    if let Some(path) = &diagnostic.path {
        place.push_str("  ");
        place.push_str(path);
    }
    printable(&place)
}

/// The bytes of a number of characters from a position on.
fn span(text: &str, start: usize, length: usize) -> std::ops::Range<usize> {
    let byte = |position: usize| text.char_indices().nth(position).map_or(text.len(), |(byte, _)| byte);
    let from = byte(start);
    from..byte(start + length).max(from)
}

/// What people write may hold anything: control characters must not reach the terminal.
fn printable(text: &str) -> String {
    const LONGEST: usize = 500;
    let mut clean: String = text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        clean.push('…');
    }
    clean
}
