//! Which files the code of an operator depends on, through its imports.

use std::collections::{BTreeMap, BTreeSet};

/// The files that some code imports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// The names of files with known names.
    pub files: BTreeSet<String>,
    /// Whether the name of an import is computed, so that it may be any file.
    pub is_open: bool,
}

/// The imports of all code of an operator.
#[derive(Debug, Clone, Default)]
pub struct Imports {
    /// Those of each file.
    pub of_files: BTreeMap<String, Targets>,
    /// Those of inline code, by the number of its binding.
    pub of_bindings: BTreeMap<usize, Targets>,
}

impl Imports {
    /// Returns the files that inline code and a file depend on, with the file itself; `None` if that may be any file.
    pub(crate) fn closure(&self, binding: Option<usize>, file: Option<String>) -> Option<BTreeSet<String>> {
        let inline = binding.and_then(|number| self.of_bindings.get(&number));
        if inline.is_some_and(|targets| targets.is_open) {
            return None;
        }
        let mut found = BTreeSet::new();
        let mut pending: Vec<String> =
            file.into_iter().chain(inline.iter().flat_map(|targets| targets.files.iter().cloned())).collect();
        while let Some(name) = pending.pop() {
            if let Some(targets) = self.of_files.get(&name)
                && !found.contains(&name)
            {
                if targets.is_open {
                    return None;
                }
                pending.extend(targets.files.iter().cloned());
            }
            found.insert(name);
        }
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(files: &[&str], is_open: bool) -> Targets {
        Targets { files: files.iter().map(|file| (*file).to_owned()).collect(), is_open }
    }

    #[test]
    fn code_depends_on_all_files_that_it_imports_directly_or_not() {
        let of_files = [
            ("a", targets(&["b"], false)),
            ("b", targets(&["c", "a"], false)),
            ("c", targets(&[], false)),
            ("d", targets(&[], true)),
        ];
        let of_files = of_files.map(|(name, targets)| (name.to_owned(), targets)).into_iter().collect();
        let of_bindings = [(1, targets(&["c"], false)), (2, targets(&[], true))].into_iter().collect();
        let imports = Imports { of_files, of_bindings };
        let closure = |binding, file: Option<&str>| {
            imports
                .closure(binding, file.map(str::to_owned))
                .map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(closure(None, Some("a")).as_deref(), Some("a b c"));
        assert_eq!(closure(Some(1), None).as_deref(), Some("c"));
        assert_eq!(closure(Some(0), Some("c")).as_deref(), Some("c"));
        assert_eq!((closure(None, Some("d")), closure(Some(2), Some("c"))), (None, None));
    }
}
