//! Reads files of this machine, on the threads for blocking work.

mod error;
mod open;
mod walk;

use std::io::Read as _;
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use crate::script::outside::files::{FileError, FileFailure, FilePath, FilePattern, Files, MAX_FILES};

use error::failed;
pub(super) use open::Confined;

/// Limit of the reads and lists of one operator at once, each of which takes a thread for blocking work.
const MAX_READS: usize = 8;

/// The files of this machine.
pub(super) struct LocalFiles {
    places: Arc<Semaphore>,
}

impl Default for LocalFiles {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_READS)) }
    }
}

impl LocalFiles {
    /// Runs blocking work in one of the places, which it keeps to its end even if the caller does not wait for it.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, FileError> {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let run = move || {
            let _place = place;
            work()
        };
        let ended = tokio::task::spawn_blocking(run).await;
        ended.unwrap_or_else(|_| {
            Err(FileError::new(FileFailure::Unreadable, "the files cannot be read: the process ends"))
        })
    }
}

impl Files for LocalFiles {
    fn read(&self, allowed: FilePattern, path: FilePath, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, FileError>> {
        self.run(move || read(&Confined::new(&allowed), &path, limit)).boxed()
    }

    fn list(&self, allowed: Vec<FilePattern>, wanted: FilePattern) -> BoxFuture<'_, Result<Vec<String>, FileError>> {
        self.run(move || {
            let mut found = Vec::new();
            for pattern in allowed {
                let paths = list(&Confined::new(&pattern), MAX_FILES)?.into_iter();
                found.extend(paths.filter(|path| wanted.matches(path)).map(|path| path.to_string()));
            }
            found.sort();
            found.dedup();
            Ok(found)
        })
        .boxed()
    }
}

/// Reads a regular file that matches a pattern.
///
/// # Errors
/// If there is none, a link leads out of the directory of the pattern, or the file is larger than the limit.
pub(super) fn read(confined: &Confined<'_>, path: &FilePath, limit: usize) -> Result<Vec<u8>, FileError> {
    let too_large = || FileError::new(FileFailure::TooLarge, format!("{path} has more than {limit} bytes"));
    let file = confined.file(path)?;
    let file = file.reopened().map_err(|error| failed(path, &error))?;
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    if length > limit as u64 {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow meanwhile.
    let read = file.take(limit as u64 + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(path, &error))?;
    if bytes.len() > limit { Err(too_large()) } else { Ok(bytes) }
}

/// Returns the readable files that match a pattern.
///
/// # Errors
/// If there are too many files in the directories.
pub(super) fn list(confined: &Confined<'_>, limit: usize) -> Result<Vec<FilePath>, FileError> {
    walk::files(confined, limit)
}

#[cfg(test)]
mod tests;
