//! The sources of a package as modules, with their references.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::references::{self, Found};

/// The path of a module from the root of the crate; the root has the empty path.
pub(crate) type ModulePath = Vec<String>;

/// A position in the sources.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The file, relative to the package.
    pub(crate) file: String,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl Position {
    /// Returns the layer of the file.
    pub(crate) fn layer(&self) -> &str {
        let inside = self.file.strip_prefix("src/").unwrap_or(&self.file);
        inside.split(['/', '.']).next().unwrap_or_default()
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The target of a path in the sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// An item of this crate, by its path from the root.
    Internal(Vec<String>),
    /// An item of another crate; the first segment is the name of the crate.
    External(Vec<String>),
}

/// One path in the sources.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    /// Its position.
    pub(crate) position: Position,
    /// Its target.
    pub(crate) target: Target,
    /// Whether it is part of the tests.
    pub(crate) is_test: bool,
    /// Whether it is a facade: a re-export of an item below its own module. Other re-exports are imports.
    pub(crate) is_facade: bool,
}

impl Reference {
    /// Returns the layer that refers.
    pub(crate) fn layer(&self) -> &str {
        self.position.layer()
    }
}

/// All modules of a package.
pub(crate) struct Sources {
    files: BTreeMap<String, Found>,
    /// The file of each module, by its path.
    modules: BTreeMap<ModulePath, String>,
    /// The imports of modules, by the names under which others can import them.
    imports: BTreeMap<ModulePath, BTreeMap<String, Vec<String>>>,
}

impl Sources {
    /// Reads and parses all files below a directory, which is called `src`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut paths = Vec::new();
        collect(root, &mut paths);
        let parent = root.parent().expect("the package");
        let files = paths.iter().map(|path| {
            let name = path.strip_prefix(parent).expect("a file of the package").to_string_lossy().replace('\\', "/");
            (name, std::fs::read_to_string(path).expect("a readable source file"))
        });
        Self::parse(files)
    }

    /// Parses texts as files of these names.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self::parse(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())))
    }

    fn parse(files: impl Iterator<Item = (String, String)>) -> Self {
        let mut sources = Self { files: BTreeMap::new(), modules: BTreeMap::new(), imports: BTreeMap::new() };
        for (name, text) in files {
            let module = module_of(&name);
            let syntax =
                syn::parse_file(&text).unwrap_or_else(|error| panic!("{name}:{}: {error}", error.span().start().line));
            let found = references::find(&module, &syntax);
            for inner in found.modules.iter().cloned().chain([module]) {
                sources.modules.insert(inner, name.clone());
            }
            for (place, name, path) in &found.imports {
                sources.imports.entry(place.clone()).or_default().insert(name.clone(), path.clone());
            }
            sources.files.insert(name, found);
        }
        sources
    }

    /// Returns the layers: the modules right below the root.
    pub(crate) fn layers(&self) -> impl Iterator<Item = String> {
        let layers: BTreeSet<String> =
            self.files.keys().map(|file| Position { file: file.clone(), line: 1 }.layer().to_owned()).collect();
        layers.into_iter()
    }

    /// Returns all paths in the sources.
    pub(crate) fn references(&self) -> impl Iterator<Item = Reference> {
        self.files.iter().flat_map(move |(file, found)| {
            found.paths.iter().map(move |path| {
                let target = self.resolve(&path.module, &path.segments);
                let is_facade = path.is_reexport && is_below(&path.module, &target);
                Reference {
                    position: Position { file: file.clone(), line: path.line },
                    target,
                    is_test: path.is_test,
                    is_facade,
                }
            })
        })
    }

    /// Returns the names of a module that another crate has, and that a module of this one imports.
    pub(crate) fn imported_from(&self, module: &[&str], other: &str) -> BTreeSet<String> {
        let module: ModulePath = module.iter().map(|segment| (*segment).to_owned()).collect();
        let imported = self.imports.get(&module).into_iter().flat_map(BTreeMap::values);
        imported
            .filter(|path| path.first().is_some_and(|first| first == other))
            .filter_map(|path| path.get(1).cloned())
            .collect()
    }

    /// Returns the modules that are declared as public, and where.
    pub(crate) fn public_modules(&self) -> impl Iterator<Item = (Position, &[String])> {
        self.files.iter().flat_map(|(file, found)| {
            let declared = found.public_modules.iter();
            declared.map(move |(module, line)| (Position { file: file.clone(), line: *line }, module.as_slice()))
        })
    }

    /// Returns the positions of code that hides references, outside of tests, and what it is.
    pub(crate) fn hiding(&self) -> impl Iterator<Item = (Position, &'static str)> {
        self.files.iter().flat_map(|(file, found)| {
            found.hiding.iter().map(move |(line, what)| (Position { file: file.clone(), line: *line }, *what))
        })
    }

    /// Returns the positions of asynchronous code, outside of tests.
    pub(crate) fn waits(&self) -> impl Iterator<Item = Position> {
        self.files
            .iter()
            .flat_map(|(file, found)| found.waits.iter().map(move |line| Position { file: file.clone(), line: *line }))
    }

    /// Returns the positions of `unsafe`.
    pub(crate) fn unsafes(&self) -> impl Iterator<Item = Position> {
        self.files.iter().flat_map(|(file, found)| {
            found.unsafes.iter().map(move |line| Position { file: file.clone(), line: *line })
        })
    }

    /// Returns the file that defines an item, across facades. An item that a module has imported from elsewhere counts
    /// as its own.
    pub(crate) fn definition(&self, path: &[String]) -> Option<&str> {
        match self.end(path.to_vec(), is_below) {
            End::File(file) => file,
            End::External(_) => None,
        }
    }

    /// Returns the path in another crate for which an item stands, across all imports.
    pub(crate) fn origin(&self, target: &Target) -> Option<Vec<String>> {
        match target {
            Target::External(path) => Some(path.clone()),
            Target::Internal(path) => match self.end(path.clone(), |_, _| true) {
                End::File(_) => None,
                End::External(path) => Some(path),
            },
        }
    }

    /// Follows a path through the imports of modules, and through those of this crate only if they are to be followed.
    fn end(&self, mut path: Vec<String>, is_followed: impl Fn(&[String], &Target) -> bool) -> End<'_> {
        // Longer chains of imports are cycles.
        const MAX_STEPS: usize = 20;
        for _ in 0..MAX_STEPS {
            let known =
                (0..=path.len()).rev().find(|length| self.modules.contains_key(&path[..*length])).unwrap_or_default();
            let (module, rest) = path.split_at(known);
            let file = End::File(self.modules.get(module).map(String::as_str));
            let imported = rest.first().and_then(|first| self.imports.get(module)?.get(first));
            let Some(imported) = imported else { return file };
            let target = self.resolve(module, imported);
            let with_rest = |mut target: Vec<String>| {
                target.extend_from_slice(&rest[1..]);
                target
            };
            match target {
                Target::External(target) => return End::External(with_rest(target)),
                Target::Internal(_) if !is_followed(module, &target) => return file,
                Target::Internal(target) => path = with_rest(target),
            }
        }
        End::File(None)
    }

    /// Follows a path from a module.
    fn resolve(&self, module: &[String], segments: &[String]) -> Target {
        // A path that begins with an imported name continues from the import.
        let imported = segments.first().and_then(|first| self.imports.get(module)?.get(first));
        match imported.filter(|imported| imported.first() != segments.first()) {
            Some(imported) => self.follow(module, &[imported, &segments[1..]].concat()),
            None => self.follow(module, segments),
        }
    }

    fn follow(&self, module: &[String], segments: &[String]) -> Target {
        let mut base = module.to_vec();
        let mut rest = segments;
        let mut is_internal = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => base.clear(),
                "self" => {}
                "super" => drop(base.pop()),
                _ => break,
            }
            is_internal = true;
            rest = others;
        }
        let names_child = rest.first().is_some_and(|first| {
            let child: ModulePath = base.iter().cloned().chain([first.clone()]).collect();
            self.modules.contains_key(&child)
        });
        if is_internal || names_child {
            base.extend(rest.iter().cloned());
            return Target::Internal(base);
        }
        Target::External(rest.to_vec())
    }
}

/// Where a path ends.
enum End<'a> {
    /// In a file of this crate; `None` for cycles of imports.
    File(Option<&'a str>),
    /// In another crate.
    External(Vec<String>),
}

/// Tells whether an item is below a module.
fn is_below(module: &[String], target: &Target) -> bool {
    matches!(target, Target::Internal(path) if path.len() > module.len() && path.starts_with(module))
}

/// Returns the module path of a file.
fn module_of(file: &str) -> ModulePath {
    let inside = file.strip_prefix("src/").unwrap_or(file).trim_end_matches(".rs").trim_end_matches("/mod");
    if matches!(inside, "lib" | "main") { ModulePath::new() } else { inside.split('/').map(str::to_owned).collect() }
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}
