//! The slots of objects that begin processing at the same time.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Limit of objects that begin processing at the same time. Each holds its parsed body, about ten times the size of its
/// text; a longer list or burst waits in the connection, without using memory.
const LIMIT: usize = 256;

/// How long an object keeps its slot from others. If its processing takes longer, because of a slow handler or a sleep,
/// the slot is freed for the next object that waits for one.
const TIMEOUT: Duration = Duration::from_millis(200);

/// The slots of one kind. They have no timers of their own: only who waits for a slot looks for one whose time is over.
#[derive(Debug)]
pub(super) struct FirstCycles {
    free: Arc<Semaphore>,
    /// The slots that may be taken, the oldest one first.
    taken: Mutex<VecDeque<(Instant, Weak<Occupied>)>>,
    /// Held by the worker that waits for the time of the oldest slot.
    turn: tokio::sync::Mutex<()>,
}

/// A slot; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Slot {
    _occupied: Arc<Occupied>,
}

/// The permit of a slot, unless its time was over.
type Occupied = Mutex<Option<OwnedSemaphorePermit>>;

impl Default for FirstCycles {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(LIMIT)), taken: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }
}

impl FirstCycles {
    /// Waits for a slot.
    ///
    /// *Cancel safety*: no slot is taken.
    pub(super) async fn slot(&self) -> Slot {
        self.free_old();
        let permit = self.permit().await;
        let occupied = Arc::new(Mutex::new(Some(permit)));
        self.taken.lock().push_back((Instant::now(), Arc::downgrade(&occupied)));
        Slot { _occupied: occupied }
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        let _turn = self.turn.lock().await;
        loop {
            tokio::select! {
                biased;
                permit = Arc::clone(&self.free).acquire_owned() => return permit.expect("the semaphore is never closed"),
                () = self.oldest_is_over() => self.free_old(),
            }
        }
    }

    async fn oldest_is_over(&self) {
        let oldest = self.taken.lock().front().map(|(since, _)| *since);
        sleep_until(oldest.unwrap_or_else(Instant::now) + TIMEOUT).await;
    }

    /// Takes the slots whose time is over from their objects, and forgets those that were given back. Most are given
    /// back in the order in which they were taken.
    fn free_old(&self) {
        let now = Instant::now();
        let mut taken = self.taken.lock();
        let is_over = |(since, slot): &(Instant, Weak<Occupied>)| *since + TIMEOUT <= now || slot.strong_count() == 0;
        while let Some((_, slot)) = taken.pop_front_if(|taken| is_over(taken)) {
            if let Some(slot) = slot.upgrade() {
                drop(slot.lock().take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slot_is_free_for_others_when_it_is_given_back_or_its_time_is_over() {
        let cycles = FirstCycles::default();
        let began = Instant::now();
        let mut slots = Vec::new();
        for _ in 0..LIMIT {
            slots.push(cycles.slot().await);
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        slots.pop();
        let returned = cycles.slot().await;
        assert_eq!(began.elapsed(), Duration::ZERO, "a slot was given back");
        let taken_over = cycles.slot().await;
        assert_eq!(began.elapsed(), TIMEOUT, "the time of a slot was over");
        drop((slots, returned, taken_over));
        assert_eq!(cycles.free.available_permits(), LIMIT, "each slot was given back once");
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_get_a_slot_and_no_more_than_the_limit_at_a_time() {
        let cycles = Arc::new(FirstCycles::default());
        let began = Instant::now();
        let waiting = (0..3 * LIMIT).map(|_| {
            let cycles = Arc::clone(&cycles);
            async move {
                let slot = cycles.slot().await;
                let since = began.elapsed();
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(slot);
                since
            }
        });
        let since = futures::future::join_all(waiting).await;
        let at = |time: Duration| since.iter().filter(|since| **since == time).count();
        assert_eq!([Duration::ZERO, TIMEOUT, 2 * TIMEOUT].map(at), [LIMIT; 3]);
        assert_eq!(cycles.free.available_permits(), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_given_back_are_not_remembered() {
        let cycles = FirstCycles::default();
        for _ in 0..10 * LIMIT {
            drop(cycles.slot().await);
        }
        assert_eq!(cycles.taken.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_object_does_not_keep_the_slots_after_it_remembered() {
        let cycles = FirstCycles::default();
        let _slow = cycles.slot().await;
        for _ in 0..10 * LIMIT {
            drop(cycles.slot().await);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(cycles.taken.lock().len(), 1);
    }
}
