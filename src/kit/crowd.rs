//! Many short tasks of one kind: they are counted and waited for, but leave nothing behind when they end.

use std::future::Future;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::stop::Stop;

/// The tasks of one owner that come and go in great numbers.
#[derive(Debug, Default)]
pub struct Crowd {
    tracker: TaskTracker,
    abandoned: Stop,
}

impl Crowd {
    /// Returns a crowd whose tasks are cancelled with a stop of somebody else's, too.
    pub fn under(stop: &Stop) -> Self {
        Self { tracker: TaskTracker::default(), abandoned: stop.child() }
    }

    /// Spawns a task on the current runtime.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let abandoned = self.abandoned.clone();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = abandoned.requested() => {}
                () = task => {}
            }
        });
    }

    /// Returns how many tasks have not ended.
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Tells whether all tasks have ended.
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until all tasks have ended, at most for `grace`. Returns whether they have.
    pub async fn settle(&self, grace: Duration) -> bool {
        self.tracker.close();
        let is_settled = tokio::time::timeout(grace, self.tracker.wait()).await.is_ok();
        self.tracker.reopen();
        is_settled
    }

    /// Cancels all tasks where they wait, and waits for their end.
    pub async fn abandon(&self) {
        self.abandoned.request("abandoned");
        self.tracker.close();
        self.tracker.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_does_not_settle_can_be_abandoned() {
        let crowd = Crowd::default();
        crowd.spawn(async {});
        crowd.spawn(std::future::pending());
        assert!(!crowd.settle(Duration::from_secs(2)).await);
        assert_eq!(crowd.len(), 1);
        crowd.abandon().await;
        assert!(crowd.is_empty());
    }
}
