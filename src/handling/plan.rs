//! The plan of one cycle: which handlers take part, and which of them are called.

use jiff::Timestamp;

use crate::object::Body;

use super::cause::{Cause, Reason};
use super::filter::{Predicates, Unsettled, View};
use super::handler::Handler;
use super::lifecycle::Lifecycle;
use super::lists::ChangingHandlers;
use super::message::Message;
use super::progress::{BrokenRecord, Records, State};
use super::select;

/// Everything that the plan of a cycle depends on.
pub(crate) struct Situation<'a> {
    /// The change handlers of the kind, regardless of their filters.
    pub handlers: &'a ChangingHandlers,
    /// The object.
    pub body: &'a Body,
    /// The reason why it is handled.
    pub cause: &'a Cause,
    /// The records on the object.
    pub records: &'a dyn Records,
    /// Which of the ready handlers run in this cycle.
    pub lifecycle: Lifecycle,
    /// The current time.
    pub now: Timestamp,
}

/// The plan of one cycle.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The reason of the cycle.
    pub reason: Reason,
    /// The handlers that take part.
    pub selected: Vec<&'a Handler>,
    /// The selected handlers to call now, in order.
    pub run: Vec<&'a Handler>,
    /// The records of all current and earlier handlers.
    pub state: State,
    /// The ids of records of a superseded cause, purged before anything is stored.
    pub superseded: Vec<String>,
    /// The messages to log before the calls.
    pub messages: Vec<Message>,
}

/// The reason why there is no plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Obstacle {
    /// Expressions must be evaluated first, or the object is malformed.
    Unsettled(Unsettled),
    /// A record on the object cannot be read.
    Broken(BrokenRecord),
}

impl From<Unsettled> for Obstacle {
    fn from(unsettled: Unsettled) -> Self {
        Self::Unsettled(unsettled)
    }
}

impl From<BrokenRecord> for Obstacle {
    fn from(broken: BrokenRecord) -> Self {
        Self::Broken(broken)
    }
}

/// Returns the plan for a cause with handlers.
///
/// # Errors
/// If expressions must be evaluated first, or a record on the object cannot be read.
pub(crate) fn plan<'a>(
    situation: &Situation<'a>,
    predicates: &dyn Predicates,
    random_below: &mut dyn FnMut(usize) -> usize,
) -> Result<Plan<'a>, Obstacle> {
    let Situation { body, cause, records, now, .. } = *situation;
    let view = View { body, change: Some(&cause.change) };
    let selected = select::changing(situation.handlers, cause, view, predicates)?;
    let mut state = State::default();
    for handler in situation.handlers.iter() {
        state.load(&handler.id, records)?;
    }
    for handler in &selected {
        state.activate(&handler.id, now, Some(cause.reason));
    }
    let (superseded, messages) = supersede(&mut state, &selected, situation);
    let run = choose(situation.lifecycle, &selected, &state, now, random_below);
    Ok(Plan { reason: cause.reason, selected, run, state, superseded, messages })
}

/// Returns the selected handlers to call now.
pub(super) fn choose<'a>(
    lifecycle: Lifecycle,
    selected: &[&'a Handler],
    state: &State,
    now: Timestamp,
    random_below: &mut dyn FnMut(usize) -> usize,
) -> Vec<&'a Handler> {
    let is_awake = |handler: &&&Handler| state.get(&handler.id).is_some_and(|entry| entry.record.is_awake(now));
    let ready: Vec<&Handler> = selected.iter().filter(is_awake).copied().collect();
    lifecycle.choose(ready, |handler| &handler.id, state, random_below)
}

/// Moves the selected handlers' records of other reasons to this one; other records of those reasons are purged.
fn supersede(state: &mut State, selected: &[&Handler], situation: &Situation<'_>) -> (Vec<String>, Vec<Message>) {
    let reason = situation.cause.reason;
    let is_foreign = |purpose: Option<Reason>| purpose.is_some_and(|purpose| purpose != reason);
    let mut foreign: Vec<Reason> =
        state.iter().filter_map(|entry| entry.record.purpose).filter(|purpose| *purpose != reason).collect();
    foreign.sort();
    foreign.dedup();
    let mut messages = Vec::new();
    for purpose in foreign {
        let counts = state.counts(|counted| counted == Some(purpose));
        let title = purpose.capitalised_title();
        messages.push(Message::info(format!(
            "{title} is superseded by {}: {counts}; {} left to the moment.",
            reason.title(),
            counts.left
        )));
    }
    if !messages.is_empty() {
        for handler in selected {
            if let Some(entry) = state.get_mut(&handler.id) {
                entry.record.purpose = Some(reason);
            }
        }
    }
    let is_left = state.iter().any(|entry| is_foreign(entry.record.purpose));
    let owned = || situation.handlers.iter().map(|handler| handler.id.clone());
    let superseded = if is_left { owned().chain(state.all_ids().map(str::to_owned)).collect() } else { Vec::new() };
    (superseded, messages)
}
