//! Trials of a new revision: which objects it serves meanwhile, and whether it is promoted or rolled back.
//!
//! The counts come from outside; so does the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::object::Resource;

use super::handler::Handler;

/// Failed calls below which a revision is not rolled back because of errors: one error of one call decides nothing.
const MIN_ERRORS: u64 = 3;

/// The rate of failed calls up to which a revision is not rolled back.
const MIN_ERROR_RATE: f64 = 0.01;

/// Writes per written object up to which a revision is not rolled back: a creation with some handlers and updates
/// writes less often.
const MIN_WRITES: f64 = 10.0;

/// Calls of a handler, on each side, below which their times are not compared.
const MIN_CALLS: u64 = 10;

/// Running calls of a handler below which they do not count as hanging, and ended ones before with which they are
/// compared.
const MIN_HANGING: u64 = 3;

/// The time up to which a running call does not count as hanging.
const MIN_HANGING_TIME: Duration = Duration::from_secs(30);

/// The mean time of a call up to which a revision is not rolled back: shorter times differ by the load of the machine.
const MIN_TIME: Duration = Duration::from_millis(100);

/// A stable share of all objects, by their unique ids: the same for every revision and every process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    percent: u8,
}

impl Share {
    /// Returns a share in percent of all objects.
    pub fn of_percent(percent: u8) -> Self {
        Self { percent }
    }

    /// Tells whether an object is in the share.
    pub fn holds(self, uid: &str) -> bool {
        // The upper bits decide, since they depend on all bytes.
        ((hash(uid) >> 32) * 100) >> 32 < u64::from(self.percent)
    }
}

/// FNV-1a with the finalizer of MurmurHash3, so that ids which differ in their last digits are spread evenly.
fn hash(uid: &str) -> u64 {
    let folded = uid
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (folded ^ (folded >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
}

/// The objects that a revision serves while it is on trial: a share of those of the kinds that it declares.
#[derive(Debug, Clone)]
pub struct TrialScope {
    share: Share,
    handlers: Vec<Arc<Handler>>,
}

impl TrialScope {
    /// Returns the scope of a revision with these handlers.
    pub fn new(share: Share, handlers: Vec<Arc<Handler>>) -> Self {
        Self { share, handlers }
    }

    /// Tells whether the revision serves an object. A kind that it does not declare is left to the other revision.
    pub fn includes(&self, uid: &str, resource: &Resource) -> bool {
        self.share.holds(uid) && self.handlers.iter().any(|handler| handler.concerns(resource))
    }
}

/// How much worse a revision may be: factors of the figures of the revision before. `None` means that a figure is not
/// compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialLimits {
    /// The rate of failed calls.
    pub errors: Option<f64>,
    /// Writes per written object.
    pub writes: Option<f64>,
    /// The mean time of the calls of a handler.
    pub time: Option<f64>,
}

impl Default for TrialLimits {
    fn default() -> Self {
        Self { errors: Some(2.0), writes: Some(3.0), time: Some(3.0) }
    }
}

/// The counts of one of the two revisions since the beginning of the trial.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SideCounts {
    /// Ended calls of functions for objects, and cycles that failed outside of them.
    pub calls: u64,
    /// The number of failed calls. A temporary error asks for another call, and does not count.
    pub errors: u64,
    /// Changes of objects that were sent after calls.
    pub writes: u64,
    /// The objects that were changed.
    pub written: u64,
    /// The ended calls of each handler, without daemons.
    pub times: BTreeMap<String, CallTimes>,
    /// How long each running call of each handler has taken so far, without daemons.
    pub running: BTreeMap<String, Vec<Duration>>,
}

/// The times of the ended calls of a handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallTimes {
    /// The number of the calls.
    pub calls: u64,
    /// The sum of their times.
    pub total: Duration,
    /// The time of the longest one.
    pub longest: Duration,
}

impl CallTimes {
    /// Adds a call.
    pub fn add(&mut self, time: Duration) {
        self.calls += 1;
        self.total += time;
        self.longest = self.longest.max(time);
    }

    /// Returns the mean, if there are enough calls for one.
    fn mean(&self) -> Option<Duration> {
        (self.calls >= MIN_CALLS).then(|| self.total.div_f64(self.calls as f64))
    }
}

impl SideCounts {
    /// Returns the rate of failed calls.
    pub fn error_rate(&self) -> f64 {
        ratio(self.errors, self.calls)
    }

    /// Returns the writes per written object.
    pub fn writes_per_object(&self) -> f64 {
        ratio(self.writes, self.written)
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The decision about a revision on trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialVerdict {
    /// The trial goes on.
    Continue,
    /// The revision takes effect for all objects.
    Promote,
    /// The revision before serves all objects again.
    RollBack(Fault),
}

/// The reason why a revision is rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The figure that is worse.
    pub figure: Figure,
    /// The comparison, as a sentence without its beginning and end.
    pub text: String,
}

/// A compared figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// The rate of failed calls.
    Errors,
    /// Writes per object.
    Writes,
    /// The time per call.
    Time,
}

impl Figure {
    /// Returns its name in the settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Errors => "errors",
            Self::Writes => "writes",
            Self::Time => "time",
        }
    }
}

/// Decides about a trial. A revision that is clearly worse is rolled back at once; one that is not is promoted at the
/// end.
pub fn decide(limits: &TrialLimits, is_over: bool, old: &SideCounts, new: &SideCounts) -> TrialVerdict {
    let fault = errors(limits, old, new).or_else(|| writes(limits, old, new)).or_else(|| time(limits, old, new));
    match fault {
        Some(fault) => TrialVerdict::RollBack(fault),
        None if is_over => TrialVerdict::Promote,
        None => TrialVerdict::Continue,
    }
}

fn errors(limits: &TrialLimits, old: &SideCounts, new: &SideCounts) -> Option<Fault> {
    let (before, after, factor) = (old.error_rate(), new.error_rate(), limits.errors?);
    let is_above = if factor * before < 1.0 {
        after > factor * before
    } else {
        // No rate is that high: the rates of successful calls are compared.
        // As products of whole numbers, since quotients are not exact.
        let left = (new.calls - new.errors) * old.calls;
        let left_before = (old.calls - old.errors) * new.calls;
        new.calls >= MIN_CALLS && factor * (left as f64) < left_before as f64
    };
    let is_worse = new.errors >= MIN_ERRORS && after > MIN_ERROR_RATE && is_above;
    let shown = |side: &SideCounts| format!("{} of {} calls ({})", side.errors, side.calls, percent(side.error_rate()));
    is_worse
        .then(|| Fault { figure: Figure::Errors, text: format!("{} have failed, before {}", shown(new), shown(old)) })
}

fn writes(limits: &TrialLimits, old: &SideCounts, new: &SideCounts) -> Option<Fault> {
    let (before, after) = (old.writes_per_object(), new.writes_per_object());
    let is_worse = after > MIN_WRITES && after > limits.writes? * before;
    let text = || format!("{after:.1} writes were sent for each written object, before {before:.1}");
    is_worse.then(|| Fault { figure: Figure::Writes, text: text() })
}

fn time(limits: &TrialLimits, old: &SideCounts, new: &SideCounts) -> Option<Fault> {
    let factor = limits.time?;
    let handlers = new.times.keys().chain(new.running.keys());
    handlers.into_iter().find_map(|handler| {
        let before = old.times.get(handler)?;
        let running = new.running.get(handler).map(Vec::as_slice).unwrap_or_default();
        slow(factor, handler, before, new, running).or_else(|| hanging(factor, handler, before, running))
    })
}

/// Compares the mean times. A running call counts with the time that it has taken so far: it can only become longer.
fn slow(factor: f64, handler: &str, before: &CallTimes, new: &SideCounts, running: &[Duration]) -> Option<Fault> {
    let mut after = new.times.get(handler).copied().unwrap_or_default();
    let (before, ended) = (before.mean()?, after.mean());
    for time in running {
        after.add(*time);
    }
    let after = ended.max(after.mean())?;
    let is_worse = after > MIN_TIME && after.as_secs_f64() > factor * before.as_secs_f64();
    let text = || format!("a call of '{handler}' took {} on average, before {}", seconds(after), seconds(before));
    is_worse.then(|| Fault { figure: Figure::Time, text: text() })
}

/// Finds calls that do not end, though each one did before.
fn hanging(factor: f64, handler: &str, before: &CallTimes, running: &[Duration]) -> Option<Fault> {
    let limit = before.longest.mul_f64(factor).max(MIN_HANGING_TIME);
    let count = running.iter().filter(|time| **time > limit).count() as u64;
    let is_worse = count >= MIN_HANGING && before.calls >= MIN_HANGING;
    let text = || {
        let (limit, longest) = (seconds(limit), seconds(before.longest));
        format!("{count} calls of '{handler}' have run for more than {limit}, before the longest one took {longest}")
    };
    is_worse.then(|| Fault { figure: Figure::Time, text: text() })
}

fn percent(rate: f64) -> String {
    let percent = rate * 100.0;
    if percent > 0.0 && percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

fn seconds(duration: Duration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handling::On;
    use crate::object::Selector;

    fn errors_of(errors: u64, calls: u64) -> SideCounts {
        SideCounts { calls, errors, ..SideCounts::default() }
    }

    fn writes_of(writes: u64, written: u64) -> SideCounts {
        SideCounts { writes, written, ..SideCounts::default() }
    }

    fn times_of(calls: u64, each: Duration) -> SideCounts {
        let times = CallTimes { calls, total: each * calls as u32, longest: each };
        SideCounts { times: BTreeMap::from([("made".to_owned(), times)]), ..SideCounts::default() }
    }

    /// Returns the text of a rollback, or the verdict.
    fn verdict(old: &SideCounts, new: &SideCounts) -> String {
        told(decide(&TrialLimits::default(), false, old, new))
    }

    fn told(verdict: TrialVerdict) -> String {
        match verdict {
            TrialVerdict::RollBack(fault) => format!("{}: {}", fault.figure.word(), fault.text),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn few_failures_decide_nothing() {
        assert_eq!(verdict(&errors_of(0, 1_000), &errors_of(1, 1)), "Continue");
        assert_eq!(verdict(&errors_of(0, 1_000), &errors_of(2, 2)), "Continue");
        assert_eq!(
            verdict(&errors_of(0, 1_000), &errors_of(3, 3)),
            "errors: 3 of 3 calls (100 %) have failed, before 0 of 1000 calls (0 %)"
        );
        assert_eq!(verdict(&errors_of(0, 0), &errors_of(3, 300)), "Continue", "one percent is not above one percent");
        assert_eq!(
            verdict(&errors_of(0, 0), &errors_of(4, 300)),
            "errors: 4 of 300 calls (1.3 %) have failed, before 0 of 0 calls (0 %)"
        );
    }

    #[test]
    fn errors_are_compared_with_the_rate_before() {
        assert_eq!(verdict(&errors_of(300, 1_000), &errors_of(60, 100)), "Continue", "twice the rate is allowed");
        assert_eq!(
            verdict(&errors_of(300, 1_000), &errors_of(61, 100)),
            "errors: 61 of 100 calls (61 %) have failed, before 300 of 1000 calls (30 %)"
        );
        let limits = TrialLimits { errors: Some(1.5), ..TrialLimits::default() };
        assert!(matches!(
            decide(&limits, false, &errors_of(300, 1_000), &errors_of(50, 100)),
            TrialVerdict::RollBack(_)
        ));
        let limits = TrialLimits { errors: None, ..TrialLimits::default() };
        assert_eq!(decide(&limits, false, &errors_of(0, 1_000), &errors_of(100, 100)), TrialVerdict::Continue);
    }

    #[test]
    fn a_rate_that_cannot_be_doubled_is_compared_by_what_is_left_of_successes() {
        let failing = errors_of(600, 1_000);
        assert_eq!(verdict(&failing, &errors_of(80, 100)), "Continue", "half of the successes are left");
        assert_eq!(
            verdict(&failing, &errors_of(81, 100)),
            "errors: 81 of 100 calls (81 %) have failed, before 600 of 1000 calls (60 %)"
        );
        assert_eq!(verdict(&failing, &errors_of(9, 9)), "Continue", "too few calls");
        assert_eq!(verdict(&errors_of(10, 10), &errors_of(1_000, 1_000)), "Continue", "it cannot be worse");
    }

    fn running(times: &[u64], side: SideCounts) -> SideCounts {
        let times = times.iter().copied().map(Duration::from_secs).collect();
        SideCounts { running: BTreeMap::from([("made".to_owned(), times)]), ..side }
    }

    #[test]
    fn calls_that_do_not_end_are_seen() {
        let before = times_of(10, Duration::from_secs(2));
        assert_eq!(
            verdict(&before, &running(&[6; 10], SideCounts::default())),
            "Continue",
            "three times as long is allowed"
        );
        assert_eq!(
            verdict(&before, &running(&[7; 10], SideCounts::default())),
            "time: a call of 'made' took 7.000 s on average, before 2.000 s"
        );
        assert_eq!(verdict(&before, &running(&[1; 90], times_of(10, Duration::from_secs(2)))), "Continue");
        let few = times_of(3, Duration::from_secs(11));
        assert_eq!(verdict(&few, &running(&[33, 33, 34], SideCounts::default())), "Continue");
        assert_eq!(
            verdict(&few, &running(&[34; 3], SideCounts::default())),
            "time: 3 calls of 'made' have run for more than 33.000 s, before the longest one took 11.000 s"
        );
        assert_eq!(verdict(&few, &running(&[34; 2], SideCounts::default())), "Continue", "too few calls");
        assert_eq!(
            verdict(&times_of(3, Duration::from_secs(1)), &running(&[30; 3], SideCounts::default())),
            "Continue",
            "not long enough"
        );
        assert_eq!(
            verdict(&SideCounts::default(), &running(&[3600; 9], SideCounts::default())),
            "Continue",
            "it may have been as long before"
        );
    }

    #[test]
    fn a_loop_is_seen_by_the_writes_for_each_written_object() {
        assert_eq!(verdict(&writes_of(0, 0), &writes_of(10, 1)), "Continue", "a creation may have some writes");
        assert_eq!(
            verdict(&writes_of(900, 900), &writes_of(111, 10)),
            "writes: 11.1 writes were sent for each written object, before 1.0"
        );
        assert_eq!(
            verdict(&writes_of(40_000, 4_000), &writes_of(300, 10)),
            "Continue",
            "three times as many are allowed"
        );
        assert!(verdict(&writes_of(40_000, 4_000), &writes_of(301, 10)).starts_with("writes: "));
        let limits = TrialLimits { writes: None, ..TrialLimits::default() };
        assert_eq!(decide(&limits, false, &writes_of(1, 1), &writes_of(1_000, 1)), TrialVerdict::Continue);
    }

    #[test]
    fn the_times_of_calls_are_compared_by_handler() {
        let (short, long) = (Duration::from_millis(100), Duration::from_millis(301));
        assert_eq!(
            verdict(&times_of(10, short), &times_of(10, long)),
            "time: a call of 'made' took 0.301 s on average, before 0.100 s"
        );
        assert_eq!(verdict(&times_of(10, short), &times_of(9, long)), "Continue", "there are too few calls");
        assert_eq!(verdict(&times_of(9, short), &times_of(10, long)), "Continue", "there were too few calls before");
        assert_eq!(
            verdict(&times_of(10, short), &times_of(10, 3 * short)),
            "Continue",
            "three times as long is allowed"
        );
        assert_eq!(
            verdict(&times_of(10, Duration::from_millis(1)), &times_of(10, short)),
            "Continue",
            "short times differ by chance"
        );
        assert_eq!(verdict(&SideCounts::default(), &times_of(10, long)), "Continue", "the handler is new");
        let limits = TrialLimits { time: None, ..TrialLimits::default() };
        assert_eq!(decide(&limits, false, &times_of(10, short), &times_of(10, long)), TrialVerdict::Continue);
    }

    #[test]
    fn a_revision_is_promoted_at_the_end_unless_it_is_worse() {
        let limits = TrialLimits::default();
        let at_end = |new: &SideCounts| decide(&limits, true, &errors_of(0, 100), new);
        assert_eq!(at_end(&SideCounts::default()), TrialVerdict::Promote, "nothing was called");
        assert_eq!(at_end(&errors_of(2, 2)), TrialVerdict::Promote);
        assert!(matches!(at_end(&errors_of(3, 9)), TrialVerdict::RollBack(Fault { figure: Figure::Errors, .. })));
    }

    #[test]
    fn a_share_is_stable_nested_and_even() {
        let uid = |number: u32| format!("00000000-0000-4000-8000-{number:012}");
        for percent in [1, 5, 50, 99] {
            let count = (0..100_000).filter(|number| Share::of_percent(percent).holds(&uid(*number))).count();
            let expected = usize::from(percent) * 1_000;
            assert!(count.abs_diff(expected) < 400, "{percent} %: {count}");
        }
        let grows =
            |number: &u32| !Share::of_percent(5).holds(&uid(*number)) || Share::of_percent(6).holds(&uid(*number));
        assert!((0..10_000).all(|number| grows(&number)), "a larger share contains a smaller one");
        // Written down, since objects must not change sides with a new version of kopfd.
        let held: Vec<u32> = (0..40).filter(|number| Share::of_percent(20).holds(&uid(*number))).collect();
        assert_eq!(held, HELD);
    }

    /// Those of the first forty ids that are in a share of 20 %.
    const HELD: [u32; 9] = [0, 9, 20, 21, 27, 31, 32, 34, 36];

    #[test]
    fn kinds_that_a_revision_does_not_declare_are_left_to_the_other_one() {
        let resource =
            |plural: &str| Resource { version: "v1".to_owned(), plural: plural.to_owned(), ..Resource::default() };
        let handler =
            Handler { selectors: vec![Selector::parse("v1/pods").unwrap()], ..Handler::simple("made", On::Create) };
        let scope = TrialScope::new(Share::of_percent(99), vec![Arc::new(handler)]);
        let included = |plural: &str| {
            (0..100).filter(|number| scope.includes(&format!("uid-{number}"), &resource(plural))).count()
        };
        assert!(included("pods") > 90);
        assert_eq!(included("secrets"), 0);
    }
}
