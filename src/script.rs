//! The Rhai host: compiles, checks and calls scripts. Each call has limits and one outcome.
//!
//! Callers do not depend on Rhai: inputs and outputs are JSON and types of `handling`.

/// Registers a function that changes no variable of a script, though it takes its first argument by reference.
///
/// Handles are read as copies, which the interpreter treats as constants: it calls no other functions on them.
macro_rules! pure {
    (get $engine:ident, $function:expr) => {
        rhai::FuncRegistration::new_index_getter().with_purity(true).register_into_engine($engine, $function)
    };
    (set $engine:ident, $function:expr) => {
        rhai::FuncRegistration::new_index_setter().with_purity(true).register_into_engine($engine, $function)
    };
    ($engine:ident, $name:expr, $function:expr) => {
        rhai::FuncRegistration::new($name).with_purity(true).register_into_engine($engine, $function)
    };
}

pub(crate) mod check;
mod functions;
pub mod host;
pub mod interface;
pub mod interpreter;
pub mod language;
mod limits;
pub mod outside;
mod runtime;
pub(crate) mod sources;
pub(crate) mod values;

pub use check::check;
pub use host::{Fibers, Host, Installed, Options, Threads};
pub use interface::call::{Attempted, Call, Evaluation, HookAnswer, Returned, SelfWrite, Subhandling};
pub use interface::declaration::{Allow, Binding, BindingKind, Code, Declaration, Expression};
pub use interface::problem::{Problem, Severity};
pub use interface::subject::{Object, Subject};
pub use limits::allocator::Accounting;
pub use limits::{Limit, Limits};
pub use outside::Outside;
pub use outside::api::{Api, ApiError, Credentials};
pub use sources::program::Program;
pub use values::index::{IndexEntries, Indexes, SharedIndex};
pub use values::live_body::LiveBody;
pub use values::memo::{ObjectMemo, OperatorMemo};
pub use values::plain::Plain;
pub use values::stopped::{StopFlag, Stopped};
