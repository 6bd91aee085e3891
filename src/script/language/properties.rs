//! Getters and setters of views and patches for the properties that a script names.
//!
//! For `spec.size`, the interpreter looks for a getter `size` before it calls the indexer, and makes the text of an
//! error when it finds none.

use std::collections::BTreeSet;

use rhai::{AST, ASTNode, Dynamic, EvalAltResult, Expr, FuncRegistration, GlobalRuntimeState, ImmutableString, Module};

use super::patch_handle::PatchHandle;
use super::view::View;

/// Adds the getters and setters of the properties in a script to the state of its functions. They behave as the
/// indexers do.
pub(crate) fn add(global: &mut GlobalRuntimeState, script: &AST) {
    let mut names = BTreeSet::new();
    script.walk(&mut |path: &[ASTNode<'_>]| {
        if let Some(ASTNode::Expr(Expr::Property(property, _))) = path.last() {
            names.insert(property.2.clone());
        }
        true
    });
    let mut module = Module::new();
    for name in names {
        set(&mut module, &name, View::get, View::set);
        set(&mut module, &name, PatchHandle::get, PatchHandle::set);
    }
    global.lib.push(module.into());
}

type Getter<T> = fn(&mut T, ImmutableString) -> Result<Dynamic, Box<EvalAltResult>>;
type Setter<T> = fn(&mut T, ImmutableString, Dynamic) -> Result<(), Box<EvalAltResult>>;

fn set<T: Clone + 'static>(module: &mut Module, name: &ImmutableString, get: Getter<T>, set: Setter<T>) {
    let key = name.clone();
    FuncRegistration::new_getter(name)
        .with_purity(true)
        .set_into_module(module, move |value: &mut T| get(value, key.clone()));
    let key = name.clone();
    let set = move |value: &mut T, written: Dynamic| set(value, key.clone(), written);
    FuncRegistration::new_setter(name).with_purity(true).set_into_module(module, set);
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::sync::Arc;

    use rhai::{Engine, Scope};
    use serde_json::json;

    use super::*;
    use crate::object::Patch;

    #[test]
    fn named_properties_need_no_indexer() {
        let mut engine = Engine::new();
        let script =
            engine.compile("fn f(a) { a.spec.size }\npatch.spec.size = view.spec.size + 1; view.other").unwrap();
        let mut global = engine.new_global_runtime_state();
        add(&mut global, &script);
        engine.register_global_module(global.lib.pop().unwrap());
        let patch = Rc::new(RefCell::new(Patch::default()));
        let mut scope = Scope::new();
        scope.push("view", View::of(Arc::new(json!({"spec": {"size": 3}}))));
        scope.push("patch", PatchHandle::new(Rc::clone(&patch), true));
        let other: Dynamic = engine.eval_ast_with_scope(&mut scope, &script).unwrap();
        assert!(other.is_unit(), "an absent member is (): {other}");
        assert_eq!(json!(patch.borrow().merge), json!({"spec": {"size": 4}}));
        assert!(engine.eval_with_scope::<Dynamic>(&mut scope, "view.unnamed").is_err(), "there is no indexer");
    }
}
