//! Files and directories that only their owner may read: Secrets are among the objects.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::Result;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a directory and those above it, if they are not there. One that is there keeps its mode: others may have a part in it.
///
/// # Errors
/// If it cannot be made.
pub fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Makes an empty file if it is not there, and closes one that is there to others.
///
/// # Errors
/// If it cannot be made, or belongs to another user.
pub fn make_file(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}
