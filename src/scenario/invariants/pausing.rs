//! The rules of pauses: received events and running calls at their beginning go on to their end, and nothing else
//! begins.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::super::timeline::Subject;
use crate::handling::Handler;
use crate::object::Body;

/// How long after the last cycle an operator may take up another queued event.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(1);

/// The operators of the current run, by number.
#[derive(Debug, Default)]
pub(super) struct PauseChecks {
    operators: BTreeMap<usize, Observed>,
}

/// The observed state of one operator.
#[derive(Debug, Default)]
struct Observed {
    paused_at: Option<Timestamp>,
    /// The objects whose cycles have begun and not ended, by unique id.
    cycles: BTreeSet<String>,
    /// When the last cycle has begun or ended.
    active_at: Option<Timestamp>,
}

impl Observed {
    /// Tells whether the operator has been at rest since the beginning of its pause, or since the last queued event.
    fn is_at_rest(&self, now: Timestamp) -> bool {
        let Some(paused_at) = self.paused_at else { return false };
        let active_at = self.active_at.map_or(paused_at, |active_at| active_at.max(paused_at));
        self.cycles.is_empty() && now.duration_since(active_at) > TOLERANCE
    }
}

impl PauseChecks {
    /// Notes that the operator run has ended.
    pub(super) fn run_ended(&mut self) {
        self.operators.clear();
    }

    /// Notes the beginning or the end of a pause.
    pub(super) fn paused(&mut self, operator: usize, is_paused: bool, now: Timestamp) {
        self.operators.entry(operator).or_default().paused_at = is_paused.then_some(now);
    }

    /// Notes the beginning of a cycle. Returns a violation.
    pub(super) fn object_seen(&mut self, operator: usize, body: &Body, now: Timestamp) -> Option<String> {
        let observed = self.operators.entry(operator).or_default();
        let is_violation = observed.is_at_rest(now);
        observed.cycles.insert(body.uid()?.to_owned());
        observed.active_at = Some(now);
        is_violation.then(|| format!("{} was taken up although the operator was paused", Subject::of(body)))
    }

    /// Notes the end of a cycle.
    pub(super) fn cycle_ended(&mut self, operator: usize, body: &Body, now: Timestamp) {
        let observed = self.operators.entry(operator).or_default();
        observed.active_at = Some(now);
        if let Some(uid) = body.uid() {
            observed.cycles.remove(uid);
        }
    }

    /// Notes a call of a timer, daemon or schedule. Returns a violation.
    pub(super) fn task_called(&self, operator: usize, handler: &Handler, now: Timestamp) -> Option<String> {
        let paused_at = self.operators.get(&operator)?.paused_at?;
        let is_violation = now.duration_since(paused_at) > TOLERANCE;
        is_violation.then(|| format!("`{}` was called although the operator was paused", handler.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use serde_json::json;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    fn body(uid: &str) -> Body {
        Body::from(json!({"kind": "Thing", "metadata": {"name": uid, "uid": uid}}))
    }

    #[test]
    fn a_paused_operator_may_end_what_it_has_received_but_take_up_nothing_later() {
        let mut checks = PauseChecks::default();
        assert_eq!(checks.object_seen(0, &body("a"), at(0)), None);
        checks.paused(0, true, at(1));
        checks.cycle_ended(0, &body("a"), at(60));
        assert_eq!(checks.object_seen(0, &body("b"), at(60)), None, "it was queued");
        checks.cycle_ended(0, &body("b"), at(61));
        let violation = checks.object_seen(0, &body("c"), at(63));
        assert_eq!(violation.as_deref(), Some("Thing c was taken up although the operator was paused"));
        assert_eq!(checks.object_seen(1, &body("c"), at(63)), None, "another operator is not paused");
        checks.cycle_ended(0, &body("c"), at(63));
        checks.paused(0, false, at(70));
        assert_eq!(checks.object_seen(0, &body("c"), at(80)), None);
    }

    #[test]
    fn no_timer_is_called_in_a_pause() {
        let mut checks = PauseChecks::default();
        let timer = Handler::simple("tick", On::Timer);
        assert_eq!(checks.task_called(0, &timer, at(0)), None);
        checks.paused(0, true, at(1));
        assert_eq!(checks.task_called(0, &timer, at(2)), None);
        assert!(checks.task_called(0, &timer, at(5)).is_some());
        checks.run_ended();
        assert_eq!(checks.task_called(0, &timer, at(5)), None);
    }
}
