//! Runs the cases on a few threads and reports the results.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::cluster::{Cluster, Tools};
use super::context::TestContext;

/// One case.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    /// Its module.
    pub(crate) module: &'static str,
    /// The tested property, as a sentence.
    pub(crate) name: &'static str,
    /// Runs the case, and panics if it fails.
    pub(crate) run: fn(&TestContext<'_>),
}

/// The options of a run.
pub(crate) struct Options {
    /// Parts of names; a case runs if its name contains one of them, or if there are none.
    filters: Vec<String>,
    /// Whether only the names are printed.
    pub(crate) list: bool,
    /// Number of parallel cases.
    pub(crate) threads: usize,
    /// The directory of all files.
    pub(crate) directory: PathBuf,
    /// The programs.
    pub(crate) tools: Tools,
}

impl Options {
    /// Reads the arguments after the program's name, and the environment set by `tests/cluster/run`.
    ///
    /// The files of a suite are in a directory with its name.
    pub(crate) fn read(suite: &str, arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let (mut filters, mut list) = (Vec::new(), false);
        for argument in arguments {
            match argument.as_str() {
                "--list" => list = true,
                flag if flag.starts_with('-') => {
                    return Err(format!("unknown option {flag}; known: --list and parts of names"));
                }
                _ => filters.push(argument),
            }
        }
        let program = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
        let needed = |variable: &str| {
            program(variable).ok_or(format!("{variable} is not set; start the suite by tests/{suite}/run"))
        };
        let tools = if list {
            Tools { kubernetes: PathBuf::new(), kopfd: PathBuf::new(), kopf: PathBuf::new() }
        } else {
            Tools {
                kubernetes: needed("KOPFD_CLUSTER_KUBERNETES")?,
                kopfd: program("KOPFD_CLUSTER_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_kopfd").into()),
                kopf: needed("KOPFD_CLUSTER_KOPF")?,
            }
        };
        let threads = std::env::var("KOPFD_CLUSTER_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(suite);
        Ok(Self { filters, list, threads, directory, tools })
    }

    /// Tells whether a case is selected.
    pub(crate) fn selects(&self, name: &str) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| name.contains(filter))
    }
}

impl Case {
    /// Returns the name for selection.
    pub(crate) fn title(&self) -> String {
        format!("{}::{}", self.module.rsplit("::").next().unwrap_or_default(), self.name)
    }
}

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The cases that run.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Cases that need all of a machine take it in turns.
static HEAVY: Mutex<()> = Mutex::new(());

/// Returns how many cases run: they share the processors.
#[allow(dead_code, reason = "the client suite measures no rates")]
pub(crate) fn running_cases() -> usize {
    RUNNING.load(Ordering::Relaxed)
}

/// Waits until no other heavy case runs, and keeps them waiting until the result is dropped.
#[allow(dead_code, reason = "the client suite has no heavy cases")]
pub(crate) fn heavy_turn() -> MutexGuard<'static, ()> {
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    // A case that has failed has ended its processes.
    let turn = HEAVY.lock().unwrap_or_else(PoisonError::into_inner);
    RUNNING.fetch_add(1, Ordering::Relaxed);
    turn
}

/// Runs all cases in a cluster, each with its own scene, and returns whether all passed.
pub(crate) fn run(cases: &[Case], cluster: &Cluster, options: &Options) -> bool {
    let titles: Vec<String> = cases.iter().map(Case::title).collect();
    run_titled(&titles, options.threads, |number| run_case(&cases[number], number, cluster, &options.directory))
}

/// Runs the cases with these titles, prints a line for each and the failures at the end, and returns whether all
/// passed.
pub(crate) fn run_titled(titles: &[String], threads: usize, run: impl Fn(usize) -> Result<(), String> + Sync) -> bool {
    panic::set_hook(Box::new(|panic| LAST_PANIC.with(|last| *last.borrow_mut() = panic.to_string())));
    let started = Instant::now();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = threads.min(titles.len());
    println!("{} cases, {threads} at a time", titles.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, title)) = take(&next, titles) {
                    let began = Instant::now();
                    RUNNING.fetch_add(1, Ordering::Relaxed);
                    let outcome = run(number);
                    RUNNING.fetch_sub(1, Ordering::Relaxed);
                    print_outcome(title, &outcome, began.elapsed());
                    if let Err(message) = outcome {
                        failures
                            .lock()
                            .expect("no thread panics while holding the failures")
                            .push((title.clone(), message));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panics while holding the failures");
    for (name, message) in &failures {
        println!("\n==== {name}\n{message}");
    }
    println!("\n{} of {} cases pass, {} s", titles.len() - failures.len(), titles.len(), started.elapsed().as_secs());
    failures.is_empty()
}

fn take<'a>(next: &AtomicUsize, titles: &'a [String]) -> Option<(usize, &'a String)> {
    let number = next.fetch_add(1, Ordering::Relaxed);
    titles.get(number).map(|title| (number, title))
}

fn run_case(case: &Case, number: usize, cluster: &Cluster, directory: &Path) -> Result<(), String> {
    let name = format!("c{number:02}");
    let context = caught(|| TestContext::new(cluster, &name, &directory.join(&name)))?;
    let run = || {
        (case.run)(&context);
        context.check_derived_rights();
    };
    caught(run).map_err(|message| format!("{message}\n{}", context.output_tail()))
}

/// Runs a function, and returns the message of its panic.
pub(crate) fn caught<T>(action: impl FnOnce() -> T) -> Result<T, String> {
    panic::catch_unwind(AssertUnwindSafe(action)).map_err(|_| LAST_PANIC.with(|last| last.borrow().clone()))
}

fn print_outcome(title: &str, outcome: &Result<(), String>, elapsed: Duration) {
    let verdict = if outcome.is_ok() { "ok    " } else { "FAILED" };
    println!("{verdict} {:>4} s  {title}", elapsed.as_secs());
}
