//! Formats diagnostics as text and as JSON.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::LazyLock;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet, renderer::DecorStyle};
use regex::Regex;
use serde_json::{Value, json};

use crate::kit::visible;
use crate::manifest::{self, Diagnostic, Severity};
use crate::telemetry::{self, credentials};

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

/// Returns all diagnostics and their counts as a JSON document.
pub(super) fn document(diagnostics: &[Diagnostic]) -> String {
    visible::json(&format!("{:#}\n", to_json(diagnostics))).into_owned()
}

fn to_json(diagnostics: &[Diagnostic]) -> Value {
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
        "message": credentials::hidden(&diagnostic.message),
        "file": diagnostic.place.file.display().to_string(),
        "line": diagnostic.place.line,
        "column": diagnostic.place.column,
        "length": diagnostic.length,
        "path": diagnostic.path,
        "hint": diagnostic.hint.as_deref().map(credentials::hidden),
        "snippet": diagnostic.snippet.as_ref().map(|snippet| source_line(diagnostic, snippet)),
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
        let start = diagnostic.place.column.saturating_sub(1 + snippet.skipped);
        let (text, marked) = visible_snippet(&source_line(diagnostic, snippet), start, diagnostic.length);
        let annotation = AnnotationKind::Primary.span(marked);
        // The snippet has no location of its own: the one above it includes the YAML path.
        group = group.element(Snippet::source(text).line_start(diagnostic.place.line).annotation(annotation));
    }
    if let Some(hint) = &diagnostic.hint {
        group = group.element(Level::HELP.with_name("hint").message(printable(hint)));
    }
    group
}

/// Returns the location: `operator.yaml:14:7  spec.resources[0].handlers[2].retries`.
fn location(diagnostic: &Diagnostic) -> String {
    let mut location = diagnostic.place.file.display().to_string();
    if diagnostic.place.line > 0 {
        let _ = write!(location, ":{}:{}", diagnostic.place.line, diagnostic.place.column);
    }
    if let Some(path) = &diagnostic.path {
        location.push_str("  ");
        location.push_str(path);
    }
    printable(&location)
}

/// Returns a line of a file with visible control characters, and the byte range of some of its characters.
fn visible_snippet(line: &str, start: usize, length: usize) -> (String, Range<usize>) {
    let mut text = String::with_capacity(line.len());
    let (mut from, mut to) = (None, None);
    for (position, c) in line.chars().enumerate() {
        if position == start {
            from = Some(text.len());
        }
        if position == start + length {
            to = Some(text.len());
        }
        // The renderer itself replaces tabs.
        if c == '\t' { text.push(c) } else { visible::push(&mut text, c) }
    }
    let from = from.unwrap_or(text.len());
    let to = to.unwrap_or(text.len()).max(from);
    (text, from..to)
}

/// Settings whose values are secret.
static SECRET_SETTING: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?:^\s*(?:- )?|[{,]\s*)["']?(?:token|password)["']?:\s+(?P<value>"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"',}\]#\[{][^\s,}\]]*)"#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// Returns the line of a snippet without secret settings.
fn source_line<'a>(diagnostic: &Diagnostic, snippet: &'a manifest::Snippet) -> Cow<'a, str> {
    if shows_settings(diagnostic) { Cow::Owned(mask_settings(&snippet.text)) } else { Cow::Borrowed(&snippet.text) }
}

/// Tells whether a diagnostic may show secret settings: those of servers of webhooks, or a manifest that is not YAML.
fn shows_settings(diagnostic: &Diagnostic) -> bool {
    let is_manifest =
        diagnostic.place.file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    is_manifest && diagnostic.path.as_ref().is_none_or(|path| path.starts_with("spec.settings"))
}

/// Replaces the values of secret settings by as many asterisks, so that columns stay the same.
fn mask_settings(line: &str) -> String {
    let mut masked = String::with_capacity(line.len());
    let mut end = 0;
    for found in SECRET_SETTING.captures_iter(line).filter_map(|found| found.name("value")) {
        masked.push_str(&line[end..found.start()]);
        masked.extend(found.as_str().chars().map(|_| '*'));
        end = found.end();
    }
    masked.push_str(&line[end..]);
    masked
}

/// Manifests may contain anything: control characters must not reach the terminal.
fn printable(text: &str) -> String {
    const MAX_LENGTH: usize = 500;
    let without_credentials = credentials::hidden(text);
    let mut clean = String::new();
    without_credentials.chars().take(MAX_LENGTH).for_each(|c| visible::push(&mut clean, c));
    if without_credentials.chars().nth(MAX_LENGTH).is_some() {
        clean.push('…');
    }
    clean
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::kit::source::SourcePosition;

    use super::*;

    fn diagnostic(file: &str, path: Option<&str>, line: &str, column: usize) -> Diagnostic {
        let text = |text: &str| text.to_owned();
        Diagnostic {
            severity: Severity::Error,
            message: text("unknown field `a\u{1b}[2J\n\u{9b}1m`"),
            place: SourcePosition { file: PathBuf::from(file), line: 1, column },
            length: 3,
            path: path.map(text),
            hint: Some(text("write \u{202e}x")),
            snippet: Some(manifest::Snippet { text: text(line), skipped: 0 }),
        }
    }

    fn rendered(diagnostic: Diagnostic) -> String {
        anstream::adapter::strip_str(&render(&[diagnostic])).to_string()
    }

    #[test]
    fn hostile_texts_control_no_terminal_and_their_columns_are_marked() {
        let shown = rendered(diagnostic("a\u{1b}.yaml", Some("spec.\u{7}"), "\u{1b}[2K\u{9b}: abc # \u{2067}", 8));
        assert!(!shown.replace('\n', "").contains(visible::is_hidden), "{shown:?}");
        assert!(shown.starts_with("error: unknown field `a\\x1b[2J\\n\\x9b1m`\n"), "{shown}");
        let mut lines = shown.lines().skip_while(|line| !line.contains("abc"));
        let place = lines.next().and_then(|line| line.find("abc"));
        assert!(place.is_some() && place == lines.next().and_then(|line| line.find("^^^")), "{shown}");
    }

    #[test]
    fn tokens_and_passwords_of_settings_are_masked_in_place() {
        let line = r#"server: {kind: ngrok, token: "s3, cr3t", password: s3cr3t, port: x}"#;
        let column = line.find("port").expect("it is there") + 1;
        let settings = diagnostic("operator.yaml", Some("spec.settings.admission.server.port"), line, column);
        let masked = r"server: {kind: ngrok, token: **********, password: ******, port: x}";
        assert!(rendered(settings.clone()).contains(masked), "{}", rendered(settings));
        assert_eq!(to_json(&[settings])["diagnostics"][0]["snippet"], masked);
        let script = diagnostic("a.rhai", None, "let a = #{ token: secret() };", 1);
        assert!(rendered(script.clone()).contains("token: secret()"), "{}", rendered(script));
    }
}
