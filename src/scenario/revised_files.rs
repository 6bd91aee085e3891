//! The files of the operators under test, in a folder of their own, where a scenario changes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::kit::source::SourcePosition;
use crate::manifest::paths::{absolute, common_folder, folder_of};
use crate::manifest::{self, Diagnostic, Operator};

/// The changed files of the operators.
pub(super) struct RevisedFiles {
    folder: tempfile::TempDir,
    /// The folder that contains all files.
    base: PathBuf,
    /// The manifests, as they were named.
    manifests: Vec<PathBuf>,
}

/// The new contents of files, by their paths beside the manifest; `None` removes a file.
pub(super) type FileChanges = BTreeMap<String, Option<String>>;

impl RevisedFiles {
    /// Copies the files of operators.
    ///
    /// # Errors
    /// If one cannot be copied.
    pub(super) fn copy(operators: &[Operator]) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
        let files: Vec<PathBuf> =
            operators.iter().flat_map(|operator| operator.files.iter().map(|file| absolute(file))).collect();
        let base = common_folder(files.iter().map(|file| folder_of(file)));
        let mut manifests: Vec<PathBuf> = operators.iter().map(|operator| absolute(&operator.file)).collect();
        manifests.dedup();
        let revised = Self { folder, base, manifests };
        for file in &files {
            let copied = revised.place_of(file);
            std::fs::create_dir_all(folder_of(&copied))
                .and_then(|()| std::fs::copy(file, &copied))
                .map_err(|error| format!("cannot copy {}: {error}", file.display()))?;
        }
        Ok(revised)
    }

    /// Changes files, and loads the operators from them.
    ///
    /// # Errors
    /// If a file cannot be written, or the operators have errors; the files stay changed.
    pub(super) fn change(&self, changes: &FileChanges) -> Result<Vec<Operator>, String> {
        let root = self.manifests.first().map(|manifest| folder_of(&self.place_of(manifest))).unwrap_or_default();
        for (name, text) in changes {
            let file = root.join(name);
            let changed = match text {
                Some(text) => std::fs::create_dir_all(folder_of(&file)).and_then(|()| std::fs::write(&file, text)),
                None => std::fs::remove_file(&file),
            };
            changed.map_err(|error| format!("cannot change {name}: {error}"))?;
        }
        let manifests: Vec<PathBuf> = self.manifests.iter().map(|manifest| self.place_of(manifest)).collect();
        let loaded = manifest::load(&manifests);
        let unsupported = loaded.operators.iter().flat_map(Operator::refuse_unsupported);
        let found: Vec<Diagnostic> =
            loaded.diagnostics.iter().cloned().chain(unsupported).filter(Diagnostic::is_error).collect();
        match found.first() {
            None => Ok(loaded.operators),
            Some(first) => Err({
                let place = SourcePosition { file: self.named(&first.place.file).into(), ..first.place };
                format!("{place}: {}", first.message)
            }),
        }
    }

    fn place_of(&self, file: &Path) -> PathBuf {
        self.folder.path().join(file.strip_prefix(&self.base).unwrap_or(file))
    }

    fn named(&self, file: &Path) -> String {
        file.strip_prefix(self.folder.path()).unwrap_or(file).display().to_string()
    }
}
