//! One pass over the sub-handlers of a call: the same as a cycle, without superseding, inside of the parent's attempt.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::cause::Reason;
use super::conclude;
use super::filter::{Predicates, Unsettled, View};
use super::handler::Handler;
use super::lifecycle::Lifecycle;
use super::outcome::Outcome;
use super::plan;
use super::progress::{BrokenRecord, Record, Records, State};
use super::select;

/// One pass, from the registered sub-handlers to the verdict of the parent.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    /// The sub-handlers to call, in order.
    pub run: Vec<&'a Handler>,
    state: State,
}

/// The result of a pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PassEnd {
    /// The records to store.
    pub store: Vec<(String, Record)>,
    /// The results to deliver, under the full ids.
    pub results: Vec<(String, Value)>,
    /// The ids that the parent and its ancestors must remember for purging.
    pub subrefs: Vec<String>,
    /// The time until the next attempt, if any sub-handler is unfinished.
    pub delay: Option<Duration>,
}

/// Returns the sub-handlers that take part.
///
/// The view's change is that of the parent: a sub-handler's field is relative to the parent's.
///
/// # Errors
/// If expressions must be evaluated first, or the object is malformed.
pub(crate) fn select<'a>(
    registered: &'a [Handler],
    view: View<'_>,
    predicates: &dyn Predicates,
) -> Result<Vec<&'a Handler>, Unsettled> {
    select::matching(registered.iter(), view, predicates)
}

impl<'a> Pass<'a> {
    /// Begins a pass with the sub-handlers that take part.
    ///
    /// # Errors
    /// If a record on the object cannot be read.
    pub(crate) fn begin(
        registered: &'a [Handler],
        selected: &[&'a Handler],
        records: &dyn Records,
        purpose: Reason,
        lifecycle: Lifecycle,
        now: Timestamp,
        random_below: &mut dyn FnMut(usize) -> usize,
    ) -> Result<Self, BrokenRecord> {
        let mut state = State::default();
        for handler in registered {
            state.load(&handler.id, records)?;
        }
        for handler in selected {
            state.activate(&handler.id, now, Some(purpose));
        }
        let run = plan::choose(lifecycle, selected, &state, now, random_below);
        Ok(Self { run, state })
    }

    /// Returns the record of a handler before its attempt.
    pub(crate) fn record(&self, id: &str) -> Option<&Record> {
        self.state.get(id).map(|entry| &entry.record)
    }

    /// Ends the pass.
    pub(crate) fn end(mut self, outcomes: &[(String, Outcome)], now: Timestamp) -> PassEnd {
        conclude::settle(&mut self.state, outcomes, now);
        let mut subrefs: Vec<String> = self.state.all_ids().map(str::to_owned).collect();
        subrefs.sort();
        subrefs.dedup();
        PassEnd {
            store: self.state.changed(),
            results: conclude::results(outcomes),
            subrefs,
            delay: self.state.delays(now).into_iter().min(),
        }
    }
}
