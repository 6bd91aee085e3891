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

pub mod access;
mod allocator;
mod answer;
pub mod api;
pub mod arguments;
mod attempt;
mod bounded;
mod budget;
mod bytes;
pub mod call;
mod call_rate;
mod chain;
pub mod check;
mod children;
mod compile;
mod context;
mod convert;
pub mod declaration;
pub mod digest;
mod engine;
mod execution;
mod fiber;
mod files;
mod function;
mod functions;
mod held;
pub mod host;
mod imported;
pub mod imports;
pub mod index;
mod json;
mod live_body;
pub mod load;
mod logger;
mod memo;
mod modules;
mod nesting;
mod object_turns;
mod other_cluster;
pub mod outside;
mod overflow;
mod patch_handle;
pub mod plain;
pub mod problem;
mod process_memory;
pub mod program;
mod progress_hook;
mod receivers;
pub mod reference;
mod resolver;
pub mod rights;
mod rng;
mod rounds;
mod script_error;
mod scripts;
mod settings_handle;
mod shared;
mod stack_pages;
pub mod stopped;
mod subhandlers;
pub mod subject;
mod suboptions;
pub mod template_files;
mod thread;
mod time;
mod trace;
mod transforms;
mod verdict;
mod view;
mod warnings;

pub use allocator::Accounting;
pub use api::{Api, ApiError, Credentials};
pub use call::{Attempted, Call, Evaluation, HookAnswer, Returned, SelfWrite, Subhandling};
pub use check::check;
pub use declaration::{Allow, Binding, BindingKind, Code, Declaration, Expression, Limit, Limits};
pub use host::{Fibers, Host, Installed, Options, Threads};
pub use index::{IndexEntries, Indexes, SharedIndex};
pub use live_body::LiveBody;
pub use memo::{ObjectMemo, OperatorMemo};
pub use outside::Outside;
pub use plain::Plain;
pub use problem::{Problem, Severity};
pub use program::Program;
pub use stopped::{StopFlag, Stopped};
pub use subject::{Object, Subject};
