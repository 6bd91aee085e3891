//! The pause of an operator: several causes may hold it, such as peers with a higher priority. While any of them does,
//! nothing new is handled.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// The pause of one operator. It is running until the first cause holds it. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Pause(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    held: watch::Sender<Held>,
}

#[derive(Debug, Default)]
struct Held {
    last_number: u64,
    holds: BTreeMap<u64, HoldReason>,
}

/// The reason why an operator is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HoldReason {
    text: String,
    is_brief: bool,
}

/// Keeps the operator paused until it is dropped.
#[derive(Debug)]
pub struct Hold {
    pause: Pause,
    number: u64,
}

impl Pause {
    /// Pauses the operator for a cause, until the hold is dropped.
    pub fn hold(&self, cause: impl Into<String>) -> Hold {
        self.add(HoldReason { text: cause.into(), is_brief: false })
    }

    /// Pauses the operator for a moment, such as until its peers are known. The process does not count as standing by
    /// meanwhile.
    pub fn hold_briefly(&self, cause: impl Into<String>) -> Hold {
        self.add(HoldReason { text: cause.into(), is_brief: true })
    }

    fn add(&self, cause: HoldReason) -> Hold {
        let mut number = 0;
        self.0.held.send_modify(|held| {
            held.last_number += 1;
            number = held.last_number;
            held.holds.insert(number, cause);
        });
        Hold { pause: self.clone(), number }
    }

    /// Tells whether any cause holds the operator.
    pub fn is_paused(&self) -> bool {
        !self.0.held.borrow().holds.is_empty()
    }

    /// Tells whether the operator is paused for longer than a moment.
    pub fn is_standing_by(&self) -> bool {
        self.0.held.borrow().holds.values().any(|cause| !cause.is_brief)
    }

    /// Tells whether the operator is paused only for a moment.
    pub fn is_brief(&self) -> bool {
        self.is_paused() && !self.is_standing_by()
    }

    /// Returns the causes in the order in which they began, each once.
    pub fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        for cause in self.0.held.borrow().holds.values() {
            if !causes.contains(&cause.text) {
                causes.push(cause.text.clone());
            }
        }
        causes
    }

    /// Waits until the operator is paused.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn paused(&self) {
        self.until(|held| !held.holds.is_empty()).await;
    }

    /// Waits until nothing holds the operator.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn resumed(&self) {
        self.until(|held| held.holds.is_empty()).await;
    }

    /// Returns the changes of the causes, for those parts of the process that show them.
    pub fn changes(&self) -> PauseChanges {
        PauseChanges(self.0.held.subscribe())
    }

    async fn until(&self, is_reached: impl FnMut(&Held) -> bool) {
        // The sender is not dropped during the wait.
        let _ = self.0.held.subscribe().wait_for(is_reached).await;
    }
}

/// The changes of the causes of a pause.
#[derive(Debug)]
pub struct PauseChanges(watch::Receiver<Held>);

impl PauseChanges {
    /// Waits for the next change; never ends if the pause is gone.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.pause.0.held.send_modify(|held| {
            held.holds.remove(&self.number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_operator_is_paused_while_any_cause_holds_it() {
        let pause = Pause::default();
        assert!(!pause.is_paused() && pause.causes().is_empty());
        let (first, second) = (pause.hold("default@None"), pause.clone().hold("another"));
        let again = pause.hold("default@None");
        assert!(pause.is_paused());
        assert_eq!(pause.causes(), ["default@None", "another"]);
        drop(first);
        drop(again);
        assert!(pause.is_paused());
        assert_eq!(pause.causes(), ["another"]);
        drop(second);
        assert!(!pause.is_paused());
    }

    #[test]
    fn an_operator_that_gets_to_know_its_peers_does_not_stand_by() {
        let pause = Pause::default();
        let brief = pause.hold_briefly("its peers are not known yet");
        assert!(pause.is_paused() && !pause.is_standing_by());
        let lasting = pause.hold("default@None");
        drop(brief);
        assert!(pause.is_standing_by());
        drop(lasting);
        assert!(!pause.is_standing_by());
    }

    #[tokio::test(start_paused = true)]
    async fn both_ends_of_a_pause_are_waited_for() {
        let pause = Pause::default();
        pause.resumed().await;
        let mut changes = pause.changes();
        let hold = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let hold = pause.hold("a");
            tokio::time::sleep(Duration::from_secs(2)).await;
            drop(hold);
        };
        let began = tokio::time::Instant::now();
        let wait = async {
            pause.paused().await;
            assert_eq!(began.elapsed(), Duration::from_secs(1));
            changes.changed().await;
            pause.resumed().await;
            assert_eq!(began.elapsed(), Duration::from_secs(3));
        };
        tokio::join!(hold, wait);
        changes.changed().await;
    }
}
