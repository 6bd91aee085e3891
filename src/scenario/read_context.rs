//! The context of reading a scenario: the source with its diagnostics, the files beside it, and the expressions found
//! so far.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::manifest::Diagnostic;
use crate::manifest::reader::{Item, Reader};
use crate::manifest::source::Source;
use crate::manifest::tree::Kind;
use crate::object::yaml;
use crate::script::Expression;

/// State while a scenario is read.
pub(super) struct ReadContext<'r> {
    /// The source, and the sink of diagnostics.
    pub reader: &'r Reader,
    /// Directories in which files are looked for.
    search_paths: Vec<PathBuf>,
    /// Expressions of all matchers.
    pub expressions: RefCell<Vec<Expression>>,
    /// Ids of the operators' handlers of changes, events, activities and schedules; empty if the manifests have errors.
    pub handlers: Vec<String>,
    /// Names of the operators' indexes.
    pub indexes: Vec<String>,
    /// Diagnostics of the operators' manifests.
    pub operator_diagnostics: Vec<Diagnostic>,
}

impl<'r> ReadContext<'r> {
    /// Creates the context of a scenario in the reader's file.
    pub(super) fn new(reader: &'r Reader) -> Self {
        let search_paths = vec![directory_of(&reader.source.name)];
        Self {
            reader,
            search_paths,
            expressions: RefCell::default(),
            handlers: Vec::new(),
            indexes: Vec::new(),
            operator_diagnostics: Vec::new(),
        }
    }

    /// Also looks for files beside a manifest, or in a directory of manifests.
    pub(super) fn add_search_path(&mut self, manifest: PathBuf) {
        self.search_paths.push(if manifest.is_dir() { manifest } else { directory_of(&manifest) });
    }

    /// Finds a file beside the scenario or beside the manifest of its operator.
    pub(super) fn file(&self, item: &Item<'_>) -> Option<PathBuf> {
        let text = &self.reader.text(item)?.value;
        let candidates: Vec<PathBuf> = self.search_paths.iter().map(|place| simplified(&place.join(text))).collect();
        if let Some(found) = candidates.iter().find(|candidate| candidate.exists()) {
            return Some(found.clone());
        }
        let looked: Vec<String> = candidates.iter().map(|candidate| candidate.display().to_string()).collect();
        self.reader.error_with(
            item,
            format!("cannot read `{text}`: it does not exist"),
            format!("looked for at {}", looked.join(" and ")),
        );
        None
    }

    /// Returns the objects of a file that an item names, or the inline object.
    pub(super) fn objects(&self, item: &Item<'_>) -> Vec<Value> {
        match &item.node.kind {
            Kind::Text(_) => self.file(item).map(|file| self.objects_of_file(&file, item)).unwrap_or_default(),
            Kind::Map(_) => self.object(item).into_iter().collect(),
            _ => {
                let message = format!("`{}` must be a file or an object, not {}", item.name(), item.node.noun());
                self.reader.error_with(
                    item,
                    message,
                    "write the name of a file, or an object with `apiVersion`, `kind` and `metadata`",
                );
                Vec::new()
            }
        }
    }

    fn object(&self, item: &Item<'_>) -> Option<Value> {
        let value = item.node.to_value();
        for (pointer, key) in [("/apiVersion", "apiVersion"), ("/kind", "kind"), ("/metadata/name", "metadata.name")] {
            if value.pointer(pointer).and_then(Value::as_str).is_none() {
                self.reader.error_with(
                    item,
                    format!("the object has no `{key}`"),
                    "write an object as for kubectl, or `{file: obj.yaml}`",
                );
                return None;
            }
        }
        Some(value)
    }

    /// Returns the objects of a file. Errors are reported at the item that names it.
    pub(super) fn objects_of_file(&self, file: &Path, item: &Item<'_>) -> Vec<Value> {
        let shown = file.display();
        let text = match Source::read(file) {
            Ok(source) => source.text,
            Err(diagnostic) => {
                let hint = diagnostic.hint.unwrap_or_else(|| "files are looked for beside the scenario".to_owned());
                self.reader.error_with(item, format!("`{shown}`: {}", diagnostic.message), hint);
                return Vec::new();
            }
        };
        match yaml::parse(&text) {
            Ok(objects) => objects,
            Err(error) => {
                self.reader.error_with(
                    item,
                    format!("`{shown}` is not YAML: {error}"),
                    "fix the file, or name another one",
                );
                Vec::new()
            }
        }
    }

    /// Returns the objects of an `apply` step: of `{file: …}`, or the inline object.
    pub(super) fn objects_of_step(&self, item: &Item<'_>) -> Vec<Value> {
        if item.node.get("file").is_none() || item.node.get("kind").is_some() {
            if matches!(item.node.kind, Kind::Map(_)) {
                return self.objects(item);
            }
            let hint = item.node.text().map_or_else(
                || "write `{file: obj.yaml}`, or an object".to_owned(),
                |text| format!("write `{{file: {text}}}`"),
            );
            self.reader.error_with(
                item,
                format!("`{}` must be a mapping, not {}", item.name(), item.node.noun()),
                hint,
            );
            return Vec::new();
        }
        let Some(fields) = self.reader.fields(item, "what is applied", &["file"]) else { return Vec::new() };
        fields
            .get("file")
            .and_then(|item| Some((self.file(&item)?, item)))
            .map(|(file, item)| self.objects_of_file(&file, &item))
            .unwrap_or_default()
    }
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Removes `.` and `x/..` from a path, for messages.
fn simplified(path: &Path) -> PathBuf {
    let mut simplified = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if simplified.file_name().is_some_and(|name| name != "..") => {
                simplified.pop();
            }
            part => simplified.push(part),
        }
    }
    if simplified.as_os_str().is_empty() { PathBuf::from(".") } else { simplified }
}
