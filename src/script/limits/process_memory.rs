//! The memory that the running scripts of a process hold: new calls wait while it is more than allowed.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tracing::{info, warn};

/// The memory of all running scripts of a process.
#[derive(Debug, Default)]
pub(crate) struct ProcessMemory {
    held: AtomicUsize,
    waiting: AtomicUsize,
    freed: Notify,
}

impl ProcessMemory {
    /// Records that a call holds another number of bytes than before.
    pub(crate) fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.held.fetch_add(now - before, Ordering::Relaxed);
            return;
        }
        // The order of these two, and of their counterparts in `at_most`, decides whether a waiting call misses its
        // wake-up.
        self.held.fetch_sub(before - now, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.freed.notify_waiters();
        }
    }

    /// Returns the bytes that the running calls hold.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Returns how many calls wait until others hold less.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Waits until the running calls hold at most this many bytes.
    ///
    /// *Cancel safety*: a dropped wait is not counted.
    pub(crate) async fn at_most(&self, limit: u64) {
        let is_free = || self.held() as u64 <= limit;
        if is_free() {
            return;
        }
        let waiting = Waiting::among(&self.waiting);
        if waiting.is_first {
            warn!(
                held = self.held(),
                limit, "New calls of scripts wait: the running ones hold more memory than settings.scripts.memory."
            );
        }
        loop {
            // Woken by everything that is freed after this line, even if it is not awaited yet.
            let freed = self.freed.notified();
            if is_free() {
                break;
            }
            freed.await;
        }
        if waiting.end() {
            info!("Scripts hold less memory than settings.scripts.memory: new calls begin.");
        }
    }
}

/// One waiting call among others.
struct Waiting<'a> {
    count: &'a AtomicUsize,
    is_first: bool,
}

impl<'a> Waiting<'a> {
    fn among(count: &'a AtomicUsize) -> Self {
        let is_first = count.fetch_add(1, Ordering::SeqCst) == 0;
        Self { count, is_first }
    }

    /// Ends the wait, and returns whether no other call waits.
    fn end(self) -> bool {
        let count = self.count;
        drop(self);
        count.load(Ordering::SeqCst) == 0
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn every_waiting_call_is_woken_although_another_one_began_before() {
        let memory = ProcessMemory::default();
        memory.change(0, 100);
        let (mut first, mut second) = (Box::pin(memory.at_most(10)), Box::pin(memory.at_most(10)));
        assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
        memory.change(100, 0);
        assert!(first.now_or_never().is_some());
        // The memory is used again before the second one checks it.
        memory.change(0, 100);
        assert!((&mut second).now_or_never().is_none());
        assert_eq!(memory.waiting(), 1);
        memory.change(100, 5);
        assert!(second.now_or_never().is_some());
        assert_eq!((memory.waiting(), memory.held()), (0, 5));
    }

    #[test]
    fn a_wait_that_is_dropped_does_not_count() {
        let memory = ProcessMemory::default();
        memory.change(0, 100);
        let mut waiting = Box::pin(memory.at_most(10));
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(memory.waiting(), 1);
        drop(waiting);
        assert_eq!(memory.waiting(), 0);
    }
}
