//! Groups of many short tasks: counted and awaited, without keeping their results.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;
use tokio_util::task::TaskTracker;

use super::stop::Stop;
use super::tasks::{panic_text, report_panic};

/// The tasks of one owner, in large numbers. A panic ends its task and is logged.
#[derive(Debug, Default)]
pub struct TaskGroup {
    tracker: TaskTracker,
    abandoned: Stop,
}

impl TaskGroup {
    /// Returns a group whose tasks are also cancelled with another owner's stop.
    pub fn under(stop: &Stop) -> Self {
        Self { tracker: TaskTracker::default(), abandoned: stop.child() }
    }

    /// Spawns a task on the current runtime. The name is computed only if the task panics.
    pub fn spawn(
        &self,
        name: impl FnOnce() -> String + Send + 'static,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        let abandoned = self.abandoned.clone();
        // Boxed, because the block below would have a place for the task before its first poll, and another one for the
        // time after it.
        let task = AssertUnwindSafe(task).catch_unwind().boxed();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = abandoned.requested() => {}
                ended = task => {
                    if let Err(panic) = ended {
                        report_panic(&name(), &panic_text(&*panic));
                    }
                }
            }
        });
    }

    /// Returns the number of running tasks.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Tells whether all tasks have ended.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until all tasks have ended, up to `grace`. Returns whether they have.
    pub async fn settle(&self, grace: Duration) -> bool {
        self.tracker.close();
        let is_settled = tokio::time::timeout(grace, self.tracker.wait()).await.is_ok();
        self.tracker.reopen();
        is_settled
    }

    /// Cancels all tasks at their await points.
    pub fn cancel(&self) {
        self.abandoned.request("abandoned");
    }

    /// Cancels all tasks at their await points, and waits for their end.
    pub async fn abandon(&self) {
        self.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::tasks::tests::logged;

    #[tokio::test(start_paused = true)]
    async fn unfinished_tasks_can_be_abandoned() {
        let group = TaskGroup::default();
        group.spawn(String::new, async {});
        group.spawn(String::new, std::future::pending());
        assert!(!group.settle(Duration::from_secs(2)).await);
        assert_eq!(group.len(), 1);
        group.abandon().await;
        assert!(group.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_logged_with_the_name_of_its_task() {
        let (logs, _guard) = logged();
        let group = TaskGroup::default();
        group.spawn(|| "worker of x".to_owned(), async { panic!("no way") });
        assert!(group.settle(Duration::from_secs(2)).await);
        let line = logs.lock().join("\n");
        assert!(line.contains("worker of x") && line.contains("no way"), "{line}");
    }
}
