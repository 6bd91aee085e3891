//! Finds the files that match a pattern.

use super::open::Confined;
use crate::script::outside::files::{FileError, FileFailure, FilePath, Part};

/// Limit of the depth of directories that `**` stands for.
const MAX_DEPTH: usize = 32;

/// Limit of the names that one walk visits, for each file that it may find.
const NAMES_PER_FILE: usize = 10;

/// Returns the readable files that match a pattern.
///
/// # Errors
/// If there are more than the limit, or far more other names in the directories.
pub(super) fn files(confined: &Confined<'_>, limit: usize) -> Result<Vec<FilePath>, FileError> {
    let mut walk = Walk { confined, found: Vec::new(), limit, names: limit.saturating_mul(NAMES_PER_FILE) };
    walk.enter(&mut Vec::new(), confined.pattern().parts())?;
    Ok(walk.found)
}

struct Walk<'a> {
    confined: &'a Confined<'a>,
    found: Vec<FilePath>,
    limit: usize,
    /// The number of names that may still be visited.
    names: usize,
}

impl Walk<'_> {
    fn enter(&mut self, path: &mut Vec<String>, pattern: &[Part]) -> Result<(), FileError> {
        let Some((part, rest)) = pattern.split_first() else { return self.take(path) };
        if let Part::Name(name) = part {
            return self.descend(path, name.clone(), rest);
        }
        if *part == Part::Deep {
            self.enter(path, rest)?;
        }
        if path.len() >= MAX_DEPTH + self.confined.pattern().parts().len() {
            return Ok(());
        }
        let Some(Ok(names)) = self.confined.directory(path).map(|directory| directory.names()) else { return Ok(()) };
        for name in names {
            self.names = self.names.checked_sub(1).ok_or_else(|| self.too_many())?;
            if part.matches(&name) {
                self.descend(path, name, if *part == Part::Deep { pattern } else { rest })?;
            }
        }
        Ok(())
    }

    fn descend(&mut self, path: &mut Vec<String>, name: String, pattern: &[Part]) -> Result<(), FileError> {
        path.push(name);
        let entered = self.enter(path, pattern);
        path.pop();
        entered
    }

    /// Takes a path if it leads to a file.
    fn take(&mut self, path: &[String]) -> Result<(), FileError> {
        let Ok(path) = FilePath::parse(&format!("/{}", path.join("/"))) else { return Ok(()) };
        if self.confined.file(&path).is_ok() {
            if self.found.len() >= self.limit {
                return Err(self.too_many());
            }
            self.found.push(path);
        }
        Ok(())
    }

    fn too_many(&self) -> FileError {
        FileError::new(
            FileFailure::TooLarge,
            format!("there are too many files in the directories of {}", self.confined.pattern()),
        )
    }
}
