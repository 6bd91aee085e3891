//! The texts of all scripts of one operator, read and checked once, so that all script threads compile the same texts.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Component, Path};
use std::sync::Arc;

use super::digest::sha256;
use super::imports::Imports;
use super::template_files::Templates;
use crate::script::interface::access::Calls;
use crate::script::interface::declaration::{Code, Declaration};
use crate::script::interface::problem::Problem;
use crate::script::interface::rights::Permissions;
use crate::script::limits::call_rate::CallRate;

/// The number of hexadecimal digits of a revision.
const REVISION: usize = 12;

/// The scripts of one operator, without errors.
#[derive(Debug, Default)]
pub struct Program {
    /// The declared code.
    pub declaration: Declaration,
    /// The texts of all called or imported files, by their paths relative to the root.
    pub sources: BTreeMap<String, Arc<str>>,
    /// The imports.
    pub imports: Imports,
    /// The templates.
    pub templates: Arc<Templates>,
    /// The warnings.
    pub warnings: Vec<Problem>,
    /// The requests to the cluster that the check finds in the scripts.
    pub calls: Calls,
    /// The requests to the cluster that the scripts may send.
    pub permissions: Arc<Permissions>,
    /// The recent calls of the API by each binding.
    pub(crate) call_rates: Vec<Arc<CallRate>>,
}

impl Program {
    /// Returns a short digest of a manifest, its definitions of kinds, the scripts and the templates, the same on all
    /// machines.
    pub fn revision<'a>(&'a self, manifest: &'a str, definitions: impl IntoIterator<Item = &'a str>) -> String {
        // Separators that are in no text keep the parts apart.
        let files =
            self.sources.iter().chain(&*self.templates).flat_map(|(name, text)| ["\0", name.as_str(), "\0", text]);
        let definitions = definitions.into_iter().flat_map(|text| ["\0\0", text]);
        sha256(std::iter::once(manifest).chain(files).chain(definitions)).chars().take(REVISION).collect()
    }

    /// Returns the program with the recent calls of the API by the functions of the program before it: a function is
    /// known by its id, and several functions with one id by their order.
    #[must_use]
    pub fn after(mut self, before: &Self) -> Self {
        let mut rates: BTreeMap<&str, VecDeque<&Arc<CallRate>>> = BTreeMap::new();
        for (binding, rate) in before.declaration.bindings.iter().zip(&before.call_rates) {
            rates.entry(&binding.id).or_default().push_back(rate);
        }
        for (binding, rate) in self.declaration.bindings.iter().zip(&mut self.call_rates) {
            if let Some(earlier) = rates.get_mut(binding.id.as_str()).and_then(VecDeque::pop_front) {
                *rate = Arc::clone(earlier);
            }
        }
        self
    }

    /// Returns a digest of the code of a binding: of its text, and of all files that it depends on.
    pub fn digest_of_binding(&self, number: usize) -> String {
        match self.declaration.bindings.get(number).map(|binding| &binding.code) {
            Some(Code::Function { file, name }) => self.digest(name, None, Some(name_of(file))),
            Some(Code::Inline { text, file, .. }) => self.digest(text, Some(number), file.as_deref().map(name_of)),
            None => String::new(),
        }
    }

    /// Returns a digest of an expression: of its text, and of all files that it depends on.
    pub fn digest_of_expression(&self, number: usize) -> String {
        let expression = self.declaration.expressions.get(number);
        expression.map_or_else(String::new, |one| self.digest(&one.text, None, one.file.as_deref().map(name_of)))
    }

    fn digest(&self, text: &str, binding: Option<usize>, file: Option<String>) -> String {
        let own = file.clone().unwrap_or_default();
        let names = self.imports.closure(binding, file);
        let is_needed = |name: &str| names.as_ref().is_none_or(|names| names.contains(name));
        let files = self
            .sources
            .iter()
            .filter(|(name, _)| is_needed(name))
            .flat_map(|(name, text)| ["\0", name.as_str(), "\0", text]);
        sha256([text, "\0", &own].into_iter().chain(files))
    }
}

/// Returns a file's name in messages and imports: its path relative to the root, with slashes.
pub(crate) fn name_of(file: &Path) -> String {
    let parts = file.components().filter(|part| !matches!(part, Component::CurDir));
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    use serde_json::Value;

    use crate::kit::source::SourcePosition;
    use crate::script::interface::declaration::{Binding, BindingKind};
    use crate::script::limits::Limits;

    #[test]
    fn recent_calls_of_the_api_are_those_of_the_function_in_the_program_before() {
        let program = |ids: &[&str]| {
            let bindings = ids.iter().map(|id| Binding { id: (*id).to_owned(), ..binding() }).collect();
            Program {
                declaration: Declaration { bindings, ..Declaration::default() },
                call_rates: ids.iter().map(|_| Arc::default()).collect(),
                ..Program::default()
            }
        };
        let before = program(&["a", "b", "b"]);
        let after = program(&["b", "new", "b", "a", "b"]).after(&before);
        let earlier =
            after.call_rates.iter().map(|rate| before.call_rates.iter().position(|one| Arc::ptr_eq(one, rate)));
        assert_eq!(earlier.collect::<Vec<_>>(), [Some(1), None, Some(2), Some(0), None]);
    }

    fn binding() -> Binding {
        Binding {
            id: String::new(),
            code: Code::Function { file: PathBuf::from("a.rhai"), name: "f".to_owned() },
            kind: BindingKind::Change,
            limits: Limits::default(),
            place: SourcePosition::default(),
            param: Value::Null,
        }
    }

    #[test]
    fn a_revision_is_that_of_the_manifest_and_all_scripts() {
        let revision = |manifest: &str, sources: &[(&str, &str)]| {
            let sources = sources.iter().map(|(name, text)| ((*name).to_owned(), Arc::from(*text))).collect();
            Program { sources, ..Program::default() }.revision(manifest, [])
        };
        let one = revision("a", &[("b", "c"), ("d", "e")]);
        assert_eq!((one.len(), &one), (REVISION, &revision("a", &[("b", "c"), ("d", "e")])));
        for other in [
            revision("x", &[("b", "c"), ("d", "e")]),
            revision("a", &[("b", "c")]),
            revision("a", &[("b", "cd"), ("", "e")]),
        ] {
            assert_ne!(one, other);
        }
    }
}
