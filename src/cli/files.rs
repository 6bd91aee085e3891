//! Watches the files of operators and objects. Only changed contents count.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tracing::error;

use crate::manifest::Operator;

use super::apiserver;

/// Changes within this time are one change: editors write files in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// The interval of comparisons while the files have errors, or changes are not reported: a missing file may appear in an unwatched directory.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// The watched files.
pub(super) struct Files {
    /// The manifests as they were named: files, or directories with manifests.
    manifests: Vec<PathBuf>,
    /// All files of the operators.
    operators: BTreeSet<PathBuf>,
    /// The `crds` files of the manifests.
    definitions: Vec<PathBuf>,
    /// Files and directories of `--apply`.
    apply: Vec<PathBuf>,
    hashes: Hashes,
    watched: BTreeSet<PathBuf>,
    hints: mpsc::Receiver<()>,
    /// Whether a hint was taken whose files were not compared yet.
    is_hinted: bool,
    /// Whether the files could not be loaded.
    is_broken: bool,
    /// Whether files may have changed between their load and the begin of their watch.
    is_unsure: bool,
    /// Kept alive for its hints.
    watcher: Option<RecommendedWatcher>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Changed {
    /// Manifests, scripts, templates or definitions have changed.
    pub of_operators: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Hashes {
    operators: u64,
    objects: u64,
}

impl Files {
    /// Watches the files of operators, which were loaded from these manifests, and further objects.
    pub(super) fn watch(manifests: &[PathBuf], operators: &[Operator], apply: &[PathBuf]) -> Self {
        let (sender, hints) = mpsc::channel(1);
        // A full channel already holds a hint that was not taken yet.
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_reading(event.kind)) {
                return;
            }
            let _ = sender.try_send(());
        });
        let mut files = Self {
            manifests: manifests.to_vec(),
            operators: BTreeSet::new(),
            definitions: Vec::new(),
            apply: apply.to_vec(),
            hashes: Hashes::default(),
            watched: BTreeSet::new(),
            hints,
            is_hinted: false,
            is_broken: false,
            is_unsure: false,
            watcher: watcher.inspect_err(log_error).ok(),
        };
        files.follow(operators);
        files.is_unsure = false;
        files
    }

    /// Returns the files and directories of objects, definitions first.
    pub(super) fn object_paths(&self) -> Vec<PathBuf> {
        self.definitions.iter().chain(&self.apply).cloned().collect()
    }

    /// Follows the files of loaded operators.
    pub(super) fn follow(&mut self, operators: &[Operator]) {
        let files: BTreeSet<PathBuf> = operators.iter().flat_map(|operator| operator.files.iter().cloned()).collect();
        let definitions: Vec<PathBuf> = operators.iter().flat_map(|operator| operator.crds.iter().cloned()).collect();
        let is_new = self.operators != files || self.definitions != definitions || self.watched.is_empty();
        self.is_broken = false;
        if is_new {
            let roots = operators.iter().map(|operator| operator.declaration.root.clone());
            let directories: Vec<PathBuf> = roots.chain(self.manifests.iter().chain(&files).map(|path| directory(path))).collect();
            (self.operators, self.definitions) = (files, definitions);
            let objects: Vec<PathBuf> = self.object_paths().iter().map(|path| directory(path)).collect();
            directories.into_iter().chain(objects).for_each(|directory| self.add(directory));
            self.hashes = self.hash();
            self.is_unsure = true;
        }
    }

    /// Has the files loaded again from time to time until they have no errors.
    pub(super) fn set_broken(&mut self) {
        self.is_broken = true;
    }

    /// Waits until the contents of files change.
    ///
    /// *Cancel safety*: a change is either returned or reported by the next call.
    pub(super) async fn changed(&mut self) -> Changed {
        loop {
            let is_polling = self.is_broken || self.watcher.is_none();
            if !self.is_hinted && !self.is_unsure {
                let hint = tokio::time::timeout(if is_polling { POLL_INTERVAL } else { Duration::MAX }, self.hints.recv());
                if hint.await == Ok(None) && !is_polling {
                    std::future::pending::<()>().await;
                }
            }
            self.is_hinted = true;
            tokio::time::sleep(DEBOUNCE).await;
            self.is_hinted = false;
            let now = self.hash();
            let before = std::mem::replace(&mut self.hashes, now);
            let is_suspicious = self.is_broken || std::mem::take(&mut self.is_unsure);
            if self.hashes != before || is_suspicious {
                return Changed { of_operators: self.hashes.operators != before.operators || is_suspicious };
            }
        }
    }

    /// Watches a directory, not the file in it: editors replace files by new ones, and a mounted ConfigMap is a link that changes.
    fn add(&mut self, directory: PathBuf) {
        if self.watched.insert(directory.clone())
            && let Some(watcher) = &mut self.watcher
        {
            let _ = watcher.watch(&directory, RecursiveMode::NonRecursive).inspect_err(log_error);
        }
    }

    fn hash(&self) -> Hashes {
        let mut hasher = DefaultHasher::new();
        for file in &self.operators {
            (file, std::fs::read(file).ok()).hash(&mut hasher);
        }
        // A new manifest or template, or a missing file that is there again.
        for directory in &self.watched {
            names(directory).hash(&mut hasher);
        }
        let operators = hasher.finish();
        let mut hasher = DefaultHasher::new();
        for file in self.object_files() {
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

/// Returns the names in a directory, without hidden ones: editors keep their own files there.
fn names(directory: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| !name.starts_with('.') && !name.ends_with('~')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;

    const LIMIT: Duration = Duration::from_mins(1);
    const MANIFEST: &str = "{apiVersion: kopfd.dev/v1, kind: Operator, metadata: {name: x}, spec: {resources: \
        [{resource: v1/configmaps, script: a.rhai, handlers: [{on: create, fn: greet}]}]}}";

    /// A folder with an operator, and its watched files.
    fn watched(link: bool) -> (tempfile::TempDir, PathBuf, Files) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("mount");
        std::fs::create_dir_all(folder.path().join("mount/..1")).unwrap();
        let content = if link { root.join("..1") } else { root.clone() };
        std::fs::write(content.join("operator.yaml"), MANIFEST).unwrap();
        std::fs::write(content.join("a.rhai"), "import \"b\" as b; fn greet() { b::greet(); }").unwrap();
        std::fs::write(content.join("b.rhai"), "fn greet() {}").unwrap();
        if link {
            std::os::unix::fs::symlink("..1", root.join("..data")).unwrap();
            for name in ["operator.yaml", "a.rhai", "b.rhai"] {
                std::os::unix::fs::symlink(format!("..data/{name}"), root.join(name)).unwrap();
            }
        }
        let manifests = vec![root.join("operator.yaml")];
        let loaded = manifest::load(&manifests);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        let files = Files::watch(&manifests, &loaded.operators, &[]);
        (folder, root, files)
    }

    async fn next(files: &mut Files) -> Changed {
        tokio::time::timeout(LIMIT, files.changed()).await.unwrap()
    }

    #[tokio::test]
    async fn a_change_survives_an_interrupted_wait() {
        let (_folder, root, mut files) = watched(false);
        std::fs::write(root.join("operator.yaml"), "a: 2").unwrap();
        // The hint arrives at once, and its files are compared after the debounce time.
        assert!(tokio::time::timeout(DEBOUNCE * 3 / 4, files.changed()).await.is_err());
        assert_eq!(next(&mut files).await, Changed { of_operators: true });
    }

    #[tokio::test]
    async fn reading_the_files_is_no_change() {
        let (_folder, root, mut files) = watched(false);
        files.hash();
        // Longer than the way of an event.
        assert!(tokio::time::timeout(Duration::from_secs(1), files.hints.recv()).await.is_err());
        std::fs::write(root.join("b.rhai"), "fn greet() { 1 }").unwrap();
        assert_eq!(tokio::time::timeout(LIMIT, files.hints.recv()).await, Ok(Some(())));
    }

    #[tokio::test]
    async fn all_ways_of_saving_an_imported_file_are_noticed() {
        let (_folder, root, mut files) = watched(false);
        let (file, other) = (root.join("b.rhai"), root.join("b.rhai.tmp"));
        std::fs::write(&file, "fn greet() { 1 }").unwrap();
        assert!(next(&mut files).await.of_operators);
        std::fs::write(&other, "fn greet() { 2 }").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert!(next(&mut files).await.of_operators);
        std::fs::rename(&file, root.join("b.rhai~")).unwrap();
        std::fs::write(&file, "fn greet() { 3 }").unwrap();
        assert!(next(&mut files).await.of_operators);
        std::fs::remove_file(&file).unwrap();
        assert!(next(&mut files).await.of_operators);
        std::fs::write(&file, "fn greet() { 3 }").unwrap();
        assert!(next(&mut files).await.of_operators);
    }

    #[tokio::test]
    async fn a_mounted_config_map_changes_by_its_link() {
        let (_folder, root, mut files) = watched(true);
        std::fs::create_dir(root.join("..2")).unwrap();
        for (name, text) in [("operator.yaml", MANIFEST), ("a.rhai", "fn greet() {}"), ("b.rhai", "fn greet() {}")] {
            std::fs::write(root.join("..2").join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("..2", root.join("..data_tmp")).unwrap();
        std::fs::rename(root.join("..data_tmp"), root.join("..data")).unwrap();
        assert!(next(&mut files).await.of_operators);
    }
}
