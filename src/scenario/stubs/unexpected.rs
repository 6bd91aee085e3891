//! The calls that no stub answers.

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::super::problem::Problem;

/// The first call of a run that no stub answers.
#[derive(Debug, Default)]
pub(in super::super) struct UnexpectedCalls {
    first: Mutex<Option<Problem>>,
    found: Notify,
}

impl UnexpectedCalls {
    /// Notes a call.
    pub(super) fn note(&self, problem: Problem) {
        self.first.lock().get_or_insert(problem);
        self.found.notify_one();
    }

    /// Waits for such a call.
    pub(in super::super) async fn found(&self) -> Problem {
        loop {
            if let Some(problem) = self.first.lock().clone() {
                return problem;
            }
            self.found.notified().await;
        }
    }
}
