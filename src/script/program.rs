//! The texts of all scripts of one operator, read once, so that every script thread compiles the same.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use rhai::{AST, ASTNode, Engine, Expr, Position, Stmt};

use super::declaration::{Code, Declaration, Limits, Place};
use super::engine::{Sizes, build};
use super::modules;

/// The scripts of one operator.
#[derive(Debug)]
pub struct Program {
    /// What is called, and for what.
    pub declaration: Declaration,
    /// The texts of all files that are called or imported, by their paths relative to the root.
    pub sources: BTreeMap<String, Arc<str>>,
}

/// Something that is wrong with the scripts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where.
    pub place: Place,
    /// What.
    pub text: String,
}

impl Program {
    /// Reads all files that are declared, and those that they import.
    ///
    /// # Errors
    /// All files that cannot be read or parsed.
    pub fn load(declaration: Declaration) -> Result<Self, Vec<Problem>> {
        let mut loading =
            Loading { engine: build(Sizes::of(&Limits::default())), sources: BTreeMap::new(), problems: Vec::new(), declaration };
        loading.load_all();
        let Loading { declaration, sources, problems, .. } = loading;
        if problems.is_empty() { Ok(Self { declaration, sources }) } else { Err(problems) }
    }
}

/// Returns a file's name in messages and imports: its path relative to the root, with slashes.
pub fn name_of(file: &Path) -> String {
    let parts = file.components().filter(|part| !matches!(part, Component::CurDir));
    parts.map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>().join("/")
}

struct Loading {
    engine: Engine,
    declaration: Declaration,
    sources: BTreeMap<String, Arc<str>>,
    problems: Vec<Problem>,
}

impl Loading {
    fn load_all(&mut self) {
        let mut wanted: Vec<(String, Place)> = Vec::new();
        for binding in &self.declaration.bindings {
            match &binding.code {
                Code::Function { file, .. } => wanted.push((name_of(file), binding.place.clone())),
                Code::Inline { file, text, place } => {
                    wanted.extend(file.as_deref().map(|file| (name_of(file), binding.place.clone())));
                    // What does not parse is told by whoever compiles it.
                    if let Ok(ast) = self.engine.compile(text) {
                        let importer = file.as_deref().map(name_of).unwrap_or_default();
                        wanted.extend(
                            imports(&ast)
                                .into_iter()
                                .filter_map(|(path, _)| Some((modules::target(&importer, &path).ok()?, place.clone()))),
                        );
                    }
                }
            }
        }
        for expression in &self.declaration.expressions {
            wanted.extend(expression.file.as_deref().map(|file| (name_of(file), expression.place.clone())));
        }
        while let Some((name, place)) = wanted.pop() {
            if !self.sources.contains_key(&name) {
                wanted.extend(self.load(&name, place));
            }
        }
    }

    /// Reads one file, and returns what it imports.
    fn load(&mut self, name: &str, place: Place) -> Vec<(String, Place)> {
        let text = match self.read(name) {
            Ok(text) => text,
            Err(text) => {
                self.problems.push(Problem { place, text });
                return Vec::new();
            }
        };
        self.sources.insert(name.to_owned(), text.as_str().into());
        let ast = match self.engine.compile(&text) {
            Ok(ast) => ast,
            Err(error) => {
                let place = self.place(name, error.position());
                self.problems.push(Problem { place, text: error.err_type().to_string() });
                return Vec::new();
            }
        };
        let mut wanted = Vec::new();
        for (path, position) in imports(&ast) {
            let place = self.place(name, position);
            match modules::target(name, &path) {
                Ok(target) => wanted.push((target, place)),
                Err(text) => self.problems.push(Problem { place, text }),
            }
        }
        wanted
    }

    fn read(&self, name: &str) -> Result<String, String> {
        if name.starts_with(modules::LIBRARY_PREFIX) {
            return modules::library(name).map(str::to_owned).ok_or_else(|| format!("there is no {name} in the library of this version"));
        }
        std::fs::read_to_string(self.declaration.root.join(name)).map_err(|error| format!("cannot read the script {name}: {error}"))
    }

    fn place(&self, name: &str, position: Position) -> Place {
        let (line, column) = (position.line().unwrap_or(1), position.position().unwrap_or(1));
        Place { file: self.declaration.root.join(name), line, column }
    }
}

/// Returns the paths that a script imports, where they are written as they are.
fn imports(ast: &AST) -> Vec<(String, Position)> {
    let mut paths = Vec::new();
    ast.walk(&mut |nodes| {
        if let Some(ASTNode::Stmt(Stmt::Import(import, position))) = nodes.last()
            && let Expr::StringConstant(path, _) = &import.0
        {
            paths.push((path.to_string(), *position));
        }
        true
    });
    paths
}
