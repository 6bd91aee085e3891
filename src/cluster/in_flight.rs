//! How many requests of this process wait for answers.

use std::sync::atomic::{AtomicUsize, Ordering};

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of requests to API servers that have no answer yet; watches are not counted.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// A request that is counted until it is dropped.
pub(super) struct Counted(());

impl Counted {
    pub(super) fn begin() -> Self {
        COUNT.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
    }
}
