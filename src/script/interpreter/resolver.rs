//! Resolves the imports of scripts with the modules of the importing call.

use rhai::{AST, Engine, EvalAltResult, GlobalRuntimeState, Module, Position, Scope, Shared};

use super::imported;
use crate::script::runtime::context::Context;
use crate::script::sources::modules::{NotImported, Request};

/// Resolves imports with the modules of the importing call.
pub(crate) struct Resolver;

impl rhai::ModuleResolver for Resolver {
    fn resolve(
        &self,
        _: &Engine,
        _: Option<&str>,
        path: &str,
        position: Position,
    ) -> Result<Shared<Module>, Box<EvalAltResult>> {
        Err(EvalAltResult::ErrorModuleNotFound(path.to_owned(), position).into())
    }

    fn resolve_raw(
        &self,
        engine: &Engine,
        global: &mut GlobalRuntimeState,
        _: &mut Scope<'_>,
        path: &str,
        position: Position,
    ) -> Result<Shared<Module>, Box<EvalAltResult>> {
        let context = global.tag.read_lock::<Context>().map(|context| context.clone());
        let Some(context) = context else {
            return Err(EvalAltResult::ErrorModuleNotFound(path.to_owned(), position).into());
        };
        let request = Request { importer: global.source().unwrap_or_default(), path };
        let make = |file: &AST| imported::module_of(engine, file, context.tag(), global.level);
        let imported = context.environment().modules.import(&request, make);
        // The call may have ended in the meantime, which is not an error of the module.
        context.budget().check()?;
        imported.map_err(|error| match error {
            NotImported::Refused(text) => EvalAltResult::ErrorRuntime(text.into(), position).into(),
            NotImported::Failed { name, error } => EvalAltResult::ErrorInModule(name, error, position).into(),
        })
    }
}
