//! The answers of the programs and files of the machine.

mod files;
mod programs;

use std::sync::Arc;

use parking_lot::Mutex;

use super::super::problem::Problem;
use super::super::timeline::{Event, Timeline};
use super::declared::Stubs;
use super::unexpected::UnexpectedCalls;

/// The stubs in one run of a scenario.
pub(in super::super) struct MachineStubs {
    stubs: Stubs,
    timeline: Arc<Timeline>,
    /// How often each stub of a program has answered.
    answered: Mutex<Vec<usize>>,
    unexpected: Arc<UnexpectedCalls>,
}

impl MachineStubs {
    /// Returns the stubs at the begin of a run.
    pub(in super::super) fn new(stubs: Stubs, timeline: Arc<Timeline>, unexpected: Arc<UnexpectedCalls>) -> Self {
        let answered = Mutex::new(vec![0; stubs.programs.len()]);
        Self { stubs, timeline, answered, unexpected }
    }

    /// Notes a call that no stub answers, and returns its message.
    fn fail(&self, call: &str, hint: String) -> String {
        let message = format!("no stub of the scenario answers {call}");
        self.record(message.clone());
        self.unexpected.note(Problem::from(message.clone()).with_hint(hint));
        message
    }

    fn record(&self, what: String) {
        self.timeline.add(Event::Operator(what));
    }
}
