//! Functions that reach the machine: what `allow` does not name is refused before anything is asked for.

mod exec;
mod files;
#[cfg(test)]
mod tests;

use rhai::Engine;

/// Registers the functions.
pub(super) fn register(engine: &mut Engine) {
    exec::register(engine);
    files::register(engine);
}
