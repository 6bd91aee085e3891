//! The texts of an operator: its files, imports and templates, read once, and the facts about them before they are compiled.

pub(super) mod chain;
pub mod digest;
pub(super) mod files;
pub mod imports;
pub(super) mod modules;
pub mod program;
pub mod template_files;
