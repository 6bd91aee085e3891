//! The modules of imported files.

use std::any::TypeId;
use std::rc::Rc;

use rhai::{
    AST, Dynamic, Engine, EvalAltResult, FnAccess, FuncRegistration, Module, NativeCallContext, RhaiFunc, Scope, Shared,
};

use crate::script::language::properties;
use crate::script::runtime::context::Context;
use crate::script::runtime::function::{self, Ended, Function};

/// Runs the top level of a file, and returns its exports.
///
/// The interpreter remembers which function a name means, and does not forget it where a function of another file
/// begins. So the functions of a module are native ones, which begin with nothing remembered: otherwise a call in one
/// file could reach a function of another one.
pub(crate) fn module_of(engine: &Engine, file: &AST, tag: Dynamic, level: usize) -> Result<Module, Box<EvalAltResult>> {
    let mut scope = Scope::new();
    let mut state = function::run_top_level(engine, file, tag, level, &mut scope)?;
    properties::add(&mut state, file);
    let state = Rc::new(state);
    // Exports are marked in the scope.
    let mut module =
        Module::eval_ast_as_new_raw(engine, &mut scope, &mut engine.new_global_runtime_state(), &AST::empty())?;
    for (name, imported) in state.scan_imports_raw() {
        module.set_sub_module(name.clone(), Shared::clone(imported));
    }
    for definition in file.iter_fn_def().filter(|definition| definition.access == FnAccess::Public) {
        let function = Function::of_script(definition, Rc::clone(&state));
        let types = vec![TypeId::of::<Dynamic>(); function.params.len()];
        let func = Shared::new(move |native: Option<NativeCallContext<'_>>, arguments: &mut [&mut Dynamic]| {
            let native = native.expect("functions with a context are given it");
            call(&function, &native, arguments.iter_mut().map(|argument| std::mem::take(*argument)).collect())
        });
        let func = RhaiFunc::Pure { func, has_context: true, is_pure: false, is_volatile: true };
        FuncRegistration::new(definition.name.as_str()).set_into_module_raw(&mut module, types, func);
    }
    Ok(module)
}

/// Calls a function of a module, which knows the functions of its own file before those of its callers: closures are
/// among these.
fn call(
    function: &Function,
    native: &NativeCallContext<'_>,
    values: Vec<Dynamic>,
) -> Result<Dynamic, Box<EvalAltResult>> {
    let own = &function.global;
    let mut global = native.global_runtime_state().clone();
    for (name, imported) in own.scan_imports_raw() {
        global.push_import(name.clone(), Shared::clone(imported));
    }
    global.lib.extend(own.lib.iter().cloned());
    global.constants.clone_from(&own.constants);
    global.source.clone_from(&own.source);
    let level = global.level + 1;
    if level > native.engine().max_call_levels() {
        return Err(EvalAltResult::ErrorStackOverflow(native.call_position()).into());
    }
    let context = Context::of(native)?;
    let ended = function.run_within(&global, level, native.engine(), &context, values);
    ended.map(Ended::value).map_err(|error| {
        if matches!(error.unwrap_inner(), EvalAltResult::ErrorTerminated(..)) && error.is_system_exception() {
            return error;
        }
        let source = own.source().unwrap_or_default().to_owned();
        EvalAltResult::ErrorInFunctionCall(function.title.clone(), source, error, native.call_position()).into()
    })
}
