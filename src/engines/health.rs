//! The health of the operators of a process: whether they are ready, and whether a restart of the process would help.
//!
//! Reports come from the watches and from operators that start; `Health::unready` and `Health::dead` judge them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::pause::Pause;

/// A watch without an answer of the server for this time is dead. Servers and networks are repaired in less.
pub(crate) const DEAD_AFTER: Duration = Duration::from_mins(5);

/// Without a turn for this time, the event loop is stuck. No handler occupies it for so long: scripts are interrupted
/// by their limits.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(30);

/// The interval of the turns of the event loop that are recorded.
const BEAT: Duration = Duration::from_secs(1);

/// The health of the operators of a process. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    /// The pause during which the gates and watches of this handle do not count.
    pause: Pause,
}

#[derive(Debug, Default)]
struct State {
    /// Reasons why operators are not ready, by a number.
    gates: BTreeMap<u64, Gate>,
    watches: BTreeMap<u64, Watch>,
    /// Conditions that are reported although the process is ready, by subject.
    notes: BTreeMap<String, String>,
    /// The last recorded turn of the event loop.
    last_beat: Option<Instant>,
    last_number: u64,
}

/// The reason why an operator is not ready.
#[derive(Debug)]
struct Gate {
    reason: String,
    pause: Pause,
}

/// The reports of one watch.
#[derive(Debug)]
struct Watch {
    name: String,
    pause: Pause,
    is_listed: bool,
    trouble: Option<Trouble>,
}

/// The failures of a watch since its last success.
#[derive(Debug)]
struct Trouble {
    since: Instant,
    error: String,
    /// Whether the server refuses the requests: a restart would not change its mind.
    is_refusal: bool,
}

/// Keeps the process from being ready until it is dropped.
#[derive(Debug)]
pub struct ReadinessGate {
    health: Health,
    number: u64,
}

/// The reporter of one watch. Dropping it ends the reports.
#[derive(Debug)]
pub struct WatchReporter {
    health: Health,
    number: u64,
}

impl Health {
    /// Returns a handle whose gates and watches do not count while an operator stands by: it is ready to take over.
    pub fn of_operator(&self, pause: &Pause) -> Self {
        Self { state: Arc::clone(&self.state), pause: pause.clone() }
    }

    /// Makes the process unready for a reason, until the gate is dropped.
    pub fn gate(&self, reason: impl Into<String>) -> ReadinessGate {
        let mut state = self.state.lock();
        let number = state.number();
        state.gates.insert(number, Gate { reason: reason.into(), pause: self.pause.clone() });
        ReadinessGate { health: self.clone(), number }
    }

    /// Replaces the note about a subject, which does not make the process unready; `None` removes it.
    pub fn note(&self, subject: &str, note: Option<String>) {
        let notes = &mut self.state.lock().notes;
        match note {
            Some(note) => drop(notes.insert(subject.to_owned(), note)),
            None => drop(notes.remove(subject)),
        }
    }

    /// Returns the notes.
    pub fn notes(&self) -> Vec<String> {
        self.state.lock().notes.values().cloned().collect()
    }

    /// Returns the reporter of a watch, which has not listed its objects yet.
    pub fn watch(&self, name: impl Into<String>) -> WatchReporter {
        let mut state = self.state.lock();
        let number = state.number();
        state
            .watches
            .insert(number, Watch { name: name.into(), pause: self.pause.clone(), is_listed: false, trouble: None });
        WatchReporter { health: self.clone(), number }
    }

    /// Records the turns of the event loop that runs this future; it never ends.
    pub async fn beat(&self) {
        loop {
            self.state.lock().last_beat = Some(Instant::now());
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Returns the reasons why the process is not ready; none if it is.
    pub fn unready(&self) -> BTreeSet<String> {
        let state = self.state.lock();
        let watches = state.watches.values().filter(|watch| !watch.pause.is_standing_by()).filter_map(|watch| {
            match &watch.trouble {
                Some(trouble) => Some(format!("{} fails: {}", watch.name, trouble.error)),
                None if !watch.is_listed => Some(format!("{} has not listed its objects yet", watch.name)),
                None => None,
            }
        });
        let gates = state.gates.values().filter(|gate| !gate.pause.is_standing_by()).map(|gate| gate.reason.clone());
        gates.chain(watches).collect()
    }

    /// Returns the reasons why the process should be restarted; none if it works.
    pub fn dead(&self) -> BTreeSet<String> {
        let state = self.state.lock();
        let stuck = state.last_beat.map(|at| at.elapsed()).filter(|age| *age > STUCK_AFTER);
        let stuck = stuck.map(|age| format!("the event loop has been stuck for {} seconds", age.as_secs()));
        let watches = state.watches.values().filter_map(|watch| {
            let trouble =
                watch.trouble.as_ref().filter(|trouble| !trouble.is_refusal && trouble.since.elapsed() > DEAD_AFTER)?;
            Some(format!(
                "{} has been dead for {} seconds: {}",
                watch.name,
                trouble.since.elapsed().as_secs(),
                trouble.error
            ))
        });
        stuck.into_iter().chain(watches).collect()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Drop for ReadinessGate {
    fn drop(&mut self) {
        self.health.state.lock().gates.remove(&self.number);
    }
}

impl WatchReporter {
    /// Records that all objects were listed.
    pub fn listed(&self) {
        self.change(|watch| (watch.is_listed, watch.trouble) = (true, None));
    }

    /// Records that a stream of events was opened.
    pub fn opened(&self) {
        self.change(|watch| watch.trouble = None);
    }

    /// Records that the watch is closed, since the operator is paused. It has to list its objects again.
    pub fn paused(&self) {
        self.change(|watch| (watch.is_listed, watch.trouble) = (false, None));
    }

    /// Records a failure. With `is_refusal`, the server has refused the request.
    pub fn failed(&self, error: &str, is_refusal: bool) {
        self.change(|watch| {
            // A refusal lasts as long as permissions are missing: the time of another failure begins after it.
            let earlier = watch.trouble.as_ref().filter(|trouble| trouble.is_refusal == is_refusal);
            let since = earlier.map_or_else(Instant::now, |trouble| trouble.since);
            watch.trouble = Some(Trouble { since, error: error.to_owned(), is_refusal });
        });
    }

    fn change(&self, change: impl FnOnce(&mut Watch)) {
        if let Some(watch) = self.health.state.lock().watches.get_mut(&self.number) {
            change(watch);
        }
    }
}

impl Drop for WatchReporter {
    fn drop(&mut self) {
        self.health.state.lock().watches.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(reasons: BTreeSet<String>) -> Option<String> {
        assert!(reasons.len() < 2, "{reasons:?}");
        reasons.into_iter().next()
    }

    #[tokio::test(start_paused = true)]
    async fn the_process_is_ready_once_all_gates_are_open_and_all_watches_have_listed() {
        let health = Health::default();
        assert_eq!(one(health.unready()), None);
        let gate = health.gate("the operator 'a' is starting");
        assert_eq!(one(health.unready()).as_deref(), Some("the operator 'a' is starting"));
        let watch = health.watch("the watch of pods");
        drop(gate);
        assert_eq!(one(health.unready()).as_deref(), Some("the watch of pods has not listed its objects yet"));
        watch.listed();
        assert_eq!(one(health.unready()), None);
        watch.failed("no route", false);
        assert_eq!(one(health.unready()).as_deref(), Some("the watch of pods fails: no route"));
        watch.opened();
        assert_eq!(one(health.unready()), None);
        drop(health.watch("a watch that has ended"));
        assert_eq!(one(health.unready()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_watch_that_fails_for_long_is_dead_and_no_refusal_is() {
        let health = Health::default();
        let (watch, refused) = (health.watch("the watch of pods"), health.watch("the watch of secrets"));
        watch.failed("no route", false);
        refused.failed("HTTP 403", true);
        tokio::time::sleep(DEAD_AFTER).await;
        watch.failed("still no route", false);
        assert_eq!(one(health.dead()), None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            one(health.dead()).as_deref(),
            Some("the watch of pods has been dead for 301 seconds: still no route")
        );
        watch.listed();
        assert_eq!(one(health.dead()), None);
        refused.failed("HTTP 503", false);
        assert_eq!(one(health.dead()), None, "it has failed for a moment only");
        tokio::time::sleep(DEAD_AFTER + Duration::from_secs(1)).await;
        assert_eq!(one(health.dead()).as_deref(), Some("the watch of secrets has been dead for 301 seconds: HTTP 503"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_loop_without_turns_is_stuck() {
        let health = Health::default();
        tokio::time::sleep(STUCK_AFTER * 2).await;
        assert_eq!(one(health.dead()), None, "no turns are recorded at all");
        let beating = tokio::time::timeout(STUCK_AFTER * 2, health.beat());
        assert!(beating.await.is_err());
        assert_eq!(one(health.dead()), None);
        tokio::time::sleep(STUCK_AFTER + BEAT).await;
        assert_eq!(one(health.dead()).as_deref(), Some("the event loop has been stuck for 31 seconds"));
    }
}
