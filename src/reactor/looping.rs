//! The recent cycles of an object: recognises the events of the operator's own writes, and passes them to the breaker.
//!
//! `handling::breaker` decides; the worker waits.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::handling::breaker::{Breaker, Cycle, Effect, OWN_DELAY, Report, Threshold, Trigger, Why};
use crate::manifest::settings;
use crate::object::patch::{Condition, condition};
use crate::object::{Body, EventKind, Transform};
use crate::persistence::essence;
use crate::wire::PartialMetadata;

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

    /// Records that a cycle begins, and returns its trigger.
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

    /// Records the end of a cycle. With `is_last`, no further event is queued.
    pub fn end(
        &mut self,
        begun: &Begun<'_>,
        trigger: Trigger,
        ended: Ran<'_>,
        threshold: Threshold,
        now: Timestamp,
    ) -> Option<Report> {
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
            for version in versions {
                state.note(version);
            }
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
            for version in versions {
                state.note(version);
            }
        }
    }

    /// Tells whether an event must be handled at once: it is not that of an own write.
    pub fn is_urgent(&self, event: &Event) -> bool {
        // Objects that touch each other would never pause.
        if event.event_kind == EventKind::Touched {
            return false;
        }
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
    /// The kind of the event.
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
    /// Returns whether a version is that of an own write. Earlier ones are forgotten with it: their events were skipped
    /// by the server.
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

/// Returns the effect of a cycle.
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
pub(crate) fn setting(condition: Condition) -> Transform {
    Transform::SetCondition(Arc::new(condition))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::handling::Lifecycle;
    use crate::reactor::cycle::Sent;

    const THRESHOLD: Threshold =
        Threshold { cycles: 2, period: Duration::from_mins(1), max_delay: Duration::from_mins(1) };

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn object(version: u32, rest: &Value) -> Body {
        let mut object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": version.to_string()}});
        for (key, value) in rest.as_object().unwrap() {
            match key.as_str() {
                "deleted" => object["metadata"]["deletionTimestamp"] = value.clone(),
                _ => object[key] = value.clone(),
            }
        }
        Body::from(object)
    }

    fn served() -> Served {
        Served::new(Arc::default(), &[], Arc::default(), Lifecycle::default(), Duration::ZERO)
    }

    /// A handler whose first attempt changes the object to its next version.
    fn again() -> Ended {
        let notes = Notes {
            has_called: true,
            handlers: vec!["made".to_owned()],
            fields: vec!["spec.n".to_owned()],
            ..Notes::default()
        };
        Ended { handled: true, result: Ok(Sent::default()), echo: None, notes }
    }

    struct Scene {
        recent: RecentCycles,
        served: Served,
        revision: u32,
    }

    impl Scene {
        fn new() -> Self {
            Self { recent: RecentCycles::default(), served: served(), revision: 1 }
        }

        /// An object that was changed by its own handler this often, up to this version.
        fn looping(cycles: u32) -> Self {
            let mut scene = Self::new();
            for version in 1..=cycles {
                scene.cycle(&object(version, &json!({"spec": {"n": version}})), again(), &[version + 1]);
            }
            scene
        }

        fn cycle(&mut self, body: &Body, ended: Ended, versions: &[u32]) -> (Trigger, Vec<Report>) {
            let begun = Begun { event_kind: EventKind::Modified, body, served: &self.served, revision: self.revision };
            let (trigger, began) = self.recent.begin(&begun, THRESHOLD, now());
            let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
            let ran = Ran { ended: &ended, versions: &versions, is_last: true };
            let report = self.recent.end(&begun, trigger, ran, THRESHOLD, now());
            (trigger, began.into_iter().chain(report).collect())
        }
    }

    #[test]
    fn cycles_that_begin_with_own_writes_count() {
        let mut scene = Scene::new();
        let first = scene.cycle(&object(1, &json!({})), again(), &[2]);
        assert_eq!(first, (Trigger::Other, Vec::new()));
        for version in 2..4 {
            assert_eq!(
                scene.cycle(&object(version, &json!({})), again(), &[version + 1]),
                (Trigger::OwnWrite, Vec::new())
            );
        }
        let (trigger, reports) = scene.cycle(&object(4, &json!({})), again(), &[5]);
        assert_eq!(trigger, Trigger::OwnWrite);
        assert!(
            matches!(&reports[..], [Report::Began(found)] if found.handlers == ["made"] && found.fields == ["spec.n"]),
            "{reports:?}"
        );
    }

    #[test]
    fn changes_by_others_are_those_of_the_essence_and_deletions() {
        let own = json!({"spec": {"n": 4}});
        let others = [
            (json!({"spec": {"n": 5}}), Trigger::Change),
            (json!({"spec": {"n": 4}, "deleted": "now"}), Trigger::Change),
            (json!({"spec": {"n": 4}, "status": {"x": 1}}), Trigger::Other),
        ];
        for (other, expected) in others {
            let mut scene = Scene::looping(4);
            assert_eq!(
                scene.cycle(&object(5, &own), Ended { notes: Notes::default(), ..again() }, &[6]).0,
                Trigger::OwnWrite
            );
            let (trigger, reports) = scene.cycle(&object(7, &other), again(), &[8]);
            assert_eq!(trigger, expected, "{other}");
            assert_eq!(reports.contains(&Report::Ended(Why::Changed)), expected == Trigger::Change);
        }
    }

    #[test]
    fn an_object_at_rest_needs_no_memory() {
        let mut scene = Scene::looping(4);
        let idle = || Ended { handled: false, notes: Notes::default(), ..again() };
        assert_eq!(scene.cycle(&object(5, &json!({})), idle(), &[]).1, [Report::Ended(Why::Rested)]);
        assert!(!scene.recent.is_needed());
        // A patch that changes nothing has the version of the event.
        let mut scene = Scene::new();
        scene.cycle(&object(1, &json!({})), again(), &[1]);
        assert!(!scene.recent.is_needed());
    }

    #[test]
    fn a_new_revision_of_the_operator_starts_anew() {
        let mut scene = Scene::looping(4);
        scene.revision += 1;
        assert_eq!(
            scene.cycle(&object(5, &json!({})), again(), &[6]),
            (Trigger::Other, vec![Report::Ended(Why::Reloaded)])
        );
    }

    #[test]
    fn only_events_of_own_writes_can_wait() {
        let scene = Scene::looping(1);
        let urgent = |event_kind, version| {
            scene.recent.is_urgent(&Event::new(event_kind, object(version, &json!({})).to_string()))
        };
        assert!(!urgent(EventKind::Modified, 2));
        assert!(urgent(EventKind::Modified, 3));
        assert!(urgent(EventKind::Deleted, 2) && urgent(EventKind::Revisited, 2) && urgent(EventKind::Listed, 2));
    }

    #[test]
    fn cycles_that_make_progress_or_wait_do_not_repeat_themselves() {
        let tenth = Duration::from_millis(100);
        let called = || Notes { has_called: true, ..Notes::default() };
        let notes = [
            (true, Notes { fields: vec!["spec.n".to_owned()], ..called() }, Effect::Again),
            (true, called(), Effect::Advance),
            (false, called(), Effect::Again),
            (false, Notes { has_advanced: true, ..called() }, Effect::Advance),
            (false, Notes { delay: Some(tenth), ..called() }, Effect::Advance),
            (false, Notes { delay: Some(tenth / 2), ..called() }, Effect::Again),
            (false, Notes::default(), Effect::Advance),
            (false, Notes { have_events_written: true, has_advanced: true, ..called() }, Effect::Again),
        ];
        for (handled, notes, expected) in notes {
            let text = format!("{notes:?}");
            assert_eq!(effect(&Ended { handled, notes, ..again() }, true, false), expected, "{text}");
        }
        let idle = |notes| Ended { handled: false, notes, ..again() };
        assert_eq!(effect(&idle(Notes::default()), false, true), Effect::Rest);
        assert_eq!(effect(&idle(Notes::default()), false, false), Effect::Advance);
        assert_eq!(effect(&idle(Notes { delay: Some(tenth), ..Notes::default() }), false, true), Effect::Advance);
        assert_eq!(effect(&idle(Notes { is_postponed: true, ..Notes::default() }), false, true), Effect::Advance);
    }

    #[test]
    fn the_condition_shows_whether_the_object_is_slowed_down() {
        let named = settings::Breaker { condition: Some("Looping".to_owned()), ..settings::Breaker::default() };
        let with = |status: &str, message: &str| {
            object(9, &json!({"status": {"conditions": [{"type": "Looping", "status": status, "message": message}]}}))
        };
        let slowed = Scene::looping(4).recent;
        let due = slowed.due_condition(&named, &object(9, &json!({})), now()).unwrap();
        assert_eq!(
            (due.is_true, due.now.as_str(), due.reason.as_str()),
            (true, "1970-01-01T00:00:00Z", SELF_TRIGGERED)
        );
        assert_eq!(slowed.due_condition(&named, &with("True", &due.message), now()), None);
        assert!(slowed.due_condition(&named, &with("True", "older"), now()).is_some());
        let recovered = RecentCycles::default();
        assert!(recovered.due_condition(&named, &with("True", ""), now()).is_some_and(|due| !due.is_true));
        assert_eq!(recovered.due_condition(&named, &with("False", ""), now()), None);
        assert_eq!(recovered.due_condition(&named, &object(9, &json!({})), now()), None);
        assert_eq!(slowed.due_condition(&settings::Breaker::default(), &object(9, &json!({})), now()), None);
    }
}
