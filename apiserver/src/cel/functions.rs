//! The implementations of functions and operators, by name; they distinguish the types of their arguments themselves.

pub(crate) mod authorizer;
mod convert;
pub(super) mod format;
mod format_text;
mod lists;
pub(super) mod net;
mod operators;
mod optional;
mod pattern;
pub(super) mod quantity;
mod semantic_version;
mod text;
pub(crate) mod time;
mod url;

pub(super) use format_text::mistake as format_mistake;
pub(super) use operators::accumulate;

use super::function::Function;

/// Returns the function with a name.
pub(super) fn of_name(name: &str) -> Option<Function> {
    operators::of_name(name)
        .or_else(|| convert::of_name(name))
        .or_else(|| text::of_name(name))
        .or_else(|| pattern::of_name(name))
        .or_else(|| time::of_name(name))
        .or_else(|| optional::of_name(name))
        .or_else(|| lists::of_name(name))
        .or_else(|| semantic_version::of_name(name))
        .or_else(|| net::of_name(name))
        .or_else(|| url::of_name(name))
        .or_else(|| format::of_name(name))
        .or_else(|| authorizer::of_name(name))
}
