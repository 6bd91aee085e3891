//! Finds scenarios in files and directories.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::manifest::reader::Reader;
use crate::manifest::source::Source;
use crate::manifest::tree::{self, Node, SourceSpan};
use crate::manifest::{Diagnostic, Severity};

use super::document::{self, API_VERSION, KIND};
use super::model::Scenario;

/// Directories of build output and dependencies.
const SKIPPED_DIRECTORIES: [&str; 3] = ["target", "node_modules", "vendor"];

/// The scenarios that were found.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of their files.
    pub scenarios: Vec<Scenario>,
    /// Errors and warnings of the scenarios and of their operators.
    pub diagnostics: Vec<Diagnostic>,
}

/// Finds the scenarios in files, and in directories recursively.
pub fn find(paths: &[PathBuf]) -> Found {
    let mut found = Found::default();
    for path in paths {
        if path.is_dir() { directory(path, &mut found) } else { file(path, true, &mut found) }
    }
    if found.scenarios.is_empty() && found.diagnostics.is_empty() {
        let path = paths.first().cloned().unwrap_or_default();
        let hint = format!("a scenario begins with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
        found.diagnostics.push(Diagnostic::of_file(Severity::Error, path, "no scenario found", Some(hint)));
    }
    found
}

fn directory(path: &Path, found: &mut Found) {
    let entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => {
            found.diagnostics.push(Diagnostic::of_file(
                Severity::Error,
                path,
                document::unreadable(path, &error),
                None,
            ));
            return;
        }
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let path = path.strip_prefix(".").map_or_else(|_| path.clone(), Path::to_owned);
        let Some(name) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
        if name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            if !SKIPPED_DIRECTORIES.contains(&name.as_str()) {
                directory(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            file(&path, false, found);
        }
    }
}

fn file(path: &Path, is_named: bool, found: &mut Found) {
    match Source::read(path) {
        // YAML templates are not YAML: a file that does not look like a scenario is not parsed.
        Ok(source) if is_named || (source.text.contains(KIND) && source.text.contains(API_VERSION)) => {
            read(source, is_named, found);
        }
        Err(diagnostic) if is_named => found.diagnostics.push(*diagnostic),
        Ok(_) | Err(_) => {}
    }
}

fn read(source: Source, is_named: bool, found: &mut Found) {
    let reader = Reader::new(source);
    let mut operator_diagnostics = Vec::new();
    let mut names = BTreeMap::new();
    match tree::parse(&reader.source) {
        Err(mistake) => reader.take(mistake),
        Ok(documents) => {
            for document in documents {
                if !document::is_scenario(&document.root) {
                    if is_named && !is_meant(&document.root) {
                        let hint = format!("a scenario begins with `apiVersion: {API_VERSION}` and `kind: {KIND}`");
                        let spot = SourceSpan { length: 1, ..document.root.spot };
                        reader.report(Severity::Error, spot, "", "this is not a scenario".to_owned(), Some(hint));
                        continue;
                    }
                    if !is_named {
                        continue;
                    }
                }
                document.mistakes.into_iter().for_each(|mistake| reader.take(mistake));
                let (scenario, diagnostics) = document::read(&reader, &document.root, &mut names);
                found.scenarios.extend(scenario);
                operator_diagnostics.extend(diagnostics);
            }
        }
    }
    let mut diagnostics = reader.finish();
    diagnostics.sort_by_key(|diagnostic| (diagnostic.place.line, diagnostic.place.column));
    // Several scenarios may test the same operator.
    operator_diagnostics.retain(|one| !found.diagnostics.contains(one));
    found.diagnostics.extend(diagnostics);
    found.diagnostics.extend(operator_diagnostics);
}

/// Tells whether a document was probably meant as a scenario, so that its errors are worth reporting.
fn is_meant(root: &Node) -> bool {
    root.get("spec").is_some_and(|spec| spec.get("steps").is_some() || spec.get("given").is_some())
}
