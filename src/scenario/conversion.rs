//! The step `convert`: the conversion of one object, and the property that conversions there and back lose nothing.
//!
//! `step` reads it, `check` performs it, `generate` makes objects of a schema.

pub(super) mod check;
mod generate;
pub(super) mod step;
