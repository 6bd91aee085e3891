//! The problems that a check has found so far.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::script::problem::{Problem, Severity};

/// What is found: each thing once, and one error for each place. So what knows more about a place must look at it first.
#[derive(Debug, Default)]
pub struct Report {
    problems: Vec<Problem>,
    seen: BTreeSet<(PathBuf, usize, usize, Option<String>)>,
}

impl Report {
    /// Adds a problem, unless it is known.
    pub fn add(&mut self, problem: Problem) {
        let told = (problem.severity != Severity::Error).then(|| problem.message.clone());
        if self.seen.insert((problem.file.clone(), problem.line, problem.column, told)) {
            self.problems.push(problem);
        }
    }

    /// Returns the problems in the order of files and lines.
    pub fn finish(mut self) -> Vec<Problem> {
        self.problems.sort();
        self.problems
    }
}
