//! The interface to the YAML parser: reads a text into trees in which every key and every value has its position.
//!
//! Plain scalars are read by YAML 1.2: `yes` and `on` are strings. Aliases are followed within limits.

mod limits;
mod mistake;
mod node;
mod parse;
mod scalars;

pub(crate) use crate::kit::source::SourceSpan;

pub(crate) use mistake::Mistake;
pub(crate) use node::{Entry, Kind, Node, Text};
pub(crate) use parse::{MERGE, parse};

#[cfg(test)]
mod tests;
