//! The queues of one kind: which objects have a worker, and how many workers may run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::mailbox::{Event, Mailbox};
use crate::object::EventKind;
use crate::telemetry::KindMetrics;

/// The mailboxes of the objects with workers.
#[derive(Debug)]
pub struct Queues {
    mailboxes: Mutex<HashMap<Arc<str>, Arc<Mailbox>>>,
    is_halted: AtomicBool,
    /// The limit of concurrent workers, if there is one.
    permits: Option<Arc<Semaphore>>,
    metrics: Option<Arc<KindMetrics>>,
}

/// The result of adding an event.
#[derive(Debug)]
pub enum Queued {
    /// The existing worker will process it.
    Waiting,
    /// It is the first one: the caller must start a worker.
    First(Arc<str>, Arc<Mailbox>),
}

impl Queues {
    /// Returns queues without objects.
    pub fn new(worker_limit: Option<usize>) -> Self {
        // A limit beyond the maximum of a semaphore means no limit.
        let permits = worker_limit.map(|limit| Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS))));
        Self { mailboxes: Mutex::default(), is_halted: AtomicBool::new(false), permits, metrics: None }
    }

    /// Returns the queues with metrics of their events.
    pub fn measured(self, metrics: Arc<KindMetrics>) -> Self {
        Self { metrics: Some(metrics), ..self }
    }

    /// Adds an event to the queue of its object.
    pub fn put(&self, uid: &str, event: Event) -> Queued {
        let mut mailboxes = self.mailboxes.lock();
        if let Some(mailbox) = mailboxes.get(uid) {
            // A queued event will be processed by the new revision anyway, and must not be replaced by an older state.
            if event.event_kind == EventKind::Revisited && !mailbox.is_empty() {
                mailbox.hurry();
                return Queued::Waiting;
            }
            if event.event_kind == EventKind::Touched && mailbox.ends_with_touch() {
                return Queued::Waiting;
            }
            if !mailbox.put(event) {
                tracing::debug!(
                    uid,
                    "An intermediate state of the object is skipped, since too many of its events wait."
                );
            }
            return Queued::Waiting;
        }
        let (uid, mailbox): (Arc<str>, _) = (Arc::from(uid), Arc::new(Mailbox::measured(self.metrics.clone())));
        mailbox.halt(self.is_halted.load(Ordering::SeqCst));
        mailbox.put(event);
        mailboxes.insert(Arc::clone(&uid), Arc::clone(&mailbox));
        Queued::First(uid, mailbox)
    }

    /// Tells whether an object has a worker.
    pub fn has(&self, uid: &str) -> bool {
        self.mailboxes.lock().contains_key(uid)
    }

    /// Ends the work on an object, unless an event has arrived. Returns whether the worker may end.
    pub fn retire(&self, uid: &str) -> bool {
        let mut mailboxes = self.mailboxes.lock();
        let is_idle = mailboxes.get(uid).is_none_or(|mailbox| mailbox.is_empty());
        if is_idle {
            remove(&mut mailboxes, uid);
        }
        is_idle
    }

    /// Gives back the mailbox of an ended worker. The next event of the object gets a new worker.
    pub fn give_back(&self, uid: &str, mailbox: &Arc<Mailbox>) {
        let mut mailboxes = self.mailboxes.lock();
        // After a regular end, the object may already have another worker.
        if mailboxes.get(uid).is_some_and(|found| Arc::ptr_eq(found, mailbox)) {
            remove(&mut mailboxes, uid);
        }
    }

    /// Lets the workers wait for nothing, since the operator is paused; or allows waits again.
    pub fn halt(&self, is_halted: bool) {
        let mailboxes = self.mailboxes.lock();
        if self.is_halted.swap(is_halted, Ordering::SeqCst) != is_halted {
            sorted(&mailboxes).for_each(|mailbox| mailbox.halt(is_halted));
        }
    }

    /// Drops all queued events, and closes all queues.
    pub fn discard(&self) {
        self.mailboxes.lock().values().for_each(|mailbox| mailbox.discard());
        self.close();
    }

    /// Closes all queues.
    pub fn close(&self) {
        sorted(&self.mailboxes.lock()).for_each(Mailbox::close);
    }

    /// Tells whether the number of workers is limited.
    pub fn is_limited(&self) -> bool {
        self.permits.is_some()
    }

    /// Waits until another worker may run.
    pub async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let permits = Arc::clone(self.permits.as_ref()?);
        permits.acquire_owned().await.ok()
    }

    /// Returns the number of objects with workers.
    pub fn len(&self) -> usize {
        self.mailboxes.lock().len()
    }

    /// Tells whether no object has a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the mailboxes in a reproducible order: simulations depend on it.
fn sorted(mailboxes: &HashMap<Arc<str>, Arc<Mailbox>>) -> impl Iterator<Item = &Mailbox> {
    let mut sorted: Vec<_> = mailboxes.iter().collect();
    sorted.sort_by_key(|(uid, _)| Arc::clone(uid));
    sorted.into_iter().map(|(_, mailbox)| &**mailbox)
}

fn remove(mailboxes: &mut HashMap<Arc<str>, Arc<Mailbox>>, uid: &str) {
    mailboxes.remove(uid);
    if mailboxes.is_empty() {
        // After a burst, the memory for thousands of workers is released.
        mailboxes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_given_back_by_its_own_worker_only() {
        let queues = Queues::new(None);
        let put = || queues.put("a", Event::new(EventKind::Modified, "{}"));
        let Queued::First(_, first) = put() else { panic!("the first event needs a worker") };
        queues.give_back("a", &first);
        let Queued::First(..) = put() else { panic!("after the end of its worker, the object gets another one") };
        queues.give_back("a", &first);
        assert!(queues.has("a"));
    }

    #[test]
    fn a_revisited_object_with_a_queued_event_needs_no_further_one() {
        let queues = Queues::new(None);
        let put = |event_kind| queues.put("a", Event::new(event_kind, "{}"));
        let Queued::First(_, mailbox) = put(EventKind::Modified) else { panic!("the first event needs a worker") };
        let queued = || {
            std::iter::from_fn(|| futures::FutureExt::now_or_never(mailbox.take(std::time::Duration::ZERO)).flatten())
                .count()
        };
        put(EventKind::Revisited);
        assert_eq!(queued(), 1);
        put(EventKind::Revisited);
        put(EventKind::Revisited);
        assert_eq!(queued(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_is_let_go_only_if_no_event_has_come_for_its_object() {
        let queues = Queues::new(None);
        let put = |uid| queues.put(uid, Event::new(EventKind::Modified, "{}"));
        let Queued::First(_, mailbox) = put("a") else { panic!("the first event needs a worker") };
        assert!(matches!(put("a"), Queued::Waiting) && !queues.retire("a"));
        put("b");
        assert_eq!((queues.len(), queues.is_empty()), (2, false));
        for _ in 0..2 {
            assert!(mailbox.take(std::time::Duration::ZERO).await.is_some());
        }
        assert!(queues.retire("a") && !queues.has("a") && queues.has("b"));
        queues.close();
        let Queued::Waiting = put("b") else { panic!("it has a worker") };
        queues.mailboxes.lock().remove("b");
        assert_eq!((queues.len(), queues.is_empty()), (0, true));
    }
}
