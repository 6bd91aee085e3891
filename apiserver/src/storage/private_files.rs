//! Files and directories readable by their owner only, since the objects include Secrets.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::Result;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Creates a directory and its parents, if missing. An existing one keeps its permissions, since others may share it.
///
/// # Errors
/// If it cannot be created.
pub fn make_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Creates an empty file if missing, and removes permissions of others from an existing one.
///
/// # Errors
/// If it cannot be created, or belongs to another user.
pub fn make_file(path: &Path) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}
