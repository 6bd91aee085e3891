//! Watches the files of operators and objects. Only changed contents count.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::error;

use crate::cli::apiserver;

use super::objects::is_kopfd_document;

/// Changes within this time are one change: editors write files in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Extensions of the files of an operator.
const EXTENSIONS: [&str; 4] = ["yaml", "yml", "rhai", "j2"];

/// The watched files.
pub(super) struct Files {
    /// The directories of the manifests, recursively.
    operators: Vec<PathBuf>,
    /// The `crds` files of the manifests.
    definitions: Vec<PathBuf>,
    /// Files and directories of `--apply`.
    apply: Vec<PathBuf>,
    hashes: Hashes,
    watched: BTreeSet<PathBuf>,
    hints: mpsc::Receiver<()>,
    /// Whether a hint was taken whose files were not compared yet.
    is_hinted: bool,
    /// Kept alive for its hints.
    watcher: Option<RecommendedWatcher>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    /// Manifests, scripts or templates have changed.
    pub of_operators: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hashes {
    operators: u64,
    objects: u64,
}

impl Files {
    /// Watches the directories of the manifests, their `crds` files, and further objects.
    pub(super) fn watch(manifests: &[PathBuf], definitions: &[PathBuf], apply: &[PathBuf]) -> Self {
        let (sender, hints) = mpsc::channel(1);
        // A full channel already holds a hint that was not taken yet.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_reading(event.kind)) {
                return;
            }
            let _ = sender.try_send(());
        });
        let mut files = Self {
            operators: manifests.iter().map(|path| directory(path)).collect(),
            definitions: definitions.to_vec(),
            apply: apply.to_vec(),
            hashes: Hashes { operators: 0, objects: 0 },
            watched: BTreeSet::new(),
            hints,
            is_hinted: false,
            watcher: watcher.inspect_err(log_error).ok(),
        };
        for path in files.operators.clone() {
            files.add(path, RecursiveMode::Recursive);
        }
        files.add_objects();
        files.hashes = files.hash();
        files
    }

    /// Returns the files and directories of objects, definitions first.
    pub(super) fn object_paths(&self) -> Vec<PathBuf> {
        self.definitions.iter().chain(&self.apply).cloned().collect()
    }

    /// Replaces the watched `crds` files. Their contents count as unchanged.
    pub(super) fn set_definitions(&mut self, definitions: &[PathBuf]) {
        if self.definitions != definitions {
            self.definitions = definitions.to_vec();
            self.add_objects();
            self.hashes = self.hash();
        }
    }

    /// Waits until the contents of files change.
    ///
    /// *Cancel safety*: a change is either returned or reported by the next call.
    pub(super) async fn changed(&mut self) -> Changed {
        loop {
            if !self.is_hinted && self.hints.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
            self.is_hinted = true;
            tokio::time::sleep(DEBOUNCE).await;
            self.is_hinted = false;
            let now = self.hash();
            let before = std::mem::replace(&mut self.hashes, now);
            if self.hashes != before {
                return Changed { of_operators: self.hashes.operators != before.operators };
            }
        }
    }

    fn add_objects(&mut self) {
        for path in self.object_paths() {
            self.add(directory(&path), RecursiveMode::NonRecursive);
        }
    }

    /// Watches a directory, not the file in it: editors replace files by new ones.
    fn add(&mut self, directory: PathBuf, mode: RecursiveMode) {
        let is_below = |known: &PathBuf| self.watched.contains(known) && directory.starts_with(known);
        if self.watched.contains(&directory) || self.operators.iter().any(is_below) {
            return;
        }
        if let Some(watcher) = &mut self.watcher {
            let _ = watcher.watch(&directory, mode).inspect_err(log_error);
        }
        self.watched.insert(directory);
    }

    fn hash(&self) -> Hashes {
        let objects = self.object_files();
        let known: BTreeSet<PathBuf> =
            objects.iter().filter(|file| !holds_manifest(file)).filter_map(|file| file.canonicalize().ok()).collect();
        let mut hasher = DefaultHasher::new();
        for directory in &self.operators {
            hash_directory(directory, &known, &mut hasher);
        }
        let operators = hasher.finish();
        let mut hasher = DefaultHasher::new();
        for file in objects {
            let content = std::fs::read(&file).ok();
            (file, content).hash(&mut hasher);
        }
        Hashes { operators, objects: hasher.finish() }
    }

    fn object_files(&self) -> Vec<PathBuf> {
        // Unreadable files are reported when they are applied.
        self.object_paths().iter().flat_map(|path| apiserver::files(path).unwrap_or_default()).collect()
    }
}

/// A file of `--apply` may contain the manifest, too: its changes are those of the operator.
fn holds_manifest(file: &Path) -> bool {
    apiserver::read_file(file).is_ok_and(|documents| documents.iter().any(is_kopfd_document))
}

/// Tells whether files were only read. The comparison of the files itself reads them.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn log_error(problem: &notify::Error) {
    error!(target: "kopfd", "Changes of files cannot be watched: {problem}");
}

fn directory(path: &Path) -> PathBuf {
    if path.is_dir() {
        return path.to_owned();
    }
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Hashes the names and contents of all files of an operator, without the files of objects.
fn hash_directory(directory: &Path, objects: &BTreeSet<PathBuf>, hasher: &mut DefaultHasher) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_operator_file = path.extension().is_some_and(|extension| EXTENSIONS.iter().any(|known| extension == *known));
        let is_object = || path.canonicalize().is_ok_and(|path| objects.contains(&path));
        if path.is_dir() && !is_hidden {
            hash_directory(&path, objects, hasher);
        } else if is_operator_file
            && !is_object()
            && let Ok(content) = std::fs::read(&path)
        {
            (path, content).hash(hasher);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn a_change_survives_an_interrupted_wait() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("operator.yaml");
        std::fs::write(&manifest, "a: 1").unwrap();
        let mut files = Files::watch(std::slice::from_ref(&manifest), &[], &[]);
        std::fs::write(&manifest, "a: 2").unwrap();
        // The hint arrives at once, and its files are compared after the debounce time.
        assert!(tokio::time::timeout(DEBOUNCE * 3 / 4, files.changed()).await.is_err());
        let changed = tokio::time::timeout(LIMIT, files.changed()).await.unwrap();
        assert_eq!(changed, Changed { of_operators: true });
    }

    #[tokio::test]
    async fn reading_the_files_is_no_change() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("operator.yaml");
        std::fs::write(&manifest, "a: 1").unwrap();
        let mut files = Files::watch(std::slice::from_ref(&manifest), &[], &[]);
        files.hash();
        // Longer than the way of an event.
        assert!(tokio::time::timeout(Duration::from_secs(1), files.hints.recv()).await.is_err());
        std::fs::write(&manifest, "a: 2").unwrap();
        assert_eq!(tokio::time::timeout(LIMIT, files.hints.recv()).await, Ok(Some(())));
    }
}
