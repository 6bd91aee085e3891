//! Disturbances by chance: which requests meet trouble, when the operators die, and what comes late. The same seed gives the same trouble.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::timeline::{Event, Timeline};

/// The most troubles of a run: fewer than the attempts that a request has.
const MOST_TROUBLES: u64 = 8;

/// The most deaths of a run.
const MOST_CRASHES: u64 = 3;

/// Watches have trouble at most once in this time.
const WATCH_PAUSE: Duration = Duration::from_secs(10);

/// The longest that a watch is usually silent, in milliseconds: shorter than an operator waits for its own changes.
const SILENCE: u64 = 3_000;

/// The longest that a watch is silent at all, in milliseconds. An operator that has waited for its own changes in vain may by kopf's rules
/// call a handler again.
const LONG_SILENCE: u64 = 20_000;

/// The longest that an answer comes after what was done, in milliseconds. The event of a write may come before its answer, and what was
/// listed may be older than what was written meanwhile.
const LATE_ANSWER: u64 = 4_000;

/// The most events that a watch repeats.
const MOST_REPEATED: u64 = 4;

/// An outage lasts longer than all attempts of a request, in seconds: at least this, and at most so much more.
const OUTAGE: (u64, u64) = (60, 240);

/// An outage begins with one of so many writes.
const OUTAGE_WITHIN: u64 = 16;

/// The longest that a message is late without anybody noticing, in milliseconds.
const LATENESS: u64 = 40;

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnWrite {
    /// Nothing.
    Nothing,
    /// The operators die before the server sees it.
    CrashBefore,
    /// The operators die after the server has done it.
    CrashAfter,
    /// It is lost on its way.
    Lost,
    /// It is done, and the answer is lost.
    AnswerLost,
    /// Somebody else writes the object just before.
    Conflict,
    /// The server refuses it.
    Refused(u16),
    /// It is done, and the answer is late.
    Late(Duration),
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// The kinds of the cluster.
    Discovery,
    /// Objects.
    Objects,
    /// The changes of objects.
    Watch,
}

/// What happens to a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnRead {
    /// Nothing.
    Nothing,
    /// It is lost on its way.
    Lost,
    /// The server refuses it.
    Refused(u16),
    /// The server does not know the version any more.
    Expired,
    /// The watch begins earlier than it was asked to, by so many events that it has told already.
    Repeated(usize),
    /// The answer is late, and not as new as it was.
    Late(Duration),
}

/// What happens to a piece of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPiece {
    /// Nothing.
    Nothing,
    /// The watch ends before it.
    End,
    /// The connection breaks in the middle of it.
    Break,
    /// The server says that its history is gone.
    Expire,
}

/// Trouble for one run.
pub struct Chaos {
    timeline: Arc<Timeline>,
    state: Mutex<State>,
    crashed: Notify,
}

struct State {
    dice: Dice,
    /// How likely a request meets trouble, in a thousand.
    rate: u64,
    troubles: u64,
    crashes: u64,
    watch_trouble_at: Option<Instant>,
    /// How many writes are left until the server does not answer the engine for a long time, if it will.
    writes_to_outage: Option<u64>,
    outage_until: Option<Instant>,
    is_over: bool,
}

impl Chaos {
    /// Returns the trouble of a seed.
    pub fn new(seed: u64, timeline: Arc<Timeline>) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5ce7_a110);
        // Some runs are only shuffled; in most of them a few things go wrong; in some nearly everything does.
        let rate = [0, 30, 80, 150, 400][dice.below(5) as usize];
        let writes_to_outage = (rate > 0 && dice.below(4) == 0).then(|| dice.below(OUTAGE_WITHIN));
        let state = State {
            dice,
            rate,
            troubles: MOST_TROUBLES,
            crashes: MOST_CRASHES,
            watch_trouble_at: None,
            writes_to_outage,
            outage_until: None,
            is_over: false,
        };
        Self { timeline, state: Mutex::new(state), crashed: Notify::new() }
    }

    /// From now on, nothing goes wrong.
    pub fn end(&self) {
        let mut state = self.state.lock();
        (state.is_over, state.outage_until, state.writes_to_outage) = (true, None, None);
    }

    /// Tells whether the server does not answer the engine at all. The requests of scripts are spared: their handlers may have no attempts
    /// left for so long a time.
    pub fn is_outage(&self) -> bool {
        self.state.lock().outage_until.is_some_and(|until| Instant::now() < until)
    }

    /// Counts a write of the engine, with which an outage may begin.
    pub fn count_write(&self) {
        let mut state = self.state.lock();
        match state.writes_to_outage {
            None => {}
            Some(0) => {
                let (least, more) = OUTAGE;
                let seconds = least + state.dice.below(more);
                state.writes_to_outage = None;
                state.outage_until = Some(Instant::now() + Duration::from_secs(seconds));
                drop(state);
                self.tell(format!("the server does not answer the engine for {seconds} seconds"));
            }
            Some(left) => state.writes_to_outage = Some(left - 1),
        }
    }

    /// Waits until the operators are to die.
    pub async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Lets the operators live again after they have died of themselves.
    pub fn note_death(&self, why: &str) {
        self.tell(format!("the operators die of it: {why}"));
        self.crashed.notify_one();
    }

    /// Lets the operators die; whoever calls is one of them.
    pub async fn crash(&self) -> ! {
        self.crashed.notify_one();
        std::future::pending().await
    }

    /// Returns for how long the operators stay away.
    pub fn downtime(&self) -> Duration {
        Duration::from_millis(self.state.lock().dice.below(5_000))
    }

    /// Lets others go first, or not.
    pub async fn shuffle(&self) {
        let (turns, late) = {
            let mut state = self.state.lock();
            let late = if state.dice.below(4) == 0 { state.dice.below(LATENESS) } else { 0 };
            (state.dice.below(4), late)
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        if late > 0 {
            tokio::time::sleep(Duration::from_millis(late)).await;
        }
    }

    /// Decides about a write.
    pub fn on_write(&self) -> OnWrite {
        let mut state = self.state.lock();
        if !state.strikes() {
            return OnWrite::Nothing;
        }
        match state.dice.below(9) {
            0 | 1 if state.may_crash() => OnWrite::CrashBefore,
            2 | 3 if state.may_crash() => OnWrite::CrashAfter,
            4 => OnWrite::Lost,
            5 => OnWrite::AnswerLost,
            6 => OnWrite::Refused(state.status()),
            7 => OnWrite::Late(state.late_answer()),
            _ => OnWrite::Conflict,
        }
    }

    /// Decides about a read. Only reads from a version can be told that it has expired.
    pub fn on_read(&self, reading: Reading) -> OnRead {
        let mut state = self.state.lock();
        // There are many requests for the kinds at each start, and little depends on them.
        let is_spared = reading == Reading::Discovery && state.dice.below(10) > 0;
        if is_spared || !state.strikes() {
            return OnRead::Nothing;
        }
        match (reading, state.dice.below(5)) {
            (Reading::Watch, 0) => OnRead::Expired,
            (Reading::Watch, 1 | 2) => OnRead::Repeated(1 + state.dice.below(MOST_REPEATED) as usize),
            (Reading::Objects, 0 | 1) => OnRead::Late(state.late_answer()),
            (_, 0..=3) => OnRead::Refused(state.status()),
            _ => OnRead::Lost,
        }
    }

    /// Decides about a piece of the watch of a path, after it was held back for a while.
    pub async fn on_piece(&self, path: &str) -> OnPiece {
        self.shuffle().await;
        let (what, silence) = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let is_due = state.watch_trouble_at.is_none_or(|at| now.duration_since(at) >= WATCH_PAUSE);
            if !is_due || !state.strikes() {
                return OnPiece::Nothing;
            }
            state.watch_trouble_at = Some(now);
            match state.dice.below(4) {
                0 => (OnPiece::End, 0),
                1 => (OnPiece::Break, 0),
                2 => (OnPiece::Expire, 0),
                _ => {
                    let longest = if state.dice.below(3) == 0 { LONG_SILENCE } else { SILENCE };
                    (OnPiece::Nothing, state.dice.below(longest))
                }
            }
        };
        if silence > 0 {
            self.tell(format!("the watch of {path} is silent for {silence} ms"));
            tokio::time::sleep(Duration::from_millis(silence)).await;
        }
        match what {
            OnPiece::Nothing => {}
            OnPiece::End => self.tell(format!("the watch of {path} ends")),
            OnPiece::Break => self.tell(format!("the watch of {path} breaks in the middle of a line")),
            OnPiece::Expire => self.tell(format!("the history of {path} is gone")),
        }
        what
    }

    /// Tells of a trouble.
    pub fn tell(&self, what: String) {
        self.timeline.add(Event::Fault(what));
    }
}

impl State {
    fn strikes(&mut self) -> bool {
        let is_hit = self.dice.below(1_000) < self.rate && self.troubles > 0 && !self.is_over;
        self.troubles -= u64::from(is_hit);
        is_hit
    }

    fn may_crash(&mut self) -> bool {
        let may = self.crashes > 0;
        self.crashes = self.crashes.saturating_sub(1);
        may
    }

    fn late_answer(&mut self) -> Duration {
        Duration::from_millis(self.dice.below(LATE_ANSWER))
    }

    fn status(&mut self) -> u16 {
        [429, 500, 503, 504][self.dice.below(4) as usize]
    }
}

/// A small generator with the same numbers everywhere and for ever: a failure must repeat itself on another machine.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}
