//! Schedules of an operator: which tick is run next, what becomes of missed ticks, and when a run is given up.
//!
//! ```text
//!            ┌───────── the run has ended: the next tick, or a missed one ◀─┐
//!            ▼                                                              │
//! start ──▶ Waiting ──the tick──▶ an attempt ───────────────────────────────┤
//!            ▲                        ▲                                     │
//!            │                        └─the delay─── Retrying ◀──an error───┘
//!            └──────the next tick: the run is given up──┘
//! ```

use std::time::Duration;

use jiff::Timestamp;

use super::progress::time_between;
use super::timer::{MAX_TICK_SLEEP, Now, Ticks};

/// The first width of the search for the last tick before a time; it is doubled until a tick is found.
const SEARCHED: Duration = Duration::from_mins(1);

/// When a schedule is run.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    /// The ticks.
    pub ticks: Ticks,
    /// Whether ticks that pass during a run, or while the operator is down, are caught up by one run.
    pub catches_up: bool,
}

/// The phase of a schedule between two attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It waits for a tick; with `None`, there are no further ticks.
    Waiting(Option<Timestamp>),
    /// The run for a tick waits for its next attempt.
    Retrying {
        /// The tick.
        tick: Timestamp,
        /// When the attempt is due, on the clock that is never set.
        at: Duration,
        /// The tick that ends the run.
        next: Option<Timestamp>,
    },
}

impl Phase {
    /// Returns the current phase and the next action.
    pub(crate) fn next(self, now: Now) -> (Self, Step) {
        let until = |tick: Timestamp| time_between(now.wall, tick).min(MAX_TICK_SLEEP);
        match self {
            Self::Waiting(None) => (self, Step::End),
            Self::Waiting(Some(tick)) if tick <= now.wall => (self, Step::Begin(tick)),
            Self::Waiting(Some(tick)) => (self, Step::Sleep(until(tick))),
            Self::Retrying { tick, next: Some(next), .. } if next <= now.wall => {
                (Self::Waiting(Some(next)), Step::GiveUp(tick))
            }
            Self::Retrying { tick, at, .. } if at <= now.elapsed => (self, Step::Repeat(tick)),
            Self::Retrying { at, next, .. } => {
                let left = at.saturating_sub(now.elapsed);
                (self, Step::Sleep(next.map_or(left, |next| left.min(until(next)))))
            }
        }
    }
}

/// The next action of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Sleep this long, then decide again.
    Sleep(Duration),
    /// Make the first attempt for a tick.
    Begin(Timestamp),
    /// Give up the run for a tick, since the next one has come. Then decide again.
    GiveUp(Timestamp),
    /// Repeat the attempt for a tick.
    Repeat(Timestamp),
    /// There are no further ticks.
    End,
}

impl CronSchedule {
    /// Returns the phase at the start. All ticks up to a time are done, or of no concern; if it is unknown or in the
    /// future, all are that have passed.
    pub fn first(&self, done_until: Option<Timestamp>, now: Timestamp) -> Phase {
        let missed = done_until.filter(|_| self.catches_up).and_then(|done| self.latest(done, now));
        Phase::Waiting(missed.or_else(|| self.ticks.next_after(now)))
    }

    /// Returns the phase after an attempt for a tick; `retry` is the delay of the next one, if there is one.
    pub fn after(&self, tick: Timestamp, retry: Option<Duration>, now: Now) -> Phase {
        let missed = if self.catches_up { self.latest(tick, now.wall) } else { None };
        // A clock that is set back must not repeat a tick.
        let next = missed.or_else(|| self.ticks.next_after(now.wall.max(tick)));
        match retry {
            None => Phase::Waiting(next),
            Some(delay) => Phase::Retrying { tick, at: now.elapsed.saturating_add(delay), next },
        }
    }

    /// Returns the last tick after a time and not after another.
    pub fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if after >= until {
            return None;
        }
        let mut width = SEARCHED;
        // The search tries short times first: there may be millions of ticks.
        loop {
            let from = until.checked_sub(width).unwrap_or(Timestamp::MIN).max(after);
            let found = std::iter::successors(self.ticks.next_after(from), |tick| self.ticks.next_after(*tick));
            if let Some(latest) = found.take_while(|tick| *tick <= until).last() {
                return Some(latest);
            }
            if from == after {
                return None;
            }
            width = width.saturating_mul(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use croner::Cron;
    use jiff::tz::TimeZone;

    use super::*;

    const START: &str = "2020-01-01T00:00:10Z";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn schedule(expression: &str, catches_up: bool) -> CronSchedule {
        CronSchedule { ticks: Ticks { cron: Cron::from_str(expression).unwrap(), timezone: TimeZone::UTC }, catches_up }
    }

    /// A simulated run of a schedule with a tick each minute.
    struct Run<'a> {
        catches_up: bool,
        /// How long each attempt takes, and the delay of its retry; the last one repeats.
        attempts: &'a [(f64, Option<f64>)],
        done_until: Option<&'a str>,
        until: f64,
    }

    impl Default for Run<'_> {
        fn default() -> Self {
            Self { catches_up: false, attempts: &[(0.0, None)], done_until: None, until: 300.0 }
        }
    }

    impl Run<'_> {
        /// Returns the seconds after the start at which attempts begin, each with the second of its tick and `+` if it
        /// is a repetition; and the runs that are given up, with a minus.
        fn simulate(&self) -> Vec<String> {
            let (schedule, start) = (schedule("* * * * *", self.catches_up), at(START));
            let mut elapsed = Duration::ZERO;
            let now = |elapsed: Duration| Now { elapsed, wall: start + elapsed };
            let second = |tick: Timestamp| tick.as_second() - start.as_second();
            let mut phase = schedule.first(self.done_until.map(at), start);
            let (mut log, mut calls) = (Vec::new(), 0);
            for _ in 0..1000 {
                let (entered, step) = phase.next(now(elapsed));
                phase = entered;
                let (tick, sign) = match step {
                    Step::Sleep(left) => {
                        elapsed += left;
                        continue;
                    }
                    Step::GiveUp(tick) => {
                        log.push(format!("-{}", second(tick)));
                        continue;
                    }
                    Step::Begin(tick) => (tick, ""),
                    Step::Repeat(tick) => (tick, "+"),
                    Step::End => panic!("there is always a tick"),
                };
                if elapsed.as_secs_f64() > self.until {
                    return log;
                }
                let (taken, retry) = self.attempts.get(calls).or(self.attempts.last()).copied().unwrap();
                calls += 1;
                log.push(format!("{}:{}{sign}", elapsed.as_secs_f64(), second(tick)));
                elapsed += Duration::from_secs_f64(taken);
                phase = schedule.after(tick, retry.map(Duration::from_secs_f64), now(elapsed));
            }
            panic!("the schedule never sleeps")
        }
    }

    #[test]
    fn each_tick_is_run_from_the_first_one_after_the_start() {
        assert_eq!(Run::default().simulate(), ["50:50", "110:110", "170:170", "230:230", "290:290"]);
    }

    #[test]
    fn ticks_during_a_run_are_skipped_or_caught_up_once() {
        let attempts = &[(130.0, None), (0.0, None)];
        assert_eq!(Run { attempts, ..Run::default() }.simulate(), ["50:50", "230:230", "290:290"]);
        assert_eq!(
            Run { attempts, catches_up: true, ..Run::default() }.simulate(),
            ["50:50", "180:170", "230:230", "290:290"]
        );
    }

    #[test]
    fn a_failed_attempt_is_repeated_until_the_next_tick() {
        let attempts = &[(0.0, Some(5.0)), (0.0, None)];
        assert_eq!(Run { attempts, until: 120.0, ..Run::default() }.simulate(), ["50:50", "55:50+", "110:110"]);
        let attempts = &[(0.0, Some(25.0))];
        assert_eq!(
            Run { attempts, until: 120.0, ..Run::default() }.simulate(),
            ["50:50", "75:50+", "100:50+", "-50", "110:110"]
        );
        let attempts = &[(0.0, Some(60.0)), (0.0, None)];
        assert_eq!(
            Run { attempts, until: 120.0, ..Run::default() }.simulate(),
            ["50:50", "-50", "110:110"],
            "the tick precedes the retry"
        );
    }

    #[test]
    fn a_failed_attempt_that_has_missed_a_tick_is_repeated_or_replaced_by_its_run() {
        let attempts = &[(70.0, Some(10.0)), (0.0, None)];
        assert_eq!(Run { attempts, until: 200.0, ..Run::default() }.simulate(), ["50:50", "130:50+", "170:170"]);
        let caught_up = Run { attempts, catches_up: true, until: 200.0, ..Run::default() };
        assert_eq!(caught_up.simulate(), ["50:50", "-50", "120:110", "170:170"]);
    }

    #[test]
    fn ticks_missed_by_the_process_are_caught_up_by_one_run_for_the_last_one() {
        let after = |done: &'static str, catches_up| {
            Run { done_until: Some(done), catches_up, until: 60.0, ..Run::default() }.simulate()
        };
        assert_eq!(after("2019-12-31T23:50:00Z", true), ["0:-10", "50:50"]);
        assert_eq!(after("2019-12-31T23:50:00Z", false), ["50:50"]);
        assert_eq!(after("2020-01-01T00:00:00Z", true), ["50:50"], "the last tick was run");
        assert_eq!(after("2020-01-01T00:00:09Z", true), ["50:50"], "there was no tick since");
        assert_eq!(after("2031-01-01T00:00:00Z", true), ["50:50"], "the clock was wrong");
    }

    #[test]
    fn a_clock_that_is_set_back_repeats_no_tick() {
        let schedule = schedule("0 * * * *", true);
        let now = |wall: &str| Now { elapsed: Duration::ZERO, wall: at(wall) };
        let phase = schedule.after(at("2020-01-01T03:00:00Z"), None, now("2020-01-01T02:30:00Z"));
        assert_eq!(phase, Phase::Waiting(Some(at("2020-01-01T04:00:00Z"))));
        assert_eq!(phase.next(now("2020-01-01T02:30:00Z")).1, Step::Sleep(MAX_TICK_SLEEP));
        assert_eq!(phase.next(now("2020-01-01T06:30:00Z")).1, Step::Begin(at("2020-01-01T04:00:00Z")));
    }

    #[test]
    fn a_schedule_without_further_ticks_ends() {
        let schedule = schedule("0 0 0 1 1 * 2020", true);
        let phase = schedule.first(None, at(START));
        assert_eq!(phase.next(Now { elapsed: Duration::ZERO, wall: at(START) }).1, Step::End);
    }

    #[test]
    fn the_latest_tick_is_found_in_a_long_time_with_many_or_few_ticks() {
        let latest = |expression: &str, after: &str, until: &str| {
            schedule(expression, true).latest(at(after), at(until)).map(|tick| tick.to_string())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(latest("* * * * *", "2000-01-01T00:00:00Z", "2020-01-01T00:00:10Z"), some("2020-01-01T00:00:00Z"));
        assert_eq!(latest("0 0 29 2 *", "2000-01-01T00:00:00Z", "2019-12-31T00:00:00Z"), some("2016-02-29T00:00:00Z"));
        assert_eq!(latest("0 3 * * *", "2020-01-01T03:00:00Z", "2020-01-02T03:00:00Z"), some("2020-01-02T03:00:00Z"));
        assert_eq!(latest("0 3 * * *", "2020-01-01T03:00:00Z", "2020-01-02T02:59:59Z"), None);
        assert_eq!(latest("* * * * *", "2020-01-01T00:00:00Z", "2019-01-01T00:00:00Z"), None);
    }
}
