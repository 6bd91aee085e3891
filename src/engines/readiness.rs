//! Readiness of the indexes: nothing is handled before all indexed kinds are listed and their listed objects are
//! indexed.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::warn;

use super::health::{Health, ReadinessGate};

/// The interval of warnings while nothing is handled.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// Whether the indexes are filled. They are, unless there are blockers.
#[derive(Debug)]
pub struct Readiness {
    blockers: Mutex<Blockers>,
    /// Changes only when the last blocker is released, so that each waiting task is woken once.
    is_ready: watch::Sender<bool>,
    /// The health of the process, and the reason why it is not ready while there are blockers.
    reported_to: OnceLock<(Health, String)>,
}

/// The unreleased blockers.
#[derive(Debug, Default)]
struct Blockers {
    count: usize,
    /// The kinds and namespaces of the incomplete lists.
    lists: BTreeSet<String>,
    /// Makes the process unready.
    gate: Option<ReadinessGate>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { blockers: Mutex::default(), is_ready: watch::Sender::new(true), reported_to: OnceLock::new() }
    }
}

impl Readiness {
    /// Makes the process unready for a reason while there are blockers from now on. Only the first call counts.
    pub fn report_to(&self, health: Health, reason: String) {
        // A second call would come from a second operator with the same indexes, which does not exist.
        let _ = self.reported_to.set((health, reason));
    }

    /// Blocks until the blocker is released or dropped.
    pub fn block(self: &Arc<Self>) -> Blocker {
        self.block_for(None)
    }

    /// Blocks until a list is complete: until the blocker is released or dropped.
    pub fn block_for_list(self: &Arc<Self>, title: String) -> Blocker {
        self.block_for(Some(title))
    }

    fn block_for(self: &Arc<Self>, list: Option<String>) -> Blocker {
        let mut blockers = self.blockers.lock();
        blockers.count += 1;
        blockers.lists.extend(list.clone());
        if blockers.count == 1 {
            self.is_ready.send_replace(false);
            blockers.gate = self.reported_to.get().map(|(health, reason)| health.gate(reason.clone()));
        }
        Blocker { readiness: Arc::clone(self), list, is_released: AtomicBool::new(false) }
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

    /// Warns from time to time while there are blockers: until then, nothing is handled.
    ///
    /// *Cancel safety*: it may be dropped at any time.
    pub async fn warn_of_waits(&self) {
        let mut changes = self.is_ready.subscribe();
        loop {
            // The sender is not dropped before this.
            let _ = changes.wait_for(|is_ready| !is_ready).await;
            if tokio::time::timeout(WARNING_INTERVAL, self.ready()).await.is_err() {
                let text = self.describe();
                warn!(target: "kopfd::reactor", "No handlers are called before all indexes are filled: {text}.");
            }
        }
    }

    fn describe(&self) -> String {
        let blockers = self.blockers.lock();
        let lists: Vec<String> =
            blockers.lists.iter().map(|list| format!("the list of {list} is not complete")).collect();
        let objects = blockers.count.saturating_sub(lists.len());
        let objects = (objects > 0).then(|| format!("not indexed yet are {objects} of the listed objects"));
        lists.into_iter().chain(objects).collect::<Vec<_>>().join(", ")
    }

    fn unblock(&self, list: Option<&str>) {
        let mut blockers = self.blockers.lock();
        blockers.count -= 1;
        if let Some(list) = list {
            blockers.lists.remove(list);
        }
        if blockers.count == 0 {
            blockers.gate = None;
            self.is_ready.send_replace(true);
        }
    }
}

/// One reason why the indexes are not filled: a list, or a listed object.
#[derive(Debug)]
pub struct Blocker {
    readiness: Arc<Readiness>,
    list: Option<String>,
    is_released: AtomicBool,
}

impl Blocker {
    /// Ends the blocking.
    pub fn release(&self) {
        if !self.is_released.swap(true, Ordering::SeqCst) {
            self.readiness.unblock(self.list.as_deref());
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

    #[test]
    fn the_process_is_unready_while_something_blocks() {
        let (readiness, health) = (Arc::new(Readiness::default()), Health::default());
        readiness.report_to(health.clone(), "operator 'a' has not filled its indexes yet".to_owned());
        let reasons = || health.unready().into_iter().collect::<Vec<_>>();
        let (first, second) = (readiness.block(), readiness.block_for_list("pods.v1".to_owned()));
        assert_eq!(reasons(), ["operator 'a' has not filled its indexes yet"]);
        drop(first);
        assert_eq!(reasons().len(), 1);
        second.release();
        assert!(reasons().is_empty());
        let again = readiness.block();
        assert_eq!(reasons().len(), 1);
        drop(again);
        assert!(reasons().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn long_waits_are_reported_with_their_reasons() {
        let (messages, _guard) = crate::telemetry::collect_messages(tracing::Level::WARN);
        let readiness = Arc::new(Readiness::default());
        let blockers = (readiness.block_for_list("pods.v1".to_owned()), readiness.block(), readiness.block());
        let warn = tokio::time::timeout(Duration::from_secs(100), readiness.warn_of_waits());
        let release = async {
            tokio::time::sleep(Duration::from_secs(40)).await;
            drop(blockers.0);
            tokio::time::sleep(Duration::from_secs(30)).await;
            drop((blockers.1, blockers.2));
        };
        let (_, ()) = tokio::join!(warn, release);
        let text = |reasons: &str| format!("No handlers are called before all indexes are filled: {reasons}.");
        let objects = "not indexed yet are 2 of the listed objects";
        assert_eq!(*messages.lock(), [text(&format!("the list of pods.v1 is not complete, {objects}")), text(objects)]);
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
