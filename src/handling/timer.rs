//! Timers: when each call is made. The rules of kopf, and ticks of cron expressions.
//!
//! ```text
//!            ┌──────────── a pause, a tick, or a change of the object ◀─┐
//!            ▼                                                          │
//! start ──▶ Quiet ──the object has been idle──▶ an attempt ─────────────┤
//!                                                                       └──▶ Ended: a timer that runs once
//! ```

use std::time::Duration;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::progress::time_between;

/// The shortest pause between two calls with an interval of zero: other tasks must run, too.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// The longest sleep before a tick: the system's clock may be set in the meantime.
pub(crate) const MAX_TICK_SLEEP: Duration = Duration::from_mins(1);

/// When a timer is called.
#[derive(Debug, Clone)]
pub enum Rhythm {
    /// Once; with an idle time, once after each change.
    Once,
    /// After each interval.
    Interval {
        /// The interval.
        pause: Duration,
        /// Whether intervals count from start to start, not from the end of a call.
        is_sharp: bool,
    },
    /// By a cron expression.
    Cron(Box<Ticks>),
}

/// The ticks of a cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Ticks {
    /// The expression.
    pub cron: Cron,
    /// The time zone.
    pub timezone: TimeZone,
}

impl Ticks {
    /// Returns the first tick after a time; `None` if there is none.
    ///
    /// A fixed time that a change of the clock skips is replaced by the first time after the gap, and runs once if it
    /// exists twice. Expressions with a wildcard or a step in the minute or the hour run at the times that exist, each
    /// time they exist.
    pub fn next_after(&self, now: Timestamp) -> Option<Timestamp> {
        let find = |from: Timestamp| {
            let from = from.to_zoned(self.timezone.clone());
            self.cron.find_next_occurrence(&from, false).ok().map(|next| next.timestamp())
        };
        // Fractions of a second are ignored by the search, so that it may return the current second.
        find(now)
            .filter(|next| *next > now)
            .or_else(|| find(now.checked_add(Duration::from_secs(1)).ok()?).filter(|next| *next > now))
    }
}

/// When the calls of a timer are made.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// The pauses between calls.
    pub rhythm: Rhythm,
    /// How long the object must be unchanged before each attempt.
    pub idle: Option<Duration>,
}

/// A moment, on both clocks.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// The time since any fixed moment, on a clock that is never set.
    pub elapsed: Duration,
    /// The time of the system's clock, for cron expressions.
    pub wall: Timestamp,
}

/// The phase of a timer between two attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Phase {
    /// It waits until the time has elapsed.
    Pause(Duration),
    /// It waits for a tick.
    Tick(Timestamp),
    /// It waits for a change of the object after the last attempt began.
    Change {
        /// When that attempt began.
        since: Duration,
    },
    /// It waits until the object is idle. Then an attempt is made.
    Quiet,
    /// There are no further calls.
    Ended,
}

/// The next action of a timer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Sleep this long, then decide again.
    Sleep(Duration),
    /// Wait until the object changes, then decide again.
    AwaitChange,
    /// Make an attempt.
    Call,
    /// End the timer.
    End,
}

/// An attempt that has been made, with its patch sent.
#[derive(Debug, Clone, Copy)]
pub struct Made {
    /// When it began.
    pub began: Duration,
    /// The delay of the next attempt; `None` if the handler has succeeded or failed.
    pub retry: Option<Duration>,
}

impl Schedule {
    /// Returns the phase after the initial delay. The first call is immediate, but ticks are waited for.
    pub fn first(&self, now: Now) -> Phase {
        match &self.rhythm {
            Rhythm::Cron(ticks) => tick(ticks, now.wall),
            Rhythm::Once | Rhythm::Interval { .. } => Phase::Quiet,
        }
    }

    /// Returns the phase after an attempt. A failed handler continues as after a success.
    pub fn after(&self, made: Made, now: Now) -> Phase {
        let pause = |pause: Duration| Phase::Pause(now.elapsed.saturating_add(pause));
        match (made.retry, &self.rhythm) {
            (Some(delay), _) => pause(delay),
            (None, Rhythm::Interval { pause: interval, is_sharp: true }) => {
                pause(until_grid(*interval, now.elapsed.saturating_sub(made.began)))
            }
            (None, Rhythm::Interval { pause: interval, is_sharp: false }) => pause((*interval).max(MIN_PAUSE)),
            (None, Rhythm::Cron(ticks)) => tick(ticks, now.wall),
            (None, Rhythm::Once) if self.idle.is_some() => Phase::Change { since: made.began },
            (None, Rhythm::Once) => Phase::Ended,
        }
    }

    /// Returns how late an attempt is that is made now, at the end of a phase. The object has last changed at
    /// `changed_at`.
    pub fn lateness(&self, phase: Phase, now: Now, changed_at: Duration) -> Duration {
        let quiet_for = self.idle.map(|idle| now.elapsed.saturating_sub(changed_at.saturating_add(idle)));
        let due_for = match phase {
            Phase::Pause(until) => Some(now.elapsed.saturating_sub(until)),
            Phase::Tick(at) => Some(time_between(at, now.wall)),
            Phase::Change { .. } | Phase::Quiet | Phase::Ended => None,
        };
        // It is due once both the pause and the idle time are over.
        quiet_for.into_iter().chain(due_for).min().unwrap_or_default()
    }

    /// Returns the current phase and the next action. The object has last changed at `changed_at`.
    pub fn next(&self, phase: Phase, now: Now, changed_at: Duration) -> (Phase, Step) {
        let left = match phase {
            Phase::Pause(until) => until.saturating_sub(now.elapsed),
            Phase::Tick(at) => time_between(now.wall, at).min(MAX_TICK_SLEEP),
            Phase::Change { since } if changed_at <= since => return (phase, Step::AwaitChange),
            Phase::Ended => return (phase, Step::End),
            Phase::Change { .. } | Phase::Quiet => Duration::ZERO,
        };
        if !left.is_zero() {
            return (phase, Step::Sleep(left));
        }
        let quiet_at = self.idle.map_or(Duration::ZERO, |idle| changed_at.saturating_add(idle));
        let left = quiet_at.saturating_sub(now.elapsed);
        (Phase::Quiet, if left.is_zero() { Step::Call } else { Step::Sleep(left) })
    }
}

fn tick(ticks: &Ticks, now: Timestamp) -> Phase {
    ticks.next_after(now).map_or(Phase::Ended, Phase::Tick)
}

/// Returns the time to the next point of a grid that begins at the start of an attempt. Points that have passed are
/// skipped.
fn until_grid(interval: Duration, taken: Duration) -> Duration {
    let interval = interval.max(MIN_PAUSE);
    let past = Duration::from_nanos_u128(taken.as_nanos() % interval.as_nanos());
    interval.saturating_sub(past)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::str::FromStr as _;

    const START: &str = "2020-01-01T00:00:00Z";

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    fn seconds(seconds: &[f64]) -> Vec<Duration> {
        seconds.iter().map(|seconds| Duration::from_secs_f64(*seconds)).collect()
    }

    fn interval(seconds: f64, is_sharp: bool) -> Schedule {
        Schedule { rhythm: Rhythm::Interval { pause: Duration::from_secs_f64(seconds), is_sharp }, idle: None }
    }

    fn cron(expression: &str, zone: &str) -> Ticks {
        Ticks { cron: Cron::from_str(expression).unwrap(), timezone: TimeZone::get(zone).unwrap() }
    }

    /// A simulated run of a timer.
    struct Run<'a> {
        schedule: Schedule,
        /// How long each attempt takes, and the delay of its retry; the last one repeats.
        attempts: &'a [(f64, Option<f64>)],
        /// When the object changes, besides its first event at 0.
        changes: &'a [f64],
        start: &'a str,
        until: f64,
    }

    impl Run<'_> {
        fn of(schedule: Schedule) -> Self {
            Self { schedule, attempts: &[(0.0, None)], changes: &[], start: START, until: 10.0 }
        }

        /// Returns the seconds at which attempts are made, followed by `end` if the timer ends.
        fn simulate(&self) -> Vec<String> {
            let (start, until): (Timestamp, _) = (self.start.parse().unwrap(), Duration::from_secs_f64(self.until));
            let changes = seconds(self.changes);
            let mut elapsed = Duration::ZERO;
            let now = |elapsed: Duration| Now { elapsed, wall: start + elapsed };
            let mut phase = self.schedule.first(now(elapsed));
            let mut calls = Vec::new();
            for _ in 0..10_000 {
                let changed_at = changes.iter().filter(|at| **at <= elapsed).max().copied().unwrap_or_default();
                let (entered, step) = self.schedule.next(phase, now(elapsed), changed_at);
                phase = entered;
                match step {
                    Step::Sleep(left) => elapsed += left,
                    Step::AwaitChange => match changes.iter().find(|at| **at > elapsed) {
                        Some(at) => elapsed = *at,
                        None => return calls,
                    },
                    Step::Call if elapsed > until => return calls,
                    Step::Call => {
                        let (taken, retry) = self.attempts.get(calls.len()).or(self.attempts.last()).copied().unwrap();
                        calls.push(format!("{}", elapsed.as_secs_f64()));
                        let began = elapsed;
                        elapsed += Duration::from_secs_f64(taken);
                        let retry = retry.map(Duration::from_secs_f64);
                        phase = self.schedule.after(Made { began, retry }, now(elapsed));
                    }
                    Step::End => return calls.into_iter().chain(["end".to_owned()]).collect(),
                }
            }
            panic!("the timer never sleeps")
        }
    }

    #[test]
    fn the_first_call_is_immediate_and_pauses_count_from_its_end() {
        assert_eq!(
            Run { attempts: &[(0.5, None)], until: 8.0, ..Run::of(interval(3.0, false)) }.simulate(),
            ["0", "3.5", "7"]
        );
    }

    #[test]
    fn a_sharp_timer_skips_the_points_that_pass_during_a_call() {
        let sharp =
            |taken: f64| Run { attempts: &[(taken, None)], until: 2.0, ..Run::of(interval(0.5, true)) }.simulate();
        assert_eq!(sharp(0.25), ["0", "0.5", "1", "1.5", "2"]);
        assert_eq!(sharp(0.75), ["0", "1", "2"]);
        assert_eq!(sharp(0.5), ["0", "1", "2"], "after an exact multiple, a whole interval is waited for");
    }

    #[test]
    fn a_retry_replaces_the_interval_and_the_grid_begins_with_the_last_attempt() {
        let attempts = &[(0.0, Some(2.0)), (0.5, Some(0.0)), (0.0, None)];
        assert_eq!(Run { attempts, until: 6.0, ..Run::of(interval(3.0, true)) }.simulate(), ["0", "2", "2.5", "5.5"]);
    }

    #[test]
    fn a_timer_without_a_rhythm_runs_once_and_is_retried() {
        let once = || Schedule { rhythm: Rhythm::Once, idle: None };
        assert_eq!(Run::of(once()).simulate(), ["0", "end"]);
        assert_eq!(Run { attempts: &[(0.0, Some(1.0)), (0.0, None)], ..Run::of(once()) }.simulate(), ["0", "1", "end"]);
    }

    #[test]
    fn an_interval_of_zero_lets_other_tasks_run() {
        assert_eq!(Run { until: 0.002, ..Run::of(interval(0.0, false)) }.simulate(), ["0", "0.001", "0.002"]);
    }

    #[test]
    fn the_object_must_be_idle_before_each_attempt() {
        let idle = || Schedule { idle: Some(ms(2000)), ..interval(1.0, false) };
        assert_eq!(Run { until: 4.5, ..Run::of(idle()) }.simulate(), ["2", "3", "4"]);
        assert_eq!(
            Run { changes: &[1.5, 3.2], until: 7.0, ..Run::of(idle()) }.simulate(),
            ["5.2", "6.2"],
            "the wait moves with the changes"
        );
        let retried =
            Run { attempts: &[(0.0, Some(0.5)), (0.0, None)], changes: &[2.25], until: 5.0, ..Run::of(idle()) };
        assert_eq!(retried.simulate(), ["2", "4.25"], "before a retry, too");
    }

    #[test]
    fn an_idle_timer_without_an_interval_is_called_after_each_change() {
        let idle = |seconds: u64| Schedule { rhythm: Rhythm::Once, idle: Some(Duration::from_secs(seconds)) };
        assert_eq!(Run { changes: &[5.0, 6.0, 20.0], until: 60.0, ..Run::of(idle(3)) }.simulate(), ["3", "9", "23"]);
        let during = Run { attempts: &[(4.0, None)], changes: &[5.0], until: 60.0, ..Run::of(idle(3)) };
        assert_eq!(during.simulate(), ["3", "8"], "a change during the call counts");
        assert_eq!(Run { changes: &[5.0], ..Run::of(idle(0)) }.simulate(), ["0", "5"]);
    }

    #[test]
    fn a_cron_timer_runs_at_its_first_tick_and_skips_those_it_misses() {
        let minutely = || Schedule { rhythm: Rhythm::Cron(Box::new(cron("* * * * *", "UTC"))), idle: None };
        let run = || Run { start: "2020-01-01T00:00:10Z", until: 300.0, ..Run::of(minutely()) };
        assert_eq!(run().simulate(), ["50", "110", "170", "230", "290"]);
        assert_eq!(Run { attempts: &[(70.0, None), (0.0, None)], ..run() }.simulate(), ["50", "170", "230", "290"]);
        assert_eq!(Run { attempts: &[(0.0, Some(5.0)), (0.0, None)], ..run() }.simulate()[..3], ["50", "55", "110"]);
        assert_eq!(Run { attempts: &[(0.0, Some(90.0)), (0.0, None)], ..run() }.simulate()[..3], ["50", "140", "170"]);
        let at_a_tick = Run { start: START, until: 130.0, ..Run::of(minutely()) };
        assert_eq!(at_a_tick.simulate(), ["60", "120"], "the tick of the start itself has passed");
    }

    #[test]
    fn an_attempt_is_late_from_the_end_of_its_pause_and_of_the_idle_time() {
        let now = |at: u64| Now { elapsed: ms(at), wall: START.parse::<Timestamp>().unwrap() + ms(at) };
        let plain = interval(1.0, false);
        assert_eq!(plain.lateness(Phase::Pause(ms(1000)), now(1030), ms(500)), ms(30));
        assert_eq!(plain.lateness(Phase::Quiet, now(1030), ms(0)), ms(0), "the first call is due when it is made");
        let idle = Schedule { idle: Some(ms(2000)), ..interval(1.0, false) };
        assert_eq!(idle.lateness(Phase::Pause(ms(1000)), now(2510), ms(500)), ms(10));
        assert_eq!(idle.lateness(Phase::Quiet, now(2520), ms(500)), ms(20));
        let tick = Phase::Tick("2020-01-01T00:00:01Z".parse().unwrap());
        assert_eq!(plain.lateness(tick, now(1040), ms(0)), ms(40));
    }

    #[test]
    fn a_clock_that_is_set_moves_the_tick() {
        let schedule = Schedule { rhythm: Rhythm::Cron(Box::new(cron("0 * * * *", "UTC"))), idle: None };
        let at = |wall: &str| Now { elapsed: Duration::ZERO, wall: wall.parse().unwrap() };
        let phase = schedule.first(at(START));
        assert_eq!(phase, Phase::Tick("2020-01-01T01:00:00Z".parse().unwrap()));
        let step = |wall: &str| schedule.next(phase, at(wall), Duration::ZERO).1;
        assert_eq!(step(START), Step::Sleep(MAX_TICK_SLEEP));
        assert_eq!(step("2020-01-01T00:59:59.5Z"), Step::Sleep(ms(500)));
        assert_eq!(step("2020-01-01T01:00:00Z"), Step::Call);
        assert_eq!(step("2020-01-01T02:00:00Z"), Step::Call);
    }

    /// Returns the ticks after a time, in UTC.
    fn ticks(expression: &str, after: &str, count: usize) -> Vec<String> {
        let ticks = cron(expression, "Europe/Berlin");
        let first = ticks.next_after(after.parse().unwrap());
        let all = std::iter::successors(first, |last| ticks.next_after(*last));
        all.take(count).map(|tick| tick.to_string()).collect()
    }

    #[test]
    fn a_fixed_time_that_does_not_exist_runs_after_the_gap() {
        // On 2020-03-29, the clocks go from 02:00 to 03:00, which is 01:00 in UTC.
        let found = ticks("30 2 * * *", "2020-03-28T00:00:00Z", 3);
        assert_eq!(found, ["2020-03-28T01:30:00Z", "2020-03-29T01:00:00Z", "2020-03-30T00:30:00Z"]);
        let found = ticks("*/30 * * * *", "2020-03-29T00:15:00Z", 3);
        assert_eq!(found, ["2020-03-29T00:30:00Z", "2020-03-29T01:00:00Z", "2020-03-29T01:30:00Z"]);
    }

    #[test]
    fn a_fixed_time_that_exists_twice_runs_once() {
        // On 2020-10-25, the clocks go from 03:00 back to 02:00, which is 01:00 in UTC.
        let found = ticks("30 2 * * *", "2020-10-24T12:00:00Z", 2);
        assert_eq!(found, ["2020-10-25T00:30:00Z", "2020-10-26T01:30:00Z"]);
        let found = ticks("*/30 * * * *", "2020-10-25T00:15:00Z", 4);
        assert_eq!(
            found,
            ["2020-10-25T00:30:00Z", "2020-10-25T01:00:00Z", "2020-10-25T01:30:00Z", "2020-10-25T02:00:00Z"]
        );
    }

    #[test]
    fn ticks_are_later_than_the_time_they_are_asked_for() {
        let secondly = cron("* * * * * *", "UTC");
        let after = |at: &str| secondly.next_after(at.parse().unwrap()).unwrap().to_string();
        assert_eq!(after("2020-01-01T00:00:00Z"), "2020-01-01T00:00:01Z");
        assert_eq!(after("2020-01-01T00:00:00.9Z"), "2020-01-01T00:00:01Z");
        for never in ["0 0 0 1 1 * 2021", "0 0 30 2 *"] {
            assert!(cron(never, "UTC").next_after("2022-01-01T00:00:00Z".parse().unwrap()).is_none());
        }
    }
}
