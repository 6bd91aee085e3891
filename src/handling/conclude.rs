//! The conclusion of a cycle: what is stored, what is purged, and what is waited for.

use jiff::Timestamp;
use serde_json::Value;

use crate::object::equality;

use super::attempt::Outcome;
use super::cause::Change;
use super::plan::Plan;
use super::progress::Record;
use super::telling::Telling;

/// What follows from the outcomes of a cycle.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// The records to purge before others are stored: they belong to a superseded cause.
    pub superseded: Vec<String>,
    /// The records to store.
    pub store: Vec<(String, Record)>,
    /// The results to deliver into the status.
    pub results: Vec<(String, Value)>,
    /// The records to purge at the end, with everything that was stored.
    pub purge: Vec<String>,
    /// The essence to store as the last handled one.
    pub essence: Option<Value>,
    /// Whether the cause is handled to its end.
    pub is_handled: bool,
    /// The seconds until the next attempts.
    pub delays: Vec<f64>,
    /// What is to be told.
    pub tellings: Vec<Telling>,
}

/// Returns what follows from the outcomes, given by the ids of their handlers.
pub fn conclude(plan: Plan<'_>, outcomes: &[(String, Outcome)], owned: &[&str], change: &Change, now: Timestamp) -> Decision {
    let Plan { reason, selected, mut state, superseded, .. } = plan;
    let mut decision = Decision { superseded, ..Decision::default() };
    if selected.is_empty() {
        decision.is_handled = true;
        decision.essence = essence_to_store(change);
        return decision;
    }
    settle(&mut state, outcomes, now);
    decision.results = results(outcomes);
    decision.store = state.changed();
    decision.delays = state.delays(now);
    if state.is_done() {
        let counts = state.counts(|purpose| purpose.is_none_or(|purpose| purpose == reason));
        decision.tellings.push(Telling::info(format!("{} is processed: {counts}.", reason.capitalised_title())));
        decision.purge = owned.iter().copied().chain(state.all_ids()).map(str::to_owned).collect();
        decision.is_handled = true;
        decision.essence = essence_to_store(change);
    }
    decision
}

/// Handlers may share an id, and with it a record: what the last of them came to counts.
fn latest(outcomes: &[(String, Outcome)]) -> impl Iterator<Item = &(String, Outcome)> {
    let is_latest = |(index, (id, _)): &(usize, &(String, Outcome))| outcomes[index + 1..].iter().all(|(later, _)| later != id);
    outcomes.iter().enumerate().filter(is_latest).map(|(_, outcome)| outcome)
}

/// Takes the outcomes over into the records.
pub(super) fn settle(state: &mut super::progress::State, outcomes: &[(String, Outcome)], now: Timestamp) {
    for (id, outcome) in latest(outcomes) {
        if let Some(entry) = state.get_mut(id) {
            entry.record = entry.record.after(outcome, now);
        }
    }
}

/// Returns what the handlers that finished well have returned.
pub(super) fn results(outcomes: &[(String, Outcome)]) -> Vec<(String, Value)> {
    let delivered = |(id, outcome): &(String, Outcome)| {
        let result = outcome.result.clone().filter(|result| outcome.error.is_none() && !result.is_null())?;
        Some((id.clone(), result))
    };
    latest(outcomes).filter_map(delivered).collect()
}

/// The essence is stored even if the differences are none but a null against an absent key.
fn essence_to_store(change: &Change) -> Option<Value> {
    let new = change.new.as_ref()?;
    let is_stored = change.old.as_ref().is_some_and(|old| equality::equal(old, new));
    (!is_stored).then(|| new.clone())
}
