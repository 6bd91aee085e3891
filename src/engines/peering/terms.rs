//! The replicas of an operator are one peer: they share an identity, and the one that leads writes the record.
//!
//! The record is written before a term begins, so that peers with a lower priority pause before anything is handled. A
//! leader that stops leaves the record behind for as long as its replicas may need to elect another one.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// How long the begin of a term waits for the records: an API server that does not answer must not keep the operator
/// from working.
const RECORD_TIMEOUT: Duration = Duration::from_secs(2);

/// The terms of a replica, for its peerings. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Terms(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    is_leading: bool,
    peerings: Vec<mpsc::UnboundedSender<Turn>>,
}

/// A change of the leadership, as a peering receives it.
#[derive(Debug)]
pub(super) enum Turn {
    /// This replica is about to lead, and waits until the record is written: the sender is dropped then.
    Lead(oneshot::Sender<()>),
    /// Another replica writes the record from now on.
    StandBy,
}

/// The changes of the leadership that one peering receives.
#[derive(Debug)]
pub(super) struct Turns {
    /// Whether this replica led when the peering began.
    pub is_leading: bool,
    /// The coming changes; `None` without an election.
    pub next: Option<mpsc::UnboundedReceiver<Turn>>,
}

impl Turns {
    /// Returns those of an operator without replicas.
    pub(super) fn permanent() -> Self {
        Self { is_leading: true, next: None }
    }

    /// Waits for the next turn; never ends if there is none.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub(super) async fn next(&mut self) -> Turn {
        let turn = match &mut self.next {
            Some(turns) => turns.recv().await,
            None => None,
        };
        match turn {
            Some(turn) => turn,
            None => std::future::pending().await,
        }
    }
}

impl Terms {
    /// A term is about to begin: has the records written, and waits for that.
    pub async fn begin(&self) {
        let mut written = Vec::new();
        self.tell(true, || {
            let (sender, receiver) = oneshot::channel();
            written.push(receiver);
            Turn::Lead(sender)
        });
        // They are dropped without an answer.
        let _ = tokio::time::timeout(RECORD_TIMEOUT, futures::future::join_all(written)).await;
    }

    /// The term has ended.
    pub fn end(&self) {
        self.tell(false, || Turn::StandBy);
    }

    /// Returns the changes of the leadership for a peering.
    pub(super) fn follow(&self) -> Turns {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.0.lock();
        state.peerings.push(sender);
        Turns { is_leading: state.is_leading, next: Some(receiver) }
    }

    fn tell(&self, is_leading: bool, mut turn: impl FnMut() -> Turn) {
        let mut state = self.0.lock();
        state.is_leading = is_leading;
        state.peerings.retain(|peering| peering.send(turn()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_term_begins_when_all_records_are_written() {
        let terms = Terms::default();
        let (mut first, gone, mut last) = (terms.follow(), terms.follow(), terms.follow());
        drop(gone);
        let began = tokio::time::Instant::now();
        let writes = async {
            let (Turn::Lead(early), Turn::Lead(late)) = (first.next().await, last.next().await) else {
                panic!("a term begins")
            };
            drop(early);
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(late);
        };
        tokio::join!(terms.begin(), writes);
        assert_eq!(began.elapsed(), Duration::from_secs(1));
        assert!(terms.follow().is_leading, "a peering that is found later writes at once");
        terms.end();
        assert!(matches!(first.next().await, Turn::StandBy) && !terms.follow().is_leading);
    }

    #[tokio::test(start_paused = true)]
    async fn records_that_cannot_be_written_do_not_keep_a_replica_from_leading() {
        let terms = Terms::default();
        let _silent = terms.follow();
        let began = tokio::time::Instant::now();
        terms.begin().await;
        assert_eq!(began.elapsed(), RECORD_TIMEOUT);
    }
}
