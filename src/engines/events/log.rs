//! The sink that logs messages.

use tracing::{debug, error, info, warn};

use crate::handling::Level;

use super::event::EngineEvent;
use super::stream::EventSink;

/// Logs the messages.
#[derive(Debug, Clone, Copy)]
pub struct LogSink;

impl EventSink for LogSink {
    fn accept(&self, event: &EngineEvent<'_>) {
        let EngineEvent::Message(message) = event else { return };
        match message.level {
            Level::Debug => debug!(target: "kopfd::objects", "{message}"),
            Level::Step => debug!(target: "kopfd::objects::steps", "{message}"),
            Level::Info => info!(target: "kopfd::objects", "{message}"),
            Level::Warning => warn!(target: "kopfd::objects", "{message}"),
            Level::Error => error!(target: "kopfd::objects", "{message}"),
        }
    }

    fn wants_debugging(&self) -> bool {
        tracing::enabled!(target: "kopfd::objects", tracing::Level::DEBUG)
            || tracing::enabled!(target: "kopfd::objects::steps", tracing::Level::DEBUG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Clock;
    use crate::telemetry;

    #[test]
    fn the_log_wants_messages_for_debugging_where_they_are_logged() {
        let wants_at = |level| {
            let _guard = telemetry::listen(level, Clock::system(), |_| {});
            LogSink.wants_debugging()
        };
        assert!(wants_at(tracing::Level::DEBUG) && !wants_at(tracing::Level::INFO));
    }
}
