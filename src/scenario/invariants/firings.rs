//! The rules of firing times: a timer is called at each of its times, never earlier, later or twice, and a daemon once
//! after its initial delay; failed attempts are repeated after their delays; and a task without further calls ends.
//!
//! The times are computed from what is seen from outside: the declaration, the calls and their outcomes, and the
//! changes of the object.

use std::time::Duration;

use jiff::Timestamp;

use crate::handling::timer::{Rhythm, Schedule};
use crate::manifest::operator::Delay;

/// How late a call may be. Virtual time passes only while every task is idle.
const TOLERANCE: Duration = Duration::from_millis(100);

/// How early a call may be: sleeps end at whole milliseconds.
const PRECISION: Duration = Duration::from_millis(2);

/// The shortest pause between two calls of a timer.
const MIN_PAUSE: Duration = Duration::from_millis(1);

/// The calls of one task.
#[derive(Debug)]
pub(super) struct Firings {
    /// When a timer is called; `None` for a daemon.
    schedule: Option<Schedule>,
    next: Next,
    /// The number of the next attempt.
    retry: u64,
    /// The delay of the next attempt, if the present one has failed.
    retry_in: Option<Duration>,
}

/// The next expected action of a task.
#[derive(Debug, Clone, Copy)]
enum Next {
    /// It computes its initial delay since this time.
    Beginning(Timestamp),
    /// It is called at this time, as soon as the object is idle.
    Call(Timestamp),
    /// It is called after a change of the object later than this time.
    CallAfterChange(Timestamp),
    /// It makes an attempt since this time, or sends its changes.
    Attempt(Timestamp),
    /// It ends at this time.
    End(Timestamp),
}

impl Firings {
    /// Returns the calls of a task that starts.
    pub(super) fn new(schedule: Option<Schedule>, initial_delay: Option<Delay>, now: Timestamp) -> Self {
        let next = Next::Beginning(now);
        let mut firings = Self { schedule, next, retry: 0, retry_in: None };
        match initial_delay {
            None => firings.begin(Duration::ZERO, now),
            Some(Delay::Fixed(delay)) => firings.begin(delay, now),
            Some(Delay::Expression(_)) => {}
        }
        firings
    }

    /// Notes that the initial delay begins.
    pub(super) fn begin(&mut self, delay: Duration, now: Timestamp) {
        let begins_at = now + delay;
        self.next = match self.schedule.as_ref().map(|schedule| &schedule.rhythm) {
            Some(Rhythm::Cron(ticks)) => ticks.next_after(begins_at).map_or(Next::End(begins_at), Next::Call),
            _ => Next::Call(begins_at),
        };
    }

    /// Notes the start of a call. The object has last changed at `changed_at`. Returns the mistake in it, if there is
    /// one.
    pub(super) fn called(&mut self, retry: u64, now: Timestamp, changed_at: Timestamp) -> Option<String> {
        let due = self.due(changed_at);
        let expected = std::mem::replace(&mut self.retry, retry);
        self.next = Next::Attempt(now);
        match due {
            None => Some("though nothing was due".to_owned()),
            Some(due) if now + PRECISION < due || due + TOLERANCE < now => Some(format!("though it was due at {due}")),
            Some(_) if retry != expected => Some(format!("as attempt {retry}, though it was attempt {expected}")),
            Some(_) => None,
        }
    }

    /// Notes the outcome of an attempt: the delay of the next one, or `None` if it was the last one. An attempt that
    /// exceeds a limit is not called.
    pub(super) fn judged(
        &mut self,
        retry_in: Option<Duration>,
        now: Timestamp,
        changed_at: Timestamp,
    ) -> Option<String> {
        self.retry_in = retry_in;
        if matches!(self.next, Next::Attempt(_)) { None } else { self.called(self.retry, now, changed_at) }
    }

    /// Notes that the changes of an attempt were sent or given up.
    pub(super) fn concluded(&mut self, now: Timestamp) {
        let Next::Attempt(began) = self.next else { return };
        self.retry = if self.retry_in.is_some() { self.retry + 1 } else { 0 };
        self.next = match (self.retry_in.take(), &self.schedule) {
            (Some(delay), _) => Next::Call(now + delay),
            (None, None) => Next::End(now),
            (None, Some(schedule)) => match &schedule.rhythm {
                Rhythm::Once if schedule.idle.is_some() => Next::CallAfterChange(began),
                Rhythm::Once => Next::End(now),
                Rhythm::Interval { pause, is_sharp: false } => Next::Call(now + (*pause).max(MIN_PAUSE)),
                Rhythm::Interval { pause, is_sharp: true } => {
                    Next::Call(next_on_grid(began, (*pause).max(MIN_PAUSE), now))
                }
                Rhythm::Cron(ticks) => ticks.next_after(now).map_or(Next::End(now), Next::Call),
            },
        };
    }

    /// Returns what should have happened before this time.
    pub(super) fn overdue(&self, now: Timestamp, changed_at: Timestamp) -> Option<String> {
        let is_over = |at: Timestamp| at + TOLERANCE < now;
        match (self.next, self.due(changed_at)) {
            (_, Some(due)) if is_over(due) => Some(format!("was not called, though it was due at {due}")),
            (Next::Beginning(since), _) if is_over(since) => Some(format!("has not begun since {since}")),
            (Next::End(at), _) if is_over(at) => Some(format!("is still running, though its last call ended at {at}")),
            _ => None,
        }
    }

    /// Returns the error if the task has ended without a request.
    pub(super) fn ended(&self) -> Option<&'static str> {
        (!matches!(self.next, Next::End(_))).then_some("has ended, though it has further calls")
    }

    /// Returns when the next call is due, if it is known.
    fn due(&self, changed_at: Timestamp) -> Option<Timestamp> {
        let idle = self.schedule.as_ref().and_then(|schedule| schedule.idle).map(|idle| changed_at + idle);
        match self.next {
            Next::Call(at) => Some(idle.map_or(at, |idle| idle.max(at))),
            Next::CallAfterChange(since) => idle.filter(|_| changed_at > since),
            Next::Beginning(_) | Next::Attempt(_) | Next::End(_) => None,
        }
    }
}

/// Returns the first point after a time of the grid that begins with an attempt.
fn next_on_grid(began: Timestamp, interval: Duration, now: Timestamp) -> Timestamp {
    let taken = Duration::try_from(now.duration_since(began)).unwrap_or_default();
    let passed = Duration::from_nanos_u128(taken.as_nanos() % interval.as_nanos());
    now + interval.saturating_sub(passed)
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use croner::Cron;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::handling::timer::Ticks;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(1_577_836_800_000 + milliseconds).unwrap()
    }

    fn every(milliseconds: u64, is_sharp: bool) -> Schedule {
        Schedule { rhythm: Rhythm::Interval { pause: Duration::from_millis(milliseconds), is_sharp }, idle: None }
    }

    fn once(idle: Option<u64>) -> Schedule {
        Schedule { rhythm: Rhythm::Once, idle: idle.map(Duration::from_millis) }
    }

    /// The calls of a task that has started at 0, when its object has changed last.
    struct Task {
        firings: Firings,
        changed_at: Timestamp,
    }

    impl Task {
        fn new(schedule: impl Into<Option<Schedule>>) -> Self {
            Self { firings: Firings::new(schedule.into(), None, at(0)), changed_at: at(0) }
        }

        /// Makes an attempt.
        fn attempt(&mut self, retry: u64, (began, ended): (i64, i64), retry_in: Option<u64>) -> Option<String> {
            let violation = self.firings.called(retry, at(began), self.changed_at);
            assert_eq!(self.firings.judged(retry_in.map(Duration::from_millis), at(ended), self.changed_at), None);
            self.firings.concluded(at(ended));
            violation
        }

        fn call(&mut self, began: i64) -> Option<String> {
            self.attempt(0, (began, began), None)
        }

        fn overdue(&self, now: i64) -> Option<String> {
            self.firings.overdue(at(now), self.changed_at)
        }
    }

    #[test]
    fn a_timer_that_is_not_called_at_its_time_is_found() {
        let mut task = Task::new(every(1000, false));
        assert_eq!(task.overdue(200).unwrap(), "was not called, though it was due at 2020-01-01T00:00:00Z");
        assert_eq!(task.call(1), None);
        assert_eq!(task.overdue(1050), None, "it may be a little late");
        assert_eq!(task.overdue(1200).unwrap(), "was not called, though it was due at 2020-01-01T00:00:01.001Z");
        assert_eq!(task.call(1300).unwrap(), "though it was due at 2020-01-01T00:00:01.001Z");
    }

    #[test]
    fn a_timer_that_is_called_early_or_twice_is_found() {
        let mut task = Task::new(every(1000, false));
        assert_eq!(task.call(0), None);
        assert_eq!(task.call(0).unwrap(), "though it was due at 2020-01-01T00:00:01Z");
        assert_eq!(task.call(900).unwrap(), "though it was due at 2020-01-01T00:00:01Z");
        assert_eq!(task.call(1899), None);
    }

    #[test]
    fn intervals_count_from_the_end_of_a_call_and_those_of_sharp_timers_from_its_start() {
        let second = |is_sharp, began| {
            let mut task = Task::new(every(1000, is_sharp));
            assert_eq!(task.attempt(0, (0, 1300), None), None);
            task.call(began)
        };
        assert_eq!((second(false, 2300), second(true, 2000)), (None, None));
        assert_eq!(second(true, 2300).unwrap(), "though it was due at 2020-01-01T00:00:02Z");
        assert_eq!(second(false, 2000).unwrap(), "though it was due at 2020-01-01T00:00:02.3Z");
    }

    #[test]
    fn a_failed_attempt_is_repeated_after_its_delay_with_the_next_number() {
        let mut task = Task::new(every(1000, false));
        assert_eq!(task.attempt(0, (0, 0), Some(5000)), None);
        assert_eq!(task.overdue(1200), None, "the retry replaces the interval");
        assert_eq!(task.attempt(0, (5000, 5000), Some(0)).unwrap(), "as attempt 0, though it was attempt 1");
        assert_eq!(task.attempt(1, (5000, 5000), None), None);
        assert_eq!(task.call(6000), None);
    }

    #[test]
    fn an_attempt_that_exceeds_a_limit_is_due_like_a_call() {
        let mut task = Task::new(every(1000, false));
        assert_eq!(task.attempt(0, (0, 0), Some(500)), None);
        assert_eq!(task.firings.judged(None, at(400), at(0)).unwrap(), "though it was due at 2020-01-01T00:00:00.5Z");
        task.firings.concluded(at(400));
        assert_eq!(task.call(1400), None);
    }

    #[test]
    fn a_daemon_and_a_timer_that_runs_once_end_after_their_call() {
        for schedule in [None, Some(once(None))] {
            let mut task = Task::new(schedule);
            assert_eq!(task.firings.ended().unwrap(), "has ended, though it has further calls");
            assert_eq!(task.call(0), None);
            assert_eq!(task.firings.ended(), None);
            assert_eq!(
                task.overdue(200).unwrap(),
                "is still running, though its last call ended at 2020-01-01T00:00:00Z"
            );
            assert_eq!(task.call(0).unwrap(), "though nothing was due");
        }
    }

    #[test]
    fn the_object_must_be_idle_before_each_call() {
        let mut task = Task::new(once(Some(2000)));
        assert_eq!(task.overdue(2050), None);
        assert_eq!(task.call(2000), None);
        assert_eq!(task.overdue(9000), None, "it waits for a change");
        task.changed_at = at(5000);
        assert_eq!(task.overdue(7200).unwrap(), "was not called, though it was due at 2020-01-01T00:00:07Z");
        assert_eq!(task.attempt(0, (7000, 7000), Some(100)), None);
        task.changed_at = at(7050);
        assert_eq!(task.attempt(1, (7100, 7100), None).unwrap(), "though it was due at 2020-01-01T00:00:09.05Z");
    }

    #[test]
    fn the_initial_delay_is_fixed_or_computed() {
        let starting = |delay| Firings::new(Some(every(1000, false)), Some(delay), at(0));
        let mut fixed = starting(Delay::Fixed(Duration::from_secs(3)));
        assert_eq!(fixed.overdue(at(3050), at(0)), None);
        assert_eq!(fixed.called(0, at(2000), at(0)).unwrap(), "though it was due at 2020-01-01T00:00:03Z");
        let mut computed = starting(Delay::Expression(crate::handling::Predicate(0)));
        assert_eq!(computed.overdue(at(200), at(0)).unwrap(), "has not begun since 2020-01-01T00:00:00Z");
        computed.begin(Duration::from_secs(2), at(10));
        assert_eq!(computed.called(0, at(2010), at(0)), None);
    }

    #[test]
    fn each_tick_is_called_once() {
        let ticks = Ticks { cron: Cron::from_str("* * * * *").unwrap(), timezone: TimeZone::UTC };
        let mut task = Task::new(Some(Schedule { rhythm: Rhythm::Cron(Box::new(ticks)), idle: None }));
        assert_eq!(task.call(60_000), None);
        assert_eq!(task.call(60_000).unwrap(), "though it was due at 2020-01-01T00:02:00Z");
        assert_eq!(task.attempt(0, (120_000, 200_000), None), None);
        assert_eq!(task.overdue(240_200).unwrap(), "was not called, though it was due at 2020-01-01T00:04:00Z");
    }
}
