//! What the host adds to the language, by name: the reference of scripts is compared with it.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use super::declaration::Limits;
use super::engine::{self, Sizes};
use super::logger::Logger;
use super::memo::Memo;
use super::patch_handle::PatchHandle;
use super::receivers::Receiver;
use super::stopped::Stopped;
use super::view::View;
use super::warnings::Warnings;

/// The functions of the host, with the numbers of arguments that they take. A method does not count the value that it belongs to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Functions that are called by their name, or by that of their module: `sleep`, `k8s::get`.
    pub functions: BTreeMap<String, BTreeSet<usize>>,
    /// Methods, by the argument that they belong to; those of `object` belong to all views.
    pub methods: BTreeMap<&'static str, BTreeMap<String, BTreeSet<usize>>>,
}

/// Returns all functions of the host. Operators, and conversions to text, are not among them.
pub fn reference() -> Reference {
    let receivers: [(TypeId, &'static str); 6] = [
        (TypeId::of::<View>(), "object"),
        (TypeId::of::<PatchHandle>(), "patch"),
        (TypeId::of::<Memo>(), "memo"),
        (TypeId::of::<Logger>(), "logger"),
        (TypeId::of::<Stopped>(), "stopped"),
        (TypeId::of::<Warnings>(), "warnings"),
    ];
    let engine = engine::of_thread(Sizes::of(&Limits::default()));
    let all = engine.collect_fn_metadata(
        None,
        |info| {
            let first = info.metadata.param_types.first().copied();
            // What a variable is while a method runs on it is not told: it has the methods of lists and maps.
            let is_hidden = first == Some(TypeId::of::<Receiver>());
            let receiver = receivers.iter().find(|(known, _)| Some(*known) == first).map(|(_, name)| *name);
            (!is_hidden).then(|| (info.namespace.to_string(), info.metadata.name.to_string(), info.metadata.num_params, receiver))
        },
        false,
    );
    let mut reference = Reference::default();
    for (namespace, name, arity, receiver) in all {
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.contains('$') || name.starts_with("to_") {
            continue;
        }
        match receiver {
            Some(receiver) => reference.methods.entry(receiver).or_default().entry(name).or_default().insert(arity - 1),
            None if namespace.is_empty() => reference.functions.entry(name).or_default().insert(arity),
            None => reference.functions.entry(format!("{namespace}::{name}")).or_default().insert(arity),
        };
    }
    reference
}
