//! Checks scripts before they run, for `kopfd check` and at load time.
//!
//! All problems are reported at once, but one mistake gives one error: consequences of a broken script or import are
//! not reported.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rhai::Engine;

use super::interface::access::Calls;
use super::interface::declaration::{Binding, Code as Declared, Declaration, Expression};
use super::interface::problem::{Problem, Severity};
use super::interpreter::engine::{self, Sizes};
use super::language::arguments;
use super::limits::Limits;
use super::sources::imports::Imports;
use super::sources::program::name_of;
use super::sources::template_files::Rendered;

mod advice;
mod calls;
mod catalogue;
mod facts;
mod flow;
mod literals;
mod loops;
mod lost;
mod names;
mod program;
mod python;
mod report;
mod rights;
pub(crate) mod settings;
mod shadows;
mod source;
mod suggest;
mod syntax;
#[cfg(test)]
mod tests;

use catalogue::Catalogue;
use facts::{Unit, What};
use flow::{CodeContext, Walk};
use names::Names;
use program::{Code, Program};
use report::Report;
use source::Source;
use suggest::did_you_mean;

/// Returns all problems of a declaration's scripts, in the order of files and lines.
///
/// Reads the files without running them; `load::check` also runs the top level of files.
pub fn check(declaration: &Declaration) -> Vec<Problem> {
    read(declaration).problems
}

/// The scripts of a declaration as they were read.
#[derive(Debug, Clone, Default)]
pub struct Scripts {
    /// All problems.
    pub problems: Vec<Problem>,
    /// The texts of all valid files by their names below the root.
    pub sources: BTreeMap<String, Arc<str>>,
    /// The imports.
    pub imports: Imports,
    /// The templates that they render.
    pub rendered: Rendered,
    /// The requests to the cluster that the check finds in them.
    pub calls: Calls,
}

impl Scripts {
    /// Tells whether they have errors.
    pub fn are_broken(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Tells whether no file has changed since it was read.
    pub fn are_current(&self, root: &Path) -> bool {
        self.sources.iter().all(|(name, text)| source::read(root, name).is_ok_and(|found| *found == **text))
    }
}

/// Reads and checks all scripts.
pub(crate) fn read(declaration: &Declaration) -> Scripts {
    let engine = engine::build(Sizes::of(&Limits::default()));
    let catalogue = Catalogue::of(&engine);
    let mut report = Report::default();
    let mut program = Program::load(declaration, &engine, &mut report);
    let inlines = compile_inlines(declaration, &engine, &mut program, &mut report);
    let expressions = compile_expressions(declaration, &engine, &mut report);
    Checker { declaration, program: &program, catalogue: &catalogue }.run(&inlines, &expressions, &mut report);
    let sources = program.files().map(|code| (code.name.clone(), code.source.text.as_str().into())).collect();
    let imports = Imports {
        of_files: program.files().map(|code| (code.name.clone(), program::targets(code))).collect(),
        of_bindings: inlines.iter().map(|(index, _, code)| (*index, program::targets(code))).collect(),
    };
    let rendered = literals::templates(codes(&program, &inlines));
    let compiled: Vec<(usize, &Code)> = inlines.iter().map(|(index, _, code)| (*index, code)).collect();
    let calls = calls::find(declaration, &program, &compiled);
    // Names in broken code are often unknown only because of that.
    if !report.has_errors() {
        rights::check(&calls, declaration, &mut report);
        rights::check_imports(codes(&program, &inlines), declaration, &mut report);
    }
    Scripts { problems: report.finish(), sources, imports, rendered, calls }
}

/// Compiled code of the manifest, without code that does not compile.
type Compiled<'a, T> = Vec<(usize, &'a T, Code)>;

fn compile_inlines<'a>(
    declaration: &'a Declaration,
    engine: &Engine,
    program: &mut Program,
    report: &mut Report,
) -> Compiled<'a, Binding> {
    let mut compiled = Vec::new();
    for (index, binding) in declaration.bindings.iter().enumerate() {
        let Declared::Inline { text, place, file } = &binding.code else { continue };
        let source = Source::of_inline(text, place);
        if let Some(code) = program::compile_inline(engine, source, file.as_deref(), report) {
            program.load_imports(declaration, engine, &code, report);
            compiled.push((index, binding, code));
        }
    }
    compiled
}

fn compile_expressions<'a>(
    declaration: &'a Declaration,
    engine: &Engine,
    report: &mut Report,
) -> Compiled<'a, Expression> {
    let expressions = declaration.expressions.iter().enumerate();
    let compiled = expressions.filter_map(|(index, expression)| {
        let source = Source::of_inline(&expression.text, &expression.place);
        let code = program::compile_expression(engine, source, expression.file.as_deref(), report)?;
        Some((index, expression, code))
    });
    compiled.collect()
}

struct Checker<'a> {
    declaration: &'a Declaration,
    program: &'a Program,
    catalogue: &'a Catalogue,
}

impl Checker<'_> {
    fn run(&self, inlines: &Compiled<'_, Binding>, expressions: &Compiled<'_, Expression>, report: &mut Report) {
        let handlers = self.check_functions(report);
        self.walk(inlines, expressions, report);
        self.check_names(inlines, expressions, report);
        for code in codes(self.program, inlines) {
            advice::check_code(code, self.catalogue, report);
            shadows::check(code, self.catalogue, report);
            advice::check_values(code, false, report);
            literals::check(code, self.declaration, report);
        }
        // Code of the manifest is named like the file whose functions it sees.
        let of_code =
            |code: &Code| lost::subhandlers(code).into_iter().map(|name| (code.name.clone(), name)).collect::<Vec<_>>();
        let handlers: BTreeSet<(String, String)> =
            handlers.into_iter().chain(codes(self.program, inlines).flat_map(of_code)).collect();
        let is_handler = |code: &Code, unit: &Unit| handlers.contains(&(code.name.clone(), unit.name.clone()));
        for code in self.program.files() {
            lost::check(code, |unit| is_handler(code, unit), report);
        }
        for (index, binding, code) in inlines {
            lost::check(code, |unit| std::ptr::eq(unit, &raw const code.top) || is_handler(code, unit), report);
            advice::check_returns(code, &code.top, binding.kind, &binding.place, *index, report);
        }
        for (_, expression, code) in expressions {
            advice::check_paths(code, expression.has_value, report);
            advice::check_values(code, true, report);
            literals::check(code, self.declaration, report);
        }
    }

    /// Checks that each binding has its function, and that its parameters are arguments. Returns the functions, by file
    /// and name.
    fn check_functions(&self, report: &mut Report) -> Vec<(String, String)> {
        let mut handlers = Vec::new();
        for (index, binding) in self.declaration.bindings.iter().enumerate() {
            let Some((code, name)) = self.function_of(binding) else { continue };
            let Some(unit) = check_function(index, binding, code, name, report) else { continue };
            handlers.push((code.name.clone(), unit.name.clone()));
            let known = arguments::known(binding.kind);
            let spots =
                code.source.function(name, unit.params.len()).map(|(_, spots)| spots.clone()).unwrap_or_default();
            for (param, spot) in spots {
                flow::check_parameter(
                    code,
                    binding.kind,
                    &param,
                    spot,
                    &known,
                    &self.declaration.indexes,
                    Some(index),
                    report,
                );
            }
            advice::check_returns(code, unit, binding.kind, &binding.place, index, report);
        }
        handlers
    }

    /// Returns the file of a binding's function, if it is not broken, and the name of the function.
    fn function_of<'b>(&'b self, binding: &'b Binding) -> Option<(&'b Code, &'b str)> {
        match &binding.code {
            Declared::Function { file, name } => Some((self.program.file(&name_of(file))?, name)),
            Declared::Inline { .. } => None,
        }
    }

    fn check_names(
        &self,
        inlines: &Compiled<'_, Binding>,
        expressions: &Compiled<'_, Expression>,
        report: &mut Report,
    ) {
        let keys = keys_of_maps(codes(self.program, inlines));
        let check = |code: &Code, arguments: &[String], report: &mut Report| {
            // Code that inherits a broken file would lack all its functions.
            let is_orphan = !code.name.is_empty() && self.program.file(&code.name).is_none();
            if !is_orphan {
                let indexes = &self.declaration.indexes;
                Names { program: self.program, catalogue: self.catalogue, keys: &keys, code, arguments, indexes }
                    .check(report);
            }
        };
        for code in self.program.files() {
            check(code, &[], report);
        }
        for (_, binding, code) in inlines {
            check(code, &self.with_indexes(arguments::known(binding.kind)), report);
        }
        for (_, expression, code) in expressions {
            check(
                code,
                &self.with_indexes(arguments::known_in_expression(expression.kind, expression.has_value)),
                report,
            );
        }
    }

    fn with_indexes(&self, names: Vec<&str>) -> Vec<String> {
        names.into_iter().map(str::to_owned).chain(self.declaration.indexes.iter().cloned()).collect()
    }

    fn walk(&self, inlines: &Compiled<'_, Binding>, expressions: &Compiled<'_, Expression>, report: &mut Report) {
        let mut walk = Walk::new(self.program, &self.declaration.indexes, report);
        for code in self.program.files() {
            walk.enter(code, &code.top, CodeContext::TopLevel, &[]);
        }
        for binding in &self.declaration.bindings {
            if let Some((code, name)) = self.function_of(binding) {
                let units = code.units.iter().filter(|unit| unit.name == *name);
                units.for_each(|unit| {
                    walk.enter(code, unit, CodeContext::Function(binding.kind), &arguments::known(binding.kind));
                });
            }
        }
        for (_, binding, code) in inlines {
            walk.enter(code, &code.top, CodeContext::Function(binding.kind), &arguments::known(binding.kind));
        }
        for (_, expression, code) in expressions {
            walk.enter(
                code,
                &code.top,
                CodeContext::Expression,
                &arguments::known_in_expression(expression.kind, expression.has_value),
            );
        }
    }
}

fn codes<'a>(program: &'a Program, inlines: &'a Compiled<'_, Binding>) -> impl Iterator<Item = &'a Code> {
    program.files().chain(inlines.iter().map(|(_, _, code)| code))
}

/// Returns the keys of all maps in scripts: they may contain functions, which are called like methods.
fn keys_of_maps<'a>(codes: impl Iterator<Item = &'a Code>) -> BTreeSet<String> {
    let units = codes.flat_map(|code| std::iter::once(&code.top).chain(&code.units));
    let keys = units.flat_map(|unit| &unit.uses).filter_map(|usage| match &usage.what {
        What::Key(name) => Some(name.clone()),
        _ => None,
    });
    keys.collect()
}

/// The functions of a file that a hint lists.
const MAX_SHOWN: usize = 12;

/// Returns the public function with this name, or reports what exists instead.
fn check_function<'a>(
    index: usize,
    binding: &Binding,
    code: &'a Code,
    name: &str,
    report: &mut Report,
) -> Option<&'a Unit> {
    let found: Vec<&Unit> = code.units.iter().filter(|unit| unit.name == name && !unit.is_closure()).collect();
    let (message, hint) = match found[..] {
        [unit] if !unit.is_private => return Some(unit),
        [_] => {
            (format!("the function `{name}` is private"), Some(format!("remove `private` before it in {}", code.name)))
        }
        [] => {
            let public =
                code.units.iter().filter(|unit| !unit.is_private && !unit.is_closure()).map(|unit| unit.name.as_str());
            let public: Vec<&str> = public.collect::<BTreeSet<_>>().into_iter().collect();
            let all = match &public[..] {
                [] => format!("{} has no public functions", code.name),
                public => {
                    let shown: Vec<String> = public.iter().take(MAX_SHOWN).map(|name| format!("`{name}`")).collect();
                    format!("{} has {}", code.name, shown.join(", "))
                }
            };
            (format!("there is no function `{name}` in {}", code.name), Some(did_you_mean(name, public).unwrap_or(all)))
        }
        [..] => {
            let hint = "the arguments are passed by name, so that one function is enough: rename the others";
            (format!("there are {} functions `{name}` in {}", found.len(), code.name), Some(hint.to_owned()))
        }
    };
    let length = name.chars().count();
    report.add(Problem {
        hint,
        length,
        binding: Some(index),
        ..Problem::at(Severity::Error, binding.place.clone(), message)
    });
    None
}
