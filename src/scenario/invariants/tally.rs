//! Counts completions of handlers.

use std::collections::BTreeMap;

use super::super::timeline::Subject;

/// Stored completions by object and handler.
pub(crate) type Completions = BTreeMap<(Subject, String), usize>;

/// How often an essence was stored as handled, by object.
pub(crate) type HandledCauses = BTreeMap<Subject, usize>;

/// Completions of one handler of one object.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tally {
    /// How often it completed.
    pub completed: usize,
    /// How often that was stored.
    pub stored: usize,
    /// How often a repetition was allowed.
    pub repeated: usize,
}

/// The tallies of all handlers of all objects, by operator number.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<(usize, Subject, String), Tally>);

impl Tallies {
    pub(super) fn of(&mut self, operator: usize, subject: &Subject, id: &str) -> &mut Tally {
        self.0.entry((operator, subject.clone(), id.to_owned())).or_default()
    }

    /// Returns the stored completions.
    pub(super) fn completions(&self) -> Completions {
        let mut completions = Completions::new();
        for ((_, subject, id), tally) in self.0.iter().filter(|(_, tally)| tally.stored > 0) {
            *completions.entry((subject.clone(), id.clone())).or_default() += tally.stored;
        }
        completions
    }

    /// Reports completions that were neither stored nor allowed repetitions.
    pub(super) fn verify(&self, violations: &mut Vec<String>) {
        for ((_, subject, id), Tally { completed, stored, repeated }) in &self.0 {
            if *completed > stored + repeated {
                violations.push(format!(
                    "`{id}` completed {completed} times for {subject}: {stored} were stored, and {repeated} repetitions are allowed"
                ));
            }
        }
    }
}
