//! All compiled code of a declaration: files with their imports, inline bodies, and expressions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rhai::{AST, Engine, ParseError};

use super::facts::{self, Unit, What};
use super::report::Report;
use super::source::{self, Source, spot_of};
use super::syntax;
use crate::kit::source::{SourcePosition, SourceSpan};
use crate::script::interface::declaration::{Code as Declared, Declaration};
use crate::script::interface::problem::{Problem, Severity};
use crate::script::sources::files::Unreadable;
use crate::script::sources::imports::Targets;
use crate::script::sources::modules;
use crate::script::sources::program::name_of;

/// One compiled text.
pub(super) struct Code {
    /// Its source.
    pub source: Source,
    /// The name of the file below the root of scripts; for code of the manifest, of the file that it inherits.
    pub name: String,
    /// The top level; the whole of inline bodies and expressions.
    pub top: Unit,
    /// Its functions and closures.
    pub units: Vec<Unit>,
}

impl Code {
    fn new(source: Source, name: String, ast: &AST) -> Self {
        let (top, units) = facts::read(ast);
        Self { source, name, top, units }
    }

    /// Returns the functions with a name, with any number of parameters.
    pub(super) fn functions<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Unit> {
        self.units.iter().filter(move |unit| unit.name == name)
    }

    /// Returns the function of a name and number of parameters.
    pub(super) fn function(&self, name: &str, arity: usize) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.name == name && unit.params.len() == arity)
    }

    /// Tells whether it is a whole file, whose top level has only constants and imports.
    pub(super) fn is_file(&self) -> bool {
        self.source.is_file
    }

    /// Returns the names of the functions that are not closures.
    pub(super) fn function_names(&self) -> impl Iterator<Item = &str> {
        self.units.iter().filter(|unit| !unit.is_closure()).map(|unit| unit.name.as_str())
    }

    /// Tells whether the top level declares a constant.
    pub(super) fn has_constant(&self, wanted: &str) -> bool {
        self.declares(wanted, true)
    }

    /// Tells whether the top level declares a variable.
    pub(super) fn has_variable(&self, wanted: &str) -> bool {
        self.declares(wanted, false)
    }

    fn declares(&self, wanted: &str, constant: bool) -> bool {
        let is_it = |what: &What| matches!(what, What::Declaration { name, is_constant, .. } if name == wanted && *is_constant == constant);
        self.top.uses.iter().any(|usage| is_it(&usage.what))
    }

    /// Returns the names of its constants.
    pub(super) fn constants(&self) -> impl Iterator<Item = &str> {
        self.top.uses.iter().filter_map(|usage| match &usage.what {
            What::Declaration { name, is_constant: true, .. } => Some(name.as_str()),
            _ => None,
        })
    }

    /// Tells whether importers see a variable.
    pub(super) fn exports(&self, wanted: &str) -> bool {
        self.top.uses.iter().any(|usage| match &usage.what {
            What::Declaration { name, is_exported: true, .. } | What::Export { name } => name == wanted,
            _ => false,
        })
    }

    /// Returns the file of an import; the error is reported at the position of the import.
    pub(super) fn target(&self, path: &str) -> Result<String, String> {
        modules::target(&self.name, path)
    }
}

/// The module of an alias.
pub(super) enum Module<'a> {
    /// There is no such alias.
    Unknown,
    /// It exists, but cannot be checked: it is broken, or its path is computed.
    Unclear,
    /// It is a file.
    File(&'a Code),
}

/// All compiled code.
#[derive(Default)]
pub(super) struct Program {
    files: BTreeMap<String, Option<Code>>,
}

impl Program {
    /// Reads and compiles all files of the declaration and their imports. Problems are reported.
    pub(super) fn load(declaration: &Declaration, engine: &Engine, report: &mut Report) -> Self {
        let mut program = Self::default();
        for (file, place, binding) in named_files(declaration) {
            program.load_file(declaration, engine, &file, report, |unreadable| Problem {
                binding,
                hint: unreadable.hint,
                ..Problem::at(Severity::Error, place.clone(), unreadable.message)
            });
        }
        program.report_circles(report);
        program
    }

    /// Returns a file; `None` if it is broken or unknown.
    pub(super) fn file(&self, name: &str) -> Option<&Code> {
        self.files.get(name)?.as_ref()
    }

    /// Returns all files that are not broken.
    pub(super) fn files(&self) -> impl Iterator<Item = &Code> {
        self.files.values().flatten()
    }

    /// Loads the imports of code in the manifest.
    pub(super) fn load_imports(
        &mut self,
        declaration: &Declaration,
        engine: &Engine,
        code: &Code,
        report: &mut Report,
    ) {
        let imports = imports(code).map(|(path, _, spot)| (path, spot)).collect::<Vec<_>>();
        for (path, spot) in imports {
            let Some(path) = path else { continue };
            let place = code.source.place(spot);
            match code.target(path) {
                Err(message) => {
                    let hint = "a path begins at the folder of the scripts, as in `import \"lib/names\" as names;`, or with `./` at the file itself";
                    report.add(Problem { hint: Some(hint.to_owned()), ..Problem::at(Severity::Error, place, message) });
                }
                Ok(file) => self.load_file(declaration, engine, &file, report, |unreadable| Problem {
                    hint: unreadable.hint,
                    ..Problem::at(
                        Severity::Error,
                        place.clone(),
                        format!("cannot import {path:?}: {}", unreadable.message),
                    )
                }),
            }
        }
    }

    fn load_file(
        &mut self,
        declaration: &Declaration,
        engine: &Engine,
        file: &str,
        report: &mut Report,
        problem: impl FnOnce(Unreadable) -> Problem,
    ) {
        if self.files.contains_key(file) {
            return;
        }
        self.files.insert(file.to_owned(), None);
        let text = match source::read(&declaration.root, file) {
            Ok(text) => text,
            Err(unreadable) => return report.add(problem(unreadable)),
        };
        let source = Source::of_file(shown_file(&declaration.root, file), text);
        let code = match engine.compile(&source.text) {
            Ok(ast) => Code::new(source, file.to_owned(), &ast),
            Err(error) => return report.add(syntax::problem(&error, &source)),
        };
        self.load_imports(declaration, engine, &code, report);
        self.files.insert(file.to_owned(), Some(code));
    }

    /// Returns the module of an alias in a unit of some code.
    pub(super) fn module<'a>(&'a self, code: &Code, unit: &Unit, alias: &str) -> Module<'a> {
        let outer = self.outer(code);
        let units = [Some((code, unit)), Some((code, &code.top)), outer.map(|outer| (outer, &outer.top))];
        for (code, unit) in units.into_iter().flatten() {
            for usage in unit.uses.iter().rev() {
                if let What::Import { path, alias: known } = &usage.what
                    && known == alias
                {
                    let target = path.as_ref().and_then(|path| code.target(path).ok());
                    return target.and_then(|target| self.file(&target)).map_or(Module::Unclear, Module::File);
                }
            }
        }
        Module::Unknown
    }

    /// Returns the file whose functions and constants code of the manifest sees.
    pub(super) fn outer(&self, code: &Code) -> Option<&Code> {
        self.file(&code.name).filter(|outer| !std::ptr::eq(*outer, code))
    }

    /// Reports import cycles: their top levels can never run.
    fn report_circles(&self, report: &mut Report) {
        let mut done = BTreeSet::new();
        for file in self.files.keys() {
            self.follow(file, &mut Vec::new(), &mut done, report);
        }
    }

    fn follow(&self, file: &str, way: &mut Vec<String>, done: &mut BTreeSet<String>, report: &mut Report) {
        let Some(code) = self.file(file).filter(|_| !done.contains(file)) else { return };
        way.push(file.to_owned());
        for usage in &code.top.uses {
            let What::Import { path: Some(path), .. } = &usage.what else { continue };
            let Ok(target) = code.target(path) else { continue };
            if let Some(start) = way.iter().position(|before| *before == target) {
                let circle = [&way[start..], &[target]].concat().join(" -> ");
                let place = code.source.place(spot_of(usage.position, 1));
                let problem =
                    Problem::at(Severity::Error, place, format!("the imports go round in a circle: {circle}"));
                let hint = "move what both files need to a third one".to_owned();
                report.add(Problem { hint: Some(hint), ..problem });
            } else {
                self.follow(&target, way, done, report);
            }
        }
        way.pop();
        done.insert(file.to_owned());
    }
}

/// Compiles code of the manifest. Problems are reported.
pub(super) fn compile_inline(
    engine: &Engine,
    source: Source,
    file: Option<&Path>,
    report: &mut Report,
) -> Option<Code> {
    let compiled = engine.compile(&source.text);
    finish(compiled, source, file, report)
}

/// Compiles an expression of the manifest. Problems are reported.
pub(super) fn compile_expression(
    engine: &Engine,
    source: Source,
    file: Option<&Path>,
    report: &mut Report,
) -> Option<Code> {
    let compiled = engine.compile_expression(&source.text);
    finish(compiled, source, file, report)
}

fn finish(compiled: Result<AST, ParseError>, source: Source, file: Option<&Path>, report: &mut Report) -> Option<Code> {
    match compiled {
        Ok(ast) => Some(Code::new(source, file.map(name_of).unwrap_or_default(), &ast)),
        Err(error) => {
            report.add(syntax::problem(&error, &source));
            None
        }
    }
}

fn shown_file(root: &Path, file: &str) -> std::path::PathBuf {
    if file.starts_with(modules::LIBRARY_PREFIX) { file.into() } else { root.join(file) }
}

/// Returns the imports of all units: path, alias, and position.
fn imports(code: &Code) -> impl Iterator<Item = (Option<&str>, &str, SourceSpan)> {
    let units = std::iter::once(&code.top).chain(&code.units);
    units.flat_map(|unit| &unit.uses).filter_map(|usage| match &usage.what {
        What::Import { path, alias } => {
            Some((path.as_deref(), alias.as_str(), spot_of(usage.position, "import".len())))
        }
        _ => None,
    })
}

/// Returns the files that code imports.
pub(super) fn targets(code: &Code) -> Targets {
    let mut targets = Targets::default();
    for (path, _, _) in imports(code) {
        match path.map(|path| code.target(path)) {
            Some(Ok(file)) => drop(targets.files.insert(file)),
            // A path that leads out of the root is an error.
            Some(Err(_)) => {}
            None => targets.is_open = true,
        }
    }
    targets
}

fn named_files(declaration: &Declaration) -> Vec<(String, SourcePosition, Option<usize>)> {
    let of_bindings = declaration.bindings.iter().enumerate().filter_map(|(index, binding)| {
        let file = match &binding.code {
            Declared::Function { file, .. } => Some(file),
            Declared::Inline { file, .. } => file.as_ref(),
        };
        file.map(|file| (name_of(file), binding.place.clone(), Some(index)))
    });
    let of_expressions = declaration
        .expressions
        .iter()
        .filter_map(|expression| expression.file.as_ref().map(|file| (name_of(file), expression.place.clone(), None)));
    of_bindings.chain(of_expressions).collect()
}
