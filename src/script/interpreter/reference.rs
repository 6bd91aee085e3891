//! The functions that the host adds to the language; the documentation of scripts is compared with them.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use rhai::{Array, ImmutableString, Map};

use super::engine::{self, Sizes};
use crate::script::language::bytes::Bytes;
use crate::script::language::index::IndexHandle;
use crate::script::language::logger::Logger;
use crate::script::language::memo::Memo;
use crate::script::language::other_cluster::OtherCluster;
use crate::script::language::patch_handle::PatchHandle;
use crate::script::language::receivers::Receiver;
use crate::script::language::shared::{LockHandle, SharedHandle};
use crate::script::language::view::View;
use crate::script::language::warnings::Warnings;
use crate::script::limits::Limits;
use crate::script::values::stopped::Stopped;
use crate::script::values::time::Time;

/// The functions of the host, with their numbers of arguments. Methods do not count their receiver.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// Functions by name, with their module: `sleep`, `k8s::get`.
    pub functions: BTreeMap<String, BTreeSet<usize>>,
    /// Methods, by the argument that has them; the methods of `object` are those of all views.
    pub methods: BTreeMap<&'static str, BTreeMap<String, BTreeSet<usize>>>,
}

/// Functions whose first argument may be a value of the language, and that are no methods of it.
const PLAIN: [&str; 4] = ["debug", "parse_json", "print", "subhandler"];

/// Returns all functions of the host, except operators and conversions to text.
pub fn reference() -> Reference {
    let receivers: [(TypeId, &'static str); 15] = [
        (TypeId::of::<Array>(), "list"),
        (TypeId::of::<Map>(), "map"),
        (TypeId::of::<ImmutableString>(), "text"),
        (TypeId::of::<Time>(), "time"),
        (TypeId::of::<Bytes>(), "bytes"),
        (TypeId::of::<View>(), "object"),
        (TypeId::of::<PatchHandle>(), "patch"),
        (TypeId::of::<Memo>(), "memo"),
        (TypeId::of::<Logger>(), "logger"),
        (TypeId::of::<Stopped>(), "stopped"),
        (TypeId::of::<Warnings>(), "warnings"),
        (TypeId::of::<IndexHandle>(), "index"),
        (TypeId::of::<SharedHandle>(), "shared"),
        (TypeId::of::<LockHandle>(), "lock"),
        (TypeId::of::<OtherCluster>(), "cluster"),
    ];
    let engine = engine::build(Sizes::of(&Limits::default()));
    let all = engine.collect_fn_metadata(
        None,
        |info| {
            let first = info.metadata.param_types.first().copied();
            // Receivers are not documented: they have the methods of lists and maps.
            let is_hidden = first == Some(TypeId::of::<Receiver>());
            let receiver = receivers.iter().find(|(known, _)| Some(*known) == first).map(|(_, name)| *name);
            // A logger has a method `debug`.
            let is_method = |name: &&'static str| *name == "logger" || !PLAIN.contains(&info.metadata.name.as_str());
            let receiver = receiver.filter(is_method);
            (!is_hidden).then(|| {
                (info.namespace.to_string(), info.metadata.name.to_string(), info.metadata.num_params, receiver)
            })
        },
        false,
    );
    let mut reference = Reference::default();
    for (namespace, name, arity, receiver) in all {
        let is_conversion = ["to_string", "to_debug", "to_json", "to_chars"].contains(&name.as_str());
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.contains('$') || is_conversion {
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
