//! Reads the events of the YAML parser into trees.

use std::collections::HashMap;

use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, Span, options as parser_options};

use crate::kit::source::SourceSpan;

use super::super::source::Source;
use super::limits::{MAX_DEPTH, Used, Weight, weight_of};
use super::mistake::Mistake;
use super::node::{Entry, Kind, Node, Text};
use super::scalars::{Plain, plain};

/// One document of a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The content.
    pub root: Node,
    /// YAML features that manifests do not allow.
    pub mistakes: Vec<Mistake>,
}

/// The merge key of YAML 1.1. It stays in the tree, so that keys it would bring are not reported as missing.
pub(crate) const MERGE: &str = "<<";

/// Reads all documents of a file, except empty ones.
///
/// # Errors
/// If the text is not YAML, or exceeds the limits.
pub(crate) fn parse(source: &Source) -> Result<Vec<Document>, Mistake> {
    let options =
        parser_options! { flow_nesting_limit: MAX_DEPTH, block_nesting_limit: MAX_DEPTH, emit_comments: false };
    let mut builder = Builder {
        events: Parser::new_from_str_with_options(&source.text, options),
        source,
        anchors: HashMap::new(),
        path: Vec::new(),
        mistakes: Vec::new(),
        used: Used::default(),
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = builder.next()? {
        match event {
            Event::DocumentStart(..) | Event::DocumentEnd | Event::StreamStart | Event::StreamEnd => {
                builder.anchors.clear();
            }
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
    used: Used,
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

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Node, Mistake> {
        let spot = spot_of(&span, self.source);
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if tag {
            let at =
                span.tag_start.map_or(spot, |mark| SourceSpan { line: mark.line(), column: mark.col() + 1, length: 1 });
            self.mistake(
                at,
                "tags are not allowed in a manifest".to_owned(),
                Some("leave the tag out; quote the value if it must be a string"),
            );
        }
        let kind = match event {
            Event::Scalar(value, style, _, _) => {
                self.used.charge(Weight { nodes: 1, text: value.len() }, spot)?;
                self.scalar(&value, style, spot)
            }
            Event::SequenceStart(..) => {
                self.used.charge(Weight { nodes: 1, text: 0 }, spot)?;
                self.list(spot)?
            }
            Event::MappingStart(..) => {
                self.used.charge(Weight { nodes: 1, text: 0 }, spot)?;
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
                let weight = weight_of(node);
                let kind = node.kind.clone();
                self.used.charge(weight, spot)?;
                return Ok(Node { spot, kind });
            }
            _ => return Err(self.broken(span.start, "unexpected end")),
        };
        let node = Node { spot, kind };
        if anchor != 0 {
            // The anchored copy counts, too: otherwise nested anchors would multiply the stored values.
            self.used.charge(weight_of(&node), spot)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn deeper(&mut self, step: String, spot: SourceSpan) -> Result<(), Mistake> {
        self.path.push(step);
        if self.path.len() > MAX_DEPTH {
            return Err(Mistake {
                spot,
                path: None,
                message: format!("nested deeper than {MAX_DEPTH} levels"),
                hint: None,
            });
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
                None => self.mistake(
                    key.spot,
                    "a key must be a string".to_owned(),
                    Some("write one word, or quote the key"),
                ),
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
                    self.mistake(
                        spot,
                        format!("`{value}` is not a finite number"),
                        Some("quote it if it is meant as a string"),
                    );
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
