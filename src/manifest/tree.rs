//! The interface to the YAML parser: reads a text into trees in which every key and every value has its position.
//!
//! Plain scalars are read by YAML 1.2: `yes` and `on` are strings. Aliases are followed within limits.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Number, Value};
use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, Span, options as parser_options};

pub use crate::kit::source::SourceSpan;

use super::source::Source;

/// The deepest nesting of lists and mappings. Kubernetes' own objects stay below 30.
const MAX_DEPTH: usize = 100;
/// Limit of values in one file, including values repeated by aliases: enough for the largest CRDs.
const MAX_NODES: usize = 400_000;
/// Limit of bytes of all texts in one file, including texts repeated by aliases.
const MAX_TEXT_BYTES: usize = 32 << 20;

/// A value with its position.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its position.
    pub spot: SourceSpan,
    /// What it is.
    pub kind: Kind,
}

/// The content of a value.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(Text),
    /// A list.
    List(Vec<Node>),
    /// A mapping, in the order of the file.
    Map(Vec<Entry>),
}

/// A text and its form.
#[derive(Debug, Clone)]
pub struct Text {
    /// The text.
    pub value: String,
    /// Whether it is quoted.
    pub is_quoted: bool,
    /// The position of its first character, after quotes and block indicators.
    pub start: SourceSpan,
}

/// One entry of a mapping.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The position of the key.
    pub spot: SourceSpan,
    /// The value.
    pub value: Node,
}

/// One document of a file.
#[derive(Debug, Clone)]
pub struct Document {
    /// The content.
    pub root: Node,
    /// YAML features that manifests do not allow.
    pub mistakes: Vec<Mistake>,
}

/// An error of the YAML itself.
#[derive(Debug, Clone)]
pub struct Mistake {
    /// Where.
    pub spot: SourceSpan,
    /// Its path.
    pub path: Option<String>,
    /// What it is.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Node {
    /// Returns a plain value without positions.
    pub fn of_value(value: &Value) -> Self {
        let text = |text: &String| Text { value: text.clone(), is_quoted: true, start: SourceSpan::default() };
        let entry = |(key, value): (&String, &Value)| Entry { key: key.clone(), spot: SourceSpan::default(), value: Self::of_value(value) };
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(value) => Kind::Bool(*value),
            Value::Number(number) => Kind::Number(number.clone()),
            Value::String(value) => Kind::Text(text(value)),
            Value::Array(items) => Kind::List(items.iter().map(Self::of_value).collect()),
            Value::Object(entries) => Kind::Map(entries.iter().map(entry).collect()),
        };
        Self { spot: SourceSpan::default(), kind }
    }

    /// Returns the entry of a mapping.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Kind::Map(entries) = &self.kind else { return None };
        entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// Returns the text, if the value is one.
    pub fn text(&self) -> Option<&str> {
        if let Kind::Text(text) = &self.kind { Some(&text.value) } else { None }
    }

    /// Tells whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// Returns the name of its type.
    pub fn noun(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// Returns the value without positions.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(value) => Value::Bool(*value),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.value.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Map(entries) => Value::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect()),
        }
    }

    fn weight(&self) -> Weight {
        let children = |sum: Weight, child: Weight| Weight { nodes: sum.nodes + child.nodes, text: sum.text + child.text };
        match &self.kind {
            Kind::Null | Kind::Bool(_) | Kind::Number(_) => Weight { nodes: 1, text: 0 },
            Kind::Text(text) => Weight { nodes: 1, text: text.value.len() },
            Kind::List(items) => items.iter().map(Self::weight).fold(Weight { nodes: 1, text: 0 }, children),
            Kind::Map(entries) => entries
                .iter()
                .map(|entry| children(entry.value.weight(), Weight { nodes: 1, text: entry.key.len() }))
                .fold(Weight { nodes: 1, text: 0 }, children),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Weight {
    nodes: usize,
    text: usize,
}

/// The merge key of YAML 1.1. It stays in the tree, so that keys it would bring are not reported as missing.
pub const MERGE: &str = "<<";

/// Reads all documents of a file, except empty ones.
///
/// # Errors
/// If the text is not YAML, or exceeds the limits.
pub fn parse(source: &Source) -> Result<Vec<Document>, Mistake> {
    let options = parser_options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH, emit_comments: false };
    let mut builder = Builder {
        events: Parser::new_from_str_with_options(&source.text, options),
        source,
        anchors: HashMap::new(),
        path: Vec::new(),
        mistakes: Vec::new(),
        nodes: 0,
        text: 0,
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = builder.next()? {
        match event {
            Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamStart | Event::StreamEnd => builder.anchors.clear(),
            content => {
                let root = builder.node(content, span)?;
                let mistakes = std::mem::take(&mut builder.mistakes);
                if !root.is_null() {
                    documents.push(Document { root, mistakes });
                }
            }
        }
    }
    Ok(documents)
}

type Events<'a> = Parser<'a, serde_saphyr::granit_parser::StrInput<'a>>;

struct Builder<'a> {
    events: Events<'a>,
    source: &'a Source,
    anchors: HashMap<usize, Node>,
    path: Vec<String>,
    mistakes: Vec<Mistake>,
    nodes: usize,
    text: usize,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, Mistake> {
        match self.events.next_event() {
            None => Ok(None),
            Some(Ok(pair)) => Ok(Some(pair)),
            Some(Err(error)) => Err(self.broken(*error.marker(), &error.kind().to_string())),
        }
    }

    fn broken(&self, at: Marker, words: &str) -> Mistake {
        let spot = SourceSpan { line: at.line().max(1), column: at.col() + 1, length: 1 };
        if words.contains("nesting") || words.contains("recursion") {
            return Mistake { spot, path: None, message: format!("nested deeper than {MAX_DEPTH} levels"), hint: None };
        }
        let has_tab = self.source.line(spot.line).is_some_and(|line| line.trim_start_matches(' ').starts_with('\t'));
        let hint = match words {
            _ if has_tab => "YAML is indented with spaces, never with tabs",
            _ if words.contains("unclosed") => "every bracket needs its counterpart, and every quote another one",
            _ if words.contains("unknown anchor") => "`*` begins an alias: quote it if it is meant as text",
            _ => "compare the indentation with the lines above, and quote texts that hold `: ` or ` #`",
        };
        Mistake { spot, path: None, message: format!("not valid YAML: {words}"), hint: Some(hint.to_owned()) }
    }

    fn mistake(&mut self, spot: SourceSpan, message: String, hint: Option<&str>) {
        let path = (!self.path.is_empty()).then(|| join(&self.path));
        self.mistakes.push(Mistake { spot, path, message, hint: hint.map(str::to_owned) });
    }

    fn charge(&mut self, weight: Weight, spot: SourceSpan) -> Result<(), Mistake> {
        self.nodes += weight.nodes;
        self.text += weight.text;
        if self.nodes > MAX_NODES || self.text > MAX_TEXT_BYTES {
            let message = if self.nodes > MAX_NODES {
                format!("more than {MAX_NODES} values in one file, those repeated by aliases included")
            } else {
                format!("more than {} MiB of text in one file, that repeated by aliases included", MAX_TEXT_BYTES >> 20)
            };
            return Err(Mistake { spot, path: None, message, hint: Some("split the file, or use fewer aliases".to_owned()) });
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Mistake> {
        let spot = spot_of(&span, self.source);
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(_, anchor, tag) | Event::MappingStart(_, anchor, tag) => {
                (*anchor, tag.is_some())
            }
            _ => (0, false),
        };
        if tag {
            let at = span.tag_start.map_or(spot, |mark| SourceSpan { line: mark.line(), column: mark.col() + 1, length: 1 });
            self.mistake(
                at,
                "tags are not allowed in a manifest".to_owned(),
                Some("leave the tag out; quote the value if it must be a string"),
            );
        }
        let kind = match event {
            Event::Scalar(value, style, _, _) => {
                self.charge(Weight { nodes: 1, text: value.len() }, spot)?;
                self.scalar(&value, style, spot)
            }
            Event::SequenceStart(..) => {
                self.charge(Weight { nodes: 1, text: 0 }, spot)?;
                self.list(spot)?
            }
            Event::MappingStart(..) => {
                self.charge(Weight { nodes: 1, text: 0 }, spot)?;
                self.map(spot)?
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id) else {
                    return Err(Mistake {
                        spot,
                        path: Some(join(&self.path)),
                        message: "the alias refers to a value that contains it".to_owned(),
                        hint: None,
                    });
                };
                let weight = node.weight();
                let kind = node.kind.clone();
                self.charge(weight, spot)?;
                return Ok(Node { spot, kind });
            }
            _ => return Err(self.broken(span.start, "unexpected end")),
        };
        let node = Node { spot, kind };
        if anchor != 0 {
            // The anchored copy counts, too: otherwise nested anchors would multiply the stored values.
            self.charge(node.weight(), spot)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn deeper(&mut self, step: String, spot: SourceSpan) -> Result<(), Mistake> {
        self.path.push(step);
        if self.path.len() > MAX_DEPTH {
            return Err(Mistake { spot, path: None, message: format!("nested deeper than {MAX_DEPTH} levels"), hint: None });
        }
        Ok(())
    }

    fn list(&mut self, spot: SourceSpan) -> Result<Kind, Mistake> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                None | Some((Event::SequenceEnd, _)) => return Ok(Kind::List(items)),
                Some((event, span)) => {
                    self.deeper(format!("[{}]", items.len()), spot)?;
                    items.push(self.node(event, span)?);
                    self.path.pop();
                }
            }
        }
    }

    fn map(&mut self, spot: SourceSpan) -> Result<Kind, Mistake> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen: HashMap<String, usize> = HashMap::new();
        loop {
            let (event, span) = match self.next()? {
                None | Some((Event::MappingEnd, _)) => return Ok(Kind::Map(entries)),
                Some(pair) => pair,
            };
            let is_plain = matches!(event, Event::Scalar(_, ScalarStyle::Plain, _, _));
            let written = if let Event::Scalar(text, ..) = &event { Some(text.clone().into_owned()) } else { None };
            let key = self.node(event, span)?;
            let name = match (&key.kind, written) {
                (Kind::Text(text), _) => Some(text.value.clone()),
                (Kind::Bool(_) | Kind::Number(_), Some(written)) => Some(written),
                _ => None,
            };
            let step = name.clone().unwrap_or_default();
            self.deeper(step, spot)?;
            let Some((event, span)) = self.next()? else { return Ok(Kind::Map(entries)) };
            let value = self.node(event, span)?;
            match name {
                None => self.mistake(key.spot, "a key must be a string".to_owned(), Some("write one word, or quote the key")),
                Some(name) if name == MERGE && is_plain => {
                    self.mistake(
                        key.spot,
                        "merge keys are not allowed".to_owned(),
                        Some("YAML 1.2 has none: write the keys out, or use an alias as a whole value"),
                    );
                    entries.push(Entry { key: name, spot: key.spot, value: Node { spot: key.spot, kind: Kind::Null } });
                }
                Some(name) => {
                    if let Some(line) = seen.get(&name) {
                        let hint = format!("leave one of them out; the first is in line {line}");
                        self.mistake(key.spot, format!("the key `{name}` is given twice"), Some(&hint));
                    } else {
                        seen.insert(name.clone(), key.spot.line);
                        entries.push(Entry { key: name, spot: key.spot, value });
                    }
                }
            }
            self.path.pop();
        }
    }

    fn scalar(&mut self, value: &str, style: ScalarStyle, spot: SourceSpan) -> Kind {
        let text = |is_quoted, start| Kind::Text(Text { value: value.to_owned(), is_quoted, start });
        match style {
            ScalarStyle::Plain => match plain(value) {
                Plain::Text => text(false, spot),
                Plain::Null => Kind::Null,
                Plain::Bool(value) => Kind::Bool(value),
                Plain::Number(number) => Kind::Number(number),
                Plain::NotFinite => {
                    self.mistake(spot, format!("`{value}` is not a finite number"), Some("quote it if it is meant as a string"));
                    Kind::Null
                }
            },
            ScalarStyle::Literal | ScalarStyle::Folded => text(true, self.block_start(spot)),
            _ => text(true, SourceSpan { column: spot.column + 1, length: spot.length.saturating_sub(2), ..spot }),
        }
    }

    /// The first line with content after the indicator, at its indentation.
    fn block_start(&self, spot: SourceSpan) -> SourceSpan {
        let is_indicator = |line: &str| line.chars().nth(spot.column - 1).is_some_and(|c| matches!(c, '|' | '>'));
        let from = if self.source.line(spot.line).is_some_and(is_indicator) { spot.line + 1 } else { spot.line };
        let mut number = from;
        while let Some(line) = self.source.line(number) {
            let indent = line.chars().take_while(|c| *c == ' ').count();
            if !line.trim().is_empty() {
                return SourceSpan { line: from, column: indent + 1, length: line.trim().chars().count() };
            }
            number += 1;
        }
        spot
    }
}

enum Plain {
    Text,
    Null,
    Bool(bool),
    Number(Number),
    NotFinite,
}

/// Returns the meaning of a plain scalar. Possible numbers are left to the parser's own schema, so that all YAML is read in the same way.
fn plain(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Plain::Null,
        "true" | "True" | "TRUE" => Plain::Bool(true),
        "false" | "False" | "FALSE" => Plain::Bool(false),
        _ if is_simple(text) => text.parse::<i64>().map_or(Plain::Text, |number| Plain::Number(number.into())),
        _ if may_be_number(text) => match serde_saphyr::from_str_with_options::<Value>(text, SCHEMA.with(Clone::clone)) {
            Ok(Value::Number(number)) => Plain::Number(number),
            Ok(_) => Plain::Text,
            Err(_) => Plain::NotFinite,
        },
        _ => Plain::Text,
    }
}

thread_local! {
    static SCHEMA: serde_saphyr::Options = serde_saphyr::options! {
        strict_booleans: true,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
}

static NUMBER: LazyLock<regex::Regex> = LazyLock::new(|| {
    regex::Regex::new(r"^[-+]?(\.?[0-9][0-9a-fA-FxXoO_.+-]*|\.(inf|Inf|INF|nan|NaN|NAN))$").expect("the pattern is valid")
});

/// A decimal number that all YAML schemas read in the same way: most numbers are simple and need no parser.
fn is_simple(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'))
}

fn may_be_number(text: &str) -> bool {
    text.len() <= 64 && text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) && NUMBER.is_match(text)
}

fn spot_of(span: &Span, source: &Source) -> SourceSpan {
    let (line, column) = (span.start.line().max(1), span.start.col() + 1);
    let length = if span.end.line() == line {
        span.end.col().saturating_sub(span.start.col())
    } else {
        source.line(line).map_or(0, |text| text.trim_end().chars().count().saturating_sub(span.start.col()))
    };
    SourceSpan { line, column, length: length.max(1) }
}

fn join(path: &[String]) -> String {
    let mut joined = String::new();
    for step in path.iter().filter(|step| !step.is_empty()) {
        if !joined.is_empty() && !step.starts_with('[') {
            joined.push('.');
        }
        joined.push_str(step);
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tree(text: &str) -> Node {
        parse(&Source::new("a.yaml", text)).unwrap().remove(0).root
    }

    #[test]
    fn plain_words_are_strings_but_for_yaml_1_2() {
        assert_eq!(
            tree("[yes, on, n, 0, 7, 012, 0o14, 0x1f, 1.5, 1e3, 1_000, ~, true, 1Gi, 12:30, -3, 'x']").to_value(),
            json!(["yes", "on", "n", 0, 7, 10, 12, 31, 1.5, 1000.0, 1000, null, true, "1Gi", "12:30", -3, "x"])
        );
    }

    #[test]
    fn positions_are_those_of_the_content() {
        let root = tree("run: |\n  let x = 1;\n  return x;\nwhen: 'a > 1'\nkey: value\n");
        let start = |key: &str| {
            let Kind::Text(text) = &root.get(key).unwrap().kind else { panic!() };
            (text.start.line, text.start.column)
        };
        assert_eq!((start("run"), start("when"), start("key")), ((2, 3), (4, 8), (5, 6)));
    }

    #[test]
    fn aliases_repeat_values_but_not_without_end() {
        assert_eq!(tree("a: &x {b: 1}\nc: *x\n").to_value(), json!({"a": {"b": 1}, "c": {"b": 1}}));
        let bomb = format!(
            "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n{}",
            (1..10).fold(String::new(), |text, n| {
                let ten = vec![format!("*a{}", n - 1); 10].join(", ");
                format!("{text}a{n}: &a{n} [{ten}]\n")
            })
        );
        assert!(parse(&Source::new("a.yaml", &bomb)).unwrap_err().message.contains("repeated by aliases"));
        assert!(parse(&Source::new("a.yaml", "a: &x [*x]")).is_err());
    }

    #[test]
    fn all_mistakes_of_a_document_are_gathered() {
        let documents = parse(&Source::new("a.yaml", "a: 1\na: 2\nb: !tag x\n<<: {c: 1}\n")).unwrap();
        let messages: Vec<_> = documents[0].mistakes.iter().map(|mistake| (mistake.spot.line, mistake.message.as_str())).collect();
        assert_eq!(
            messages,
            [(2, "the key `a` is given twice"), (3, "tags are not allowed in a manifest"), (4, "merge keys are not allowed")]
        );
    }
}
