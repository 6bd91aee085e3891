//! The kubeconfig file of a server: readable by its owner only, and not overwritten by other servers while this one
//! runs.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use kopfd_base::yaml;

/// The name of the cluster, the user and the context.
pub(crate) const NAME: &str = "kopfd";

/// The reason why a kubeconfig was not written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be written.
    #[error("cannot write {0}")]
    Write(String, #[source] io::Error),
    /// Clients of another server use it.
    #[error("{0} belongs to another kopfd that is still running")]
    InUse(String),
    /// The file exists and was not written by kopfd.
    #[error("{0} is not a kubeconfig of kopfd, so it is not overwritten")]
    Foreign(String),
}

/// The treatment of an existing file that was not written by kopfd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overwrite {
    /// It is kept, and the kubeconfig is not written.
    Own,
    /// It is replaced.
    Anything,
}

/// A written kubeconfig. No other server replaces it until this is dropped.
#[derive(Debug)]
pub struct Kubeconfig {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl Kubeconfig {
    /// Writes a kubeconfig, readable by its owner only.
    ///
    /// # Errors
    /// If the file cannot be written, belongs to a running server, or may not be overwritten.
    pub fn write(path: &Path, text: &str, overwrite: Overwrite) -> Result<Self, Error> {
        let shown = || path.display().to_string();
        if is_in_use(path) {
            return Err(Error::InUse(shown()));
        }
        let fail = |error| Error::Write(shown(), error);
        if overwrite == Overwrite::Own && is_of_other_tool(path).map_err(fail)? {
            return Err(Error::Foreign(shown()));
        }
        // A file with other permissions is replaced, never rewritten.
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(fail)?;
        file.write_all(text.as_bytes()).map_err(fail)?;
        // The lock stays with the renamed file, and ends with the process in any case.
        file.lock().map_err(fail)?;
        std::fs::rename(&temporary, path).map_err(fail)?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Removes the file, unless it was replaced.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        let written = self.file.metadata()?;
        let found = match std::fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if (found.dev(), found.ino()) == (written.dev(), written.ino()) {
            std::fs::remove_file(&self.path)
        } else {
            Ok(())
        }
    }
}

/// Tells whether a running process has written a kubeconfig.
fn is_in_use(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Tells whether a file exists that is not a kubeconfig of kopfd.
fn is_of_other_tool(path: &Path) -> io::Result<bool> {
    match std::fs::read(path) {
        Ok(text) => Ok(!text.is_empty() && !std::str::from_utf8(&text).is_ok_and(is_ours)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tells whether a text is a kubeconfig with only our names.
fn is_ours(text: &str) -> bool {
    let Ok(documents) = yaml::parse(text) else { return false };
    let [config] = &documents[..] else { return false };
    let has_only_ours = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1 && list[0]["name"] == NAME);
    config["kind"] == "Config" && ["clusters", "users", "contexts"].iter().all(|list| has_only_ours(&config[*list]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "{kind: Config, clusters: [{name: kopfd}], users: [{name: kopfd}], contexts: [{name: kopfd}]}";

    #[test]
    fn only_own_kubeconfigs_are_overwritten_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let own = |text: &str| Kubeconfig::write(&path, text, Overwrite::Own);
        drop(own(OURS).unwrap());
        drop(own(OURS).unwrap());
        std::fs::write(&path, "").unwrap();
        drop(own(OURS).unwrap());
        let two = OURS.replace("{name: kopfd}], users", "{name: kopfd}, {name: production}], users");
        for foreign in [two.as_str(), "apiVersion: v1\nkind: Config\n", "notes", "a: [", "- 1\n---\n- 2\n"] {
            std::fs::write(&path, foreign).unwrap();
            let error = own(OURS).unwrap_err();
            assert!(matches!(error, Error::Foreign(_)), "{foreign:?}: {error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
        let forced = Kubeconfig::write(&path, OURS, Overwrite::Anything).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), OURS);
        // Not even `--force` overwrites the kubeconfig of a running server.
        assert!(matches!(Kubeconfig::write(&path, OURS, Overwrite::Anything), Err(Error::InUse(_))));
        forced.remove().unwrap();
        assert!(!path.exists());
    }
}
