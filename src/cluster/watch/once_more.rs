//! Requests that objects are passed on once more: all known ones, or single ones.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use crate::kit::Backoff;

use super::super::error::Error;
use super::failures::FAILURE_PAUSES;

/// An object that is to be passed on once more, as it was read just before.
#[derive(Debug)]
pub struct Touch {
    /// The object as JSON.
    pub text: String,
    /// Answered when it was passed on, or need not be.
    pub taken: oneshot::Sender<()>,
}

/// Waits for a touch; without a channel, or when its senders are gone, forever.
pub(super) async fn next_touch(touches: Option<&mut mpsc::Receiver<Touch>>) -> Touch {
    match touches {
        Some(touches) => match touches.recv().await {
            Some(touch) => touch,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

/// The requests for all known objects.
pub(super) struct Revisits {
    requests: Option<watch::Receiver<u64>>,
    /// The last request that was taken.
    pub taken: u64,
    /// When a failed attempt is repeated.
    again_at: Option<Instant>,
    failures: Backoff,
}

impl Revisits {
    /// Returns that no request was taken yet.
    pub(super) fn new(requests: Option<watch::Receiver<u64>>) -> Self {
        Self { requests, taken: 0, again_at: None, failures: Backoff::new(FAILURE_PAUSES.map(Duration::from_secs)) }
    }

    /// Takes all requests, since a list is going to answer them.
    pub(super) fn clear(&mut self) {
        self.take();
        self.again_at = None;
    }

    fn take(&mut self) {
        if let Some(requests) = &mut self.requests {
            self.taken = *requests.borrow_and_update();
        }
    }

    /// Waits until the objects are requested.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub(super) async fn requested(&mut self) {
        if let Some(again_at) = self.again_at {
            sleep_until(again_at).await;
            return self.take();
        }
        if let Some(requests) = &mut self.requests
            && requests.changed().await.is_ok()
        {
            return self.take();
        }
        std::future::pending::<()>().await;
    }

    /// Notes that the objects were passed on, or why not.
    pub(super) fn ended(&mut self, failure: Option<&Error>) {
        let Some(failure) = failure else {
            self.failures.reset();
            self.again_at = None;
            return;
        };
        let pause = self.failures.next_or_last().unwrap_or_default();
        self.again_at = Instant::now().checked_add(pause.max(failure.retry_after().unwrap_or_default()));
    }
}
