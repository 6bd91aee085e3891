//! The scripts of one operator, compiled and run once on one thread: a generation. Running calls keep their generation.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rhai::{
    AST, Dynamic, Engine, EvalAltResult, FnAccess, GlobalRuntimeState, ImmutableString, Position, Scope, StmtBlock,
};

use super::compile;
use super::engine::{self, Sizes};
use crate::kit::source::SourcePosition;
use crate::kit::tasks::panic_text;
use crate::kit::{Clock, Stop};
use crate::script::interface::declaration::{Binding, BindingKind, Code, Expression};
use crate::script::interface::problem::Problem;
use crate::script::language::trace::{self, Origin};
use crate::script::language::{arguments, properties};
use crate::script::limits::Limits;
use crate::script::outside::Outside;
use crate::script::runtime::budget::Budget;
use crate::script::runtime::context::{Context, Environment, Mode};
use crate::script::runtime::fiber::Fiber;
use crate::script::runtime::function::{self, Function, block_of};
use crate::script::runtime::rng::Rng;
use crate::script::sources::modules::Modules;
use crate::script::sources::program::{Program, name_of};
use crate::script::values::memo::Memos;
use crate::script::values::transforms::Transforms;

/// The time limit of a file's top level.
const TOP_LEVEL_TIME: Duration = Duration::from_secs(10);

/// The stack of a thread that compiles scripts: deeply nested code needs much of it.
const TOP_LEVEL_STACK: usize = 8 << 20;

/// The limit of operations of a file's top level: it has only constants and imports.
const TOP_LEVEL_OPERATIONS: u64 = 1_000_000;

/// Limit of cached conditions of sub-handlers. Scripts may create a new text for every object; then the cache is
/// cleared from time to time.
const MAX_CONDITIONS: usize = 1_000;

/// Compiled scripts.
pub(crate) struct Scripts {
    /// Their texts.
    pub program: Arc<Program>,
    /// The shared state of their calls.
    pub environment: Rc<Environment>,
    bindings: Vec<Rc<Function>>,
    expressions: Vec<Rc<Function>>,
    conditions: RefCell<HashMap<String, Rc<Function>>>,
    origins: BTreeMap<String, Origin>,
}

impl Scripts {
    /// Compiles all files and inline texts, and runs the top level of the files once.
    ///
    /// # Errors
    /// All problems of the scripts.
    pub(crate) async fn compile(
        program: Arc<Program>,
        engine: &Rc<Engine>,
        environment: impl FnOnce(Modules) -> Environment,
    ) -> Result<Rc<Self>, Vec<Problem>> {
        let files = compile_files(&program, engine)?;
        let environment = Rc::new(environment(Modules::new(files)));
        let mut compiling = Compiling {
            origins: program.sources.iter().map(|(name, text)| (name.clone(), Origin::file(name, text))).collect(),
            globals: HashMap::new(),
            problems: Vec::new(),
            program: Arc::clone(&program),
            engine: Rc::clone(engine),
            environment: Rc::clone(&environment),
        };
        compiling.run_files().await;
        let bindings = program.declaration.bindings.iter().map(|binding| compiling.binding(binding)).collect();
        let expressions =
            program.declaration.expressions.iter().map(|expression| compiling.expression(expression)).collect();
        let Compiling { origins, mut problems, .. } = compiling;
        if !problems.is_empty() {
            problems.sort();
            problems.dedup();
            return Err(problems);
        }
        Ok(Rc::new(Self { program, environment, bindings, expressions, conditions: RefCell::default(), origins }))
    }

    /// Returns the code of a binding.
    pub(crate) fn binding(&self, number: usize) -> Option<&Rc<Function>> {
        self.bindings.get(number)
    }

    /// Returns an expression.
    pub(crate) fn expression(&self, number: usize) -> Option<&Rc<Function>> {
        self.expressions.get(number)
    }

    /// Returns the texts behind the names of sources.
    pub(crate) fn origins(&self) -> &BTreeMap<String, Origin> {
        &self.origins
    }

    /// Returns the compiled condition of a text in a script. It can use the functions of that script.
    ///
    /// # Errors
    /// If it is not an expression.
    pub(crate) fn condition(
        &self,
        engine: &Engine,
        text: &str,
        has_value: bool,
        global: &GlobalRuntimeState,
    ) -> Result<Rc<Function>, String> {
        let source = global.source().unwrap_or_default();
        let key = format!("{has_value} {source} {text}");
        if let Some(function) = self.conditions.borrow().get(&key) {
            return Ok(Rc::clone(function));
        }
        let indexes = self.program.declaration.indexes.iter().map(String::as_str);
        let params =
            mentioned(text, arguments::known_in_expression(BindingKind::Change, has_value).into_iter().chain(indexes));
        let ast = compile::compile_expression(engine, &scope_of(&params), text)
            .map_err(|error| error.err_type().to_string())?;
        let mut global = global.clone();
        global.tag = Dynamic::UNIT;
        global.lib.push(ast.shared_lib().clone());
        let function = Rc::new(Function::new("when".to_owned(), params, block_of(&ast), Rc::new(global)));
        let mut conditions = self.conditions.borrow_mut();
        if conditions.len() >= MAX_CONDITIONS {
            conditions.clear();
        }
        conditions.insert(key, Rc::clone(&function));
        Ok(function)
    }

    /// Returns the number of cached conditions.
    pub(crate) fn conditions(&self) -> usize {
        self.conditions.borrow().len()
    }
}

/// Runs the top level of all files on a separate thread, and returns the failures.
pub(crate) fn run_top_levels(program: Program) -> Vec<Problem> {
    let place = SourcePosition { file: program.declaration.root.clone(), line: 1, column: 1 };
    let failed = |text: String| {
        vec![Problem::error(place.clone(), format!("the top level of the scripts cannot be run: {text}"))]
    };
    let run = move || -> Result<Vec<Problem>, std::io::Error> {
        // Scripts need the clock of a runtime for their time limit.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let engine = engine::of_thread(Sizes::of(&Limits::default()));
        let (root, allow, templates) =
            (program.declaration.root.clone(), program.declaration.allow.clone(), Arc::clone(&program.templates));
        let permissions = Arc::clone(&program.permissions);
        let environment = move |modules| Environment {
            clock: Clock::system(),
            rng: Rng::default(),
            api: None,
            credentials: None,
            outside: Outside::default(),
            root,
            allow,
            templates,
            permissions,
            modules,
            memos: Rc::new(Memos::new(Arc::default())),
            indexes: Arc::default(),
            shared: Arc::default(),
            transforms: Rc::new(Transforms::new(Arc::new(drop))),
            engine_like: super::engine::like,
        };
        Ok(runtime.block_on(Scripts::compile(Arc::new(program), &engine, environment)).err().unwrap_or_default())
    };
    let report = |problem: Problem| Problem {
        hint: problem
            .hint
            .or_else(|| Some("the top level of a file runs when it is loaded, and must not fail".to_owned())),
        ..problem
    };
    let thread = std::thread::Builder::new().name("top-levels".to_owned()).stack_size(TOP_LEVEL_STACK).spawn(run);
    match thread.map(std::thread::JoinHandle::join) {
        Ok(Ok(Ok(problems))) => problems.into_iter().map(report).collect(),
        Ok(Ok(Err(error))) | Err(error) => failed(error.to_string()),
        Ok(Err(panic)) => failed(panic_text(&*panic)),
    }
}

fn compile_files(program: &Program, engine: &Engine) -> Result<BTreeMap<String, AST>, Vec<Problem>> {
    let mut files = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, text) in &program.sources {
        match compile::compile(engine, &Scope::new(), text) {
            Ok(mut ast) => {
                ast.set_source(name.as_str());
                files.insert(name.clone(), ast);
            }
            Err(error) => {
                let place = SourcePosition { file: program.declaration.root.join(name), ..place_of(error.position()) };
                problems.push(Problem::error(place, error.err_type().to_string()));
            }
        }
    }
    if problems.is_empty() { Ok(files) } else { Err(problems) }
}

fn place_of(position: Position) -> SourcePosition {
    SourcePosition {
        line: position.line().unwrap_or(1),
        column: position.position().unwrap_or(1),
        ..SourcePosition::default()
    }
}

struct Compiling {
    program: Arc<Program>,
    engine: Rc<Engine>,
    environment: Rc<Environment>,
    globals: HashMap<String, Rc<GlobalRuntimeState>>,
    origins: BTreeMap<String, Origin>,
    problems: Vec<Problem>,
}

impl Compiling {
    /// Runs the top level of all files of bindings and expressions; imported files run at their import.
    async fn run_files(&mut self) {
        let declaration = &self.program.declaration;
        let of_bindings = declaration.bindings.iter().filter_map(|binding| match &binding.code {
            Code::Function { file, .. } => Some(file),
            Code::Inline { file, .. } => file.as_ref(),
        });
        let of_expressions = declaration.expressions.iter().filter_map(|expression| expression.file.as_ref());
        let mut names: Vec<String> = of_bindings.chain(of_expressions).map(|file| name_of(file)).collect();
        names.sort();
        names.dedup();
        for name in names {
            match self.run_file(&name).await {
                Ok(global) => {
                    self.globals.insert(name, Rc::new(global));
                }
                Err(problem) => self.problems.push(problem),
            }
        }
    }

    async fn run_file(&self, name: &str) -> Result<GlobalRuntimeState, Problem> {
        let limits = Limits { time: Some(TOP_LEVEL_TIME), operations: TOP_LEVEL_OPERATIONS, ..Limits::default() };
        let budget = Rc::new(Budget::new(&limits, Stop::new()));
        let context = Context::new(Rc::clone(&self.environment), Rc::clone(&budget), Mode::TopLevel);
        let (engine, environment, file) = (Rc::clone(&self.engine), Rc::clone(&self.environment), name.to_owned());
        let run = move || {
            environment.modules.begin(&file);
            let ran = environment.modules.file(&file).map(|ast| {
                let mut global = function::run_top_level(&engine, ast, context.tag(), 0, &mut Scope::new())?;
                properties::add(&mut global, ast);
                Ok(global)
            });
            environment.modules.end();
            ran
        };
        let whole = SourcePosition { file: self.program.declaration.root.join(name), line: 1, column: 1 };
        let problem = |text: String| Problem::error(whole.clone(), text);
        let fiber =
            Fiber::new(budget, run).map_err(|error| problem(format!("no memory for running {name}: {error}")))?;
        match fiber.await {
            Ok(Some(Ok(global))) => Ok(global),
            Ok(Some(Err(error))) => Err(self.problem_of(name, error)),
            Ok(None) => Err(problem(format!("{name} was not read"))),
            Err(panic) => Err(problem(format!("the interpreter failed on {name}: {}", panic_text(&*panic)))),
        }
    }

    fn problem_of(&self, name: &str, error: Box<EvalAltResult>) -> Problem {
        let report = trace::describe(error, "the top level", name, &self.origins);
        let place = report.place.unwrap_or_else(|| SourcePosition { file: name.into(), line: 1, column: 1 });
        Problem::error(SourcePosition { file: self.program.declaration.root.join(place.file), ..place }, report.text)
    }

    fn global(&self, file: Option<&std::path::Path>) -> Option<Rc<GlobalRuntimeState>> {
        match file {
            Some(file) => self.globals.get(&name_of(file)).cloned(),
            None => Some(Rc::new(self.engine.new_global_runtime_state())),
        }
    }

    fn binding(&mut self, binding: &Binding) -> Rc<Function> {
        let compiled = match &binding.code {
            Code::Function { file, name } => self.function(binding, &name_of(file), name),
            Code::Inline { text, place, file } => {
                let indexes = self.program.declaration.indexes.clone();
                let params = mentioned(
                    text,
                    arguments::known(binding.kind).into_iter().chain(indexes.iter().map(String::as_str)),
                );
                let ast = compile::compile(&self.engine, &scope_of(&params), text);
                self.inline(&binding.id, ast, Inline { text, place, file: file.as_deref(), params })
            }
        };
        compiled.unwrap_or_else(|| Rc::new(self.nothing()))
    }

    fn expression(&mut self, expression: &Expression) -> Rc<Function> {
        let known = arguments::known_in_expression(expression.kind, expression.has_value);
        let indexes = self.program.declaration.indexes.clone();
        let params = mentioned(&expression.text, known.into_iter().chain(indexes.iter().map(String::as_str)));
        let ast = compile::compile_expression(&self.engine, &scope_of(&params), &expression.text);
        let Expression { text, place, file, .. } = expression;
        let inline = Inline { text, place, file: file.as_deref(), params };
        self.inline("when", ast, inline).unwrap_or_else(|| Rc::new(self.nothing()))
    }

    /// A placeholder for code that could not be compiled; it is never called.
    fn nothing(&self) -> Function {
        let global = Rc::new(self.engine.new_global_runtime_state());
        Function::new(String::new(), Vec::new(), StmtBlock::NONE, global)
    }

    fn function(&mut self, binding: &Binding, file: &str, name: &str) -> Option<Rc<Function>> {
        let global = self.globals.get(file).cloned()?;
        let ast = self.environment.modules.file(file)?;
        let mut found = ast.iter_fn_def().filter(|definition| definition.name == name);
        let Some(definition) = found.next() else {
            let text = format!("there is no function `{name}` in {file}");
            self.problems.push(Problem::error(binding.place.clone(), text));
            return None;
        };
        let position = definition.body.start_position();
        let mut wrong = Vec::new();
        if found.next().is_some() {
            wrong.push(format!("there are several functions `{name}` in {file}, with different parameters"));
        }
        if definition.access == FnAccess::Private {
            wrong.push(format!("the function `{name}` in {file} is private"));
        }
        let (indexes, known) = (&self.program.declaration.indexes, arguments::known(binding.kind));
        for param in definition
            .params
            .iter()
            .filter(|param| !known.contains(&param.as_str()) && !indexes.iter().any(|id| id == param.as_str()))
        {
            wrong.push(format!("unknown parameter `{param}` of the function `{name}`; there are {}", known.join(", ")));
        }
        let place = SourcePosition { file: self.program.declaration.root.join(file), ..place_of(position) };
        self.problems.extend(wrong.into_iter().map(|text| Problem::error(place.clone(), text)));
        Some(Rc::new(Function::of_script(definition, global)))
    }

    fn inline(&mut self, id: &str, ast: Result<AST, rhai::ParseError>, inline: Inline<'_>) -> Option<Rc<Function>> {
        let Inline { text, place, file, params } = inline;
        let origin = Origin::inline(place, text);
        let mut ast = match ast {
            Ok(ast) => ast,
            Err(error) => {
                let place = origin.place(error.position());
                self.problems.push(Problem::error(place, error.err_type().to_string()));
                return None;
            }
        };
        let source = self.source(id, file);
        ast.set_source(source.as_str());
        let mut global = (*self.global(file)?).clone();
        global.lib.push(ast.shared_lib().clone());
        properties::add(&mut global, &ast);
        global.source = Some(source.as_str().into());
        self.origins.insert(source, origin);
        Some(Rc::new(Function::new(id.to_owned(), params, block_of(&ast), Rc::new(global))))
    }

    /// Inline code has a unique name in the folder of its file, so that its imports are relative to that folder.
    fn source(&self, id: &str, file: Option<&std::path::Path>) -> String {
        let folder = file
            .map(name_of)
            .and_then(|name| name.rsplit_once('/').map(|(folder, _)| format!("{folder}/")))
            .unwrap_or_default();
        let id = id.replace('/', ".");
        let numbered = (1..).map(|number| format!("{folder}<{id}#{number}>"));
        numbered.into_iter().find(|source| !self.origins.contains_key(source)).expect("numbers do not run out")
    }
}

struct Inline<'a> {
    text: &'a str,
    place: &'a SourcePosition,
    file: Option<&'a std::path::Path>,
    params: Vec<ImmutableString>,
}

/// Returns the names that occur as words in a text: other names need no value.
fn mentioned<'a>(text: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<ImmutableString> {
    let words: std::collections::HashSet<&str> = text.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
    names.into_iter().filter(|name| words.contains(name)).map(Into::into).collect()
}

fn scope_of(params: &[ImmutableString]) -> Scope<'static> {
    let mut scope = Scope::new();
    for param in params {
        scope.push_dynamic(param.as_str(), Dynamic::UNIT);
    }
    scope
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::runtime::context::testing;

    #[tokio::test]
    async fn no_more_conditions_are_kept_than_the_limit() {
        let engine = engine::of_thread(Sizes::of(&Limits::default()));
        let environment = |modules| Environment { modules, ..testing::environment() };
        let scripts = Scripts::compile(Arc::new(Program::default()), &engine, environment)
            .await
            .map_err(|found| format!("{found:?}"));
        let scripts = scripts.unwrap();
        let add = |number: usize| {
            let global = engine.new_global_runtime_state();
            scripts.condition(&engine, &format!("spec.size > {number}"), false, &global).unwrap();
            scripts.conditions()
        };
        assert_eq!((1..=MAX_CONDITIONS).map(&add).collect::<Vec<_>>(), (1..=MAX_CONDITIONS).collect::<Vec<_>>());
        // One that is known takes no place, and a new one clears the others.
        assert_eq!((add(1), add(MAX_CONDITIONS + 1), add(1)), (MAX_CONDITIONS, 1, 2));
    }
}
