//! The breaker of one object: slows the object down if its handlers keep triggering themselves.
//!
//! ```text
//!            more cycles than the threshold, begun by own writes
//!  counting ────────────────────────────────────────────────────► slowed: each further one doubles the delay
//!     ▲                                                              │
//!     └── a change by others, a cycle that writes nothing, time ─────┘
//! ```
//!
//! Only cycles that would go on for ever count: a write of the operator has begun them, and they write again. Handlers
//! that wait for their next attempt, and handlers that finish one after another, do not count.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::message::{Message, seconds};
use super::progress::{Moment, time_between};

/// The first delay; each further cycle doubles it.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Retries after less than this count as repetitions without a pause. Ten attempts of a handler per second are its
/// author's decision.
pub(crate) const OWN_DELAY: Duration = Duration::from_millis(100);

/// How many of the last cycles are described: several handlers may alternate.
const DESCRIBED: usize = 8;

/// How many handlers, and how many fields, are named.
const MAX_NAMED: usize = 10;

/// When an object counts as looping, and how far it is slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The allowed cycles within the period.
    pub cycles: u32,
    /// The period.
    pub period: Duration,
    /// The longest delay before a cycle.
    pub max_delay: Duration,
}

impl Default for Threshold {
    fn default() -> Self {
        Self { cycles: 300, period: Duration::from_mins(10), max_delay: Duration::from_mins(5) }
    }
}

/// The cause of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A write of an earlier cycle of the object.
    OwnWrite,
    /// A change by others that handlers may react to: of the essence, or a requested deletion.
    Change,
    /// Anything else, such as a list, or a change by others of the status.
    Other,
}

/// The effect of a cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing is left to do: neither an event of an own write is expected, nor another attempt.
    Rest,
    /// It has come further: a handler has finished while others have not, or waits for its next attempt.
    Advance,
    /// It has written to the object, and the event of that begins the next cycle at once.
    Again,
}

/// One cycle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// The cause of the cycle.
    pub trigger: Trigger,
    /// The effect of the cycle.
    pub effect: Effect,
    /// The ids of the called handlers.
    pub handlers: Vec<String>,
    /// The paths of the fields that they have changed, without the operator's own annotations.
    pub fields: Vec<String>,
}

/// The recent cycles of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Breaker {
    /// The counted cycles since the beginning of the period.
    counted: u32,
    since: Option<Timestamp>,
    last: Option<Timestamp>,
    /// The handlers and the fields of the last counted cycles.
    recent: VecDeque<(Vec<String>, Vec<String>)>,
    slowed: Option<Slowed>,
}

/// The state of an object that is slowed down.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slowed {
    delay: Duration,
    until: Timestamp,
    description: Loop,
}

/// An object that keeps triggering itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// The counted cycles.
    pub cycles: u32,
    /// The time that they have taken.
    pub time: Duration,
    /// The longest delay before the next cycles.
    pub max_delay: Duration,
    /// The ids of the handlers of the last cycles.
    pub handlers: Vec<String>,
    /// The paths of the fields that the last cycles have changed.
    pub fields: Vec<String>,
}

/// A change of the state that is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// The object is slowed down from now on.
    Began(Loop),
    /// The slowdown of the object has ended.
    Ended(Why),
}

/// The reason why the slowdown of an object has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Others have changed it.
    Changed,
    /// It has stopped triggering itself.
    Rested,
    /// The operator was reloaded.
    Reloaded,
}

impl Breaker {
    /// Tells whether nothing has to be remembered.
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the reason why the object is slowed down, if it is.
    pub fn slowed(&self) -> Option<&Loop> {
        self.slowed.as_ref().map(|slowed| &slowed.description)
    }

    /// Returns when the next cycle may begin that an own write has triggered. Other cycles do not wait.
    pub fn paused_until(&self) -> Option<Timestamp> {
        self.slowed.as_ref().map(|slowed| slowed.until)
    }

    /// Records that a cycle begins.
    pub fn begin(&mut self, trigger: Trigger, threshold: Threshold, now: Timestamp) -> Option<Report> {
        if trigger == Trigger::Change {
            return self.reset(Why::Changed);
        }
        let delay = self.slowed.as_ref().map_or(Duration::ZERO, |slowed| slowed.delay);
        let limit = threshold.period.saturating_add(delay);
        let is_outdated = self.last.is_some_and(|last| time_between(last, now) > limit);
        if is_outdated { self.reset(Why::Rested) } else { None }
    }

    /// Records the end of a cycle.
    pub fn end(&mut self, cycle: Cycle, threshold: Threshold, now: Timestamp) -> Option<Report> {
        match (cycle.effect, cycle.trigger) {
            (Effect::Rest, _) => self.reset(Why::Rested),
            (Effect::Again, Trigger::OwnWrite) => self.count(cycle, threshold, now),
            _ => None,
        }
    }

    /// Forgets all cycles.
    pub fn reset(&mut self, why: Why) -> Option<Report> {
        std::mem::take(self).slowed.map(|_| Report::Ended(why))
    }

    fn count(&mut self, cycle: Cycle, threshold: Threshold, now: Timestamp) -> Option<Report> {
        self.last = Some(now);
        self.recent.push_back((cycle.handlers, cycle.fields));
        if self.recent.len() > DESCRIBED {
            self.recent.pop_front();
        }
        if let Some(slowed) = &mut self.slowed {
            slowed.delay = slowed.delay.saturating_mul(2).min(threshold.max_delay);
            slowed.until = Moment::after(now, slowed.delay).at;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if time_between(since, now) > threshold.period {
            (self.since, self.counted) = (Some(now), 0);
        }
        self.counted = self.counted.saturating_add(1);
        if self.counted <= threshold.cycles {
            return None;
        }
        let delay = FIRST_DELAY.min(threshold.max_delay);
        let description = Loop {
            cycles: self.counted,
            time: time_between(since, now),
            max_delay: threshold.max_delay,
            handlers: distinct(self.recent.iter().flat_map(|(handlers, _)| handlers)),
            fields: distinct(self.recent.iter().flat_map(|(_, fields)| fields)),
        };
        self.slowed = Some(Slowed { delay, until: Moment::after(now, delay).at, description: description.clone() });
        Some(Report::Began(description))
    }
}

impl Report {
    /// Returns the line of the log.
    pub fn message(&self) -> Message {
        match self {
            Self::Began(found) => {
                let delays = format!(
                    "Its next cycles are delayed by up to {} seconds, until others change it.",
                    seconds(found.max_delay)
                );
                Message::warning(format!("The object keeps triggering itself: {}.", found.describe()))
                    .followed_by(delays)
            }
            Self::Ended(why) => {
                let reason = match why {
                    Why::Changed => "others have changed it",
                    Why::Rested => "it does not trigger itself any more",
                    Why::Reloaded => "the operator was reloaded",
                };
                Message::info(format!("The object is not slowed down any more: {reason}."))
            }
        }
    }
}

impl Loop {
    /// Describes the cycles: how many, their handlers, and their fields. Values are left out, since they may be secret.
    pub fn describe(&self) -> String {
        let Self { cycles, time, handlers, fields, .. } = self;
        let count = format!("{cycles} cycles within {} seconds without a change by others", seconds(rounded_up(*time)));
        let handlers = if handlers.is_empty() { "none".to_owned() } else { named(handlers, "'") };
        let fields =
            if fields.is_empty() { "none but the progress of the handlers".to_owned() } else { named(fields, "") };
        format!("{count}; handlers: {handlers}; changed fields: {fields}")
    }
}

/// Returns a time in whole seconds, at least one.
fn rounded_up(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0)).max(Duration::from_secs(1))
}

fn named(names: &[String], quote: &str) -> String {
    let shown: Vec<String> = names.iter().take(MAX_NAMED).map(|name| format!("{quote}{name}{quote}")).collect();
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    shown.join(", ") + &more
}

fn distinct<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    names.collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLD: Threshold =
        Threshold { cycles: 3, period: Duration::from_mins(1), max_delay: Duration::from_secs(5) };

    /// A breaker, and the time in milliseconds.
    #[derive(Default)]
    struct Object {
        breaker: Breaker,
        now: i64,
    }

    impl Object {
        fn time(&self) -> Timestamp {
            Timestamp::from_millisecond(self.now).unwrap()
        }

        /// Runs a cycle after some milliseconds. Returns its reports.
        fn cycle(&mut self, after: i64, trigger: Trigger, effect: Effect) -> Vec<Report> {
            self.cycle_of(after, trigger, effect, "made", "spec.n")
        }

        fn cycle_of(
            &mut self,
            after: i64,
            trigger: Trigger,
            effect: Effect,
            handler: &str,
            field: &str,
        ) -> Vec<Report> {
            self.now += after;
            let began = self.breaker.begin(trigger, THRESHOLD, self.time());
            let fields = if field.is_empty() { Vec::new() } else { vec![field.to_owned()] };
            let cycle = Cycle { trigger, effect, handlers: vec![handler.to_owned()], fields };
            let ended = self.breaker.end(cycle, THRESHOLD, self.time());
            began.into_iter().chain(ended).collect()
        }

        /// Runs this many cycles that trigger themselves. Returns the reports.
        fn looped(&mut self, cycles: usize) -> Vec<Report> {
            (0..cycles).flat_map(|_| self.cycle(10, Trigger::OwnWrite, Effect::Again)).collect()
        }

        /// Returns the milliseconds until the next cycle.
        fn pause(&self) -> i64 {
            self.breaker.paused_until().map_or(0, |until| until.as_millisecond() - self.now)
        }
    }

    /// Returns an object that is slowed down.
    fn slowed() -> Object {
        let mut object = Object::default();
        assert_eq!(object.looped(4).len(), 1);
        object
    }

    #[test]
    fn an_object_that_triggers_itself_too_often_is_slowed_down_once() {
        let mut object = Object::default();
        assert_eq!(object.cycle(0, Trigger::Change, Effect::Again), []);
        assert_eq!(object.looped(3), []);
        assert_eq!(object.pause(), 0);
        let reports = object.looped(1);
        let found = object.breaker.slowed().unwrap().clone();
        assert_eq!(reports, [Report::Began(found.clone())]);
        assert_eq!(
            found.describe(),
            "4 cycles within 1 seconds without a change by others; handlers: 'made'; changed fields: spec.n"
        );
        assert_eq!(object.looped(5), [], "it is reported once");
    }

    #[test]
    fn the_delays_double_up_to_the_longest_one() {
        let mut object = slowed();
        let mut pauses = vec![object.pause()];
        for _ in 0..4 {
            object.cycle(object.pause(), Trigger::OwnWrite, Effect::Again);
            pauses.push(object.pause());
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000, 5_000, 5_000]);
    }

    #[test]
    fn a_change_by_others_ends_everything_at_once() {
        let mut object = slowed();
        assert_eq!(object.cycle(1, Trigger::Change, Effect::Again), [Report::Ended(Why::Changed)]);
        assert!(object.breaker.is_idle() && object.pause() == 0);
        assert_eq!(object.looped(3), [], "the count begins anew");
        assert_eq!(object.looped(1).len(), 1);
    }

    #[test]
    fn a_cycle_after_which_nothing_is_left_to_do_ends_everything() {
        for trigger in [Trigger::OwnWrite, Trigger::Other] {
            let mut object = slowed();
            assert_eq!(object.cycle(1, trigger, Effect::Rest), [Report::Ended(Why::Rested)]);
            assert!(object.breaker.is_idle());
        }
    }

    #[test]
    fn an_object_without_counted_cycles_for_a_period_is_no_longer_slowed_down() {
        let mut object = slowed();
        // The period, and the delay of one second.
        assert_eq!(object.cycle(61_000, Trigger::OwnWrite, Effect::Advance), []);
        assert_eq!(object.cycle(1, Trigger::OwnWrite, Effect::Advance), [Report::Ended(Why::Rested)]);
    }

    #[test]
    fn other_cycles_neither_count_nor_end_anything() {
        let mut object = Object::default();
        for _ in 0..50 {
            assert_eq!(object.cycle(10, Trigger::OwnWrite, Effect::Advance), []);
            assert_eq!(object.cycle(10, Trigger::Other, Effect::Again), []);
        }
        assert!(object.breaker.is_idle());
        let mut object = slowed();
        object.cycle(10, Trigger::OwnWrite, Effect::Advance);
        object.cycle(10, Trigger::Other, Effect::Again);
        assert_eq!(object.pause(), 1_000 - 20);
    }

    #[test]
    fn a_slow_pace_is_allowed_for_ever() {
        let mut object = Object::default();
        // Three cycles within a minute.
        assert!((0..1_000).all(|_| object.cycle(20_500, Trigger::OwnWrite, Effect::Again).is_empty()));
        assert_eq!(object.looped(4).len(), 1);
    }

    #[test]
    fn alternating_handlers_and_fields_are_named_without_values() {
        let mut object = Object::default();
        object.cycle_of(1, Trigger::OwnWrite, Effect::Again, "first", "");
        for (handler, field) in [("b", "spec.b"), ("a", "spec.a"), ("b", "spec.b")] {
            object.cycle_of(500, Trigger::OwnWrite, Effect::Again, handler, field);
        }
        let text = Report::Began(object.breaker.slowed().unwrap().clone()).message().to_string();
        let expected = "The object keeps triggering itself: 4 cycles within 2 seconds without a change by others; \
            handlers: 'a', 'b', 'first'; changed fields: spec.a, spec.b. \
            Its next cycles are delayed by up to 5 seconds, until others change it.";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_the_last_cycles_are_described_and_long_lists_are_cut() {
        let mut object = Object::default();
        object.cycle_of(1, Trigger::OwnWrite, Effect::Again, "old", "");
        assert!(object.breaker.recent.len() == 1);
        (0..20).for_each(|_| drop(object.cycle(1, Trigger::OwnWrite, Effect::Again)));
        assert_eq!(object.breaker.recent.len(), DESCRIBED);
        let names: Vec<String> = (0..12).map(|number| format!("n{number:02}")).collect();
        assert!(named(&names, "'").ends_with("'n09', and 2 more"));
        let progress =
            Loop { cycles: 1, time: Duration::ZERO, max_delay: FIRST_DELAY, handlers: names, fields: Vec::new() };
        assert!(progress.describe().ends_with("changed fields: none but the progress of the handlers"));
    }
}
