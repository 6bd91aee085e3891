//! The stream of events, and its sinks.

use std::sync::Arc;

use crate::handling::Message;
use crate::object::Body;

use super::event::EngineEvent;

/// A consumer of engine events.
pub trait EventSink: Send + Sync {
    /// Receives an event. It must neither wait nor take long, since the engine waits for it.
    fn accept(&self, event: &EngineEvent<'_>);

    /// Tells whether the sink uses debug messages, so that costly ones need not be created otherwise.
    fn wants_debugging(&self) -> bool {
        false
    }

    /// Tells whether messages about calls that only repeat the one before are for debugging, since the sink counts such
    /// calls.
    fn folds_repetitions(&self) -> bool {
        false
    }

    /// Tells whether the sink follows the states of objects, so that all of them are parsed.
    fn wants_states(&self) -> bool {
        false
    }
}

/// The events of one operator. Cheap to clone.
#[derive(Clone, Default)]
pub struct EventStream {
    sinks: Vec<Arc<dyn EventSink>>,
}

impl std::fmt::Debug for EventStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "EventStream({} sinks)", self.sinks.len())
    }
}

impl EventStream {
    /// Returns the stream with a further sink, which is called after the existing ones.
    #[must_use]
    pub fn with(mut self, sink: Arc<dyn EventSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Passes an event on to all sinks.
    pub fn emit(&self, event: &EngineEvent<'_>) {
        self.sinks.iter().for_each(|sink| sink.accept(event));
    }

    /// Passes a message on.
    pub fn log_message(&self, message: &Message) {
        self.emit(&EngineEvent::Message(message));
    }

    /// Passes on a message about the handling of an object.
    pub fn report_handling(&self, body: &Body, message: &Message) {
        self.log_message(message);
        self.emit(&EngineEvent::HandlingReported { body, message });
    }

    /// Tells whether a sink follows the states of objects.
    pub fn wants_states(&self) -> bool {
        self.sinks.iter().any(|sink| sink.wants_states())
    }

    /// Tells whether any sink counts calls that only repeat the one before.
    pub fn folds_repetitions(&self) -> bool {
        self.sinks.iter().any(|sink| sink.folds_repetitions())
    }

    /// Tells whether any sink uses debug messages.
    pub fn wants_debugging(&self) -> bool {
        self.sinks.iter().any(|sink| sink.wants_debugging())
    }
}

/// A stream is also a sink, so that streams can be joined.
impl EventSink for EventStream {
    fn accept(&self, event: &EngineEvent<'_>) {
        self.emit(event);
    }

    fn wants_debugging(&self) -> bool {
        self.wants_debugging()
    }

    fn wants_states(&self) -> bool {
        self.wants_states()
    }

    fn folds_repetitions(&self) -> bool {
        self.folds_repetitions()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    impl EventSink for Recorder {
        fn accept(&self, event: &EngineEvent<'_>) {
            if let EngineEvent::Message(message) = event {
                self.0.lock().push(message.text.clone());
            }
        }

        fn wants_debugging(&self) -> bool {
            true
        }
    }

    #[test]
    fn every_sink_gets_every_event_in_order() {
        let (one, other) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
        let inner = EventStream::default().with(Arc::clone(&other) as Arc<dyn EventSink>);
        let stream = EventStream::default().with(Arc::clone(&one) as Arc<dyn EventSink>).with(Arc::new(inner));
        for text in ["a", "b"] {
            stream.log_message(&Message::info(text));
        }
        stream.emit(&EngineEvent::CycleDecided { delays: &[Duration::from_secs(1)] });
        assert_eq!(*one.0.lock(), ["a", "b"]);
        assert_eq!(*other.0.lock(), ["a", "b"]);
        assert!(stream.wants_debugging() && !EventStream::default().wants_debugging());
    }

    struct QuietSink;

    impl EventSink for QuietSink {
        fn accept(&self, _event: &EngineEvent<'_>) {}
    }

    struct StateSink;

    impl EventSink for StateSink {
        fn accept(&self, _event: &EngineEvent<'_>) {}

        fn wants_states(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_stream_wants_what_any_of_its_sinks_wants() {
        let quiet = || Arc::new(QuietSink);
        let wants = |sink: Arc<dyn EventSink>| {
            let inner = EventStream::default().with(quiet()).with(sink);
            let outer = EventStream::default().with(Arc::new(inner.clone()));
            assert_eq!(
                (outer.wants_debugging(), outer.wants_states()),
                (inner.wants_debugging(), inner.wants_states())
            );
            (inner.wants_debugging(), inner.wants_states())
        };
        assert_eq!(wants(quiet()), (false, false));
        assert_eq!(wants(Arc::new(Recorder::default())), (true, false));
        assert_eq!(wants(Arc::new(StateSink)), (false, true));
    }
}
