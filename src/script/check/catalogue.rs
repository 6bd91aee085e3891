//! The functions that scripts can call: those of the language, and those of the host.

use std::collections::{BTreeMap, BTreeSet};

use rhai::Engine;

/// Functions that the interpreter handles itself, with the arguments that they take.
const KEYWORDS: &[(&str, &[usize])] = &[("Fn", &[1]), ("is_def_fn", &[2, 3]), ("is_def_var", &[1]), ("is_shared", &[1]), ("type_of", &[1])];
/// What belongs to certain kinds of bindings, whether or not this version runs them; methods count the value that they belong to.
const ANNOUNCED: &[(&str, &[usize])] = &[
    ("entries", &[1]),
    ("entry", &[2]),
    ("execute", &[0]),
    ("is_set", &[1]),
    ("push", &[2]),
    ("subhandler", &[2, 3]),
    ("transform", &[2]),
    ("wait", &[1, 2]),
];
/// The same, in the module for login functions.
const ANNOUNCED_LOGIN: &[(&str, &[usize])] = &[("kubeconfig", &[0, 1]), ("service_account", &[0])];
/// Methods of functions, which take whatever the function takes.
const OPEN: &[&str] = &["call", "curry"];

/// Modules of kopfd that this version does not offer.
pub const UNSUPPORTED_MODULES: &[&str] = &["http", "metric"];
/// Functions of kopfd that this version does not offer.
pub const UNSUPPORTED_FUNCTIONS: &[(&str, &str)] = &[("k8s", "event")];

type Functions = BTreeMap<String, BTreeSet<usize>>;

/// All functions by name, with the numbers of arguments that they take.
pub struct Catalogue {
    global: Functions,
    modules: BTreeMap<String, Functions>,
    /// The functions that kopfd has put there, and not Rhai.
    host: BTreeSet<String>,
}

impl Catalogue {
    /// Returns the functions of an interpreter.
    pub fn of(engine: &Engine) -> Self {
        let mut catalogue = Self { global: Functions::new(), modules: BTreeMap::new(), host: BTreeSet::new() };
        let named = |info: rhai::FuncInfo<'_>| Some((info.namespace.to_string(), info.metadata.name.to_string(), info.metadata.num_params));
        for (namespace, name, arity) in engine.collect_fn_metadata(None, named, true) {
            let functions = if namespace.is_empty() { &mut catalogue.global } else { catalogue.modules.entry(namespace).or_default() };
            functions.entry(name).or_default().insert(arity);
        }
        for (name, arities) in KEYWORDS.iter().chain(ANNOUNCED) {
            catalogue.global.entry((*name).to_owned()).or_default().extend(*arities);
        }
        let login = catalogue.modules.entry("login".to_owned()).or_default();
        login.extend(ANNOUNCED_LOGIN.iter().map(|(name, arities)| ((*name).to_owned(), arities.iter().copied().collect())));
        let own = engine.collect_fn_metadata(None, |info| Some((info.namespace.to_string(), info.metadata.name.to_string())), false);
        catalogue.host = own.into_iter().filter(|(namespace, _)| namespace.is_empty()).map(|(_, name)| name).collect();
        catalogue
    }

    /// Returns the numbers of arguments that a function takes; nothing if there is no such function.
    pub fn function(&self, name: &str) -> Option<&BTreeSet<usize>> {
        self.global.get(name)
    }

    /// Tells whether a method takes any number of arguments.
    pub fn is_open(name: &str) -> bool {
        OPEN.contains(&name)
    }

    /// Returns the functions of a module of the host.
    pub fn module(&self, name: &str) -> Option<&BTreeMap<String, BTreeSet<usize>>> {
        self.modules.get(name)
    }

    /// Returns the names of the modules of the host.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().map(String::as_str)
    }

    /// Returns the names of all functions that can be called as they are.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        self.global.keys().map(String::as_str).filter(|name| name.starts_with(|c: char| c.is_alphabetic()) && !name.contains('$'))
    }

    /// Tells whether kopfd has a function of this name.
    pub fn is_host(&self, name: &str) -> bool {
        self.host.contains(name)
    }
}
