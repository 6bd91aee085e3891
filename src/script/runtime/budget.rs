//! The remaining budget of one call, and whether it must end: the interpreter checks it at every operation.

mod checks;
mod counts;
mod ending;
mod slices;
mod state;

pub(crate) use ending::{Ending, Overrun, Tick};
pub(crate) use slices::Slices;
pub(crate) use state::Budget;
