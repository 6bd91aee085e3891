//! Formats errors of scripts: the message, the position, and the calls.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

use rhai::{EvalAltResult, Position};

use super::convert;
use super::receivers;
use crate::kit::counted;
use crate::kit::source::SourcePosition;
use crate::script::limits::Limit;
use crate::script::runtime::budget::{Ending, Overrun};
use crate::script::values::script_error::Failure;
use crate::script::values::titles;

/// The number of shown calls; an endless recursion has many more.
const MAX_FRAMES: usize = 12;

/// The beginning of the names that the interpreter gives to closures.
const CLOSURE: &str = "anon$";

/// The text of a source.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    file: String,
    text: Arc<str>,
    /// The offset of the text in its file: lines, and columns of each line.
    lines: usize,
    columns: usize,
}

impl Origin {
    /// Returns the origin of a whole file.
    pub(crate) fn file(name: &str, text: &Arc<str>) -> Self {
        Self { file: name.to_owned(), text: Arc::clone(text), lines: 0, columns: 0 }
    }

    /// Returns the origin of a text in another file, whose lines are all indented like the first one.
    pub(crate) fn inline(place: &SourcePosition, text: &str) -> Self {
        let (lines, columns) = (place.line.saturating_sub(1), place.column.saturating_sub(1));
        Self { file: place.file.to_string_lossy().into_owned(), text: text.into(), lines, columns }
    }

    /// Returns the position in the file of a position in the text.
    pub(crate) fn place(&self, position: Position) -> SourcePosition {
        let line = self.lines + position.line().unwrap_or(1);
        let column = self.columns + position.position().unwrap_or(1);
        SourcePosition { file: self.file.as_str().into(), line, column }
    }

    fn line(&self, position: Position) -> Option<&str> {
        self.text.lines().nth(position.line()?.checked_sub(1)?)
    }
}

/// The description of an error.
#[derive(Debug)]
pub(crate) struct ErrorReport {
    /// The value that the script threw, if it did.
    pub thrown: Option<Failure>,
    /// The reason why the call must end, if it must.
    pub ending: Option<Ending>,
    /// The text for records and object statuses.
    pub text: String,
    /// The position.
    pub place: Option<SourcePosition>,
    /// The position, the source line and the calls, in several lines.
    pub trace: String,
}

struct Frame {
    function: String,
    source: String,
    position: Position,
}

/// Returns the description of an error from a function of a source.
#[expect(clippy::boxed_local, reason = "errors of the interpreter come in boxes")]
pub(crate) fn describe(
    error: Box<EvalAltResult>,
    function: &str,
    source: &str,
    origins: &BTreeMap<String, Origin>,
) -> ErrorReport {
    let (frames, leaf) = unwind(*error, function, source);
    let innermost = frames.last().expect("there is a frame at least for the function that was called");
    let place = origins
        .get(&innermost.source)
        .filter(|_| !innermost.position.is_none())
        .map(|origin| origin.place(innermost.position));
    let trace = render(&frames, origins);
    let (thrown, ending, text) = match leaf {
        EvalAltResult::ErrorRuntime(token, _) | EvalAltResult::ErrorTerminated(token, _) if token.is::<Ending>() => {
            match token.cast() {
                Ending::Overrun(overrun) => (None, Some(Ending::Overrun(overrun.clone())), overrun.text),
                ending => (None, Some(ending), "the call was cancelled".to_owned()),
            }
        }
        EvalAltResult::ErrorRuntime(value, _) => {
            (value.read_lock::<Failure>().map(|failure| failure.clone()), None, convert::text_of(&value))
        }
        EvalAltResult::ErrorTerminated(..) => (None, None, "the call was ended".to_owned()),
        EvalAltResult::ErrorDataTooLarge(what, _) => of_overrun(too_large(&what)),
        EvalAltResult::ErrorStackOverflow(_) => of_overrun(Overrun::of(Limit::Depth, "too many nested calls")),
        leaf => (None, None, humanise(leaf)),
    };
    ErrorReport { thrown, ending, text, place, trace }
}

fn of_overrun(overrun: Overrun) -> (Option<Failure>, Option<Ending>, String) {
    let text = overrun.text.clone();
    (None, Some(Ending::Overrun(overrun)), text)
}

/// Splits the nested errors of calls, the outermost first.
fn unwind(mut error: EvalAltResult, function: &str, source: &str) -> (Vec<Frame>, EvalAltResult) {
    let mut frames = Vec::new();
    let (mut function, mut source) = (function.to_owned(), source.to_owned());
    loop {
        match error {
            EvalAltResult::ErrorInFunctionCall(callee, origin, inner, position) => {
                frames.push(Frame {
                    function: mem::replace(&mut function, pretty(&callee)),
                    source: source.clone(),
                    position,
                });
                if !origin.is_empty() {
                    source = origin;
                }
                error = *inner;
            }
            EvalAltResult::ErrorInModule(module, inner, position) => {
                let callee = format!("module {module}");
                frames.push(Frame {
                    function: mem::replace(&mut function, callee),
                    source: mem::replace(&mut source, module),
                    position,
                });
                error = *inner;
            }
            leaf => {
                frames.push(Frame { function, source, position: leaf.position() });
                return (frames, leaf);
            }
        }
    }
}

fn pretty(name: &str) -> String {
    if name.starts_with(CLOSURE) { "closure".to_owned() } else { name.to_owned() }
}

fn render(frames: &[Frame], origins: &BTreeMap<String, Origin>) -> String {
    let mut text = String::new();
    for (depth, frame) in frames.iter().rev().enumerate().take(MAX_FRAMES) {
        let lead = if depth == 0 { "  --> " } else { "  called from " };
        let _ = writeln!(text, "{lead}{}{}", frame.function, shown_place(frame, origins));
        if depth == 0 {
            text.push_str(&snippet(frame, origins));
        }
    }
    if frames.len() > MAX_FRAMES {
        let _ = writeln!(text, "  … and {} more calls", frames.len() - MAX_FRAMES);
    }
    text.truncate(text.trim_end().len());
    text
}

fn shown_place(frame: &Frame, origins: &BTreeMap<String, Origin>) -> String {
    match origins.get(&frame.source) {
        Some(origin) if !frame.position.is_none() => {
            let place = origin.place(frame.position);
            format!(" ({place})")
        }
        Some(origin) => format!(" ({})", origin.file),
        None if frame.source.is_empty() => String::new(),
        None => format!(" ({})", frame.source),
    }
}

fn snippet(frame: &Frame, origins: &BTreeMap<String, Origin>) -> String {
    let Some(origin) = origins.get(&frame.source) else { return String::new() };
    let Some(line) = origin.line(frame.position) else { return String::new() };
    let number = origin.place(frame.position).line.to_string();
    let gap = " ".repeat(number.len());
    // Logs have no tabs within their lines.
    let line = line.replace('\t', " ");
    let before = " ".repeat(frame.position.position().unwrap_or(1).saturating_sub(1));
    format!("  {number} | {line}\n  {gap} | {before}^\n")
}

/// Returns the message for an error of the interpreter.
fn humanise(error: EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorVariableNotFound(name, _) => format!("there is no variable `{name}`"),
        EvalAltResult::ErrorFunctionNotFound(signature, _) => no_function(&signature),
        EvalAltResult::ErrorDotExpr(text, _) => no_property(&text),
        EvalAltResult::ErrorArithmetic(text, _) => text,
        EvalAltResult::ErrorMismatchDataType(wanted, actual, _)
        | EvalAltResult::ErrorMismatchOutputType(wanted, actual, _)
            if !wanted.is_empty() && !actual.is_empty() =>
        {
            format!("{} is needed here, not {}", titles::of_type(&wanted), titles::of_type(&actual))
        }
        EvalAltResult::ErrorArrayBounds(length, index, _) => {
            format!("there is no item {index}: the list has {}", counted(length, "item"))
        }
        EvalAltResult::ErrorStringBounds(length, index, _) => {
            format!("there is no character {index}: the text has {}", counted(length, "character"))
        }
        EvalAltResult::ErrorIndexingType(types, _) => match types.trim_end_matches(']').split_once(" [") {
            Some((value, index)) => format!("{} has no parts by {}", titles::of_type(value), titles::of_type(index)),
            None => format!("{} has no parts", titles::of_type(&types)),
        },
        EvalAltResult::ErrorFor(_) => "a loop goes over a list, a text, a range, or the `keys()` of a map".to_owned(),
        EvalAltResult::ErrorDataRace(..) => receivers::in_use_text("a variable"),
        mut error => {
            error.set_position(Position::NONE);
            let text = error.to_string();
            let mut chars = text.chars();
            chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
        }
    }
}

/// Rhai names the exceeded size: the length of a string, the size of an array, the number of properties of a map.
fn too_large(what: &str) -> Overrun {
    let what = what.to_lowercase();
    let limits = [
        ("string", Limit::StringSize),
        ("map", Limit::MapSize),
        ("array", Limit::ArraySize),
        ("blob", Limit::ArraySize),
    ];
    let limit = limits.iter().find(|(word, _)| what.contains(word)).map_or(Limit::Memory, |(_, limit)| *limit);
    let what = what.replace("string", "the text").replace("array/blob", "the list").replace("object map", "the map");
    Overrun::of(limit, &format!("{what} is too large"))
}

fn no_function(signature: &str) -> String {
    let Some((name, types)) = signature.split_once(" (").map(|(name, types)| (name, types.trim_end_matches(')')))
    else {
        return format!("there is no function `{signature}`");
    };
    let types: Vec<String> =
        types.split(',').map(str::trim).filter(|name| !name.is_empty()).map(titles::of_type).collect();
    let given = types.join(" and ");
    match (name.starts_with(CLOSURE), types.is_empty()) {
        (true, true) => "the closure cannot be called without arguments".to_owned(),
        (true, false) => format!("the closure cannot be called with {given}"),
        (false, true) => format!("there is no function `{name}` without arguments"),
        (false, false) => format!("there is no function `{name}` for {given}"),
    }
}

/// Rhai's own text is: Unknown property 'oops' - a getter is not registered for type '()'.
fn no_property(text: &str) -> String {
    let mut quoted = text.split('\'').skip(1).step_by(2);
    match (quoted.next(), quoted.next()) {
        (Some(name), Some("()")) => {
            format!("there is no `{name}` in `()`: what is before it is missing (use `?.` where it may be)")
        }
        (Some(name), Some(kind)) => format!("{} has no `{name}`", titles::of_type(kind)),
        _ => text.to_owned(),
    }
}
