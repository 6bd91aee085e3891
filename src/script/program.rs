//! The texts of all scripts of one operator, read and checked once, so that all script threads compile the same texts.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use super::declaration::Declaration;
use super::problem::Problem;

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

/// Returns a file's name in messages and imports: its path relative to the root, with slashes.
pub fn name_of(file: &Path) -> String {
    let parts = file.components().filter(|part| !matches!(part, Component::CurDir));
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}
