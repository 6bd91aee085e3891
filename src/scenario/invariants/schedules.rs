//! The rules of schedules: one call at a time, no tick is run again after its end was stored, and none is lost: neither
//! while the operator runs, nor over restarts if missed ticks are caught up.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::apiserver::ApiServer;
use crate::apiserver::storage::resource::Resource;
use crate::handling::schedule::CronSchedule;
use crate::manifest::Operator;
use crate::persistence::ScheduleRecord;
use crate::persistence::schedule::{config_map, key};

/// How late a call may be at the end of a run.
const TOLERANCE: Duration = Duration::from_secs(2);

/// The schedules of one operator.
pub(super) struct DeclaredSchedules {
    /// The name of the ConfigMap that remembers them.
    stored_in: String,
    pub rules: BTreeMap<String, CronSchedule>,
}

impl DeclaredSchedules {
    pub(super) fn of(operator: &Operator) -> Self {
        let rules = operator.schedules.iter().map(|one| (one.handler.id.clone(), one.schedule.clone()));
        Self { stored_in: config_map(&operator.name), rules: rules.collect() }
    }

    /// Returns the stored time until which the ticks of a schedule are done.
    pub(super) fn done_until(&self, api: &ApiServer, id: &str) -> Option<Timestamp> {
        let rules = self.rules.get(id)?;
        let config_maps = Resource { group: String::new(), plural: "configmaps".to_owned() };
        let all = api.list(&config_maps, None);
        let stored = all
            .iter()
            .map(|(_, stored)| &stored.value)
            .find(|object| object["metadata"]["name"] == self.stored_in.as_str())?;
        ScheduleRecord::read(stored["data"][key(id)].as_str()?)?.done_until(rules)
    }
}

/// The schedules of the current operator run, by operator number and id.
#[derive(Debug, Default)]
pub(super) struct ScheduleChecks {
    observed: BTreeMap<(usize, String), Observed>,
}

/// A schedule in one operator run.
#[derive(Debug)]
struct Observed {
    rules: CronSchedule,
    started_at: Timestamp,
    /// All ticks up to this time were done before the start.
    done_until: Option<Timestamp>,
    /// The last attempt.
    last: Option<Attempt>,
    /// The last pause of the operator.
    pause: Pause,
}

/// The last pause of an operator. No tick is due in it.
#[derive(Debug, Clone, Copy, Default)]
enum Pause {
    /// There was none.
    #[default]
    Never,
    /// It has not ended.
    Now,
    /// It has ended at this time.
    Until(Timestamp),
}

#[derive(Debug, Clone, Copy)]
struct Attempt {
    tick: Timestamp,
    retry: u64,
    /// `None` while it runs.
    ended_at: Option<Timestamp>,
}

/// The ticks of a schedule, as they are known from outside of the operator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// The current time.
    pub now: Timestamp,
    /// The stored time until which all ticks are done, if there is one.
    pub done_until: Option<Timestamp>,
}

type Key = (usize, String);

impl ScheduleChecks {
    /// Notes that the operator run has ended, with its calls.
    pub(super) fn run_ended(&mut self) {
        self.observed.clear();
    }

    /// Notes the start of a schedule.
    pub(super) fn started(&mut self, key: Key, rules: &CronSchedule, known: Known) {
        let Known { now, done_until } = known;
        let done_until = done_until.filter(|_| rules.catches_up);
        self.observed.insert(
            key,
            Observed { rules: rules.clone(), started_at: now, done_until, last: None, pause: Pause::Never },
        );
    }

    /// Notes the beginning or the end of a pause of an operator.
    pub(super) fn paused(&mut self, operator: usize, is_paused: bool, now: Timestamp) {
        for (_, observed) in self.observed.iter_mut().filter(|(key, _)| key.0 == operator) {
            observed.pause = if is_paused { Pause::Now } else { Pause::Until(now) };
        }
    }

    /// Notes the start of a call.
    pub(super) fn called(&mut self, key: &Key, tick: Timestamp, retry: u64, known: Known) -> Option<String> {
        let id = &key.1;
        let Some(observed) = self.observed.get_mut(key) else {
            return Some(format!("`{id}` was called before its start"));
        };
        let violation = observed.violation(id, tick, retry, known);
        observed.last = Some(Attempt { tick, retry, ended_at: None });
        violation
    }

    /// Notes the end of a call.
    pub(super) fn ended(&mut self, key: &Key, now: Timestamp) {
        if let Some(last) = self.observed.get_mut(key).and_then(|observed| observed.last.as_mut()) {
            last.ended_at = Some(now);
        }
    }

    /// Checks at the end that no tick is lost, and that the state to be remembered is stored.
    pub(super) fn verify(&self, known: impl Fn(&Key) -> Known) -> Vec<String> {
        let verify = |(key, observed): (&Key, &Observed)| {
            let (id, Known { now, done_until }) = (&key.1, known(key));
            let is_paused = matches!(observed.pause, Pause::Now);
            if let Some(due) = observed.due(now).filter(|due| !is_paused && *due + TOLERANCE < now) {
                return Some(format!("`{id}` was not called for its tick {due}"));
            }
            (observed.rules.catches_up && done_until.is_none()).then(|| format!("`{id}` has stored nothing"))
        };
        self.observed.iter().filter_map(verify).collect()
    }
}

impl Observed {
    /// Returns the tick that comes next, or has come; `None` while a call runs, and if there is none.
    fn due(&self, now: Timestamp) -> Option<Timestamp> {
        let Self { rules, started_at, done_until, last, pause } = self;
        let after_pause = |moment: Timestamp| match pause {
            Pause::Until(end) => moment.max(*end),
            Pause::Never | Pause::Now => moment,
        };
        let missed = |since: Timestamp, until: Timestamp| rules.latest(since, until).filter(|_| rules.catches_up);
        match last {
            Some(Attempt { tick, ended_at, .. }) => {
                let ended_at = after_pause((*ended_at)?);
                missed(*tick, ended_at).or_else(|| rules.ticks.next_after(ended_at.max(*tick)))
            }
            None => done_until
                .and_then(|since| missed(since, now))
                .or_else(|| rules.ticks.next_after(after_pause(*started_at))),
        }
    }

    fn violation(&self, id: &str, tick: Timestamp, retry: u64, known: Known) -> Option<String> {
        if self.last.is_some_and(|last| last.ended_at.is_none()) {
            return Some(format!("two calls of `{id}` at the same time"));
        }
        if retry > 0 {
            let is_next = self.last.is_some_and(|last| last.tick == tick && last.retry + 1 == retry);
            return (!is_next).then(|| format!("`{id}#{retry}` was called for {tick} without the attempt before it"));
        }
        if self.rules.catches_up && known.done_until.is_some_and(|done| tick <= done) {
            return Some(format!("`{id}` was called for {tick}, though that is stored as done"));
        }
        if self.last.is_some_and(|last| tick <= last.tick) {
            return Some(format!("`{id}` was called again for {tick}"));
        }
        if !self.rules.catches_up && tick <= self.started_at {
            return Some(format!("`{id}` was called for {tick}, before its start"));
        }
        let due = self.due(known.now);
        // A tick after the start may have come before the stored state was read.
        let is_lost = if self.last.is_some() { due != Some(tick) } else { due.is_none_or(|due| tick > due) };
        is_lost.then(|| format!("`{id}` was called for {tick}, though {} was due", due.unwrap_or(tick)))
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use croner::Cron;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::handling::timer::Ticks;

    fn at(minutes: i64, seconds: i64) -> Timestamp {
        Timestamp::from_second(1_577_836_800 + 60 * minutes + seconds).unwrap()
    }

    fn of_s() -> Key {
        (0, "s".to_owned())
    }

    /// Checks of a schedule with a tick each minute, which starts at half a minute.
    fn started(catches_up: bool, done_until: Option<Timestamp>) -> ScheduleChecks {
        let ticks = Ticks { cron: Cron::from_str("* * * * *").unwrap(), timezone: TimeZone::UTC };
        let mut checks = ScheduleChecks::default();
        checks.started(of_s(), &CronSchedule { ticks, catches_up }, Known { now: at(0, 30), done_until });
        checks
    }

    fn call(
        checks: &mut ScheduleChecks,
        minute: i64,
        retry: u64,
        now: Timestamp,
        done_until: Option<Timestamp>,
    ) -> Option<String> {
        let violation = checks.called(&of_s(), at(minute, 0), retry, Known { now, done_until });
        checks.ended(&of_s(), now);
        violation
    }

    fn verify(checks: &ScheduleChecks, now: Timestamp) -> Vec<String> {
        checks.verify(|_| Known { now, done_until: Some(now) })
    }

    #[test]
    fn each_tick_is_run_once_and_none_is_left_out() {
        let mut checks = started(false, None);
        let mut call = |minute, retry| call(&mut checks, minute, retry, at(minute, 1), None);
        assert_eq!((call(1, 0), call(1, 1), call(2, 0)), (None, None, None));
        assert_eq!(call(2, 0).unwrap(), "`s` was called again for 2020-01-01T00:02:00Z");
        assert_eq!(call(4, 0).unwrap(), "`s` was called for 2020-01-01T00:04:00Z, though 2020-01-01T00:03:00Z was due");
        assert_eq!(call(4, 2).unwrap(), "`s#2` was called for 2020-01-01T00:04:00Z without the attempt before it");
    }

    #[test]
    fn calls_at_the_same_time_and_before_the_start_are_violations() {
        let mut checks = started(false, None);
        let known = Known { now: at(1, 0), done_until: None };
        assert_eq!(
            checks.called(&of_s(), at(0, 0), 0, known).unwrap(),
            "`s` was called for 2020-01-01T00:00:00Z, before its start"
        );
        assert_eq!(checks.called(&of_s(), at(1, 0), 0, known).unwrap(), "two calls of `s` at the same time");
        checks.run_ended();
        assert_eq!(checks.called(&of_s(), at(1, 0), 0, known).unwrap(), "`s` was called before its start");
    }

    #[test]
    fn ticks_before_the_start_are_caught_up_unless_they_are_stored_as_done() {
        let mut checks = started(true, Some(at(-10, 0)));
        assert_eq!(verify(&checks, at(0, 40)), ["`s` was not called for its tick 2020-01-01T00:00:00Z"]);
        assert_eq!(call(&mut checks, 0, 0, at(0, 31), Some(at(-10, 0))), None);
        let stored = call(&mut checks, 1, 0, at(1, 0), Some(at(1, 0)));
        assert_eq!(stored.unwrap(), "`s` was called for 2020-01-01T00:01:00Z, though that is stored as done");
        assert!(verify(&started(true, Some(at(0, 0))), at(0, 40)).is_empty());
        assert!(verify(&started(true, None), at(0, 40)).is_empty());
        let unstored = started(true, None).verify(|_| Known { now: at(0, 40), done_until: None });
        assert_eq!(unstored, ["`s` has stored nothing"]);
    }

    #[test]
    fn a_tick_that_was_not_run_is_found_at_the_end() {
        let mut checks = started(false, None);
        assert!(verify(&checks, at(1, 1)).is_empty(), "it may be a little late");
        assert_eq!(verify(&checks, at(1, 3)), ["`s` was not called for its tick 2020-01-01T00:01:00Z"]);
        assert_eq!(call(&mut checks, 1, 0, at(3, 30), None), None);
        assert!(verify(&checks, at(3, 59)).is_empty(), "the ticks during the call are skipped");
        assert_eq!(verify(&checks, at(4, 3)), ["`s` was not called for its tick 2020-01-01T00:04:00Z"]);
    }
}
