//! The runtime of calls: the fiber of a call, its turns with others, its budget, and its context.

pub(super) mod bounded;
pub(super) mod budget;
pub(super) mod children;
pub(super) mod context;
pub(super) mod fiber;
pub(super) mod function;
pub(super) mod held;
pub(super) mod object_turns;
pub(super) mod overflow;
pub(super) mod progress_hook;
pub(super) mod rng;
pub(super) mod rounds;
pub(super) mod stack_pages;
