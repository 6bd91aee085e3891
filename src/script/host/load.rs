//! Loads the scripts of an operator: reads and checks them before anything runs.

use std::path::PathBuf;
use std::sync::Arc;

use crate::script::check::{self, Scripts};
use crate::script::interface::declaration::Declaration;
use crate::script::interface::problem::Problem;
use crate::script::interface::rights::Permissions;
use crate::script::interpreter::scripts::run_top_levels;
use crate::script::sources::modules;
use crate::script::sources::program::Program;
use crate::script::sources::template_files;

impl Program {
    /// Reads and checks all declared files and their imports.
    ///
    /// # Errors
    /// All problems, including warnings, if there is an error among them.
    pub fn load(declaration: Declaration) -> Result<Self, Vec<Problem>> {
        let scripts = check::read(&declaration);
        if scripts.are_broken() { Err(scripts.problems) } else { Ok(Self::of(declaration, scripts)) }
    }

    /// Loads a declaration whose files were read and checked before. They are only read and checked again if one of
    /// them has changed since.
    ///
    /// # Errors
    /// All problems, including warnings, if there is an error among them.
    pub fn load_again(declaration: Declaration, scripts: &Scripts) -> Result<Self, Vec<Problem>> {
        if scripts.are_broken() || !scripts.are_current(&declaration.root) {
            return Self::load(declaration);
        }
        Ok(Self::of(declaration, scripts.clone()))
    }

    fn of(declaration: Declaration, scripts: Scripts) -> Self {
        let Scripts { problems, sources, imports, rendered, calls } = scripts;
        let permissions = Arc::new(Permissions::of(&calls, &declaration.allow.k8s));
        let templates = Arc::new(template_files::read(&declaration.root, &rendered));
        let call_rates = declaration.bindings.iter().map(|_| Arc::default()).collect();
        Self { declaration, sources, imports, templates, warnings: problems, calls, permissions, call_rates }
    }
}

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// All problems.
    pub problems: Vec<Problem>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// The scripts.
    pub scripts: Arc<Scripts>,
}

/// Checks a declaration's scripts, and runs their top levels.
pub(crate) fn check(declaration: &Declaration) -> Checked {
    let scripts = check::read(declaration);
    let mut problems = scripts.problems.clone();
    // The modules of the binary are no files of the operator.
    let own = scripts.sources.keys().filter(|name| !name.starts_with(modules::LIBRARY_PREFIX));
    let mut files: Vec<PathBuf> = own.map(|name| declaration.root.join(name)).collect();
    // Broken files would only fail again.
    if !scripts.are_broken() && !scripts.sources.is_empty() {
        let program = Program::of(declaration.clone(), scripts.clone());
        files.extend(program.templates.keys().map(|name| declaration.root.join(name)));
        problems.extend(run_top_levels(program));
        problems.sort();
    }
    Checked { problems, files, scripts: Arc::new(scripts) }
}
