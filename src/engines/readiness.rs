//! Readiness of the indexes: nothing is handled before all indexed kinds are listed and their listed objects are indexed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// Whether the indexes are filled. They are, unless something blocks.
#[derive(Debug)]
pub struct Readiness {
    blockers: Mutex<usize>,
    /// Changes only when the last blocker is released, so that each waiting task is woken once.
    is_ready: watch::Sender<bool>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { blockers: Mutex::new(0), is_ready: watch::Sender::new(true) }
    }
}

impl Readiness {
    /// Blocks until the blocker is released or dropped.
    pub fn block(self: &Arc<Self>) -> Blocker {
        let mut blockers = self.blockers.lock();
        *blockers += 1;
        if *blockers == 1 {
            self.is_ready.send_replace(false);
        }
        Blocker { readiness: Arc::clone(self), is_released: AtomicBool::new(false) }
    }

    /// Tells whether nothing blocks.
    pub fn is_ready(&self) -> bool {
        *self.is_ready.borrow()
    }

    /// Waits until nothing blocks.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn ready(&self) {
        // The sender is not dropped during the wait.
        let _ = self.is_ready.subscribe().wait_for(|is_ready| *is_ready).await;
    }

    fn unblock(&self) {
        let mut blockers = self.blockers.lock();
        *blockers -= 1;
        if *blockers == 0 {
            self.is_ready.send_replace(true);
        }
    }
}

/// One reason why the indexes are not filled: a list, or a listed object.
#[derive(Debug)]
pub struct Blocker {
    readiness: Arc<Readiness>,
    is_released: AtomicBool,
}

impl Blocker {
    /// Ends the blocking.
    pub fn release(&self) {
        if !self.is_released.swap(true, Ordering::SeqCst) {
            self.readiness.unblock();
        }
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn it_is_ready_while_nothing_blocks() {
        let readiness = Arc::new(Readiness::default());
        assert!(readiness.is_ready());
        let (first, second) = (readiness.block(), readiness.block());
        let began = tokio::time::Instant::now();
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            first.release();
            first.release();
            assert!(!readiness.is_ready());
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(second);
        };
        tokio::join!(readiness.ready(), release);
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        drop(first);
        assert!(readiness.is_ready());
        let again = readiness.block();
        assert!(!readiness.is_ready());
        drop(again);
        readiness.ready().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_task_is_woken_once_whatever_the_number_of_blockers() {
        let readiness = Arc::new(Readiness::default());
        let blockers: Vec<_> = (0..1000).map(|_| readiness.block()).collect();
        let polls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let waiting = {
            let (readiness, polls) = (Arc::clone(&readiness), Arc::clone(&polls));
            let mut ready = Box::pin(async move { readiness.ready().await });
            std::future::poll_fn(move |context| {
                polls.fetch_add(1, Ordering::SeqCst);
                ready.as_mut().poll(context)
            })
        };
        let release = async {
            for blocker in blockers {
                tokio::task::yield_now().await;
                drop(blocker);
            }
        };
        let release = futures::FutureExt::boxed(release);
        let mut tasks = crate::kit::Tasks::default();
        tasks.spawn("waiting", waiting);
        tokio::task::yield_now().await;
        release.await;
        assert!(tasks.finish(Duration::from_secs(1)).await.is_empty());
        assert_eq!(polls.load(Ordering::SeqCst), 2);
    }
}
