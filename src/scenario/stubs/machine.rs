//! The answers of the programs and files of the machine.

mod files;
mod programs;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::problem::Problem;
use super::super::timeline::{Event, Timeline};
use super::counted::CountedStubs;
use super::declared::{ProgramStub, Stubs};
use super::unexpected::UnexpectedCalls;

/// The stubs in one run of a scenario.
pub(in super::super) struct MachineStubs {
    programs: CountedStubs<ProgramStub>,
    /// The contents of files by absolute path; `None` for a file that does not exist.
    files: BTreeMap<String, Option<Vec<u8>>>,
    timeline: Arc<Timeline>,
    unexpected: Arc<UnexpectedCalls>,
}

impl MachineStubs {
    /// Returns the stubs at the begin of a run.
    pub(in super::super) fn new(stubs: Stubs, timeline: Arc<Timeline>, unexpected: Arc<UnexpectedCalls>) -> Self {
        let programs = CountedStubs::new(stubs.programs, |stub| stub.times);
        Self { programs, files: stubs.files, timeline, unexpected }
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
