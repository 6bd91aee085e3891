//! The problems found by a check.

use std::collections::BTreeSet;

use crate::kit::source::SourcePosition;
use crate::script::interface::problem::{Problem, Severity};

/// Problems without duplicates, and with one error for each position. So the more specific checks must run first.
#[derive(Debug, Default)]
pub(super) struct Report {
    problems: Vec<Problem>,
    seen: BTreeSet<(SourcePosition, Option<String>)>,
}

impl Report {
    /// Adds a problem, unless it is a duplicate.
    pub(super) fn add(&mut self, problem: Problem) {
        let told = (problem.severity != Severity::Error).then(|| problem.message.clone());
        if self.seen.insert((problem.place.clone(), told)) {
            self.problems.push(problem);
        }
    }

    /// Tells whether there is an error so far.
    pub(super) fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// Returns the problems in the order of files and lines.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.problems.sort();
        self.problems
    }
}
