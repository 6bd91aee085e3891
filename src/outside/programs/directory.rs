//! The private directory of a run.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use tempfile::TempDir;

use super::super::files::{self, Confined};
use crate::script::outside::files::{FileError, FileFailure, FilePath, FilePattern};

/// Limit of the files that one pattern of outputs may find.
const MAX_OUTPUTS: usize = 1_000;

/// A directory that only this user can read. It is removed when it is dropped.
pub(super) struct Directory {
    directory: TempDir,
    path: FilePath,
}

impl Directory {
    /// Creates the directory with files, by relative path.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn create(files: &BTreeMap<String, Vec<u8>>) -> io::Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("kopfd-").permissions(Permissions::from_mode(0o700)).tempdir()?;
        // What links on the way to it lead to is not the program's business: it sees the real path.
        let real = directory.path().canonicalize()?;
        let unusable =
            || io::Error::other(format!("the directory for temporary files, {}, has an unusable name", real.display()));
        let path = real.to_str().and_then(|text| FilePath::parse(text).ok()).ok_or_else(unusable)?;
        for (name, contents) in files {
            write(&real.join(name), contents)?;
        }
        Ok(Self { directory, path })
    }

    /// Returns its absolute path, without links.
    pub(super) fn path(&self) -> String {
        self.path.to_string()
    }

    /// Reads the files that match the patterns, by relative path.
    ///
    /// # Errors
    /// If they have more bytes than the limit together, or one cannot be read.
    pub(super) fn outputs(
        &self,
        patterns: &[FilePattern],
        limit: usize,
    ) -> Result<BTreeMap<String, Vec<u8>>, FileError> {
        let mut found = BTreeMap::new();
        let mut left = limit;
        for pattern in patterns.iter().map(|pattern| pattern.below(&self.path)) {
            let confined = Confined::below(&pattern, self.path.parts().len());
            for path in files::list(&confined, MAX_OUTPUTS)? {
                let name = path.parts()[self.path.parts().len()..].join("/");
                if found.contains_key(&name) {
                    continue;
                }
                let contents = files::read(&confined, &path, left).map_err(|error| match error.reason {
                    FileFailure::TooLarge => {
                        FileError::new(error.reason, format!("its files have more than {limit} bytes"))
                    }
                    reason => FileError::new(reason, format!("its file {name} cannot be read: {}", error.message)),
                })?;
                left -= contents.len();
                found.insert(name, contents);
            }
        }
        Ok(found)
    }

    /// Removes the directory.
    pub(super) fn remove(self) {
        if let Err(error) = self.directory.close() {
            tracing::warn!(target: "kopfd::programs", path = %self.path, %error, "The private directory of a program cannot be removed.");
        }
    }
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(contents)
}
