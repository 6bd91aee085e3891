//! Validation rules of schemas: expressions over the new and the old value of a node.

mod compile;
mod declaration;
mod names;
mod validate;
mod values;

pub(super) use compile::{Compiled, compile};
pub(super) use validate::validate;
