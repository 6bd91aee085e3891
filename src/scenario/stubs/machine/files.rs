//! Answers to reads and lists of files.

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::MachineStubs;
use crate::script::outside::files::{FileError, FileFailure, FilePath, FilePattern, Files};

impl Files for MachineStubs {
    fn read(&self, _: FilePattern, path: FilePath, limit: usize) -> BoxFuture<'_, Result<Vec<u8>, FileError>> {
        std::future::ready(self.contents(&path, limit)).boxed()
    }

    fn list(&self, allowed: Vec<FilePattern>, wanted: FilePattern) -> BoxFuture<'_, Result<Vec<String>, FileError>> {
        std::future::ready(self.paths(&allowed, &wanted)).boxed()
    }
}

impl MachineStubs {
    fn contents(&self, path: &FilePath, limit: usize) -> Result<Vec<u8>, FileError> {
        match self.files.get(&path.to_string()) {
            Some(Some(contents)) if contents.len() > limit => {
                Err(FileError::new(FileFailure::TooLarge, format!("{path} has more than {limit} bytes")))
            }
            Some(Some(contents)) => Ok(contents.clone()),
            Some(None) => Err(FileError::new(FileFailure::NotFound, format!("{path} does not exist"))),
            None => Err(self.no_file(&format!("the reading of {path}"), &path.to_string())),
        }
    }

    fn paths(&self, allowed: &[FilePattern], wanted: &FilePattern) -> Result<Vec<String>, FileError> {
        let parsed = self.files.iter().filter_map(|(path, contents)| Some((FilePath::parse(path).ok()?, contents)));
        let matching: Vec<_> = parsed.filter(|(path, _)| wanted.matches(path)).collect();
        if matching.is_empty() {
            return Err(self.no_file(&format!("the list of {wanted}"), &wanted.to_string().replace('*', "x")));
        }
        let is_allowed = |path: &FilePath| allowed.iter().any(|pattern| pattern.matches(path));
        let existing = matching.into_iter().filter(|(path, contents)| contents.is_some() && is_allowed(path));
        Ok(existing.map(|(path, _)| path.to_string()).collect())
    }

    fn no_file(&self, call: &str, path: &str) -> FileError {
        let hint = format!(
            "add the file, as in `given: {{files: {{{path}: text}}}}`, with `null` for a file that does not exist"
        );
        FileError::new(FileFailure::NoStub, self.fail(call, hint))
    }
}
