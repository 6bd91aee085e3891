//! The interpreter: one per script thread and set of sizes, with all limits set and all unsafe features disabled.

use std::any::TypeId;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use rhai::packages::{
    BasicArrayPackage, BasicBlobPackage, BasicMapPackage, BasicMathPackage, BitFieldPackage, CorePackage, LogicPackage,
    MoreStringPackage, Package,
};
use rhai::{Dynamic, Engine, EvalAltResult, EvalContext, OptimizationLevel, Position, Scope, Token};

use super::nesting;
use super::resolver::Resolver;
use crate::script::functions;
use crate::script::language::answer::Response;
use crate::script::language::arguments::{EVERYTHING, VIEWS};
use crate::script::language::bytes::Bytes;
use crate::script::language::index::IndexHandle;
use crate::script::language::logger::Logger;
use crate::script::language::memo::Memo;
use crate::script::language::other_cluster::OtherCluster;
use crate::script::language::patch_handle::PatchHandle;
use crate::script::language::receivers::Receiver;
use crate::script::language::settings_handle::SettingsHandle;
use crate::script::language::shared::{LockHandle, SharedHandle};
use crate::script::language::view::View;
use crate::script::language::warnings::Warnings;
use crate::script::language::{
    arguments, index, logger, memo, patch_handle, receivers, settings_handle, shared, stopped, transforms, view,
    warnings,
};
use crate::script::limits::Limits;
use crate::script::runtime::context::Context;
use crate::script::runtime::fiber;
use crate::script::runtime::progress_hook;
use crate::script::values::script_error::Failure;
use crate::script::values::stopped::Stopped;
use crate::script::values::time;
use crate::script::values::time::Time;

/// The reserved words of Rhai that stay reserved: they are its own functions.
const RESERVED: [&str; 10] =
    ["this", "Fn", "call", "curry", "eval", "is_shared", "is_def_var", "is_def_fn", "type_of", "print"];

/// Limits of nested expressions, at the top level and in functions. They limit the parser's stack; handlers need less.
const EXPRESSION_DEPTH: (usize, usize) = (64, 48);

/// The variables of one call.
const MAX_VARIABLES: usize = 1_000;

/// The functions of one file, closures included.
const MAX_FUNCTIONS: usize = 2_000;

/// The modules that one file imports.
const MAX_MODULES: usize = 100;

/// The bytes of one value, to convert a memory limit into limits of sizes.
const BYTES_PER_VALUE: u64 = 16;

/// Interpreters kept per thread. Operators mostly have the same limits.
const MAX_ENGINES: usize = 8;

thread_local! {
    static ENGINES: RefCell<HashMap<Sizes, Rc<Engine>>> = RefCell::default();
}

/// The limits that belong to an interpreter, and not to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Sizes {
    depth: usize,
    string: usize,
    array: usize,
    map: usize,
}

impl Sizes {
    /// Returns the sizes that an interpreter was built with.
    fn of_engine(engine: &Engine) -> Self {
        Self {
            depth: engine.max_call_levels().saturating_sub(1),
            string: engine.max_string_size(),
            array: engine.max_array_size(),
            map: engine.max_map_size(),
        }
    }

    /// Returns the sizes for a call's limits. The interpreter cannot count bytes, so a single value may use the whole
    /// limit.
    pub(crate) fn of(limits: &Limits) -> Self {
        let bytes = usize::try_from(limits.memory).unwrap_or(usize::MAX);
        let values = usize::try_from(limits.memory / BYTES_PER_VALUE).unwrap_or(usize::MAX);
        // For the interpreter, zero means no limit.
        Self {
            depth: limits.depth.max(1),
            string: limits.string_size.min(bytes).max(1),
            array: limits.array_size.min(values).max(1),
            map: limits.map_size.min(values).max(1),
        }
    }
}

/// Returns the types of the host's own values. A function whose first parameter is one of them is a method.
pub(crate) fn host_types() -> [TypeId; 16] {
    [
        TypeId::of::<View>(),
        TypeId::of::<PatchHandle>(),
        TypeId::of::<Memo>(),
        TypeId::of::<Logger>(),
        TypeId::of::<Receiver>(),
        TypeId::of::<Failure>(),
        TypeId::of::<Time>(),
        TypeId::of::<Stopped>(),
        TypeId::of::<SettingsHandle>(),
        TypeId::of::<Warnings>(),
        TypeId::of::<IndexHandle>(),
        TypeId::of::<SharedHandle>(),
        TypeId::of::<LockHandle>(),
        TypeId::of::<Bytes>(),
        TypeId::of::<Response>(),
        TypeId::of::<OtherCluster>(),
    ]
}

/// Returns the interpreter of this thread for some sizes. Registering all functions takes longer than most scripts, so
/// it is kept.
pub(crate) fn of_thread(sizes: Sizes) -> Rc<Engine> {
    ENGINES.with_borrow_mut(|engines| {
        if engines.len() >= MAX_ENGINES && !engines.contains_key(&sizes) {
            engines.clear();
        }
        Rc::clone(engines.entry(sizes).or_insert_with(|| Rc::new(build(sizes))))
    })
}

/// Returns the interpreter of this thread with the sizes of another one, for code that outlives a borrow of that one.
pub(crate) fn like(engine: &Engine) -> Rc<Engine> {
    of_thread(Sizes::of_engine(engine))
}

/// Returns an interpreter with all host functions.
pub(crate) fn build(sizes: Sizes) -> Engine {
    let mut engine = Engine::new_raw();
    register_packages(&mut engine);
    set_language(&mut engine);
    set_limits(&mut engine, sizes);
    engine.set_module_resolver(Resolver);
    register_host(&mut engine);
    engine
}

/// Registers Rhai's own functions, except the time functions.
fn register_packages(engine: &mut Engine) {
    CorePackage::new().register_into_engine(engine);
    BitFieldPackage::new().register_into_engine(engine);
    LogicPackage::new().register_into_engine(engine);
    BasicMathPackage::new().register_into_engine(engine);
    BasicArrayPackage::new().register_into_engine(engine);
    BasicBlobPackage::new().register_into_engine(engine);
    BasicMapPackage::new().register_into_engine(engine);
    MoreStringPackage::new().register_into_engine(engine);
}

#[expect(deprecated, reason = "the hooks are marked as volatile, and the version is pinned")]
fn set_language(engine: &mut Engine) {
    // The optimizer can panic, and gains nothing for scripts that mostly call host functions.
    engine.set_optimization_level(OptimizationLevel::None);
    engine.set_max_strings_interned(0);
    engine.disable_symbol("eval");
    engine.on_parse_token(|token, _, _| freed(token));
    engine.on_var(variable);
    engine.on_progress(progress_hook::on_progress);
}

/// Returns an interpreter that parses like another one, but renames some variables.
#[expect(deprecated, reason = "the hooks are marked as volatile, and the version is pinned")]
pub(crate) fn parser(like: &Engine, rename: impl Fn(&str, Position) -> Option<String> + 'static) -> Engine {
    let mut engine = Engine::new_raw();
    set_language(&mut engine);
    engine.set_max_expr_depths(EXPRESSION_DEPTH.0, EXPRESSION_DEPTH.1);
    engine.set_max_functions(MAX_FUNCTIONS);
    engine.set_max_string_size(like.max_string_size());
    engine.set_max_array_size(like.max_array_size());
    engine.set_max_map_size(like.max_map_size());
    engine.on_parse_token(move |token, position, _| match freed(token) {
        Token::Identifier(name) => match rename(&name, position) {
            Some(renamed) => Token::Identifier(Box::new(renamed.into())),
            None => Token::Identifier(name),
        },
        token => token,
    });
    engine
}

fn freed(token: Token) -> Token {
    match token {
        Token::Reserved(word) if *word == "null" => Token::Unit,
        Token::Reserved(word) if is_freed(&word) => Token::Identifier(word),
        token => token,
    }
}

/// Tells whether a reserved word of Rhai is an ordinary name here.
pub(crate) fn is_freed(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic()) && !RESERVED.contains(&word)
}

/// Tells whether a word is a part of the language, and no name at all.
pub(crate) fn is_keyword(word: &str) -> bool {
    Token::lookup_symbol_from_syntax(word).is_some()
}

/// Functions can use the constants of their file; Rhai itself would require `global::NAME`.
///
/// Arguments that are handles are read as copies, which is cheap. Otherwise a closure that uses one would share the
/// variable, and `spec.items.filter(|item| item != spec.name)` would fail with a data race.
///
/// Variables captured by closures are shared values. They are read as another reference to the same value: Rhai itself
/// would lock them for the whole chain that begins with them.
fn variable(
    name: &str,
    index: usize,
    mut context: EvalContext<'_, '_, '_, '_, '_, '_>,
) -> Result<Option<Dynamic>, Box<EvalAltResult>> {
    if let Some(ended) = fiber::with_budget(|budget| budget.end_at_variable(context.call_level())).flatten() {
        return Err(ended);
    }
    nesting::check(&context)?;
    let written = receivers::written(name);
    if written.unwrap_or(name) == EVERYTHING {
        refresh(&mut context);
    }
    if let Some(written) = written {
        let found = receivers::resolve(written, name, &mut context).or_else(|| constant(written, &mut context));
        let found = found.or_else(|| index_named(written, &context));
        return Ok(Some(found.map(newest).unwrap_or_default()));
    }
    match in_scope(context.scope(), name, index) {
        Some(value) if value.is_shared() => captured(name, value).map(Some),
        // An index has any name.
        Some(value) if value.is::<IndexHandle>() => Ok(Some(value.clone())),
        Some(value) => Ok((arguments::is_handle(name) && is_handle(value)).then(|| newest(value.clone()))),
        None => Ok(constant(name, &mut context).or_else(|| index_named(name, &context))),
    }
}

/// Returns an index of the call. Closures do not capture a variable with the name of a function of the file, such as
/// that of its index function.
fn index_named(name: &str, context: &EvalContext<'_, '_, '_, '_, '_, '_>) -> Option<Dynamic> {
    let call = context.tag().read_lock::<Context>()?;
    call.environment().indexes.get(name).map(|index| Dynamic::from(IndexHandle::new(index)))
}

/// The interpreter counts variables from the newest one; without an index, the variable is found by name.
fn in_scope<'a>(scope: &'a Scope<'_>, name: &str, index: usize) -> Option<&'a Dynamic> {
    match index {
        0 => scope.get(name),
        index => scope.iter_raw().nth(index - 1).map(|(_, _, value)| value),
    }
}

fn constant(name: &str, context: &mut EvalContext<'_, '_, '_, '_, '_, '_>) -> Option<Dynamic> {
    let constants = context.global_runtime_state_mut().constants.as_ref()?;
    constants.borrow().get(name).cloned()
}

fn captured(name: &str, value: &Dynamic) -> Result<Dynamic, Box<EvalAltResult>> {
    let mut value = value.clone();
    if value.is_locked() {
        return Err(receivers::in_use(name));
    }
    // A function that calls itself is locked only for reading, and can be read again.
    let is_free = value.write_lock::<Dynamic>().is_some();
    Ok(if is_free { value } else { value.flatten_clone() })
}

/// Returns an argument; for an object with live state, its current state.
fn newest(value: Dynamic) -> Dynamic {
    let newest = value.read_lock::<View>().map(|view| view.newest());
    newest.map_or(value, Dynamic::from)
}

/// Updates the object in a map of all arguments, if it has live state.
fn refresh(context: &mut EvalContext<'_, '_, '_, '_, '_, '_>) {
    let Some(arguments) = context.scope_mut().get_mut(EVERYTHING) else { return };
    let Some(mut arguments) = arguments.write_lock::<rhai::Map>() else { return };
    for name in VIEWS {
        if let Some(mut view) = arguments.get_mut(name).and_then(Dynamic::write_lock::<View>) {
            view.refresh();
        }
    }
}

fn is_handle(value: &Dynamic) -> bool {
    let is_view = || value.is::<View>() || value.is::<PatchHandle>() || value.is::<Memo>();
    let is_other =
        || value.is::<Logger>() || value.is::<Stopped>() || value.is::<Warnings>() || value.is::<SettingsHandle>();
    !value.is_shared() && (is_view() || is_other() || value.is::<SharedHandle>())
}

fn set_limits(engine: &mut Engine, sizes: Sizes) {
    // Operations are counted by the call's own budget, which also counts those inside of native functions.
    engine.set_max_operations(0);
    // The call's own limit is one level less, and its error has the place.
    engine.set_max_call_levels(sizes.depth + 1);
    engine.set_max_expr_depths(EXPRESSION_DEPTH.0, EXPRESSION_DEPTH.1);
    engine.set_max_string_size(sizes.string);
    engine.set_max_array_size(sizes.array);
    engine.set_max_map_size(sizes.map);
    engine.set_max_variables(MAX_VARIABLES);
    engine.set_max_functions(MAX_FUNCTIONS);
    engine.set_max_modules(MAX_MODULES);
}

fn register_host(engine: &mut Engine) {
    let no_exit = || -> Result<(), Box<EvalAltResult>> {
        Err(Failure::host("unavailable", "`exit` is not available: use `return`").into())
    };
    engine.register_fn("exit", no_exit);
    engine.register_fn("exit", move |_: Dynamic| no_exit());
    time::register(engine);
    view::methods::register(engine);
    patch_handle::methods::register(engine);
    transforms::register(engine);
    memo::methods::register(engine);
    index::register(engine);
    shared::register(engine);
    logger::register(engine);
    stopped::register(engine);
    warnings::register(engine);
    settings_handle::methods::register(engine);
    functions::register(engine);
    receivers::register(engine);
}
