//! The events of the engine, as one stream with any number of sinks.
//!
//! Events are passed on immediately and in order, so that simulations are reproducible. A sink must not wait: slow sinks get a
//! [`buffered`] channel, which drops events when it is full, and counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};

use crate::handling::admission::Judged;
use crate::handling::spawning::Stage;
use crate::handling::timer::Schedule;
use crate::handling::{Answers, Handler, Level, Message, Outcome, Reason, Verdict};
use crate::manifest::operator::{Delay, Moment};
use crate::object::{Body, EventKind, Patch};
use crate::script::Returned;
use crate::script::interface::subject::ReviewRequest;

/// An event of the engine.
#[derive(Debug)]
pub enum EngineEvent<'a> {
    /// A message about the handled object. The current span is that of the object.
    Message(&'a Message),
    /// A message about the handling of an object, which was passed on as a message before. Kopf may post these as Kubernetes Events.
    HandlingReported {
        /// The object.
        body: &'a Body,
        /// The message.
        message: &'a Message,
    },
    /// A worker begins to process an event of an object.
    ObjectSeen {
        /// The object.
        body: &'a Body,
        /// How it was received.
        event_kind: EventKind,
        /// The remaining time of the wait for the operator's last patch; negative if it is over.
        consistency_in: Option<SignedDuration>,
    },
    /// An object is forgotten: it was deleted, or its kind or namespace is no longer served. It may be repeated after the end of its worker.
    ObjectForgotten {
        /// The unique id, or its substitute.
        uid: &'a str,
    },
    /// A handler is called.
    HandlerCalled {
        /// The object that the handler gets.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The reason; `None` for handlers of raw events, daemons and timers.
        reason: Option<Reason>,
        /// The attempts made before.
        retry: u64,
    },
    /// A call has returned.
    HandlerReturned {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The reason; `None` for handlers of raw events, daemons and timers.
        reason: Option<Reason>,
        /// The attempts made before.
        retry: u64,
        /// The result of the call.
        returned: &'a Returned,
    },
    /// An attempt was judged, including one that was not made because of a limit.
    AttemptJudged {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// The outcome.
        outcome: &'a Outcome,
    },
    /// A daemon or timer was started for an object.
    TaskStarted {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// When a timer is called; `None` for a daemon.
        schedule: Option<&'a Schedule>,
        /// The declared delay before the first call.
        initial_delay: Option<Delay>,
    },
    /// The initial delay of a daemon or timer was computed by its expression; zero if that has failed.
    InitialDelayComputed {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The delay, which begins with this event.
        delay: Duration,
    },
    /// An attempt of a daemon or timer is concluded: it was judged, and its changes were sent or given up.
    AttemptConcluded {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
    },
    /// The daemons and timers of an object follow a state of it: it is what their idle times and functions refer to.
    BackgroundObserved {
        /// The object.
        body: &'a Body,
    },
    /// It was decided for a state of an object which daemons and timers match it.
    BackgroundDecided {
        /// The object.
        body: &'a Body,
        /// The values of the filters' expressions.
        answers: &'a Answers,
    },
    /// The stop of a daemon or timer has reached a further stage.
    TaskStopping {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// The stage.
        stage: Stage,
    },
    /// A daemon or timer has ended.
    TaskEnded {
        /// The object.
        body: &'a Body,
        /// The handler.
        handler: &'a Handler,
        /// Whether it was asked to stop. A task that ends on its own is not started again.
        is_requested: bool,
    },
    /// An attempt of an index function was judged, including one that was not made because of a limit.
    IndexFunctionJudged {
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// The outcome.
        outcome: &'a Outcome,
        /// Whether it has failed with an error that is ignored; the outcome is a success.
        is_ignored: bool,
        /// The duration of the call; `None` if it was not made.
        duration: Option<Duration>,
    },
    /// A handler of an activity is called.
    ActivityCalled {
        /// The activity.
        activity: Moment,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
    },
    /// An attempt of a handler of an activity was judged, including one that was not made because of a limit.
    ActivityJudged {
        /// The activity.
        activity: Moment,
        /// The handler.
        handler: &'a Handler,
        /// The attempts made before.
        retry: u64,
        /// The outcome.
        outcome: &'a Outcome,
    },
    /// A schedule begins to wait for its ticks.
    ScheduleStarted {
        /// The schedule.
        handler: &'a Handler,
        /// Whether nothing is to be read from the store.
        is_synced: bool,
    },
    /// A schedule is called for a tick.
    ScheduleCalled {
        /// The schedule.
        handler: &'a Handler,
        /// The tick.
        scheduled_at: Timestamp,
        /// The attempts made before for this tick.
        retry: u64,
    },
    /// An attempt of a schedule was judged, including one that was not made because of a limit.
    ScheduleJudged {
        /// The schedule.
        handler: &'a Handler,
        /// The tick.
        scheduled_at: Timestamp,
        /// The attempts made before for this tick.
        retry: u64,
        /// The outcome; `None` if the call was cancelled, since the operator stops.
        outcome: Option<&'a Outcome>,
    },
    /// A schedule has given up the attempts for a tick, since the next one has come.
    ScheduleGivenUp {
        /// The schedule.
        handler: &'a Handler,
        /// The tick.
        scheduled_at: Timestamp,
    },
    /// A schedule has stored what it has done, or has something to store.
    ScheduleSynced {
        /// The schedule.
        handler: &'a Handler,
        /// Whether nothing is left to store.
        is_synced: bool,
    },
    /// A webhook is called for a request.
    WebhookCalled {
        /// The object of the request.
        body: &'a Body,
        /// The handler of the webhook.
        handler: &'a Handler,
    },
    /// A call of a webhook has returned.
    WebhookJudged {
        /// The object of the request.
        body: &'a Body,
        /// The handler of the webhook.
        handler: &'a Handler,
        /// The verdict.
        verdict: &'a Verdict,
        /// The duration of the call.
        duration: Duration,
    },
    /// A call of a webhook has ended: it has returned, or its client does not wait for it any more.
    WebhookEnded {
        /// The handler of the webhook.
        handler: &'a Handler,
    },
    /// A request was reviewed.
    Reviewed {
        /// The object of the request.
        body: &'a Body,
        /// The request.
        request: &'a ReviewRequest,
        /// The webhook that was asked; `None` for all of them.
        webhook: Option<&'a str>,
        /// The result.
        judged: &'a Judged,
    },
    /// A conversion review was answered.
    Converted {
        /// The function.
        handler: &'a Handler,
        /// The wanted `apiVersion`.
        wanted: &'a str,
        /// The number of objects in the review.
        objects: usize,
        /// Why one of them cannot be converted.
        failure: Option<&'a str>,
    },
    /// All handlers of a cycle have run; the cycle then sends its changes and sleeps.
    CycleDecided {
        /// The times until the next attempts.
        delays: &'a [Duration],
    },
    /// A patch is about to be sent.
    PatchPrepared {
        /// The object.
        body: &'a Body,
        /// The patch.
        patch: &'a Patch,
    },
    /// A patch was sent.
    PatchSent {
        /// The object before.
        body: &'a Body,
        /// The patch.
        patch: &'a Patch,
        /// The resulting version, if the patch has changed anything.
        version: Option<&'a str>,
    },
    /// An object is slowed down, since it keeps triggering itself.
    LoopBegan {
        /// The object's unique id.
        uid: &'a str,
        /// The ids of the handlers of its last cycles.
        handlers: &'a [String],
    },
    /// An object is not slowed down any more.
    LoopEnded {
        /// The object's unique id.
        uid: &'a str,
    },
    /// The operator is paused: it begins nothing new.
    OperatorPaused {
        /// Why.
        causes: &'a [String],
    },
    /// The operator is not paused any more.
    OperatorResumed,
    /// A cycle has ended; for a deleted object always without an error.
    CycleEnded {
        /// The object's unique id.
        uid: &'a str,
        /// The object.
        body: &'a Body,
        /// The error, if it has failed.
        error: Option<&'a str>,
    },
}

/// A consumer of engine events.
pub trait EventSink: Send + Sync {
    /// Receives an event. It must neither wait nor take long, since the engine waits for it.
    fn accept(&self, event: &EngineEvent<'_>);

    /// Tells whether the sink uses debug messages, so that costly ones need not be created otherwise.
    fn wants_debugging(&self) -> bool {
        false
    }

    /// Tells whether messages about calls that only repeat the one before are for debugging, since the sink counts such calls.
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
    }
}

/// A sink whose events are processed asynchronously by a receiver.
pub struct BufferedSink<T, S> {
    select: S,
    sender: mpsc::Sender<T>,
    lost: Arc<AtomicU64>,
}

/// The receiver of a buffered sink.
#[derive(Debug)]
pub struct BufferedEvents<T> {
    receiver: mpsc::Receiver<T>,
    lost: Arc<AtomicU64>,
}

/// Returns a sink that buffers the items selected from events, up to a capacity, and their receiver. Items that arrive while the buffer is
/// full are dropped and counted: the engine never waits.
pub fn buffered<T: Send, S>(capacity: usize, select: S) -> (BufferedSink<T, S>, BufferedEvents<T>)
where
    S: Fn(&EngineEvent<'_>) -> Option<T> + Send + Sync,
{
    let (sender, receiver) = mpsc::channel(capacity);
    let lost = Arc::new(AtomicU64::new(0));
    (BufferedSink { select, sender, lost: Arc::clone(&lost) }, BufferedEvents { receiver, lost })
}

impl<T: Send, S: Fn(&EngineEvent<'_>) -> Option<T> + Send + Sync> EventSink for BufferedSink<T, S> {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let Some(item) = (self.select)(event)
            && self.sender.try_send(item).is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T> BufferedEvents<T> {
    /// Waits for the next item; `None` once the engine has ended.
    ///
    /// *Cancel safety*: an item is either returned or stays in the buffer.
    pub async fn next(&mut self) -> Option<T> {
        self.receiver.recv().await
    }

    /// Returns how many items were lost because the buffer was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Clock;
    use crate::telemetry;
    use parking_lot::Mutex;

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

    fn text(event: &EngineEvent<'_>) -> Option<String> {
        if let EngineEvent::Message(message) = event { Some(message.text.clone()) } else { None }
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

    #[tokio::test(start_paused = true)]
    async fn a_slow_sink_loses_events_and_never_delays_the_engine() {
        let (sink, mut events) = buffered(2, text);
        let stream = EventStream::default().with(Arc::new(sink));
        let began = tokio::time::Instant::now();
        (0..5).for_each(|number| stream.log_message(&Message::info(number.to_string())));
        assert_eq!((began.elapsed().as_nanos(), events.lost()), (0, 3));
        assert_eq!(events.next().await.as_deref(), Some("0"));
        stream.log_message(&Message::info("later"));
        assert_eq!(events.next().await.as_deref(), Some("1"));
        assert_eq!(events.next().await.as_deref(), Some("later"));
        drop(stream);
        assert_eq!((events.next().await, events.lost()), (None, 3));
    }

    #[tokio::test]
    async fn a_sink_whose_other_end_is_gone_only_counts() {
        let (sink, events) = buffered(2, text);
        let lost = Arc::clone(&events.lost);
        drop(events);
        EventStream::default().with(Arc::new(sink)).log_message(&Message::info("x"));
        assert_eq!(lost.load(Ordering::Relaxed), 1);
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
        let wants = |sink: Arc<dyn EventSink>| {
            let inner = EventStream::default().with(Arc::new(buffered(1, text).0)).with(sink);
            let outer = EventStream::default().with(Arc::new(inner.clone()));
            assert_eq!((outer.wants_debugging(), outer.wants_states()), (inner.wants_debugging(), inner.wants_states()));
            (inner.wants_debugging(), inner.wants_states())
        };
        assert_eq!(wants(Arc::new(buffered(1, text).0)), (false, false));
        assert_eq!(wants(Arc::new(Recorder::default())), (true, false));
        assert_eq!(wants(Arc::new(StateSink)), (false, true));
    }

    #[test]
    fn the_log_wants_messages_for_debugging_where_they_are_logged() {
        let wants_at = |level| {
            let _guard = telemetry::listen(level, Clock::system(), |_| {});
            LogSink.wants_debugging()
        };
        assert!(wants_at(tracing::Level::DEBUG) && !wants_at(tracing::Level::INFO));
    }
}
