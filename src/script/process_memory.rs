//! The memory that the running scripts of a process hold: new calls wait while it is more than allowed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;
use tracing::{info, warn};

/// The memory of all running scripts of a process.
#[derive(Debug, Default)]
pub(super) struct ProcessMemory {
    held: AtomicUsize,
    freed: Notify,
    is_exceeded: AtomicBool,
}

impl ProcessMemory {
    /// Records that a call holds another number of bytes than before.
    pub(super) fn change(&self, before: usize, now: usize) {
        if now >= before {
            self.held.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.held.fetch_sub(before - now, Ordering::Relaxed);
            if self.is_exceeded.load(Ordering::Relaxed) {
                self.freed.notify_waiters();
            }
        }
    }

    /// Waits until the running calls hold at most this many bytes.
    pub(super) async fn at_most(&self, limit: u64) {
        let is_free = || self.held.load(Ordering::Relaxed) as u64 <= limit;
        if is_free() {
            return;
        }
        if !self.is_exceeded.swap(true, Ordering::Relaxed) {
            let held = self.held.load(Ordering::Relaxed);
            warn!(held, limit, "New calls of scripts wait: the running ones hold more memory than settings.scripts.memory.");
        }
        loop {
            let freed = self.freed.notified();
            if is_free() {
                break;
            }
            freed.await;
        }
        if self.is_exceeded.swap(false, Ordering::Relaxed) {
            info!("Scripts hold less memory than settings.scripts.memory: new calls begin.");
            self.freed.notify_waiters();
        }
    }
}
