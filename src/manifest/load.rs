//! Loads the operators of files and directories.

use std::path::{Path, PathBuf};

use super::cross_operator;
use super::diagnostic::{Diagnostic, Severity};
use super::document::{self, API_VERSION, KIND};
use super::operator::Operator;
use super::reader::Reader;
use super::scripts;
use super::source::{Source, reason, way_out};
use super::tree::{self, Node, SourceSpan};

/// The loaded operators, and the diagnostics.
#[derive(Debug, Default)]
pub struct Loaded {
    /// The operators; complete only if no diagnostic is an error.
    pub operators: Vec<Operator>,
    /// All diagnostics, by file and line.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// Tells whether the operators cannot run.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }
}

/// Whether a file was named directly, or was found in a directory, which may contain other documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    Named,
    InDirectory,
}

/// Loads the operators of files and directories, and checks each of them and their combination.
pub fn load(paths: &[PathBuf]) -> Loaded {
    let mut loaded = Loaded::default();
    for path in paths {
        if path.is_dir() { load_directory(path, &mut loaded) } else { load_file(path, Found::Named, &mut loaded) }
    }
    if loaded.operators.is_empty() && !loaded.has_errors() {
        let file = paths.first().cloned().unwrap_or_default();
        loaded.diagnostics.push(nothing_found(&file));
    }
    if !loaded.has_errors() {
        loaded.diagnostics.extend(cross_operator::check(&loaded.operators));
    }
    loaded
}

/// A file shows its first line; a directory lists the searched files.
fn nothing_found(path: &Path) -> Diagnostic {
    let hint = format!("the manifest of an operator begins with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
    if path.is_dir() {
        let names: Vec<String> = yaml_files(path)
            .unwrap_or_default()
            .iter()
            .filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()))
            .collect();
        let message = match names.as_slice() {
            [] => "no operator found: there are no `*.yaml` or `*.yml` files".to_owned(),
            names => format!("no operator found in {}", some_of(names)),
        };
        return Diagnostic::of_file(Severity::Error, path, message, Some(hint));
    }
    let source = Source::read(path).unwrap_or_else(|_| Source::new(path, ""));
    source.diagnostic(Severity::Error, SourceSpan { line: 1, column: 1, length: 1 }, "no operator found", Some(hint))
}

/// Returns the first of some names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const MAX: usize = 5;
    let shown = names[..names.len().min(MAX)].join(", ");
    if names.len() > MAX { format!("{shown} and {} more files", names.len() - MAX) } else { shown }
}

/// Returns the files of a directory that may be manifests.
fn yaml_files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    let is_hidden = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(path)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|file| is_yaml(file) && !is_hidden(file) && file.is_file());
    files.sort();
    Ok(files)
}

/// Reads the operators of a text like a directly named file.
pub fn read(name: impl Into<PathBuf>, text: &str) -> Loaded {
    let mut loaded = Loaded::default();
    read_source(Source::new(name, text), Found::Named, &mut loaded);
    loaded
}

fn load_directory(path: &Path, loaded: &mut Loaded) {
    let files = match yaml_files(path) {
        Ok(files) => files,
        Err(error) => {
            let message = format!("cannot read the directory: {}", reason(&error));
            loaded.diagnostics.push(Diagnostic::of_file(
                Severity::Error,
                path,
                message,
                Some(way_out(&error).to_owned()),
            ));
            return;
        }
    };
    for file in files {
        let file = file.strip_prefix(".").map_or(file.clone(), Path::to_owned);
        load_file(&file, Found::InDirectory, loaded);
    }
}

fn load_file(path: &Path, found: Found, loaded: &mut Loaded) {
    match Source::read(path) {
        Ok(source) => read_source(source, found, loaded),
        Err(diagnostic) => loaded.diagnostics.push(*diagnostic),
    }
}

fn read_source(source: Source, found: Found, loaded: &mut Loaded) {
    let reader = Reader::new(source);
    let mut in_scripts = Vec::new();
    match tree::parse(&reader.source) {
        Err(mistake) => reader.take(mistake),
        Ok(documents) => {
            for document in documents {
                if !document::is_operator(&document.root) && (found == Found::InDirectory || !is_meant(&document.root))
                {
                    if found == Found::Named {
                        refuse(&reader, &document.root);
                    }
                    continue;
                }
                document.mistakes.into_iter().for_each(|mistake| reader.take(mistake));
                let mut builder = document::read(&reader, &document.root);
                in_scripts.extend(scripts::check(&mut builder, &document.root));
                loaded.operators.push(builder.operator);
            }
        }
    }
    let mut diagnostics = reader.finish();
    diagnostics.sort_by_key(|diagnostic| (diagnostic.place.line, diagnostic.place.column));
    diagnostics.extend(in_scripts);
    // Two operators may share a script.
    diagnostics.retain(|one| !loaded.diagnostics.contains(one));
    loaded.diagnostics.extend(diagnostics);
}

/// Tells whether a document was probably meant to be an operator, so that its errors are reported.
fn is_meant(root: &Node) -> bool {
    let text = |key: &str| root.get(key).and_then(Node::text);
    root.get("spec").is_some()
        && (text("apiVersion") == Some(API_VERSION) || text("kind") == Some(KIND) || text("kind").is_none())
}

fn refuse(reader: &Reader, root: &Node) {
    let text = |key: &str| root.get(key).and_then(Node::text);
    let what = match (text("apiVersion"), text("kind")) {
        (Some(version), Some(kind)) => format!("this is a {kind} of `{version}`, not an operator"),
        _ => "this is no manifest of an operator".to_owned(),
    };
    let hint = format!("the manifest of an operator begins with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
    reader.report(Severity::Error, SourceSpan { length: 1, ..root.spot }, "", what, Some(hint));
}
