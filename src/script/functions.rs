//! Host functions: what scripts can call besides the language itself.
//!
//! They return errors and never panic, take each number as integer or float, and wait through `context::wait_in` only.

pub mod sleep;

use rhai::Engine;

/// Registers all host functions.
pub fn register(engine: &mut Engine) {
    sleep::register(engine);
}
