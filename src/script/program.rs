//! The texts of all scripts of one operator, read and checked once, so that all script threads compile the same texts.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use super::declaration::Declaration;
use super::digest::sha256;
use super::problem::Problem;

/// The number of hexadecimal digits of a revision.
const REVISION: usize = 12;

/// The scripts of one operator, without errors.
#[derive(Debug)]
pub struct Program {
    /// The declared code.
    pub declaration: Declaration,
    /// The texts of all called or imported files, by their paths relative to the root.
    pub sources: BTreeMap<String, Arc<str>>,
    /// The warnings.
    pub warnings: Vec<Problem>,
}

impl Program {
    /// Returns a short digest of a manifest and the scripts, the same on all machines.
    pub fn revision(&self, manifest: &str) -> String {
        // Separators that are in no text keep the parts apart.
        let sources = self.sources.iter().flat_map(|(name, text)| ["\0", name.as_str(), "\0", text]);
        sha256(std::iter::once(manifest).chain(sources)).chars().take(REVISION).collect()
    }
}

/// Returns a file's name in messages and imports: its path relative to the root, with slashes.
pub fn name_of(file: &Path) -> String {
    let parts = file.components().filter(|part| !matches!(part, Component::CurDir));
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_is_that_of_the_manifest_and_all_scripts() {
        let revision = |manifest: &str, sources: &[(&str, &str)]| {
            let sources = sources.iter().map(|(name, text)| ((*name).to_owned(), Arc::from(*text))).collect();
            Program { declaration: Declaration::default(), sources, warnings: Vec::new() }.revision(manifest)
        };
        let one = revision("a", &[("b", "c"), ("d", "e")]);
        assert_eq!((one.len(), &one), (REVISION, &revision("a", &[("b", "c"), ("d", "e")])));
        for other in [revision("x", &[("b", "c"), ("d", "e")]), revision("a", &[("b", "c")]), revision("a", &[("b", "cd"), ("", "e")])] {
            assert_ne!(one, other);
        }
    }
}
