//! The limits of calls, and what counts against them in the whole process: memory, and calls of the API.

pub(super) mod allocator;
pub(super) mod call_rate;
mod limit;
pub(super) mod process_memory;

pub use limit::{Limit, Limits};
