//! The recent cycles of an object: which events are those of the operator's own writes, and what the breaker makes of them.
//!
//! `handling::breaker` decides; the worker waits.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::cluster::PartialMetadata;
use crate::handling::breaker::{Breaker, Cycle, Effect, OWN_DELAY, Report, Threshold, Trigger, Why};
use crate::manifest::settings;
use crate::object::patch::{Condition, condition};
use crate::object::{Body, EventKind, Transform};
use crate::persistence::essence;

use super::cycle::{Ended, Notes, Served};
use super::mailbox::Event;

/// How many versions of own writes are remembered: a cycle sends up to four requests, and a script may send more.
const MAX_VERSIONS: usize = 64;

/// The reasons of the condition.
const SELF_TRIGGERED: &str = "SelfTriggered";
const RECOVERED: &str = "Recovered";

/// The recent cycles of one object. Objects that are at rest have none.
#[derive(Debug, Clone, Default)]
pub struct RecentCycles(Option<Box<State>>);

#[derive(Debug, Clone, Default)]
struct State {
    /// The versions that resulted from own writes, and whose events were not seen yet.
    versions: VecDeque<String>,
    breaker: Breaker,
    /// A digest of what handlers may react to, in the last seen state of the object.
    seen: Option<u64>,
    /// The revision of the operator that has run the cycles.
    revision: u32,
}

impl RecentCycles {
    /// Tells whether something has to be remembered.
    pub fn is_needed(&self) -> bool {
        self.0.as_ref().is_some_and(|state| !state.versions.is_empty() || !state.breaker.is_idle())
    }

    /// Returns the breaker, if there were cycles.
    pub fn breaker(&self) -> Option<&Breaker> {
        self.0.as_ref().map(|state| &state.breaker)
    }

    /// Records that a cycle begins, and returns what has triggered it.
    pub fn begin(&mut self, begun: &Begun<'_>, threshold: Threshold, now: Timestamp) -> (Trigger, Option<Report>) {
        let Some(state) = &mut self.0 else { return (Trigger::Other, None) };
        if state.revision != begun.revision {
            let report = state.breaker.reset(Why::Reloaded);
            self.0 = None;
            return (Trigger::Other, report);
        }
        let is_own = state.take(begun.body.resource_version());
        let seen = (!state.breaker.is_idle()).then(|| digest(begun.served, begun.body));
        let is_changed = seen.is_some() && state.seen.is_some() && seen != state.seen;
        let trigger = match (begun.event_kind, is_own) {
            (EventKind::Modified, true) => Trigger::OwnWrite,
            (_, false) if is_changed => Trigger::Change,
            _ => Trigger::Other,
        };
        state.seen = seen;
        (trigger, state.breaker.begin(trigger, threshold, now))
    }

    /// Records the end of a cycle. `is_last` tells whether no further event is queued.
    pub fn end(&mut self, begun: &Begun<'_>, trigger: Trigger, ended: Ran<'_>, threshold: Threshold, now: Timestamp) -> Option<Report> {
        let Ran { ended, versions, is_last } = ended;
        let seen = begun.body.resource_version();
        let is_new = |version: &&String| Some(version.as_str()) != seen;
        // Without an echo, the events of the writes begin further cycles.
        let versions: Vec<&String> = ended.notes.versions.iter().chain(versions).filter(is_new).collect();
        if self.0.is_none() && (versions.is_empty() || ended.echo.is_some()) {
            return None;
        }
        let state = self.0.get_or_insert_default();
        state.revision = begun.revision;
        let has_written = !versions.is_empty();
        if ended.echo.is_none() {
            versions.into_iter().for_each(|version| state.note(version));
        }
        let is_at_rest = is_last && state.versions.is_empty();
        let effect = effect(ended, has_written, is_at_rest);
        if effect == Effect::Rest {
            state.versions.clear();
        }
        let Notes { handlers, fields, .. } = &ended.notes;
        let cycle = Cycle { trigger, effect, handlers: handlers.clone(), fields: fields.clone() };
        let report = state.breaker.end(cycle, threshold, now);
        if state.seen.is_none() && !state.breaker.is_idle() {
            state.seen = Some(digest(begun.served, begun.body));
        }
        report
    }

    /// Records the versions of a write beside the cycles.
    pub fn note(&mut self, versions: &[String]) {
        if let Some(state) = &mut self.0 {
            versions.iter().for_each(|version| state.note(version));
        }
    }

    /// Tells whether an event must be handled at once: it is not that of an own write.
    pub fn is_urgent(&self, event: &Event) -> bool {
        let Some(state) = self.0.as_ref().filter(|_| event.event_kind == EventKind::Modified) else { return true };
        let head = PartialMetadata::of(&event.raw).unwrap_or_default();
        head.resource_version().is_none_or(|version| !state.versions.iter().any(|own| own == version))
    }

    /// Returns the condition that the object lacks, or has without a reason.
    pub fn due_condition(&self, settings: &settings::Breaker, body: &Body, now: Timestamp) -> Option<Condition> {
        let name = settings.condition.as_ref()?;
        let found = condition(body, name);
        let text = |key: &str| found.and_then(|found| found.get(key)).and_then(Value::as_str);
        let is_true = text("status") == Some("True");
        let (holds, reason, message) = match self.breaker().and_then(Breaker::slowed) {
            Some(slowed) => (true, SELF_TRIGGERED, slowed.describe()),
            None => (false, RECOVERED, "the object does not trigger itself any more".to_owned()),
        };
        let is_shown = if holds { is_true && text("message") == Some(&message) } else { !is_true };
        let now = now.round(jiff::Unit::Second).unwrap_or(now).to_string();
        (!is_shown).then(|| Condition { name: name.clone(), is_true: holds, reason: reason.to_owned(), message, now })
    }
}

/// The begin of a cycle.
#[derive(Clone, Copy)]
pub struct Begun<'a> {
    /// How the event was received.
    pub event_kind: EventKind,
    /// The object.
    pub body: &'a Body,
    /// The kind.
    pub served: &'a Served,
    /// The revision of the operator.
    pub revision: u32,
}

/// A cycle that has run.
#[derive(Clone, Copy)]
pub struct Ran<'a> {
    /// Its end.
    pub ended: &'a Ended,
    /// The versions of its patches.
    pub versions: &'a [String],
    /// Whether no further event is queued.
    pub is_last: bool,
}

impl State {
    /// Returns whether a version is that of an own write. Earlier ones are forgotten with it: their events were skipped by the server.
    fn take(&mut self, version: Option<&str>) -> bool {
        let place = self.versions.iter().position(|own| Some(own.as_str()) == version);
        if let Some(place) = place {
            self.versions.drain(..=place);
        }
        place.is_some()
    }

    fn note(&mut self, version: &str) {
        if !self.versions.iter().any(|own| own == version) {
            if self.versions.len() >= MAX_VERSIONS {
                self.versions.pop_front();
            }
            self.versions.push_back(version.to_owned());
        }
    }
}

/// Returns what a cycle has done.
fn effect(ended: &Ended, has_written: bool, is_at_rest: bool) -> Effect {
    let notes = &ended.notes;
    if ended.echo.is_some() {
        // No handler reacts to its patch.
        return Effect::Rest;
    }
    if !has_written {
        let is_over = is_at_rest && notes.delay.is_none() && !notes.is_postponed;
        return if is_over { Effect::Rest } else { Effect::Advance };
    }
    let has_changed = !notes.fields.is_empty() || !notes.versions.is_empty();
    let is_again = match (notes.has_called, ended.handled) {
        _ if notes.have_events_written => true,
        (false, _) => false,
        (true, true) => has_changed,
        (true, false) => !notes.has_advanced && notes.delay.unwrap_or_default() < OWN_DELAY,
    };
    if is_again { Effect::Again } else { Effect::Advance }
}

/// Returns a digest of what handlers may react to.
fn digest(served: &Served, body: &Body) -> u64 {
    let mut hasher = DefaultHasher::new();
    // An object whose essence cannot be read has failed before.
    let new = essence::change(&served.storages, body, &served.extra_fields).ok().and_then(|change| change.new);
    new.map(|new| new.to_string()).hash(&mut hasher);
    body.is_deleting().hash(&mut hasher);
    hasher.finish()
}

/// Returns the function that sets a condition.
pub fn setting(condition: Condition) -> Transform {
    Transform::SetCondition(Arc::new(condition))
}
