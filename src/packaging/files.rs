//! The files of an operator in a ConfigMap: the mounted folder has the same tree as the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::manifest::Operator;
use crate::manifest::paths::{absolute, common_folder, folder_of};

/// The size that the API server accepts for the values of a ConfigMap.
pub(crate) const MAX_BYTES: usize = 1024 * 1024;

/// The longest key that it accepts.
const MAX_KEY: usize = 253;

/// Files below a common folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FileTree {
    /// The files by their paths below the folder.
    pub files: BTreeMap<String, PackagedFile>,
    /// The manifests, or folders with manifests, below the folder; `.` is the folder itself.
    pub manifests: Vec<String>,
}

/// A file in a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PackagedFile {
    /// Its key.
    pub key: String,
    /// Its text.
    pub text: String,
}

/// The reason why files cannot be packaged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilesError {
    /// A file cannot be read.
    #[error("cannot read {0}")]
    Read(String, #[source] std::io::Error),
    /// A path cannot be written into a ConfigMap.
    #[error("the path {0} is not UTF-8 text")]
    Path(String),
    /// There is more text than a ConfigMap may have.
    #[error("the files have {bytes} bytes, and a ConfigMap has at most {MAX_BYTES} (1 MiB); the largest are {largest}")]
    Size {
        /// The size of all files.
        bytes: usize,
        /// The largest files.
        largest: String,
    },
}

impl FileTree {
    /// Reads the files of operators, which were loaded from these manifests or folders.
    ///
    /// # Errors
    /// If a file cannot be read, or they are too large together.
    pub(crate) fn read(operators: &[Operator], manifests: &[PathBuf]) -> Result<Self, FilesError> {
        let Paths { files, manifests } = Paths::of(operators, manifests)?;
        let mut tree = Self { manifests, ..Self::default() };
        for (path, file) in files {
            let text =
                std::fs::read_to_string(&file).map_err(|error| FilesError::Read(file.display().to_string(), error))?;
            let key = tree.key(&path);
            tree.files.insert(path, PackagedFile { key, text });
        }
        tree.check_size()?;
        Ok(tree)
    }

    /// Returns the paths of the manifests or folders below the folder that all files share.
    ///
    /// # Errors
    /// If a path is no text.
    pub(crate) fn manifests_of(operators: &[Operator], manifests: &[PathBuf]) -> Result<Vec<String>, FilesError> {
        Ok(Paths::of(operators, manifests)?.manifests)
    }

    /// Tells whether the folder has only files whose names are their keys, so that a mounted ConfigMap needs no list of
    /// them.
    pub(crate) fn is_flat(&self) -> bool {
        self.files.iter().all(|(path, file)| *path == file.key)
    }

    /// Returns a key for a path that no other file has.
    fn key(&self, path: &str) -> String {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = path.replace('/', "__").chars().map(allowed).collect();
        let is_taken = |key: &String| self.files.values().any(|file| file.key == *key);
        // A key of dots only, or one that begins with two, is refused.
        let name = if name.starts_with("..") { format!("_{name}") } else { name };
        let candidates = (0..).map(|number| {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let skipped = (name.len() + suffix.len()).saturating_sub(MAX_KEY);
            format!("{}{suffix}", &name[skipped..])
        });
        candidates.into_iter().find(|key| !is_taken(key)).expect("some number is free")
    }

    fn check_size(&self) -> Result<(), FilesError> {
        let bytes = self.files.values().map(|file| file.text.len()).sum();
        if bytes <= MAX_BYTES {
            return Ok(());
        }
        let mut files: Vec<(&String, usize)> = self.files.iter().map(|(path, file)| (path, file.text.len())).collect();
        files.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let largest: Vec<String> = files.iter().take(3).map(|(path, bytes)| format!("{path} ({bytes})")).collect();
        Err(FilesError::Size { bytes, largest: largest.join(", ") })
    }
}

/// The paths of files and manifests below the folder that all of them share.
struct Paths {
    /// The files with their places.
    files: BTreeMap<String, PathBuf>,
    manifests: Vec<String>,
}

impl Paths {
    fn of(operators: &[Operator], manifests: &[PathBuf]) -> Result<Self, FilesError> {
        let files: BTreeSet<PathBuf> =
            operators.iter().flat_map(|operator| &operator.files).map(|file| absolute(file)).collect();
        let folders =
            manifests.iter().map(|path| absolute(path)).map(|path| if path.is_dir() { path } else { folder_of(&path) });
        let root = common_folder(folders.chain(files.iter().map(|file| folder_of(file))));
        let below = |path: &Path| {
            let path = path.strip_prefix(&root).unwrap_or(path);
            let text = path.to_str().ok_or_else(|| FilesError::Path(path.display().to_string()))?;
            Ok(if text.is_empty() { ".".to_owned() } else { text.to_owned() })
        };
        let manifests = manifests.iter().map(|path| below(&absolute(path))).collect::<Result<_, _>>()?;
        let files = files.into_iter().map(|file| Ok((below(&file)?, file))).collect::<Result<_, _>>()?;
        Ok(Self { files, manifests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(folder: &Path, files: &[(&str, &str)], manifests: &[&str]) -> Result<FileTree, FilesError> {
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let files = files.iter().map(|(name, _)| folder.join(name)).collect();
        let manifests: Vec<PathBuf> = manifests.iter().map(|name| folder.join(name)).collect();
        FileTree::read(&[Operator { files, ..Operator::default() }], &manifests)
    }

    #[test]
    fn files_in_sub_folders_have_keys_of_their_own_and_keep_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("operator.yaml", "a"), ("lib/a.rhai", "b"), ("lib__a.rhai", "c"), ("text/ü 1.j2", "d")];
        let tree = tree(folder.path(), &files, &["operator.yaml"]).unwrap();
        let keys: Vec<(&str, &str)> =
            tree.files.iter().map(|(path, file)| (path.as_str(), file.key.as_str())).collect();
        assert_eq!(
            keys,
            [
                ("lib/a.rhai", "lib__a.rhai"),
                ("lib__a.rhai", "lib__a.rhai-1"),
                ("operator.yaml", "operator.yaml"),
                ("text/ü 1.j2", "text____1.j2")
            ]
        );
        assert!(!tree.is_flat());
        assert_eq!(tree.manifests, ["operator.yaml"]);
    }

    #[test]
    fn the_tree_begins_at_the_folder_that_all_files_share() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("apps/one/operator.yaml", ""), ("apps/one/../../crds/things.yaml", "")];
        let outside = tree(folder.path(), &files, &["apps/one"]).unwrap();
        assert_eq!(outside.files.keys().collect::<Vec<_>>(), ["apps/one/operator.yaml", "crds/things.yaml"]);
        assert_eq!(outside.manifests, ["apps/one"]);
        let inside = tree(&folder.path().join("apps/one"), &[("operator.yaml", "")], &["."]).unwrap();
        assert_eq!((inside.manifests, inside.files.len()), (vec![".".to_owned()], 1));
    }

    #[test]
    fn more_than_a_config_map_can_have_is_refused_with_the_largest_files() {
        let folder = tempfile::tempdir().unwrap();
        let half = "x".repeat(MAX_BYTES / 2);
        assert!(tree(folder.path(), &[("a.yaml", &half), ("b.rhai", &half)], &["a.yaml"]).is_ok());
        let error =
            tree(folder.path(), &[("a.yaml", &half), ("b.rhai", &half), ("c.rhai", "x")], &["a.yaml"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the files have 1048577 bytes, and a ConfigMap has at most 1048576 (1 MiB); the largest are a.yaml (524288), b.rhai (524288), c.rhai (1)"
        );
    }
}
