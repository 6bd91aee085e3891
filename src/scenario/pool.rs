//! Runs many scenarios in parallel, each from start to end on one thread.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tracing::Level;

use crate::kit::tasks::panic_text;

use super::compare;
use super::execute::{Failure, Mode};
use super::invariants::{Completions, HandledCauses};
use super::model::Scenario;
use super::run::{RunResult, run_at};
use super::timeline::Subject;

/// Stack size of a thread: the script compiler recurses, deeply in debug builds.
const STACK: usize = 16 << 20;

/// A scenario that has failed with this many seeds is not run with further ones.
const MAX_FAILED_SEEDS: usize = 5;

/// Options of a test run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The first seed, and the seed of random numbers in scripts.
    pub seed: u64,
    /// The seeds that each scenario is disturbed with; `None` runs it once without disturbances.
    pub seeds: Option<Range<u64>>,
    /// Whether all expectations are checked after the first one has failed.
    pub checks_all: bool,
    /// Whether timelines contain debug lines, and are kept for scenarios that pass.
    pub is_verbose: bool,
    /// Number of threads; 0 means one per processor.
    pub threads: usize,
}

/// One requested run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The scenario to run.
    pub scenario: Arc<Scenario>,
    /// The seed of the disturbances; `None` if the run is not disturbed.
    pub seed: Option<u64>,
}

/// Outcome of a run.
pub struct Outcome {
    /// The job that was run.
    pub job: Job,
    /// The reason why the run was skipped.
    pub skipped: Option<String>,
    /// Empty if the run passed or was skipped.
    pub failures: Vec<Failure>,
    /// Virtual time that the run took.
    pub duration: Duration,
    /// The timeline of a failed run; of every run if the output is verbose.
    pub timeline: Option<Arc<super::Timeline>>,
}

impl Outcome {
    /// Returns the log lines that the failures refer to.
    pub fn lines(&self) -> BTreeSet<String> {
        self.failures
            .iter()
            .flat_map(|failure| &failure.differences)
            .flat_map(|difference| &difference.lines)
            .cloned()
            .collect()
    }
}

/// Stored completions of handlers, and handled changes.
type Counts = (Completions, HandledCauses);

/// Result of the undisturbed run, which disturbed runs are compared with.
type Reference = Result<(compare::FinalState, Counts), (Vec<Failure>, Arc<super::Timeline>)>;

/// The failed seeds of one scenario. Jobs start in order, so the smallest failed seeds are the same on every machine.
#[derive(Default)]
struct FailedSeeds(Mutex<BTreeSet<u64>>);

impl FailedSeeds {
    fn add(&self, seed: u64) {
        self.0.lock().insert(seed);
    }

    /// Tells whether enough smaller seeds have failed to skip this one.
    fn has_enough_before(&self, seed: u64) -> bool {
        self.0.lock().iter().nth(MAX_FAILED_SEEDS - 1).is_some_and(|last| *last < seed)
    }
}

/// Runs all scenarios, and returns the outcomes in the order of the jobs. A scenario that failed with five seeds is not
/// run with further ones.
pub fn run_all(scenarios: &[Arc<Scenario>], options: &Options) -> Vec<Outcome> {
    let references: Vec<OnceLock<Reference>> = scenarios.iter().map(|_| OnceLock::new()).collect();
    let failed_seeds: Vec<FailedSeeds> = scenarios.iter().map(|_| FailedSeeds::default()).collect();
    let is_enough = |of: usize, job: &Job| job.seed.is_some_and(|seed| failed_seeds[of].has_enough_before(seed));
    let jobs = jobs(scenarios, options);
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let work = || {
        while let Some((index, (of, job))) =
            Some(next.fetch_add(1, Ordering::SeqCst)).and_then(|index| Some((index, jobs.get(index)?)))
        {
            if is_enough(*of, job) {
                continue;
            }
            let attempt = AssertUnwindSafe(|| run_job(job, &references[*of], options));
            let outcome = catch_unwind(attempt).unwrap_or_else(|panic| Some(internal_error(job, &panic_text(&*panic))));
            let has_failed = outcome.as_ref().is_some_and(|outcome| !outcome.failures.is_empty());
            if let (true, Some(seed)) = (has_failed, job.seed) {
                failed_seeds[*of].add(seed);
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
                // Without worker threads, the current thread does the work.
                work();
            }
        }
    });
    let outcomes = outcomes.into_inner().into_iter().zip(&jobs);
    // Jobs that were already running when the limit was reached may have failed, too.
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

fn internal_error(job: &Job, text: &str) -> Outcome {
    let failures = vec![Failure::of(format!("internal error of kopfd: {text}"))];
    Outcome { job: job.clone(), skipped: None, failures, duration: Duration::ZERO, timeline: None }
}

/// Runs a job. Returns `None` if its failure is already reported by another job.
fn run_job(job: &Job, reference: &OnceLock<Reference>, options: &Options) -> Option<Outcome> {
    let scenario = &job.scenario;
    let Some(seed) = job.seed else { return Some(undisturbed(job, options)) };
    let reference = reference.get_or_init(|| {
        let ended = attempt(scenario, options.seed, Mode::Check, options.is_verbose);
        let violations = ended.violations.into_iter().map(Failure::of);
        let failures: Vec<Failure> = ended.failures.into_iter().chain(violations).collect();
        if failures.is_empty() {
            Ok((ended.final_state, (ended.completions, ended.causes)))
        } else {
            Err((failures, ended.timeline))
        }
    });
    match reference {
        Ok((final_state, counts)) => Some(disturbed(job, seed, options.is_verbose, final_state.clone(), counts)),
        // A failure without disturbances is reported once, with the first seed.
        Err((failures, timeline)) if options.seeds.as_ref().is_some_and(|seeds| seeds.start == seed) => {
            let job = Job { scenario: Arc::clone(scenario), seed: None };
            let (failures, timeline) = (failures.clone(), Some(Arc::clone(timeline)));
            Some(Outcome { job, skipped: None, failures, duration: Duration::ZERO, timeline })
        }
        Err(_) => None,
    }
}

fn undisturbed(job: &Job, options: &Options) -> Outcome {
    let outcome =
        |failures, duration, timeline| Outcome { job: job.clone(), skipped: None, failures, duration, timeline };
    if let (Some(_), Some(skipped)) = (&options.seeds, &job.scenario.seeds.skip) {
        return Outcome { skipped: Some(skipped.clone()), ..outcome(Vec::new(), Duration::ZERO, None) };
    }
    let mode = if options.checks_all { Mode::CheckAll } else { Mode::Check };
    let ended = attempt(&job.scenario, options.seed, mode, options.is_verbose);
    let timeline = (options.is_verbose || !ended.failures.is_empty()).then_some(ended.timeline);
    outcome(ended.failures, ended.duration, timeline)
}

fn disturbed(job: &Job, seed: u64, is_verbose: bool, mut final_state: compare::FinalState, counts: &Counts) -> Outcome {
    let RunResult {
        mut failures,
        duration,
        timeline,
        final_state: mut found,
        completions,
        causes,
        violations,
        lost_statuses,
    } = attempt(&job.scenario, seed, Mode::Disturb, is_verbose);
    for object in final_state.values_mut().chain(found.values_mut()) {
        if lost_statuses.contains(&Subject::of(object)) {
            object.as_object_mut().and_then(|object| object.remove("status"));
        }
    }
    // A run that did not settle has no final state to compare.
    let mut broken = violations;
    if failures.is_empty() {
        broken.extend(lost_completions(counts, &(completions, causes)));
        let others = compare::differences(&final_state, &found).into_iter();
        broken.extend(others.map(|line| format!("the final state differs from the undisturbed run: {line}")));
    }
    failures.extend(broken.into_iter().map(Failure::of));
    let timeline = (!failures.is_empty()).then_some(timeline);
    Outcome { job: job.clone(), skipped: None, failures, duration, timeline }
}

/// Describes handlers that completed less often than without disturbances. Consecutive changes may be handled as one.
fn lost_completions((completions, causes): &Counts, (stored, handled): &Counts) -> Vec<String> {
    let mut lost_completions = Vec::new();
    for ((subject, handler), count) in completions {
        let found = stored.get(&(subject.clone(), handler.clone())).copied().unwrap_or_default();
        let of = |causes: &HandledCauses| causes.get(subject).copied().unwrap_or_default();
        let joined = of(causes).saturating_sub(of(handled));
        if found + joined < *count {
            lost_completions.push(format!(
                "`{handler}` was lost for {subject}: its end was stored {found} times instead of {count}"
            ));
        }
    }
    lost_completions
}

fn attempt(scenario: &Arc<Scenario>, seed: u64, mode: Mode, is_verbose: bool) -> RunResult {
    let level = if is_verbose { Level::DEBUG } else { Level::INFO };
    run_at(level, scenario, seed, mode).unwrap_or_else(|error| {
        let clock = crate::kit::Clock::system();
        RunResult {
            failures: vec![Failure::of(format!("cannot create the runtime: {error}"))],
            duration: Duration::ZERO,
            timeline: Arc::new(super::Timeline::new(clock)),
            final_state: compare::FinalState::new(),
            completions: Completions::new(),
            causes: HandledCauses::new(),
            violations: Vec::new(),
            lost_statuses: std::collections::BTreeSet::new(),
        }
    })
}
