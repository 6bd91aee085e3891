//! Hooks: HTTP requests from outside, answered by functions of operators, after their credentials are verified.
//!
//! `handling::hook` selects the hook and verifies; `answerer` calls the function and knows no sockets; `service` reads requests and writes
//! answers, for the listener of the endpoints and for those of `server`. `secrets` has the credentials.

mod answerer;
pub mod secrets;
pub mod server;
mod service;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;

pub use answerer::{Answerer, AnswererParts, HookRevision, Pending, other_methods, unknown};
pub use service::{Service, query_of};

use crate::handling::hook::Selected;

/// The hooks of the operators of a process. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub struct Hooks(Arc<RwLock<BTreeMap<Arc<str>, Arc<Answerer>>>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.read().keys()).finish()
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
}

impl Hooks {
    /// Adds the hooks of an operator.
    pub fn add(&self, answerer: Arc<Answerer>) -> Listed {
        let operator = Arc::clone(answerer.operator());
        self.0.write().insert(Arc::clone(&operator), answerer);
        Listed { hooks: self.clone(), operator }
    }

    /// Returns the hook of a method and a path. Of several operators with the same path, the first by name answers.
    pub fn find(&self, method: &str, path: &str) -> Found {
        let mut others = Vec::new();
        for answerer in self.0.read().values() {
            let revision = answerer.revision();
            match revision.select(method, path) {
                Selected::Hook(hook) => return Found::Hook(Box::new(Pending::new(answerer, &revision, hook))),
                Selected::OtherMethods(methods) => others.extend(methods.into_iter().map(str::to_owned)),
                Selected::Unknown => {}
            }
        }
        if others.is_empty() { Found::Unknown } else { Found::OtherMethods(others) }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.hooks.0.write().remove(&self.operator);
    }
}
