//! x
pub mod diagnostic;
pub mod source;
pub mod tree;
pub mod reader;
pub mod suggest;
pub mod values;
pub mod settings;
mod settings_reader;
mod storages;
pub mod admission;
