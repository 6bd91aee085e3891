//! What the engine logs.

use std::sync::Arc;

use kopfd::kit::Clock;
use kopfd::telemetry::{self, DefaultGuard};
use parking_lot::Mutex;
use tracing::Level;

/// Collects the messages logged by this thread, of the given level and above, until the guard is dropped.
pub(crate) fn collect_messages(level: Level) -> (Arc<Mutex<Vec<String>>>, DefaultGuard) {
    let messages = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&messages);
    let guard = telemetry::listen(level, Clock::system(), move |line| collected.lock().push(line.message));
    (messages, guard)
}
