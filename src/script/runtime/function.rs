//! Compiled code that can be called: a function of a file, a body or an expression of the manifest, or a closure.

use std::cell::RefCell;
use std::rc::Rc;

use rhai::{
    AST, ASTNode, Caches, Dynamic, Engine, EvalAltResult, EvalContext, Expr, Expression as Tree, FnPtr,
    GlobalRuntimeState, ImmutableString, Module, Position, Scope, ScriptFuncDef, Shared, Stmt, StmtBlock,
};

use super::context::Context;

/// Code with named parameters.
pub(crate) struct Function {
    /// The name, for messages.
    pub title: String,
    /// The names of its parameters.
    pub params: Vec<ImmutableString>,
    body: Expr,
    /// The state after the top level of its file: constants, imports, functions.
    pub global: Rc<GlobalRuntimeState>,
    /// The native functions that its earlier runs have found by name and types. A running call has taken them.
    found: RefCell<Caches>,
}

impl Function {
    /// Returns a function that runs these statements.
    pub(crate) fn new(
        title: String,
        params: Vec<ImmutableString>,
        body: StmtBlock,
        global: Rc<GlobalRuntimeState>,
    ) -> Self {
        Self { title, params, body: Expr::Stmt(Box::new(body)), global, found: RefCell::default() }
    }

    /// Returns the function that a script has defined.
    pub(crate) fn of_script(definition: &Shared<ScriptFuncDef>, global: Rc<GlobalRuntimeState>) -> Self {
        let (start, end) = (definition.body.start_position(), definition.body.end_position());
        let body = StmtBlock::new(statements_of(definition), start, end);
        Self::new(definition.name.to_string(), definition.params.to_vec(), body, global)
    }

    /// Runs it, and returns how it ended. Every parameter must have a value.
    ///
    /// # Errors
    /// Errors of the script.
    pub(crate) fn run(
        &self,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        self.run_at(0, engine, context, values)
    }

    /// Runs it at a level of nested calls.
    ///
    /// # Errors
    /// Errors of the script.
    pub(crate) fn run_at(
        &self,
        level: usize,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        let mut caches = self.found.take();
        let ended = self.evaluate(((*self.global).clone(), &mut caches), level, engine, context, values);
        if ended.is_ok() {
            // After an error, they could be those of an inner block with other imports.
            self.found.replace(caches);
        }
        ended
    }

    /// Runs it with another state than that of its file, at a level of nested calls.
    ///
    /// # Errors
    /// Errors of the script.
    pub(crate) fn run_within(
        &self,
        global: &GlobalRuntimeState,
        level: usize,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        self.evaluate((global.clone(), &mut Caches::new()), level, engine, context, values)
    }

    fn evaluate(
        &self,
        (mut global, caches): (GlobalRuntimeState, &mut Caches),
        level: usize,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        global.tag = context.tag();
        global.level = level;
        let mut scope = Scope::with_capacity(self.params.len() + 8);
        for (param, value) in self.params.iter().zip(values) {
            scope.push_dynamic(param.as_str(), value);
        }
        let mut evaluation = EvalContext::new(engine, &mut global, caches, &mut scope, None);
        match evaluation.eval_expression_tree(&Tree::from(&self.body)) {
            Ok(value) => Ok(Ended::Completed(value)),
            Err(error) => match *error {
                EvalAltResult::Return(value, _) => Ok(Ended::Returned(value)),
                error => Err(error.into()),
            },
        }
    }
}

/// Runs the top level of a file, and returns the state after it: what its functions see.
///
/// # Errors
/// Errors of the script.
pub(crate) fn run_top_level(
    engine: &Engine,
    ast: &AST,
    tag: Dynamic,
    level: usize,
    scope: &mut Scope<'static>,
) -> Result<GlobalRuntimeState, Box<EvalAltResult>> {
    let mut global = engine.new_global_runtime_state();
    global.tag = tag;
    global.level = level;
    global.source = ast.source().map(Into::into);
    global.lib.push(ast.shared_lib().clone());
    let mut caches = Caches::new();
    let body = Expr::Stmt(Box::new(block_of(ast)));
    let mut evaluation = EvalContext::new(engine, &mut global, &mut caches, scope, None);
    #[expect(deprecated, reason = "only this keeps the constants and imports, and the version is pinned")]
    let ran = evaluation.eval_expression_tree_raw(&Tree::from(&body), false);
    match ran {
        Err(error) if !matches!(*error, EvalAltResult::Return(..)) => Err(error),
        _ => {
            global.tag = Dynamic::UNIT;
            Ok(global)
        }
    }
}

/// Returns the statements of a file, or of inline code.
pub(crate) fn block_of(ast: &AST) -> StmtBlock {
    StmtBlock::new(ast.statements().iter().cloned(), Position::NONE, Position::NONE)
}

/// The type of a function's body is not public, but the tree of a module with only this function has its statements.
fn statements_of(definition: &Shared<ScriptFuncDef>) -> Vec<Stmt> {
    let mut module = Module::new();
    module.set_script_fn(Shared::clone(definition));
    let mut statements = Vec::new();
    AST::new_from_module(module).walk(&mut |nodes| {
        if let [ASTNode::Stmt(statement)] = nodes {
            statements.push((*statement).clone());
        }
        true
    });
    statements
}

/// The end of a function.
pub(crate) enum Ended {
    /// By a `return`, with a value or `()`.
    Returned(Dynamic),
    /// After its last statement, which has this value.
    Completed(Dynamic),
}

impl Ended {
    /// Returns the explicitly returned value. A last statement has a value in Rhai, whether or not that is intended.
    pub(crate) fn result(self) -> Dynamic {
        match self {
            Self::Returned(value) => value,
            Self::Completed(_) => Dynamic::UNIT,
        }
    }

    /// Returns the value in both cases.
    pub(crate) fn value(self) -> Dynamic {
        match self {
            Self::Returned(value) | Self::Completed(value) => value,
        }
    }
}

/// A closure or a named function, passed by a script to be called later.
#[derive(Clone)]
pub(crate) struct Closure {
    /// The code, with the state where it was passed: a closure of an imported module is unknown elsewhere.
    pub function: Rc<Function>,
    /// The captured values, which are the first parameters.
    pub captured: Vec<Dynamic>,
}

impl Closure {
    /// Returns the code of a function pointer where it is passed.
    ///
    /// # Errors
    /// If there is no such function in the script.
    pub(crate) fn of(pointer: &FnPtr, global: &GlobalRuntimeState) -> Result<Self, String> {
        let captured: Vec<Dynamic> = pointer.curry().to_vec();
        let name = pointer.fn_name();
        let definitions = global.lib.iter().rev().flat_map(|module| module.iter_script_fn_info());
        let mut found = definitions.filter(|(_, _, found, count, _)| *found == name && *count >= captured.len());
        let Some((.., definition)) = found.next() else {
            return Err(format!(
                "there is no function `{name}` in this file; a function of an imported file needs a closure around it"
            ));
        };
        if found.next().is_some() && captured.is_empty() {
            return Err(format!("there are several functions `{name}`, with different parameters"));
        }
        let mut global = global.clone();
        global.tag = Dynamic::UNIT;
        let function = Rc::new(Function::of_script(definition, Rc::new(global)));
        Ok(Self { function, captured })
    }

    /// Returns the names of the parameters that are not captured.
    pub(crate) fn params(&self) -> &[ImmutableString] {
        &self.function.params[self.captured.len()..]
    }

    /// Runs it with values for the parameters that are not captured.
    ///
    /// # Errors
    /// Errors of the script.
    pub(crate) fn run(
        &self,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        self.run_at(0, engine, context, values)
    }

    /// Runs it at a level of nested calls.
    ///
    /// # Errors
    /// Errors of the script.
    pub(crate) fn run_at(
        &self,
        level: usize,
        engine: &Engine,
        context: &Context,
        values: Vec<Dynamic>,
    ) -> Result<Ended, Box<EvalAltResult>> {
        let values = self.captured.iter().cloned().chain(values).collect();
        self.function.run_at(level, engine, context, values)
    }
}
