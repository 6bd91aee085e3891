//! The texts of scripts, read from below the root, and searched for positions that the syntax tree does not have.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::kit::source::{SourcePosition, SourceSpan};
use crate::script::interface::problem::{Problem, Severity};
use crate::script::sources::files::{self, Unreadable};
use crate::script::sources::modules;

/// A text with code, and its position.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The file that a user would open.
    pub file: PathBuf,
    /// The text of the code.
    pub text: String,
    /// The position in the file at which the code begins. Its lines are indented by the column of the first.
    pub origin: SourcePosition,
    /// Whether it is the text of a whole file.
    pub is_file: bool,
    functions: OnceCell<BTreeMap<String, Vec<FunctionSpots>>>,
}

/// The positions of a function's name and of its parameters.
pub(super) type FunctionSpots = (SourceSpan, Vec<(String, SourceSpan)>);

/// Returns the spot at a position of the interpreter.
pub(super) fn spot_of(position: rhai::Position, length: usize) -> SourceSpan {
    SourceSpan {
        line: position.line().unwrap_or(1),
        column: position.position().unwrap_or(1).max(1),
        length: length.max(1),
    }
}

impl Source {
    /// Returns the source of a whole file.
    pub(super) fn of_file(file: PathBuf, text: String) -> Self {
        Self {
            origin: SourcePosition { file: file.clone(), line: 1, column: 1 },
            file,
            text,
            is_file: true,
            functions: OnceCell::new(),
        }
    }

    /// Returns the source of code inside of another file.
    pub(super) fn of_inline(text: &str, place: &SourcePosition) -> Self {
        Self {
            file: place.file.clone(),
            text: text.to_owned(),
            origin: place.clone(),
            is_file: false,
            functions: OnceCell::new(),
        }
    }

    /// Returns the position in the file of a spot in the code.
    pub(super) fn place(&self, spot: SourceSpan) -> SourcePosition {
        SourcePosition {
            file: self.file.clone(),
            line: self.origin.line.max(1) + spot.line - 1,
            column: self.origin.column.max(1) + spot.column - 1,
        }
    }

    /// Returns the problem of a spot in the code.
    pub(super) fn problem(
        &self,
        severity: Severity,
        spot: SourceSpan,
        message: String,
        hint: Option<String>,
    ) -> Problem {
        Problem { length: spot.length, hint, ..Problem::at(severity, self.place(spot), message) }
    }

    /// Returns the spots of a function's name and of its parameters.
    pub(super) fn function(&self, name: &str, arity: usize) -> Option<&FunctionSpots> {
        let functions = self.functions.get_or_init(|| functions(&self.text));
        functions.get(name)?.iter().find(|(_, parameters)| parameters.len() == arity)
    }

    /// Returns a line, which are counted from 1.
    pub(super) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }

    /// Returns the word, or the sign, at a spot.
    pub(super) fn word(&self, spot: SourceSpan) -> &str {
        let line = self.line(spot.line);
        let start = line.char_indices().nth(spot.column - 1).map_or(line.len(), |(index, _)| index);
        let rest = &line[start..];
        let length = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        // A map is one sign, and no comment.
        let sign = if rest.starts_with("#{") { 2 } else { rest.chars().next().map_or(0, char::len_utf8) };
        &rest[..length.max(sign.min(rest.len()))]
    }

    /// Returns the spot behind the last word, sign or text before a spot.
    pub(super) fn end_before(&self, spot: SourceSpan) -> Option<SourceSpan> {
        let tokens = tokens(&self.text);
        let before = tokens.iter().take_while(|token| (token.spot.line, token.spot.column) < (spot.line, spot.column));
        before.last().map(|token| token.end)
    }

    /// Returns the spots of the parameters of the closure that begins at a spot.
    pub(super) fn closure(&self, start: SourceSpan) -> Vec<(String, SourceSpan)> {
        let tokens = tokens(&self.text);
        let from = tokens
            .iter()
            .position(|token| (token.spot.line, token.spot.column) >= (start.line, start.column) && token.text == "|");
        from.map_or_else(Vec::new, |from| names_until(&tokens[from + 1..], "|"))
    }
}

fn functions(text: &str) -> BTreeMap<String, Vec<FunctionSpots>> {
    let tokens = tokens(text);
    let mut functions: BTreeMap<String, Vec<FunctionSpots>> = BTreeMap::new();
    for (index, window) in tokens.windows(3).enumerate() {
        if window[0].text == "fn" && window[2].text == "(" {
            let parameters = names_until(&tokens[index + 3..], ")");
            functions.entry(window[1].text.to_owned()).or_default().push((window[1].spot, parameters));
        }
    }
    functions
}

fn names_until(tokens: &[Token<'_>], end: &str) -> Vec<(String, SourceSpan)> {
    let inside = tokens.iter().take_while(|token| token.text != end);
    inside.filter(|token| token.text != ",").map(|token| (token.text.to_owned(), token.spot)).collect()
}

/// Returns the text of a script, by its name below the root, or in the library of the binary.
///
/// # Errors
/// If it does not exist, or cannot be read.
pub(super) fn read(root: &Path, name: &str) -> Result<String, Unreadable> {
    let Some(rest) = name.strip_prefix(modules::LIBRARY_PREFIX) else { return files::read(root, "script", name) };
    let bare = rest.strip_suffix(".rhai").unwrap_or(rest);
    let text = modules::library(name).map(str::to_owned);
    let missing = || Unreadable::new(format!("there is no module {bare:?} in the library"));
    text.ok_or_else(|| missing().hint("`kopf/` is reserved for modules that ship with kopfd"))
}

/// A word, a sign, or a whole text of a script, outside of comments.
struct Token<'a> {
    text: &'a str,
    spot: SourceSpan,
    /// The position after the token.
    end: SourceSpan,
}

/// Reads only the parts of the language that are needed to find functions: words, single signs, and texts.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut reader = Reader { rest: text, line: 1, column: 1 };
    let mut tokens = Vec::new();
    while let Some(c) = reader.rest.chars().next() {
        let (line, column) = (reader.line, reader.column);
        if reader.rest.starts_with("//") {
            reader.skip_until("\n");
        } else if reader.rest.starts_with("/*") {
            reader.skip_comment();
        } else if c.is_whitespace() {
            reader.take(c.len_utf8());
        } else {
            let text = reader.token(c);
            let spot = SourceSpan { line, column, length: text.chars().count() };
            tokens.push(Token { text, spot, end: SourceSpan { line: reader.line, column: reader.column, length: 1 } });
        }
    }
    tokens
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    column: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        for c in taken.chars() {
            if c == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.rest = rest;
        taken
    }

    /// Reads the word, sign, or text that begins with a character.
    fn token(&mut self, first: char) -> &'a str {
        let whole = self.rest;
        match first {
            '"' | '`' | '\'' => self.skip_text(first),
            c if c.is_alphanumeric() || c == '_' => {
                let length = whole.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(whole.len());
                self.take(length);
            }
            c => drop(self.take(c.len_utf8())),
        }
        &whole[..whole.len() - self.rest.len()]
    }

    fn skip_until(&mut self, end: &str) {
        let bytes = self.rest.find(end).unwrap_or(self.rest.len());
        self.take(bytes);
    }

    /// Comments nest.
    fn skip_comment(&mut self) {
        self.take(2);
        let mut depth = 1;
        while depth > 0 && !self.rest.is_empty() {
            if self.rest.starts_with("/*") {
                depth += 1;
                self.take(2);
            } else if self.rest.starts_with("*/") {
                depth -= 1;
                self.take(2);
            } else {
                let bytes = self.rest.chars().next().map_or(0, char::len_utf8);
                self.take(bytes);
            }
        }
    }

    /// A back-tick text has no escapes. Interpolated code cannot declare functions, so its tokens do not matter.
    fn skip_text(&mut self, quote: char) {
        self.take(1);
        while let Some(c) = self.rest.chars().next() {
            let bytes = match c {
                '\\' if quote != '`' => 1 + self.rest[1..].chars().next().map_or(0, char::len_utf8),
                c => c.len_utf8(),
            };
            self.take(bytes);
            if c == quote {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::of_file("a.rhai".into(), text.to_owned())
    }

    #[test]
    fn functions_and_their_parameters_are_found_outside_of_comments_and_texts() {
        let source = source(
            "// fn f(no)\n/* fn f(a) /* x */ */ let t = \"fn f(a) \\\" fn f(b)\";\n  private fn  f (name,\n    spec) {}\nfn f(x) {}\n",
        );
        let (name, parameters) = source.function("f", 2).unwrap();
        assert_eq!(*name, SourceSpan { line: 3, column: 15, length: 1 });
        assert_eq!(parameters[1], ("spec".to_owned(), SourceSpan { line: 4, column: 5, length: 4 }));
        assert_eq!(source.function("f", 1).unwrap().1[0].0, "x");
        assert!(source.function("g", 0).is_none());
    }

    #[test]
    fn the_end_of_the_previous_token_is_found_past_comments() {
        let source = source("let x = \"a\\\"b\" /* ; */ // ;\n\nlet y = `c`\nz");
        let end = |line| source.end_before(SourceSpan { line, column: 1, length: 1 }).map(|end| (end.line, end.column));
        assert_eq!((end(1), end(3), end(4)), (None, Some((1, 15)), Some((3, 12))));
    }

    #[test]
    fn closures_are_found_from_where_they_begin() {
        let found = source("sub(\"a\", |spec, nmae| spec | 1);").closure(SourceSpan { line: 1, column: 10, length: 1 });
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["spec", "nmae"]);
        assert_eq!(found[1].1, SourceSpan { line: 1, column: 17, length: 4 });
    }

    #[test]
    fn spots_in_a_manifest_are_shifted_by_its_indentation() {
        let place = SourcePosition { file: "operator.yaml".into(), line: 10, column: 7 };
        let inline = Source::of_inline("let x = 1;\nfoo(x);", &place);
        let found = inline.place(SourceSpan { line: 2, column: 1, length: 3 });
        assert_eq!((found.line, found.column), (11, 7));
    }

    #[test]
    fn the_library_is_no_folder_of_scripts() {
        assert_eq!(read(Path::new("."), "kopf/x.rhai").unwrap_err().message, "there is no module \"x\" in the library");
    }
}
