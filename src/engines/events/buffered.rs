//! Sinks whose events wait in a buffer, which drops and counts those for which it has no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;

use super::event::EngineEvent;
use super::stream::EventSink;

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
    use super::super::stream::EventStream;
    use super::*;
    use crate::handling::Message;

    fn text(event: &EngineEvent<'_>) -> Option<String> {
        if let EngineEvent::Message(message) = event { Some(message.text.clone()) } else { None }
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
}
