//! The texts of an operator: its files, imports and templates, read once, and the facts about them before they are
//! compiled.

pub(super) mod chain;
pub(crate) mod digest;
pub(super) mod files;
pub(crate) mod imports;
pub(super) mod modules;
pub(crate) mod program;
pub(crate) mod template_files;
