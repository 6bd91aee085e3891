//! The paths of an operator's files, and the folder that contains them all.

use std::path::{Component, Path, PathBuf};

/// Returns an absolute path without `.` and `..`. Links are kept: the tree is that of the names.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut normal = PathBuf::new();
    for part in absolute.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Returns the folder of a file.
pub(crate) fn folder_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_owned).unwrap_or_default()
}

/// Returns the folder that contains all of these, or nothing if there are none.
pub(crate) fn common_folder(folders: impl Iterator<Item = PathBuf>) -> PathBuf {
    folders.reduce(|one, other| shared(&one, &other)).unwrap_or_default()
}

fn shared(one: &Path, other: &Path) -> PathBuf {
    one.components().zip(other.components()).take_while(|(one, other)| one == other).map(|(part, _)| part).collect()
}
