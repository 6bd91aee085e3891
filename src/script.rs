//! The Rhai host: scripts are compiled, checked, and called here, each call within its limits, to one outcome.
//!
//! Whoever calls knows nothing of Rhai: what goes in and out is JSON, and the words of `handling`.

pub mod api;
pub mod call;
pub mod declaration;

pub use api::{Api, ApiError};
pub use call::{Arguments, Call, Evaluation, Returned, Subhandling};
pub use declaration::{Allow, Binding, BindingKind, Code, Declaration, Expression, Limits};
