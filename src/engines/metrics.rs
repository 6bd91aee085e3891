//! Counts the events of an operator.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::handling::{Handler, On, Outcome, Verdict};
use crate::object::{Body, EventKind, ObjectKey};
use crate::telemetry::OperatorMetrics;
use crate::telemetry::metrics::AttemptOutcome;

use super::events::{EngineEvent, EventSink};

/// Stands for the object of calls of schedules.
const SCHEDULES: &str = "schedules";

/// The sink of events that counts them.
pub struct MetricsSink {
    metrics: OperatorMetrics,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When running calls began, by the object's unique id and the handler.
    calls: HashMap<(String, String), Instant>,
    /// The handlers that wait for their next attempt, by the object's unique id.
    waiting: HashMap<String, BTreeSet<String>>,
    /// The number of objects that wait for the next attempt of a handler.
    waiting_by_handler: HashMap<String, usize>,
    /// The number of running calls of each webhook. Several requests for one object may be reviewed at once.
    webhooks: BTreeMap<String, usize>,
    /// The objects that are slowed down, by their unique ids.
    slowed: HashSet<String>,
}

impl MetricsSink {
    /// Returns the sink for an operator.
    pub fn new(metrics: OperatorMetrics) -> Self {
        Self { metrics, state: Mutex::default() }
    }

    /// Returns the number of running calls of each handler that has any.
    pub fn running(&self) -> BTreeMap<String, usize> {
        let state = self.state.lock();
        let mut running = state.webhooks.clone();
        for (_, handler) in state.calls.keys() {
            *running.entry(handler.clone()).or_default() += 1;
        }
        running
    }

    /// Returns the number of objects with a handler that waits for its next attempt.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.len()
    }

    fn began(&self, uid: String, handler: &Handler) {
        let mut state = self.state.lock();
        state.calls.insert((uid.clone(), handler.id.clone()), Instant::now());
        self.changed(&mut state, uid, |waiting| waiting.remove(&handler.id));
    }

    fn ended(&self, uid: String, handler: &Handler) {
        let began = self.state.lock().calls.remove(&(uid, handler.id.clone()));
        if let Some(began) = began {
            self.metrics.call(&handler.id, began.elapsed());
        }
    }

    fn webhook_ended(&self, handler: &Handler) {
        let running = &mut self.state.lock().webhooks;
        if let Some(calls) = running.get_mut(&handler.id) {
            *calls -= 1;
            if *calls == 0 {
                running.remove(&handler.id);
            }
        }
    }

    fn judged(&self, handler: &Handler, retry: u64, outcome: &Outcome) {
        let counted = match (outcome.is_final, &outcome.error) {
            (false, _) => AttemptOutcome::Retried,
            (true, Some(_)) => AttemptOutcome::Failed,
            (true, None) => AttemptOutcome::Succeeded,
        };
        self.metrics.attempt(&handler.id, retry, counted);
    }

    fn gone(&self, uid: String) {
        self.recovered(&uid);
        self.changed(&mut self.state.lock(), uid, |waiting| {
            waiting.clear();
            true
        });
    }

    fn slowed(&self, uid: &str, handlers: &[String]) {
        for handler in handlers {
            self.metrics.looped(handler);
        }
        let mut state = self.state.lock();
        state.slowed.insert(uid.to_owned());
        self.metrics.slowed(state.slowed.len());
    }

    fn recovered(&self, uid: &str) {
        let mut state = self.state.lock();
        if state.slowed.remove(uid) {
            self.metrics.slowed(state.slowed.len());
        }
    }

    /// Changes the handlers of an object that wait, and sets the gauges of those that have begun or ceased to wait.
    fn changed(&self, state: &mut State, uid: String, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        // Most objects never wait.
        let mut waiting = state.waiting.remove(&uid).unwrap_or_default();
        let before = waiting.clone();
        change(&mut waiting);
        for handler in waiting.symmetric_difference(&before) {
            let objects = state.waiting_by_handler.entry(handler.clone()).or_default();
            *objects = if before.contains(handler) { *objects - 1 } else { *objects + 1 };
            self.metrics.waiting(handler, *objects);
        }
        if !waiting.is_empty() {
            state.waiting.insert(uid, waiting);
        }
    }
}

fn uid(body: &Body) -> String {
    body.uid().map_or_else(|| ObjectKey::of(body).uid, str::to_owned)
}

impl EventSink for MetricsSink {
    fn accept(&self, event: &EngineEvent<'_>) {
        match *event {
            EngineEvent::HandlerCalled { body, handler, .. } => self.began(uid(body), handler),
            EngineEvent::HandlerReturned { body, handler, retry, returned, .. } => {
                self.ended(uid(body), handler);
                // Other attempts are judged later; raw events have one attempt.
                if handler.on == On::Event && !returned.is_cancelled {
                    let has_failed = !matches!(returned.verdict, Verdict::Returned(_));
                    self.metrics.attempt(
                        &handler.id,
                        retry,
                        if has_failed { AttemptOutcome::Failed } else { AttemptOutcome::Succeeded },
                    );
                }
            }
            EngineEvent::AttemptJudged { body, handler, retry, outcome } => {
                self.judged(handler, retry, outcome);
                if !outcome.is_final {
                    self.changed(&mut self.state.lock(), uid(body), |waiting| waiting.insert(handler.id.clone()));
                }
            }
            EngineEvent::IndexFunctionJudged { handler, retry, outcome, is_ignored, duration } => {
                if let Some(duration) = duration {
                    self.metrics.call(&handler.id, duration);
                }
                if is_ignored {
                    self.metrics.attempt(&handler.id, retry, AttemptOutcome::Failed);
                } else {
                    self.judged(handler, retry, outcome);
                }
            }
            EngineEvent::ActivityCalled { handler, .. } => self.began(String::new(), handler),
            EngineEvent::ActivityJudged { handler, retry, outcome, .. } => {
                self.ended(String::new(), handler);
                self.judged(handler, retry, outcome);
            }
            EngineEvent::ScheduleCalled { handler, .. } => self.began(SCHEDULES.to_owned(), handler),
            EngineEvent::ScheduleJudged { handler, retry, outcome, .. } => {
                self.ended(SCHEDULES.to_owned(), handler);
                if let Some(outcome) = outcome {
                    self.judged(handler, retry, outcome);
                }
            }
            EngineEvent::WebhookCalled { handler, .. } => {
                *self.state.lock().webhooks.entry(handler.id.clone()).or_default() += 1;
            }
            EngineEvent::WebhookJudged { handler, verdict, duration, .. } => {
                self.metrics.call(&handler.id, duration);
                let has_failed = !matches!(verdict, Verdict::Returned(_));
                self.metrics.attempt(
                    &handler.id,
                    0,
                    if has_failed { AttemptOutcome::Failed } else { AttemptOutcome::Succeeded },
                );
            }
            EngineEvent::WebhookEnded { handler } => self.webhook_ended(handler),
            EngineEvent::ObjectSeen { body, event_kind: EventKind::Deleted, .. } => self.gone(uid(body)),
            EngineEvent::ObjectForgotten { uid } => self.gone(uid.to_owned()),
            EngineEvent::TaskEnded { body, handler, .. } => {
                self.changed(&mut self.state.lock(), uid(body), |waiting| waiting.remove(&handler.id));
            }
            EngineEvent::CycleEnded { error, .. } => self.metrics.cycle(error.is_some()),
            EngineEvent::LoopBegan { uid, handlers } => self.slowed(uid, handlers),
            EngineEvent::LoopEnded { uid } => self.recovered(uid),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::handling::Reason;
    use crate::object::Patch;
    use crate::script::Returned;
    use crate::telemetry::Metrics;

    struct Scene {
        metrics: Metrics,
        sink: MetricsSink,
        handler: Handler,
    }

    impl Scene {
        fn new() -> Self {
            let metrics = Metrics::default();
            let sink = MetricsSink::new(metrics.operator("demo"));
            Self { metrics, sink, handler: Handler::simple("made", On::Create) }
        }

        async fn attempt(&self, uid: &str, retry: u64, outcome: Outcome) {
            let (body, handler, reason) = (body(uid), &self.handler, Some(Reason::Create));
            self.sink.accept(&EngineEvent::HandlerCalled { body: &body, handler, reason, retry });
            tokio::time::sleep(Duration::from_secs(2)).await;
            let returned = &Returned::new(Verdict::Returned(None), Patch::default());
            self.sink.accept(&EngineEvent::HandlerReturned { body: &body, handler, reason, retry, returned });
            self.sink.accept(&EngineEvent::AttemptJudged { body: &body, handler, retry, outcome: &outcome });
        }

        fn shows(&self, line: &str) {
            let text = self.metrics.text();
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }

    fn body(uid: &str) -> Body {
        Body::from(json!({"metadata": {"name": "a", "uid": uid}}))
    }

    fn retried() -> Outcome {
        Outcome { delay: Some(Duration::from_secs(1)), error: Some("x".to_owned()), ..Outcome::default() }
    }

    fn done() -> Outcome {
        Outcome { is_final: true, ..Outcome::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_by_outcome_with_their_durations() {
        let scene = Scene::new();
        scene.attempt("1", 0, retried()).await;
        scene.attempt("1", 1, done()).await;
        scene.attempt("2", 0, Outcome { error: Some("x".to_owned()), ..done() }).await;
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"retried\"} 1");
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"succeeded\"} 1");
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"failed\"} 1");
        scene.shows("kopfd_handler_retries_total{operator=\"demo\",handler=\"made\"} 1");
        scene.shows("kopfd_handler_duration_seconds_sum{operator=\"demo\",handler=\"made\"} 6.0");
        assert!(scene.sink.state.lock().calls.is_empty());
    }

    #[test]
    fn calls_are_running_until_they_return_and_objects_wait_after_a_retry() {
        let scene = Scene::new();
        let (body, handler, reason, retry) = (&body("1"), &scene.handler, Some(Reason::Create), 0);
        scene.sink.accept(&EngineEvent::HandlerCalled { body, handler, reason, retry });
        assert_eq!((scene.sink.running(), scene.sink.waiting()), (BTreeMap::from([("made".to_owned(), 1)]), 0));
        let returned = &Returned::new(Verdict::Returned(None), Patch::default());
        scene.sink.accept(&EngineEvent::HandlerReturned { body, handler, reason, retry, returned });
        scene.sink.accept(&EngineEvent::AttemptJudged { body, handler, retry, outcome: &retried() });
        assert_eq!((scene.sink.running(), scene.sink.waiting()), (BTreeMap::new(), 1));
        assert_eq!(scene.metrics.operator("demo").attempts("made"), [0, 1, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_of_a_timer_or_for_a_raw_event_counts_once() {
        for (on, is_judged) in [(On::Timer, true), (On::Daemon, true), (On::Event, false)] {
            let scene = Scene { handler: Handler::simple("made", on), ..Scene::new() };
            let (body, handler, reason, retry) = (&body("1"), &scene.handler, None, 0);
            scene.sink.accept(&EngineEvent::HandlerCalled { body, handler, reason, retry });
            let returned = &Returned::new(Verdict::Returned(None), Patch::default());
            scene.sink.accept(&EngineEvent::HandlerReturned { body, handler, reason, retry, returned });
            if is_judged {
                scene.sink.accept(&EngineEvent::AttemptJudged { body, handler, retry, outcome: &done() });
            }
            scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"succeeded\"} 1");
        }
    }

    #[test]
    fn calls_of_a_webhook_run_until_they_end_even_if_they_are_not_judged() {
        let scene = Scene { handler: Handler::simple("made", On::Review), ..Scene::new() };
        let (body, handler) = (&body("1"), &scene.handler);
        scene.sink.accept(&EngineEvent::WebhookCalled { body, handler });
        scene.sink.accept(&EngineEvent::WebhookCalled { body, handler });
        let verdict = &Verdict::Rejected { text: "no".to_owned(), code: 403 };
        scene.sink.accept(&EngineEvent::WebhookJudged { body, handler, verdict, duration: Duration::from_secs(1) });
        scene.sink.accept(&EngineEvent::WebhookEnded { handler });
        assert_eq!(scene.sink.running(), BTreeMap::from([("made".to_owned(), 1)]));
        scene.sink.accept(&EngineEvent::WebhookEnded { handler });
        assert_eq!(scene.sink.running(), BTreeMap::new());
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"failed\"} 1");
        scene.shows("kopfd_handler_duration_seconds_sum{operator=\"demo\",handler=\"made\"} 1.0");
    }

    #[test]
    fn attempts_of_index_functions_count_and_ignored_errors_are_failures() {
        let scene = Scene { handler: Handler::simple("made", On::Index), ..Scene::new() };
        let (handler, second) = (&scene.handler, Some(Duration::from_secs(1)));
        let judged = |retry, outcome: Outcome, is_ignored, duration| {
            scene.sink.accept(&EngineEvent::IndexFunctionJudged {
                handler,
                retry,
                outcome: &outcome,
                is_ignored,
                duration,
            });
        };
        judged(0, done(), true, second);
        judged(0, retried(), false, second);
        judged(1, done(), false, second);
        judged(2, Outcome { error: Some("too many".to_owned()), ..done() }, false, None);
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"failed\"} 2");
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"retried\"} 1");
        scene.shows("kopfd_handler_calls_total{operator=\"demo\",handler=\"made\",outcome=\"succeeded\"} 1");
        scene.shows("kopfd_handler_retries_total{operator=\"demo\",handler=\"made\"} 2");
        scene.shows("kopfd_handler_duration_seconds_sum{operator=\"demo\",handler=\"made\"} 3.0");
    }

    #[tokio::test(start_paused = true)]
    async fn objects_wait_for_a_retry_until_the_next_attempt_or_their_deletion() {
        let scene = Scene::new();
        scene.attempt("1", 0, retried()).await;
        scene.attempt("2", 0, retried()).await;
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 2");
        scene.attempt("1", 1, done()).await;
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 1");
        let gone = EngineEvent::ObjectSeen { body: &body("2"), event_kind: EventKind::Deleted, consistency_in: None };
        scene.sink.accept(&gone);
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 0");
        scene.attempt("3", 0, retried()).await;
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 1");
        scene.sink.accept(&EngineEvent::ObjectForgotten { uid: "3" });
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 0");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_waits_for_each_of_its_handlers() {
        let scene = Scene::new();
        scene.attempt("1", 0, retried()).await;
        scene.attempt("2", 0, retried()).await;
        let scene = Scene { handler: Handler::simple("other", On::Create), ..scene };
        scene.attempt("1", 0, retried()).await;
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 2");
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"other\"} 1");
        assert_eq!(scene.sink.waiting(), 2);
        scene.sink.accept(&EngineEvent::ObjectForgotten { uid: "1" });
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 1");
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"other\"} 0");
    }

    #[test]
    fn objects_are_slowed_down_until_they_recover_or_are_gone() {
        let scene = Scene::new();
        let handlers = ["made".to_owned(), "other".to_owned()];
        for uid in ["1", "2", "3"] {
            scene.sink.accept(&EngineEvent::LoopBegan { uid, handlers: &handlers });
        }
        scene.shows("kopfd_objects_slowed_down{operator=\"demo\"} 3");
        scene.shows("kopfd_loops_total{operator=\"demo\",handler=\"other\"} 3");
        scene.sink.accept(&EngineEvent::LoopEnded { uid: "1" });
        scene.sink.accept(&EngineEvent::LoopEnded { uid: "1" });
        scene.shows("kopfd_objects_slowed_down{operator=\"demo\"} 2");
        scene.sink.accept(&EngineEvent::ObjectForgotten { uid: "2" });
        let gone = EngineEvent::ObjectSeen { body: &body("3"), event_kind: EventKind::Deleted, consistency_in: None };
        scene.sink.accept(&gone);
        scene.shows("kopfd_objects_slowed_down{operator=\"demo\"} 0");
        scene.shows("kopfd_loops_total{operator=\"demo\",handler=\"made\"} 3");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_has_ended_waits_for_nothing() {
        let scene = Scene { handler: Handler::simple("made", On::Timer), ..Scene::new() };
        scene.attempt("1", 0, retried()).await;
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 1");
        scene.sink.accept(&EngineEvent::TaskEnded { body: &body("1"), handler: &scene.handler, is_requested: true });
        scene.shows("kopfd_objects_waiting_for_retry{operator=\"demo\",handler=\"made\"} 0");
    }
}
