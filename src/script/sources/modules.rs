//! Imports: finds the file of an import, and keeps the module of each file after it has run.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use rhai::{AST, EvalAltResult, Module, Shared};

/// The extension of scripts, which imports may leave out.
const EXTENSION: &str = ".rhai";

/// The prefix of modules in the binary.
pub(crate) const LIBRARY_PREFIX: &str = "kopf/";

/// The modules in the binary, by name: the scripts of the folder `scripts/`.
const LIBRARY: &[(&str, &str)] = &[
    ("kopf/backoff.rhai", include_str!("../../../scripts/backoff.rhai")),
    ("kopf/certificates.rhai", include_str!("../../../scripts/certificates.rhai")),
    ("kopf/children.rhai", include_str!("../../../scripts/children.rhai")),
    ("kopf/conditions.rhai", include_str!("../../../scripts/conditions.rhai")),
    ("kopf/names.rhai", include_str!("../../../scripts/names.rhai")),
    ("kopf/passwords.rhai", include_str!("../../../scripts/passwords.rhai")),
    ("kopf/quantities.rhai", include_str!("../../../scripts/quantities.rhai")),
    ("kopf/rollout.rhai", include_str!("../../../scripts/rollout.rhai")),
    ("kopf/wait.rhai", include_str!("../../../scripts/wait.rhai")),
];

/// Returns the text of a module in the binary.
pub(crate) fn library(name: &str) -> Option<&'static str> {
    LIBRARY.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the file of an import: `./x` is relative to the importing file, other paths to the root of scripts.
///
/// # Errors
/// If the path leads out of the root, or is absolute.
pub(crate) fn target(importer: &str, path: &str) -> Result<String, String> {
    if path.starts_with('/') || path.contains('\\') || path.contains(':') {
        return Err(format!("cannot import \"{path}\": the path must be relative to the scripts, with slashes"));
    }
    let folder = importer.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_relative = path.starts_with("./") || path.starts_with("../");
    let mut parts: Vec<&str> =
        if is_relative { folder.split('/').filter(|part| !part.is_empty()).collect() } else { Vec::new() };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(format!("cannot import \"{path}\": `..` is not allowed in imports")),
            part => parts.push(part),
        }
    }
    let mut file = parts.join("/");
    if !file.ends_with(EXTENSION) {
        file.push_str(EXTENSION);
    }
    Ok(file)
}

/// The files of one generation on one thread, and their modules.
#[derive(Default)]
pub(crate) struct Modules {
    files: BTreeMap<String, AST>,
    loaded: RefCell<BTreeMap<String, Shared<Module>>>,
    /// The running files, the outermost first.
    loading: RefCell<Vec<String>>,
}

impl Modules {
    /// Returns the modules of these compiled files.
    pub(crate) fn new(files: BTreeMap<String, AST>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Returns a compiled file.
    pub(crate) fn file(&self, name: &str) -> Option<&AST> {
        self.files.get(name)
    }

    /// Marks a file as running, so that import cycles are detected.
    pub(crate) fn begin(self: &Modules, name: &str) {
        self.loading.borrow_mut().push(name.to_owned());
    }

    /// Marks the last started file as done.
    pub(crate) fn end(&self) {
        self.loading.borrow_mut().pop();
    }

    /// Returns a module, which is made of its file at its first import.
    ///
    /// # Errors
    /// If there is no such file, it imports itself, or it fails.
    pub(crate) fn import(
        &self,
        request: &Request<'_>,
        make: impl FnOnce(&AST) -> Result<Module, Box<EvalAltResult>>,
    ) -> Result<Shared<Module>, NotImported> {
        let name = target(request.importer, request.path).map_err(NotImported::Refused)?;
        if let Some(module) = self.loaded.borrow().get(&name) {
            return Ok(Shared::clone(module));
        }
        if self.loading.borrow().contains(&name) {
            let mut way = self.loading.borrow().clone();
            way.push(request.path.to_owned());
            return Err(NotImported::Refused(format!("the imports go round in a circle: {}", way.join(" -> "))));
        }
        let missing = || NotImported::Refused(format!("cannot import \"{}\": there is no {name}", request.path));
        let file = self.files.get(&name).ok_or_else(missing)?;
        self.begin(&name);
        let module = make(file);
        self.end();
        let mut module = module.map_err(|error| NotImported::Failed { name: name.clone(), error })?;
        module.set_id(name.clone());
        module.build_index();
        let module = Shared::new(module);
        self.loaded.borrow_mut().insert(name, Rc::clone(&module));
        Ok(module)
    }
}

/// The reason why there is no module.
pub(crate) enum NotImported {
    /// The path names no file that may be imported; with the message.
    Refused(String),
    /// The top level of the file has failed.
    Failed {
        /// The name of the file.
        name: String,
        /// The error, with its position in the file.
        error: Box<EvalAltResult>,
    },
}

/// An import of a script.
pub(crate) struct Request<'a> {
    /// The importing file.
    pub importer: &'a str,
    /// The imported path.
    pub path: &'a str,
}

#[cfg(test)]
mod tests {
    use super::target;

    #[test]
    fn imports_stay_within_the_scripts() {
        assert_eq!(target("a/b.rhai", "./c").unwrap(), "a/c.rhai");
        assert_eq!(target("a/b.rhai", "lib/c").unwrap(), "lib/c.rhai");
        assert_eq!(target("b.rhai", "./lib/./c.rhai").unwrap(), "lib/c.rhai");
        for wrong in ["../x", "./../x", "a/../x", "/etc/passwd", "c:\\x"] {
            assert!(target("a/b.rhai", wrong).is_err(), "{wrong}");
        }
    }
}
