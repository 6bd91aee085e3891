//! The budget of requests: how many are sent in a time.

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::kit::TokenBucket;

use super::shared::Shared;

/// The budget of requests. Requests that wait for it are sent in the order in which they came.
pub(super) struct Budget {
    /// Held by the request that gets the next token.
    next: Semaphore,
    bucket: Mutex<TokenBucket>,
    /// The beginning of the bucket's time.
    origin: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self { next: Semaphore::new(1), bucket: Mutex::default(), origin: Instant::now() }
    }
}

impl Budget {
    /// Waits until the budget of requests allows one more, and takes it.
    ///
    /// *Cancel safety*: a request that stops waiting takes nothing.
    pub(super) async fn wait(&self, shared: &Shared) {
        if shared.settings().networking.requests.is_none() {
            return;
        }
        let Budget { next, bucket, origin } = self;
        let began = Instant::now();
        let _turn = next.acquire().await.expect("the semaphore is never closed");
        // The settings may change while it waits.
        while let Some(rate) = shared.settings().networking.requests {
            let taken = bucket.lock().take(rate, origin.elapsed());
            match taken {
                Ok(()) => break,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
        let waited = began.elapsed();
        if let Some(metrics) = shared.metrics().filter(|_| !waited.is_zero()) {
            metrics.waited_for_budget(waited);
        }
    }
}
