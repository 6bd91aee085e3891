//! The functions that scripts can call, of the language and of the host.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use rhai::{Array, Blob, Engine, FnPtr, ImmutableString, Map};

use crate::script::interpreter::engine::host_types;

/// Functions that the interpreter handles itself, with their numbers of arguments.
const KEYWORDS: &[(&str, &[usize])] =
    &[("Fn", &[1]), ("is_def_fn", &[2, 3]), ("is_def_var", &[1]), ("is_shared", &[1]), ("type_of", &[1])];
/// Functions that only certain kinds of bindings have, including kinds that this version does not run. The receiver of
/// a method is counted as an argument.
const ANNOUNCED: &[(&str, &[usize])] = &[("execute", &[0]), ("subhandler", &[2, 3]), ("transform", &[2])];
/// Methods of functions, with the arguments of the function.
const OPEN: &[&str] = &["call", "curry"];

type Functions = BTreeMap<String, BTreeSet<usize>>;

/// All functions by name, with their numbers of arguments.
pub(super) struct Catalogue {
    global: Functions,
    modules: BTreeMap<String, Functions>,
    /// The names that are not only methods.
    plain: BTreeSet<String>,
    /// The functions of kopfd, without those of Rhai.
    host: Functions,
}

impl Catalogue {
    /// Returns the functions of an interpreter.
    pub(super) fn of(engine: &Engine) -> Self {
        let mut catalogue =
            Self { global: Functions::new(), modules: BTreeMap::new(), plain: BTreeSet::new(), host: Functions::new() };
        let named = |info: rhai::FuncInfo<'_>| {
            Some((info.namespace.to_string(), info.metadata.name.to_string(), info.metadata.num_params))
        };
        for (namespace, name, arity) in engine.collect_fn_metadata(None, named, true) {
            let functions = if namespace.is_empty() {
                &mut catalogue.global
            } else {
                catalogue.modules.entry(namespace).or_default()
            };
            functions.entry(name).or_default().insert(arity);
        }
        for (name, arities) in KEYWORDS.iter().chain(ANNOUNCED) {
            catalogue.global.entry((*name).to_owned()).or_default().extend(*arities);
        }
        // `names` refuses it, with a hint.
        catalogue.global.remove("exit");
        catalogue.plain = plain(engine, true)
            .into_iter()
            .map(|(name, _)| name)
            .chain(KEYWORDS.iter().map(|(name, _)| (*name).to_owned()))
            .collect();
        catalogue.plain.extend(["execute", "subhandler"].map(str::to_owned));
        catalogue.plain.remove("exit");
        for (name, arity) in plain(engine, false) {
            catalogue.host.entry(name).or_default().insert(arity);
        }
        catalogue
    }

    /// Returns the numbers of arguments of a function; `None` if it does not exist.
    pub(super) fn function(&self, name: &str) -> Option<&BTreeSet<usize>> {
        self.global.get(name)
    }

    /// Tells whether a method takes any number of arguments.
    pub(super) fn is_open(name: &str) -> bool {
        OPEN.contains(&name)
    }

    /// Returns the functions of a module of the host.
    pub(super) fn module(&self, name: &str) -> Option<&BTreeMap<String, BTreeSet<usize>>> {
        self.modules.get(name)
    }

    /// Returns the names of the modules of the host.
    pub(super) fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// Returns the names of the functions that are not called as methods.
    pub(super) fn functions(&self) -> impl Iterator<Item = &str> {
        self.plain.iter().map(String::as_str).filter(|name| is_word(name))
    }

    /// Returns the names of all functions: each may be called as a method.
    pub(super) fn methods(&self) -> impl Iterator<Item = &str> {
        self.global.keys().map(String::as_str).filter(|name| is_word(name))
    }

    /// Tells whether kopfd has a function with this name and number of parameters. Methods of values do not count.
    pub(super) fn is_host(&self, name: &str, parameters: usize) -> bool {
        self.host.get(name).is_some_and(|arities| arities.contains(&parameters))
    }
}

fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_alphabetic()) && !name.contains('$')
}

/// Returns the functions that are not methods: their first parameter is not a text, a collection, or a value of the
/// host.
fn plain(engine: &Engine, with_packages: bool) -> Vec<(String, usize)> {
    let receivers = [
        TypeId::of::<Array>(),
        TypeId::of::<Map>(),
        TypeId::of::<Blob>(),
        TypeId::of::<ImmutableString>(),
        TypeId::of::<FnPtr>(),
    ];
    engine.collect_fn_metadata(
        None,
        |info| {
            let first = info.metadata.param_types.first();
            let is_method = first.is_some_and(|first| receivers.contains(first) || host_types().contains(first));
            (info.namespace.is_empty() && !is_method)
                .then(|| (info.metadata.name.to_string(), info.metadata.num_params))
        },
        with_packages,
    )
}
