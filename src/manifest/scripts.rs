//! The diagnostics of the script host, in the form of the manifest's own.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::path::PathBuf;

use crate::kit::source::{SourcePosition, SourceSpan};
use crate::object::Selector;
use crate::script::host::load::{self, Checked};
use crate::script::interface::access::{self, Access};
use crate::script::interface::problem::Problem;

use super::builder::{OperatorBuilder, plain};
use super::diagnostic::{Diagnostic, Severity};
use super::operator::{NamedKind, Operator};
use super::source::Source;
use super::tree::{Kind, Node};

/// Checks the code of an operator. Diagnostics of the manifest go to its reader; diagnostics of script files are
/// returned.
pub(super) fn check(builder: &mut OperatorBuilder<'_>, root: &Node) -> Vec<Diagnostic> {
    let operator = &mut builder.operator;
    operator.files = std::iter::once(operator.file.clone()).chain(operator.crds.iter().cloned()).collect();
    if builder.is_unready {
        return Vec::new();
    }
    let declaration = builder.checkable();
    let manifest = &builder.reader.source.name;
    let mut texts = Texts::default();
    let mut found = Vec::new();
    let Checked { problems, files, scripts } = load::check(&declaration);
    builder.operator.calls = scripts.calls.clone();
    let is_whole = declaration.bindings.len() == builder.operator.declaration.bindings.len()
        && declaration.expressions.len() == builder.operator.declaration.expressions.len();
    builder.operator.scripts = is_whole.then_some(scripts);
    builder.operator.files.extend(files);
    for problem in problems {
        if problem.place.file == *manifest {
            let spot = problem.place.span(problem.length);
            builder.reader.report(problem.severity, spot, &path_at(root, spot), problem.message, problem.hint);
        } else {
            found.push(texts.diagnostic(problem));
        }
    }
    found
}

/// Returns the kinds of the requests of scripts, as far as they are plain texts, with the positions of the calls.
pub(crate) fn requested_kinds(operator: &Operator) -> Vec<NamedKind> {
    let mut seen = BTreeSet::new();
    let mut kinds = Vec::new();
    for access in &operator.calls.accesses {
        if let access::Kind::Text(text) = &access.kind
            && let Ok(selector) = Selector::parse(text)
            && seen.insert((&access.place, text))
        {
            kinds.push(NamedKind { selector, text: text.clone(), place: place_of(access) });
        }
    }
    kinds
}

/// Returns the position of a request of a script, as a diagnostic without a message.
pub(super) fn place_of(access: &Access) -> Diagnostic {
    let (place, length) = (shown(&access.place), access.length);
    let snippet = Source::read(&access.place.file).ok().and_then(|source| source.snippet(place.span(length)));
    Diagnostic { severity: Severity::Error, message: String::new(), place, length, path: None, hint: None, snippet }
}

/// The scripts read for snippets.
#[derive(Default)]
struct Texts(HashMap<PathBuf, Option<Source>>);

impl Texts {
    fn diagnostic(&mut self, problem: Problem) -> Diagnostic {
        let Problem { severity, message, place, length, hint, .. } = problem;
        let source = self.0.entry(place.file.clone()).or_insert_with_key(|file| Source::read(file).ok());
        let snippet = source.as_ref().and_then(|source| source.snippet(place.span(length)));
        Diagnostic { severity, message, place: shown(&place), length, path: None, hint, snippet }
    }
}

fn shown(place: &SourcePosition) -> SourcePosition {
    SourcePosition { file: plain(&place.file).to_owned(), ..*place }
}

/// Returns the path of the value at a position, or of the text that contains it.
fn path_at(root: &Node, spot: SourceSpan) -> String {
    let mut best = String::new();
    walk(root, &mut String::new(), &mut |node, path| {
        if (node.spot.line, node.spot.column) <= (spot.line, spot.column) {
            best.clear();
            best.push_str(path);
        }
    });
    best
}

fn walk(node: &Node, path: &mut String, visit: &mut impl FnMut(&Node, &str)) {
    visit(node, path);
    let kept = path.len();
    match &node.kind {
        Kind::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let _ = write!(path, "[{index}]");
                walk(item, path, visit);
                path.truncate(kept);
            }
        }
        Kind::Map(entries) => {
            for entry in entries {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(&entry.key);
                walk(&entry.value, path, visit);
                path.truncate(kept);
            }
        }
        _ => {}
    }
}
