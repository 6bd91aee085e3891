//! Kinds of the server: built-in ones, definitions, their versions, columns and selectors.

pub mod builtin;
pub mod definition;
pub mod kind;
pub mod messages;
pub mod registry;
pub mod selector;
pub mod table;
pub mod versioning;
