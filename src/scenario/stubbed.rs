//! The outside of operators in a scenario: stubs answer. A call that no stub answers fails the scenario.

mod files;
mod programs;

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::script::Outside;

use super::problem::Problem;
use super::stubs::Stubs;
use super::timeline::{Event, Timeline};

/// The stubs in one run of a scenario.
pub(super) struct Answers {
    stubs: Stubs,
    timeline: Arc<Timeline>,
    /// How often each stub of a program has answered.
    answered: Mutex<Vec<usize>>,
    /// The first call that no stub has answered.
    unanswered: Mutex<Option<Problem>>,
    changed: Notify,
}

impl Answers {
    /// Returns the stubs at the begin of a run.
    pub(super) fn new(stubs: Stubs, timeline: Arc<Timeline>) -> Arc<Self> {
        let answered = Mutex::new(vec![0; stubs.programs.len()]);
        Arc::new(Self { stubs, timeline, answered, unanswered: Mutex::default(), changed: Notify::new() })
    }

    /// Returns the outside of an operator.
    pub(super) fn outside(self: &Arc<Self>) -> Outside {
        Outside { programs: Some(Arc::clone(self) as _), files: Some(Arc::clone(self) as _) }
    }

    /// Returns the first call that no stub has answered.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.unanswered.lock().clone()
    }

    /// Waits for a call that no stub answers.
    pub(super) async fn failed(&self) {
        while self.problem().is_none() {
            self.changed.notified().await;
        }
    }

    /// Notes a call that no stub answers, and returns its message.
    fn fail(&self, call: &str, hint: String) -> String {
        let message = format!("no stub of the scenario answers {call}");
        self.record(message.clone());
        self.unanswered.lock().get_or_insert_with(|| Problem::from(message.clone()).with_hint(hint));
        self.changed.notify_one();
        message
    }

    fn record(&self, what: String) {
        self.timeline.add(Event::Operator(what));
    }
}
