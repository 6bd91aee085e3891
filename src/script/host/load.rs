//! Loads the scripts of an operator: reads and checks them before anything runs.

use std::path::PathBuf;
use std::sync::Arc;

use crate::script::check::Scripts;
use crate::script::interface::access::Calls;
use crate::script::interface::declaration::Declaration;
use crate::script::interface::problem::{Problem, Severity};
use crate::script::interface::rights::Permissions;
use crate::script::interpreter::scripts;
use crate::script::sources::modules;
use crate::script::sources::program::Program;
use crate::script::sources::template_files;

impl Program {
    /// Reads and checks all declared files and their imports.
    ///
    /// # Errors
    /// All problems, including warnings, if there is an error among them.
    pub fn load(declaration: Declaration) -> Result<Self, Vec<Problem>> {
        let scripts = crate::script::check::read(&declaration);
        let is_broken = scripts.problems.iter().any(|problem| problem.severity == Severity::Error);
        if is_broken { Err(scripts.problems) } else { Ok(Self::of(declaration, scripts)) }
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
pub struct Checked {
    /// All problems.
    pub problems: Vec<Problem>,
    /// The files that were read.
    pub files: Vec<PathBuf>,
    /// What the scripts do in the cluster.
    pub calls: Calls,
}

/// Checks a declaration's scripts, and runs their top levels.
pub fn check(declaration: &Declaration) -> Checked {
    let read = crate::script::check::read(declaration);
    let (mut problems, calls) = (read.problems.clone(), read.calls.clone());
    // The modules of the binary are no files of the operator.
    let own = read.sources.keys().filter(|name| !name.starts_with(modules::LIBRARY_PREFIX));
    let mut files: Vec<PathBuf> = own.map(|name| declaration.root.join(name)).collect();
    let is_broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    // Broken files would only fail again.
    if !is_broken && !read.sources.is_empty() {
        let program = Program::of(declaration.clone(), read);
        files.extend(program.templates.keys().map(|name| declaration.root.join(name)));
        problems.extend(scripts::run_top_levels(program));
        problems.sort();
    }
    Checked { problems, files, calls }
}
