//! Posts messages about the handling of objects as Events, if the settings say so.

use crate::engines::events::{EngineEvent, EventSink};

use super::task::Poster;

/// A sink of engine events that posts messages.
#[derive(Debug)]
pub struct LogPoster(pub Poster);

impl EventSink for LogPoster {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let EngineEvent::HandlingReported { body, message } = event {
            self.0.post_log(body, message.level, &message.to_string());
        }
    }
}
