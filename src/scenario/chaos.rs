//! Random disturbances: failing requests, crashes of the operators, late answers and events. The same seed gives the
//! same disturbances.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::rng::Rng;
use super::timeline::{Event, Timeline};

/// Disturbances of a run: fewer than the attempts of a request.
const MAX_DISTURBANCES: u64 = 8;

/// Crashes of a run.
const MAX_CRASHES: u64 = 3;

/// Minimum time between two disturbances of watches.
const WATCH_DISTURBANCE_INTERVAL: Duration = Duration::from_secs(10);

/// Usual limit of a watch's silence: shorter than the consistency timeout of an operator.
const MAX_STALL: Duration = Duration::from_secs(3);

/// Rare limit of a watch's silence. It exceeds the consistency timeout, after which kopf's rules allow
/// a repeated call.
const LONG_STALL: Duration = Duration::from_secs(20);

/// Limit of an answer's delay after the request was done. The event of a write may arrive before its
/// answer, and a list may be older than a later write.
const MAX_ANSWER_DELAY: Duration = Duration::from_secs(4);

/// Limit of the events that a reopened watch repeats.
const MAX_REPEATED: u64 = 4;

/// Minimum and additional seconds of an outage. It is longer than all attempts of a request.
const OUTAGE_SECONDS: (u64, u64) = (60, 240);

/// Limit of the time until crashed operators are restarted.
const MAX_DOWNTIME: Duration = Duration::from_secs(5);

/// An outage begins within this many writes.
const OUTAGE_WITHIN_WRITES: u64 = 16;

/// Limit of the random delay of every message.
const MAX_JITTER: Duration = Duration::from_millis(40);

/// The disturbance of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnWrite {
    Nothing,
    /// The operators crash before the server receives it.
    CrashBefore,
    /// The operators crash after the server has done it.
    CrashAfter,
    /// The request is lost.
    Lost,
    /// The write is done, but its answer is lost.
    AnswerLost,
    /// Another client writes the object just before.
    Conflict,
    /// The server refuses it with this status.
    Refused(u16),
    /// The write is done, but its answer is late.
    Late(Duration),
}

/// The kind of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Discovery,
    /// A get or list.
    Objects,
    Watch,
}

/// The disturbance of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnRead {
    Nothing,
    /// The request is lost.
    Lost,
    /// The server refuses it with this status.
    Refused(u16),
    /// The resource version has expired.
    Expired,
    /// The watch repeats this many delivered events.
    Repeated(usize),
    /// The answer is late, and its content is outdated.
    Late(Duration),
}

/// The disturbance of a chunk of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnChunk {
    Nothing,
    /// The watch ends before it.
    End,
    /// The connection breaks within it.
    Break,
    /// The server answers that the resource version has expired.
    Expire,
}

/// The disturbances of one run.
pub(super) struct Chaos {
    timeline: Arc<Timeline>,
    state: Mutex<State>,
    crashed: Notify,
}

struct State {
    rng: Rng,
    /// Probability that a request is disturbed, in thousandths.
    rate: u64,
    disturbances_left: u64,
    crashes_left: u64,
    last_watch_disturbance: Option<Instant>,
    /// Writes until the outage begins; `None` if there is none.
    writes_to_outage: Option<u64>,
    outage_until: Option<Instant>,
    /// Paths that the operators have watched, in this or an earlier run.
    watched: BTreeSet<String>,
    has_ended: bool,
}

impl Chaos {
    /// Creates the disturbances of a seed.
    pub(super) fn new(seed: u64, timeline: Arc<Timeline>) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5ce7_a110);
        // Some runs are only reordered, most are disturbed a little, and some at nearly every request.
        let rate = [0, 30, 80, 150, 400][rng.below(5) as usize];
        let writes_to_outage = (rate > 0 && rng.below(4) == 0).then(|| rng.below(OUTAGE_WITHIN_WRITES));
        let state = State {
            rng,
            rate,
            disturbances_left: MAX_DISTURBANCES,
            crashes_left: MAX_CRASHES,
            last_watch_disturbance: None,
            writes_to_outage,
            outage_until: None,
            watched: BTreeSet::new(),
            has_ended: false,
        };
        Self { timeline, state: Mutex::new(state), crashed: Notify::new() }
    }

    /// Ends all disturbances.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        (state.has_ended, state.outage_until, state.writes_to_outage) = (true, None, None);
    }

    /// Tells whether the engine's requests fail because of an outage. Requests of scripts are exempt: their handlers
    /// may run out of attempts in that time.
    pub(super) fn is_outage(&self) -> bool {
        self.state.lock().outage_until.is_some_and(|until| Instant::now() < until)
    }

    /// Notes that the operators watch a path.
    pub(super) fn note_watched(&self, path: &str) {
        let mut state = self.state.lock();
        if !state.watched.contains(path) {
            state.watched.insert(path.to_owned());
        }
    }

    /// Tells whether the operators have watched a path: watchers list it again, and repeat a failed list without a
    /// limit.
    pub(super) fn is_watched(&self, path: &str) -> bool {
        self.state.lock().watched.contains(path)
    }

    /// Counts a write of the engine; an outage may begin with it.
    pub(super) fn count_write(&self) {
        let mut state = self.state.lock();
        match state.writes_to_outage {
            None => {}
            Some(0) => {
                let (least, more) = OUTAGE_SECONDS;
                let seconds = least + state.rng.below(more);
                state.writes_to_outage = None;
                state.outage_until = Some(Instant::now() + Duration::from_secs(seconds));
                drop(state);
                self.record(format!("the server does not answer the engine for {seconds} seconds"));
            }
            Some(left) => state.writes_to_outage = Some(left - 1),
        }
    }

    /// Waits for the next crash.
    pub(super) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Restarts the operators after one has exited.
    pub(super) fn record_exit(&self, why: &str) {
        self.record(format!("the operators have exited: {why}"));
        self.crashed.notify_one();
    }

    /// Crashes the operators. The caller is one of them, so that this never returns.
    pub(super) async fn crash(&self) -> ! {
        self.crashed.notify_one();
        std::future::pending().await
    }

    /// Returns the time until the operators are restarted.
    pub(super) fn downtime(&self) -> Duration {
        self.state.lock().rng.duration_below(MAX_DOWNTIME)
    }

    /// Reorders tasks by a random delay.
    pub(super) async fn shuffle(&self) {
        let (turns, late) = {
            let mut state = self.state.lock();
            let late = if state.rng.below(4) == 0 { state.rng.duration_below(MAX_JITTER) } else { Duration::ZERO };
            (state.rng.below(4), late)
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        if !late.is_zero() {
            tokio::time::sleep(late).await;
        }
    }

    /// Draws the disturbance of a write.
    pub(super) fn on_write(&self) -> OnWrite {
        let mut state = self.state.lock();
        if !state.is_disturbed() {
            return OnWrite::Nothing;
        }
        match state.rng.below(9) {
            0 | 1 if state.may_crash() => OnWrite::CrashBefore,
            2 | 3 if state.may_crash() => OnWrite::CrashAfter,
            4 => OnWrite::Lost,
            5 => OnWrite::AnswerLost,
            6 => OnWrite::Refused(state.status()),
            7 => OnWrite::Late(state.late_answer()),
            _ => OnWrite::Conflict,
        }
    }

    /// Draws the disturbance of a read. Only watches can expire or repeat events.
    pub(super) fn on_read(&self, reading: Reading) -> OnRead {
        let mut state = self.state.lock();
        // Every start sends many discovery requests, and little depends on them.
        let is_spared = reading == Reading::Discovery && state.rng.below(10) > 0;
        if is_spared || !state.is_disturbed() {
            return OnRead::Nothing;
        }
        match (reading, state.rng.below(5)) {
            (Reading::Watch, 0) => OnRead::Expired,
            (Reading::Watch, 1 | 2) => OnRead::Repeated(1 + state.rng.below(MAX_REPEATED) as usize),
            (Reading::Objects, 0 | 1) => OnRead::Late(state.late_answer()),
            (_, 0..=3) => OnRead::Refused(state.status()),
            _ => OnRead::Lost,
        }
    }

    /// Draws the disturbance of a chunk of a watch, after a random delay.
    pub(super) async fn on_chunk(&self, path: &str) -> OnChunk {
        self.shuffle().await;
        let (what, silence) = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let is_due =
                state.last_watch_disturbance.is_none_or(|at| now.duration_since(at) >= WATCH_DISTURBANCE_INTERVAL);
            if !is_due || !state.is_disturbed() {
                return OnChunk::Nothing;
            }
            state.last_watch_disturbance = Some(now);
            match state.rng.below(4) {
                0 => (OnChunk::End, Duration::ZERO),
                1 => (OnChunk::Break, Duration::ZERO),
                2 => (OnChunk::Expire, Duration::ZERO),
                _ => {
                    let longest = if state.rng.below(3) == 0 { LONG_STALL } else { MAX_STALL };
                    (OnChunk::Nothing, state.rng.duration_below(longest))
                }
            }
        };
        if !silence.is_zero() {
            self.record(format!("the watch of {path} is silent for {} ms", silence.as_millis()));
            tokio::time::sleep(silence).await;
        }
        match what {
            OnChunk::Nothing => {}
            OnChunk::End => self.record(format!("the watch of {path} ends")),
            OnChunk::Break => self.record(format!("the watch of {path} breaks in the middle of a line")),
            OnChunk::Expire => self.record(format!("the watch of {path} expires")),
        }
        what
    }

    /// Records a disturbance in the timeline.
    pub(super) fn record(&self, what: String) {
        self.timeline.add(Event::Fault(what));
    }
}

impl State {
    fn is_disturbed(&mut self) -> bool {
        let is_hit = self.rng.below(1_000) < self.rate && self.disturbances_left > 0 && !self.has_ended;
        self.disturbances_left -= u64::from(is_hit);
        is_hit
    }

    fn may_crash(&mut self) -> bool {
        let may = self.crashes_left > 0;
        self.crashes_left = self.crashes_left.saturating_sub(1);
        may
    }

    fn late_answer(&mut self) -> Duration {
        self.rng.duration_below(MAX_ANSWER_DELAY)
    }

    fn status(&mut self) -> u16 {
        [429, 500, 503, 504][self.rng.below(4) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::Clock;

    fn chaos(seed: u64) -> Chaos {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        Chaos::new(seed, Arc::new(Timeline::new(clock)))
    }

    /// Sends two messages at once. Returns the order of their arrivals, and how late the second one is.
    async fn two_messages(chaos: &Chaos) -> (Vec<u8>, Duration) {
        let (began_at, arrived) = (Instant::now(), Mutex::new(Vec::new()));
        let send = async |message| {
            chaos.shuffle().await;
            arrived.lock().push(message);
        };
        tokio::join!(send(1), send(2));
        (arrived.into_inner(), began_at.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn messages_overtake_each_other_and_are_late() {
        let mut arrivals = Vec::new();
        for seed in 0..50 {
            arrivals.push(two_messages(&chaos(seed)).await);
        }
        let overtaking = arrivals.iter().filter(|(order, _)| *order == [2, 1]).count();
        let late = arrivals.iter().filter(|(_, delay)| !delay.is_zero()).count();
        assert!((5..45).contains(&overtaking) && (5..45).contains(&late), "{arrivals:?}");
        assert!(arrivals.iter().all(|(_, delay)| *delay < MAX_JITTER + Duration::from_millis(1)), "{arrivals:?}");
    }

    #[test]
    fn at_its_end_nothing_is_disturbed() {
        for seed in 0..50 {
            let chaos = chaos(seed);
            chaos.end();
            for _ in 0..100 {
                chaos.count_write();
                assert_eq!(
                    (chaos.on_write(), chaos.on_read(Reading::Watch), chaos.is_outage()),
                    (OnWrite::Nothing, OnRead::Nothing, false)
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_longer_than_all_attempts_of_a_request() {
        let settings = crate::cluster::ConnectionSettings::default();
        let attempts: Duration = settings.networking.error_backoffs.iter().sum();
        let mut outages = 0;
        for seed in 0..50 {
            let chaos = chaos(seed);
            for _ in 0..OUTAGE_WITHIN_WRITES {
                chaos.count_write();
            }
            if !chaos.is_outage() {
                continue;
            }
            outages += 1;
            tokio::time::sleep(attempts).await;
            assert!(chaos.is_outage(), "seed {seed}");
            tokio::time::sleep(Duration::from_mins(5)).await;
            assert!(!chaos.is_outage(), "seed {seed}");
        }
        assert!((5..30).contains(&outages), "{outages} outages");
    }
}
