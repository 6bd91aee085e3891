//! Counts what one revision of an operator does while a trial compares it with another one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::handling::trial::SideCounts;
use crate::handling::{Handler, On, Outcome, Verdict};
use crate::object::{Body, ObjectKey};
use crate::script::Returned;

use super::events::{EngineEvent, EventSink};

/// An attempt that is repeated sooner counts like one that has ended: an object that is written without a pause is in a
/// loop.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The sink of a revision's events that counts them, from its beginning to its end.
#[derive(Debug, Default)]
pub struct Tally {
    /// Read without a lock: usually there is no trial.
    is_counting: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    counts: SideCounts,
    /// The calls that have begun since the beginning, by object and handler, and whether they are those of daemons.
    running: HashMap<(String, String), (Instant, bool)>,
    /// The returned calls that are not judged yet, and whether their sub-handlers are unfinished.
    returned: HashMap<(String, String), bool>,
    /// Hashes of the objects whose next write follows from a call.
    concluded: HashSet<u64>,
    /// Hashes of the written objects.
    written: HashSet<u64>,
}

impl Tally {
    /// Begins to count from nothing.
    pub fn begin(&self) {
        *self.state.lock() = State::default();
        self.is_counting.store(true, Ordering::Release);
    }

    /// Ends the counting, and forgets the counts.
    pub fn end(&self) {
        self.is_counting.store(false, Ordering::Release);
        *self.state.lock() = State::default();
    }

    /// Returns the counts.
    pub fn counts(&self) -> SideCounts {
        let state = self.state.lock();
        let mut running: BTreeMap<String, Vec<Duration>> = BTreeMap::new();
        for ((_, handler), (began, _)) in state.running.iter().filter(|(_, (_, is_daemon))| !is_daemon) {
            running.entry(handler.clone()).or_default().push(began.elapsed());
        }
        SideCounts { written: state.written.len() as u64, running, ..state.counts.clone() }
    }
}

impl EventSink for Tally {
    fn accept(&self, event: &EngineEvent<'_>) {
        if !self.is_counting.load(Ordering::Acquire) {
            return;
        }
        match *event {
            EngineEvent::HandlerCalled { body, handler, .. } => {
                self.state.lock().running.insert(key(body, handler), (Instant::now(), handler.on == On::Daemon));
            }
            EngineEvent::HandlerReturned { body, handler, returned, .. } => {
                self.state.lock().returned(body, handler, returned);
            }
            EngineEvent::AttemptJudged { body, handler, outcome, .. } => {
                self.state.lock().judged(body, handler, outcome);
            }
            EngineEvent::PatchSent { body, version, .. } => self.state.lock().sent(body, version.is_some()),
            EngineEvent::CycleEnded { body, error, .. } => self.state.lock().cycled(body, error.is_some()),
            _ => {}
        }
    }
}

impl State {
    fn returned(&mut self, body: &Body, handler: &Handler, returned: &Returned) {
        // A call that began before the trial had the code of another revision.
        let Some((began, _)) = self.running.remove(&key(body, handler)) else { return };
        if returned.is_cancelled {
            return;
        }
        let has_failed =
            matches!(returned.verdict, Verdict::Failed { .. } | Verdict::Permanent { .. } | Verdict::Rejected { .. });
        self.counts.calls += 1;
        self.counts.errors += u64::from(has_failed);
        // A daemon runs as long as its object.
        if handler.on != On::Daemon {
            self.counts.times.entry(handler.id.clone()).or_default().add(began.elapsed());
        }
        if handler.on == On::Event {
            self.concluded.insert(hash(body));
        } else {
            let is_unfinished = matches!(returned.verdict, Verdict::Unfinished { .. });
            self.returned.insert(key(body, handler), is_unfinished);
        }
    }

    fn judged(&mut self, body: &Body, handler: &Handler, outcome: &Outcome) {
        let returned = self.returned.remove(&key(body, handler));
        // Without a call, a limit was reached: the attempts before were not counted as errors, if they were temporary.
        if returned.is_none() && outcome.is_final && outcome.error.is_some() {
            self.counts.calls += 1;
            self.counts.errors += 1;
        }
        let is_at_once = outcome.delay.unwrap_or_default() < MIN_PAUSE && returned != Some(true);
        if outcome.is_final || is_at_once {
            self.concluded.insert(hash(body));
        }
    }

    /// Counts a change of an object after a call. Others are finalizers, wake-ups, and notes that an attempt is
    /// repeated.
    fn sent(&mut self, body: &Body, has_changed: bool) {
        let object = hash(body);
        if self.concluded.remove(&object) && has_changed {
            self.counts.writes += 1;
            self.written.insert(object);
        }
    }

    fn cycled(&mut self, body: &Body, has_failed: bool) {
        self.concluded.remove(&hash(body));
        self.counts.calls += u64::from(has_failed);
        self.counts.errors += u64::from(has_failed);
    }
}

fn uid(body: &Body) -> String {
    body.uid().map_or_else(|| ObjectKey::of(body).uid, str::to_owned)
}

fn key(body: &Body, handler: &Handler) -> (String, String) {
    (uid(body), handler.id.clone())
}

fn hash(body: &Body) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid(body).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::handling::trial::CallTimes;
    use crate::object::Patch;

    struct Scene {
        tally: Tally,
        body: Body,
        handler: Handler,
    }

    impl Scene {
        fn of(on: On) -> Self {
            let tally = Tally::default();
            tally.begin();
            let body = Body::from(json!({"metadata": {"name": "a", "uid": "1"}}));
            Self { tally, body, handler: Handler::simple("made", on) }
        }

        fn called(&self) {
            self.tally.accept(&EngineEvent::HandlerCalled {
                body: &self.body,
                handler: &self.handler,
                reason: None,
                retry: 0,
            });
        }

        fn returned(&self, verdict: Verdict) {
            let returned = &Returned::new(verdict, Patch::default());
            self.tally.accept(&EngineEvent::HandlerReturned {
                body: &self.body,
                handler: &self.handler,
                reason: None,
                retry: 0,
                returned,
            });
        }

        fn judged(&self, outcome: &Outcome) {
            self.tally.accept(&EngineEvent::AttemptJudged {
                body: &self.body,
                handler: &self.handler,
                retry: 0,
                outcome,
            });
        }

        fn sent(&self, version: Option<&str>) {
            self.tally.accept(&EngineEvent::PatchSent { body: &self.body, patch: &Patch::default(), version });
        }

        /// Returns calls, errors, writes, and written objects.
        fn counts(&self) -> [u64; 4] {
            let counts = self.tally.counts();
            [counts.calls, counts.errors, counts.writes, counts.written]
        }
    }

    fn failed() -> Verdict {
        Verdict::Failed { text: "x".to_owned(), representation: "x".to_owned(), trace: None }
    }

    fn done() -> Outcome {
        Outcome { is_final: true, ..Outcome::default() }
    }

    fn gave_up() -> Outcome {
        Outcome { error: Some("x".to_owned()), ..done() }
    }

    fn retried(seconds: u64) -> Outcome {
        Outcome { delay: Some(Duration::from_secs(seconds)), error: Some("x".to_owned()), ..Outcome::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn calls_are_counted_with_their_errors_and_times() {
        let scene = Scene::of(On::Create);
        scene.called();
        tokio::time::sleep(Duration::from_secs(2)).await;
        scene.returned(failed());
        scene.judged(&retried(60));
        scene.called();
        scene.returned(Verdict::Returned(None));
        scene.judged(&done());
        assert_eq!(scene.counts(), [2, 1, 0, 0]);
        let (total, longest) = (Duration::from_secs(2), Duration::from_secs(2));
        assert_eq!(scene.tally.counts().times["made"], CallTimes { calls: 2, total, longest });
        assert!(scene.tally.counts().running.is_empty());
        scene.called();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(scene.tally.counts().running["made"], [Duration::from_secs(3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_temporary_error_is_a_failure_only_if_no_attempt_is_left() {
        let scene = Scene::of(On::Create);
        for _ in 0..3 {
            scene.called();
            scene.returned(Verdict::Temporary { text: None, delay: None });
            scene.judged(&retried(60));
        }
        assert_eq!(scene.counts(), [3, 0, 0, 0]);
        scene.judged(&gave_up());
        assert_eq!(scene.counts(), [4, 1, 0, 0]);
        scene.called();
        scene.returned(Verdict::Permanent { text: "x".to_owned() });
        scene.judged(&gave_up());
        assert_eq!(scene.counts(), [5, 2, 0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_changes_after_a_call_that_has_ended_are_writes() {
        let scene = Scene::of(On::Create);
        scene.sent(Some("1"));
        assert_eq!(scene.counts(), [0; 4], "a finalizer");
        scene.called();
        scene.returned(failed());
        scene.judged(&retried(60));
        scene.sent(Some("2"));
        scene.sent(Some("3"));
        assert_eq!(scene.counts(), [1, 1, 0, 0], "the attempt is repeated, and the object was touched");
        scene.judged(&done());
        scene.sent(None);
        scene.sent(Some("4"));
        assert_eq!(scene.counts(), [1, 1, 0, 0], "nothing was changed by the call");
        scene.judged(&done());
        scene.tally.accept(&EngineEvent::CycleEnded { uid: "1", body: &scene.body, error: None });
        scene.sent(Some("4"));
        assert_eq!(scene.counts(), [1, 1, 0, 0], "the call has changed nothing");
        for version in ["4", "5"] {
            scene.judged(&done());
            scene.sent(Some(version));
        }
        assert_eq!(scene.counts(), [1, 1, 2, 1]);
        scene.judged(&retried(0));
        scene.sent(Some("6"));
        assert_eq!(scene.counts(), [1, 1, 3, 1], "it is repeated at once");
        scene.called();
        scene.returned(Verdict::Unfinished { delay: Duration::ZERO });
        scene.judged(&retried(0));
        scene.sent(Some("7"));
        assert_eq!(scene.counts(), [2, 1, 3, 1], "its sub-handlers go on");
        let event = Scene::of(On::Event);
        event.called();
        event.returned(Verdict::Returned(None));
        event.sent(Some("1"));
        assert_eq!(event.counts(), [1, 0, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_another_time_are_not_counted_and_daemons_have_no_time() {
        let scene = Scene::of(On::Daemon);
        scene.tally.end();
        scene.called();
        scene.tally.begin();
        scene.returned(failed());
        assert_eq!(scene.counts(), [0; 4]);
        scene.called();
        scene.returned(failed());
        scene.called();
        let counts = scene.tally.counts();
        assert_eq!((scene.counts(), counts.times.len(), counts.running.len()), ([1, 1, 0, 0], 0, 0));
        scene.tally.end();
        assert_eq!(scene.counts(), [0; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cycle_that_fails_outside_of_calls_is_a_failure() {
        let scene = Scene::of(On::Create);
        let ended = |error| scene.tally.accept(&EngineEvent::CycleEnded { uid: "1", body: &scene.body, error });
        ended(None);
        ended(Some("the filter fails"));
        assert_eq!(scene.counts(), [1, 1, 0, 0]);
    }
}
