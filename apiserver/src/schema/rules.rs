//! Validation rules of schemas: expressions over the new and the old value of a node.

mod compile;
pub(super) mod compiled;
mod declaration;
mod names;
mod validate;
mod values;

pub(super) use compile::compile;
pub(super) use validate::validate;
