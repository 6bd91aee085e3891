//! Getters and setters of views and patches for the properties that a script names.
//!
//! For `spec.size`, the interpreter looks for a getter `size` before it calls the indexer, and makes the text of an error when it finds none.

use std::collections::BTreeSet;

use rhai::{AST, ASTNode, Dynamic, EvalAltResult, Expr, FuncRegistration, GlobalRuntimeState, ImmutableString, Module};

use super::patch_handle::PatchHandle;
use super::view::View;

/// Adds the getters and setters of the properties in a script to the state of its functions. They do what the indexers do.
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
    FuncRegistration::new_getter(name).with_purity(true).set_into_module(module, move |value: &mut T| get(value, key.clone()));
    let key = name.clone();
    let set = move |value: &mut T, written: Dynamic| set(value, key.clone(), written);
    FuncRegistration::new_setter(name).with_purity(true).set_into_module(module, set);
}
