//! The interpreter: its setup, with all that scripts can use, and the code that is compiled for it.

pub(super) mod compile;
pub(super) mod engine;
pub(super) mod imported;
pub(super) mod nesting;
pub mod reference;
pub(super) mod resolver;
pub(super) mod scripts;
