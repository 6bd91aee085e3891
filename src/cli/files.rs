//! Watches the files of operators and objects. Only changed contents count.

mod watch;
mod watcher;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::manifest::Operator;

use super::apiserver;
use watch::Watch;

/// The interval of comparisons while the files have errors, or changes are not reported: a missing file may appear in
/// an unwatched directory.
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
    watch: Watch,
    /// Whether a hint was taken whose files were not compared yet.
    is_hinted: bool,
    /// Whether the files could not be loaded.
    is_broken: bool,
    /// Whether files may have changed between their load and the begin of their watch.
    is_unsure: bool,
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
    /// Watches the files of operators, which were loaded from these manifests, and further objects. The changes are
    /// read on the current runtime.
    pub(super) fn watch(manifests: &[PathBuf], operators: &[Operator], apply: &[PathBuf]) -> Self {
        let mut files = Self {
            manifests: manifests.to_vec(),
            operators: BTreeSet::new(),
            definitions: Vec::new(),
            apply: apply.to_vec(),
            hashes: Hashes::default(),
            watch: Watch::new(),
            is_hinted: false,
            is_broken: false,
            is_unsure: false,
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
        let is_new = self.operators != files || self.definitions != definitions || self.watch.directories().is_empty();
        self.is_broken = false;
        if is_new {
            let roots = operators.iter().map(|operator| operator.declaration.root.clone());
            // The directories, not the files: editors replace files by new ones, and a mounted ConfigMap is a link that
            // changes.
            let directories: Vec<PathBuf> =
                roots.chain(self.manifests.iter().chain(&files).map(|path| directory(path))).collect();
            (self.operators, self.definitions) = (files, definitions);
            let objects: Vec<PathBuf> = self.object_paths().iter().map(|path| directory(path)).collect();
            // A missing directory stays watched: it may be there again.
            let directories = self.watch.directories().iter().cloned().chain(directories).chain(objects).collect();
            let files = self.manifests.iter().chain(&self.operators).cloned().chain(self.object_paths()).collect();
            self.watch.follow(directories, files);
            self.hashes = self.hash();
            self.is_unsure = true;
        }
    }

    /// Loads the files again from time to time until they have no errors.
    pub(super) fn set_broken(&mut self) {
        self.is_broken = true;
    }

    /// Waits until the contents of files change.
    ///
    /// *Cancel safety*: a change is either returned or reported by the next call.
    pub(super) async fn changed(&mut self) -> Changed {
        loop {
            let is_polling = self.is_broken || !self.watch.is_working();
            if !self.is_hinted && !self.is_unsure {
                let hint = tokio::time::timeout(
                    if is_polling { POLL_INTERVAL } else { Duration::MAX },
                    self.watch.hints.recv(),
                );
                if hint.await == Ok(None) && !is_polling {
                    std::future::pending::<()>().await;
                }
            }
            self.is_hinted = true;
            self.watch.quiet().await;
            self.is_hinted = false;
            self.watch.renew();
            let now = self.hash();
            let before = std::mem::replace(&mut self.hashes, now);
            let is_suspicious = self.is_broken || std::mem::take(&mut self.is_unsure);
            if self.hashes != before || is_suspicious {
                return Changed { of_operators: self.hashes.operators != before.operators || is_suspicious };
            }
        }
    }

    fn hash(&self) -> Hashes {
        let mut hasher = DefaultHasher::new();
        for file in &self.operators {
            (file, std::fs::read(file).ok()).hash(&mut hasher);
        }
        // A new manifest or template, or a missing file that is there again.
        for directory in self.watch.directories() {
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
    use std::io::Write as _;

    use super::watch::QUIET_TIME;
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
        assert!(tokio::time::timeout(QUIET_TIME * 3 / 4, files.changed()).await.is_err());
        assert_eq!(next(&mut files).await, Changed { of_operators: true });
    }

    #[tokio::test]
    async fn reading_the_files_is_no_change() {
        let (_folder, root, mut files) = watched(false);
        files.hash();
        // Longer than the way of an event.
        assert!(tokio::time::timeout(Duration::from_secs(1), files.watch.hints.recv()).await.is_err());
        std::fs::write(root.join("b.rhai"), "fn greet() { 1 }").unwrap();
        assert_eq!(tokio::time::timeout(LIMIT, files.watch.hints.recv()).await, Ok(Some(())));
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

    #[tokio::test]
    async fn a_file_that_is_being_written_is_one_change() {
        let (_folder, root, mut files) = watched(false);
        let mut file = std::fs::File::create(root.join("b.rhai")).unwrap();
        file.write_all(b"fn greet() { ").unwrap();
        assert!(tokio::time::timeout(QUIET_TIME * 4, files.changed()).await.is_err(), "it is not complete");
        file.write_all(b"4 }").unwrap();
        drop(file);
        assert!(next(&mut files).await.of_operators);
        assert!(tokio::time::timeout(QUIET_TIME * 4, files.changed()).await.is_err(), "there was one change");
    }

    #[tokio::test]
    async fn a_directory_that_was_deleted_is_watched_when_it_is_there_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |text: &str| {
            std::fs::create_dir_all(root.join("lib")).unwrap();
            std::fs::write(root.join("lib/b.rhai"), text).unwrap();
        };
        write("fn greet() {}");
        std::fs::write(root.join("operator.yaml"), MANIFEST).unwrap();
        std::fs::write(root.join("a.rhai"), "import \"lib/b\" as b; fn greet() { b::greet(); }").unwrap();
        let manifests = vec![root.join("operator.yaml")];
        let mut files = Files::watch(&manifests, &manifest::load(&manifests).operators, &[]);
        for round in 0..3 {
            std::fs::remove_dir_all(root.join("lib")).unwrap();
            assert!(next(&mut files).await.of_operators);
            files.set_broken();
            write(&format!("fn greet() {{ {round} }}"));
            assert!(next(&mut files).await.of_operators);
            files.follow(&manifest::load(&manifests).operators);
            // The load may have read a file that has changed meanwhile.
            let _ = tokio::time::timeout(QUIET_TIME * 4, files.changed()).await;
            std::fs::write(root.join("lib/b.rhai"), format!("fn greet() {{ -{round} }}")).unwrap();
            assert!(next(&mut files).await.of_operators, "it is changed in place");
        }
    }

    #[tokio::test]
    async fn a_replaced_link_above_the_manifests_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let checkout = |name: &str, text: &str| {
            std::fs::create_dir_all(root.join(name).join("app")).unwrap();
            for (file, text) in [("operator.yaml", MANIFEST), ("a.rhai", text)] {
                std::fs::write(root.join(name).join("app").join(file), text).unwrap();
            }
        };
        let switch = |name: &str| {
            std::os::unix::fs::symlink(name, root.join("next")).unwrap();
            std::fs::rename(root.join("next"), root.join("current")).unwrap();
        };
        checkout("one", "fn greet() {}");
        switch("one");
        let manifests = vec![root.join("current/app/operator.yaml")];
        let mut files = Files::watch(&manifests, &manifest::load(&manifests).operators, &[]);
        for name in ["two", "three"] {
            checkout(name, &format!("fn greet() {{ \"{name}\" }}"));
            switch(name);
            assert!(next(&mut files).await.of_operators, "{name}");
            files.follow(&manifest::load(&manifests).operators);
            std::fs::write(root.join(name).join("app/a.rhai"), "fn greet() { 0 }").unwrap();
            assert!(next(&mut files).await.of_operators, "{name} is changed in place");
        }
    }
}
