//! Hooks: HTTP requests from outside, answered by functions of operators, after their credentials are verified.
//!
//! `handling::hook` selects the hook and verifies; `answerer` calls the function and knows no sockets; `service` reads
//! requests and writes answers, for the listener of the endpoints and for those of `server`. `secrets` has the
//! credentials.

mod answerer;
pub(crate) mod secrets;
pub(crate) mod server;
mod service;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

pub(crate) use answerer::{Answerer, AnswererParts, HookRevision, Pending, other_methods, starting, unknown};
pub(crate) use service::{Service, query_of};

use crate::handling::hook::Selected;

/// The hooks of the operators of a process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Hooks(Arc<RwLock<Operators>>);

#[derive(Default)]
struct Operators {
    answering: BTreeMap<Arc<str>, Arc<Answerer>>,
    /// Those with hooks that have not started yet.
    expected: BTreeSet<String>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.read().answering.keys()).finish()
    }
}

/// An operator among others, until it is dropped.
pub struct Listed {
    hooks: Hooks,
    operator: Arc<str>,
}

/// The hook of a request.
pub enum Found {
    /// There is one.
    Hook(Box<Pending>),
    /// Hooks at this path have other methods: these.
    OtherMethods(Vec<String>),
    /// There is no hook at this path.
    Unknown,
    /// There may be one, when all operators have started.
    Starting,
}

impl Hooks {
    /// Notes that an operator with hooks is about to start: until it has, an unknown path may be one of its own.
    pub fn expect(&self, operator: &str) {
        self.0.write().expected.insert(operator.to_owned());
    }

    /// Notes that the hooks of an operator are answered, here or elsewhere.
    pub fn settle(&self, operator: &str) {
        self.0.write().expected.remove(operator);
    }

    /// Adds the hooks of an operator.
    pub fn add(&self, answerer: Arc<Answerer>) -> Listed {
        let operator = Arc::clone(answerer.operator());
        self.0.write().answering.insert(Arc::clone(&operator), answerer);
        self.settle(&operator);
        Listed { hooks: self.clone(), operator }
    }

    /// Returns the hook of a method and a path. Of several operators with the same path, the first by name answers.
    pub fn find(&self, method: &str, path: &str) -> Found {
        let mut others = Vec::new();
        let operators = self.0.read();
        for answerer in operators.answering.values() {
            let revision = answerer.revision();
            match revision.select(method, path) {
                Selected::Hook(hook) => return Found::Hook(Box::new(Pending::new(answerer, &revision, hook))),
                Selected::OtherMethods(methods) => others.extend(methods.into_iter().map(str::to_owned)),
                Selected::Unknown => {}
            }
        }
        match (operators.expected.is_empty(), others.is_empty()) {
            (false, _) => Found::Starting,
            (true, true) => Found::Unknown,
            (true, false) => Found::OtherMethods(others),
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.hooks.0.write().answering.remove(&self.operator);
    }
}
