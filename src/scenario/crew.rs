//! Many runs side by side, each on one thread from its beginning to its end.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tracing::Level;

use crate::kit::tasks::panic_text;

use super::compare;
use super::invariants::{Causes, Ends};
use super::play::{Failure, Mode};
use super::run::{Ended, run_at};
use super::story::Scenario;
use super::timeline::Subject;

/// The stack of a thread: compilers of scripts recurse, in debugging builds deeply.
const STACK: usize = 16 << 20;

/// The seeds that fail of one scenario, after which it is not run with others.
const MOST_FAILED_SEEDS: usize = 5;

/// How scenarios are run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where chance begins.
    pub seed: u64,
    /// The seeds that each scenario is disturbed with; none for an undisturbed run.
    pub seeds: Option<Range<u64>>,
    /// Whether all expectations are judged, not only those up to the first that fails.
    pub gathers: bool,
    /// Whether lines for debugging belong to timelines, and timelines are kept of scenarios that hold.
    pub is_verbose: bool,
    /// The number of threads; as many as there are processors if it is zero.
    pub threads: usize,
}

/// One run that was asked for.
#[derive(Debug, Clone)]
pub struct Job {
    /// The scenario.
    pub scenario: Arc<Scenario>,
    /// The seed of its disturbances, if it is disturbed.
    pub seed: Option<u64>,
}

/// What has become of a run.
pub struct Outcome {
    /// The run.
    pub job: Job,
    /// Why it was left out, if it was.
    pub skipped: Option<String>,
    /// What has failed.
    pub failures: Vec<Failure>,
    /// The virtual seconds that it took.
    pub seconds: f64,
    /// The timeline of those that have failed; of all where much is to be told.
    pub timeline: Option<Arc<super::Timeline>>,
}

impl Outcome {
    /// Returns the lines that were logged which its failures are about.
    pub fn lines(&self) -> BTreeSet<String> {
        self.failures.iter().flat_map(|failure| &failure.differences).flat_map(|difference| &difference.lines).cloned().collect()
    }
}

/// The ends of handlers that a run has stored, and how many changes of objects they were for.
type Counts = (Ends, Causes);

/// What an undisturbed run comes to, or how it fails.
type Reference = Result<(compare::Ending, Counts), (Vec<Failure>, Arc<super::Timeline>)>;

/// The seeds that have failed of one scenario. Jobs begin in their order, so that its smallest ones are the same on each machine.
#[derive(Default)]
struct FailedSeeds(Mutex<BTreeSet<u64>>);

impl FailedSeeds {
    fn note(&self, seed: u64) {
        self.0.lock().insert(seed);
    }

    /// Tells whether a seed comes after so many failed ones that nobody wants to know of it.
    fn are_enough_before(&self, seed: u64) -> bool {
        self.0.lock().iter().nth(MOST_FAILED_SEEDS - 1).is_some_and(|last| *last < seed)
    }
}

/// Runs all scenarios, and returns the outcomes in the order of the jobs. A scenario that has failed with five seeds is run with no others.
pub fn run_all(scenarios: &[Arc<Scenario>], options: &Options) -> Vec<Outcome> {
    let references: Vec<OnceLock<Reference>> = scenarios.iter().map(|_| OnceLock::new()).collect();
    let failed_seeds: Vec<FailedSeeds> = scenarios.iter().map(|_| FailedSeeds::default()).collect();
    let is_enough = |of: usize, job: &Job| job.seed.is_some_and(|seed| failed_seeds[of].are_enough_before(seed));
    let jobs = jobs(scenarios, options);
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        while let Some((index, (of, job))) = Some(next.fetch_add(1, Ordering::SeqCst)).and_then(|index| Some((index, jobs.get(index)?))) {
            if is_enough(*of, job) {
                continue;
            }
            let attempt = AssertUnwindSafe(|| perform(job, &references[*of], options));
            let outcome = catch_unwind(attempt).unwrap_or_else(|panic| Some(defect(job, &panic_text(&*panic))));
            let has_failed = outcome.as_ref().is_some_and(|outcome| !outcome.failures.is_empty());
            if let (true, Some(seed)) = (has_failed, job.seed) {
                failed_seeds[*of].note(seed);
            }
            outcomes.lock()[index] = outcome;
        }
    };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 { processors } else { options.threads }.min(jobs.len());
    std::thread::scope(|scope| {
        for number in 0..threads {
            let builder = std::thread::Builder::new().name(format!("scenario-{number}")).stack_size(STACK);
            if builder.spawn_scoped(scope, work).is_err() && number == 0 {
                // A system without threads still has this one.
                work();
            }
        }
    });
    let outcomes = outcomes.into_inner().into_iter().zip(&jobs);
    // What was under way when there were enough may have failed, too.
    outcomes.filter(|(_, (of, job))| !is_enough(*of, job)).filter_map(|(outcome, _)| outcome).collect()
}

fn jobs(scenarios: &[Arc<Scenario>], options: &Options) -> Vec<(usize, Job)> {
    let mut jobs = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        let job = |seed| (index, Job { scenario: Arc::clone(scenario), seed });
        match &options.seeds {
            Some(seeds) if scenario.seeds.skip.is_none() => jobs.extend(seeds.clone().map(|seed| job(Some(seed)))),
            _ => jobs.push(job(None)),
        }
    }
    jobs
}

fn defect(job: &Job, text: &str) -> Outcome {
    let failures = vec![Failure::of(format!("a defect of kopfd: {text}"))];
    Outcome { job: job.clone(), skipped: None, failures, seconds: 0.0, timeline: None }
}

/// Returns what becomes of a job; nothing if there is nothing to say that another one does not say.
fn perform(job: &Job, reference: &OnceLock<Reference>, options: &Options) -> Option<Outcome> {
    let scenario = &job.scenario;
    let Some(seed) = job.seed else { return Some(undisturbed(job, options)) };
    let reference = reference.get_or_init(|| {
        let ended = attempt(scenario, options.seed, Mode::Check, options.is_verbose);
        let violations = ended.violations.into_iter().map(Failure::of);
        let failures: Vec<Failure> = ended.failures.into_iter().chain(violations).collect();
        if failures.is_empty() { Ok((ended.ending, (ended.ends, ended.causes))) } else { Err((failures, ended.timeline)) }
    });
    match reference {
        Ok((ending, counts)) => Some(disturbed(job, seed, options.is_verbose, ending.clone(), counts)),
        // What fails without any disturbance is told once.
        Err((failures, timeline)) if options.seeds.as_ref().is_some_and(|seeds| seeds.start == seed) => {
            let job = Job { scenario: Arc::clone(scenario), seed: None };
            let (failures, timeline) = (failures.clone(), Some(Arc::clone(timeline)));
            Some(Outcome { job, skipped: None, failures, seconds: 0.0, timeline })
        }
        Err(_) => None,
    }
}

fn undisturbed(job: &Job, options: &Options) -> Outcome {
    let outcome = |failures, seconds, timeline| Outcome { job: job.clone(), skipped: None, failures, seconds, timeline };
    if let (Some(_), Some(skipped)) = (&options.seeds, &job.scenario.seeds.skip) {
        return Outcome { skipped: Some(skipped.clone()), ..outcome(Vec::new(), 0.0, None) };
    }
    let mode = if options.gathers { Mode::Gather } else { Mode::Check };
    let ended = attempt(&job.scenario, options.seed, mode, options.is_verbose);
    let timeline = (options.is_verbose || !ended.failures.is_empty()).then_some(ended.timeline);
    outcome(ended.failures, ended.seconds, timeline)
}

fn disturbed(job: &Job, seed: u64, is_verbose: bool, mut ending: compare::Ending, counts: &Counts) -> Outcome {
    let Ended { mut failures, seconds, timeline, ending: mut found, ends, causes, violations, lost_statuses } =
        attempt(&job.scenario, seed, Mode::Disturb, is_verbose);
    for object in ending.values_mut().chain(found.values_mut()) {
        if lost_statuses.contains(&Subject::of(object)) {
            object.as_object_mut().and_then(|object| object.remove("status"));
        }
    }
    // What has not come to its end has no other end, and has lost nothing.
    let mut broken = violations;
    if failures.is_empty() {
        broken.extend(losses(counts, &(ends, causes)));
        let others = compare::differences(&ending, &found).into_iter();
        broken.extend(others.map(|line| format!("another end than without disturbances: {line}")));
    }
    failures.extend(broken.into_iter().map(Failure::of));
    let timeline = (!failures.is_empty()).then_some(timeline);
    Outcome { job: job.clone(), skipped: None, failures, seconds, timeline }
}

/// Tells of handlers whose ends were stored less often than without disturbances. Changes that follow each other may be handled as one.
fn losses((ends, causes): &Counts, (stored, handled): &Counts) -> Vec<String> {
    let mut losses = Vec::new();
    for ((subject, handler), count) in ends {
        let found = stored.get(&(subject.clone(), handler.clone())).copied().unwrap_or_default();
        let of = |causes: &Causes| causes.get(subject).copied().unwrap_or_default();
        let joined = of(causes).saturating_sub(of(handled));
        if found + joined < *count {
            losses.push(format!("`{handler}` was lost for {subject}: its end was stored {found} times instead of {count}"));
        }
    }
    losses
}

fn attempt(scenario: &Arc<Scenario>, seed: u64, mode: Mode, is_verbose: bool) -> Ended {
    let level = if is_verbose { Level::DEBUG } else { Level::INFO };
    run_at(level, scenario, seed, mode).unwrap_or_else(|error| {
        let clock = crate::kit::Clock::system();
        Ended {
            failures: vec![Failure::of(format!("the system gives no runtime: {error}"))],
            seconds: 0.0,
            timeline: Arc::new(super::Timeline::new(clock)),
            ending: compare::Ending::new(),
            ends: Ends::new(),
            causes: Causes::new(),
            violations: Vec::new(),
            lost_statuses: std::collections::BTreeSet::new(),
        }
    })
}
