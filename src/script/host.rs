//! Sends calls to the script threads, all calls of one object to the same thread. Below it: the threads, the work of a
//! call for its handler and its sub-handlers, and the loading of scripts.

mod attempt;
mod execution;
pub(crate) mod load;
mod subhandlers;
mod suboptions;
mod thread;
mod verdict;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tracing::warn;

use super::interface::call::{Call, Evaluation, Returned};
use super::interface::declaration::BindingKind;
use super::interface::problem::Problem;
use super::interface::subject::Subject;
use super::limits::process_memory::ProcessMemory;
use super::outside::Outside;
use super::outside::api::{Api, Credentials};
use super::runtime::rounds;
use super::sources::program::Program;
use super::values::index::Indexes;
use super::values::memo::{self, OperatorMemo};
use super::values::stopped::Stopped;
use crate::handling::{Candidate, Predicate};
use crate::kit::Clock;
use crate::kit::source::SourcePosition;
pub use thread::MemoryCounts;
use thread::{CallJob, EvaluateJob, Job, Thread, ThreadSettings};

/// Limit of fibers of a process. Each takes two of the 65,530 mappings that Linux grants a process, and running out of
/// them is fatal.
pub const MAX_FIBERS: usize = 20_000;

/// One of this many fibers is kept for calls that end by themselves, however many daemons there are.
const SHARE_WITHOUT_DAEMONS: usize = 4;

/// Limit of the threads that a host starts by default.
const MAX_OWN_THREADS: usize = 4;

/// The default of the bytes that running scripts may hold before new calls wait.
pub const MEMORY: u64 = 512 << 20;

/// The stack of a script thread, which also compiles: the parser recurses.
const THREAD_STACK: usize = 8 << 20;

/// Options of a host.
pub struct Options {
    /// The threads of scripts.
    pub threads: Threads,
    /// The clock.
    pub clock: Clock,
    /// The seed of random numbers, for reproducible simulations.
    pub seed: Option<u64>,
    /// The cluster, if there is one.
    pub api: Option<Arc<dyn Api>>,
    /// The credentials of the built-in logins, for login functions.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// The world outside of the cluster.
    pub outside: Outside,
    /// The fibers, which all hosts of a process share.
    pub fibers: Fibers,
    /// Calls wait while the running scripts of the process hold more than this, in bytes.
    pub memory: u64,
}

/// A limit of fibers: of running and waiting scripts, and the memory that they hold. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Fibers {
    all: Arc<Semaphore>,
    /// A daemon takes one of these and then a fiber, both for as long as it lives.
    daemons: Arc<Semaphore>,
    memory: Arc<ProcessMemory>,
}

impl Fibers {
    /// Returns a limit of fibers; a part of them is left to calls other than daemons.
    pub fn up_to(limit: usize) -> Self {
        let daemons = limit - limit.div_ceil(SHARE_WITHOUT_DAEMONS);
        Self {
            all: Arc::new(Semaphore::new(limit)),
            daemons: Arc::new(Semaphore::new(daemons)),
            memory: Arc::default(),
        }
    }

    /// Returns the bytes that the running scripts hold, and the number of calls that wait until they hold less.
    pub fn memory(&self) -> (usize, usize) {
        (self.memory.held(), self.memory.waiting())
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        permit(&self.all).await
    }

    /// Waits until a daemon may begin. Returns `None` if it is asked to stop before.
    async fn daemon(&self, call: &Call, stopped: &Stopped) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.daemons).try_acquire_owned() {
            return Some(permit);
        }
        call.span.in_scope(|| {
            warn!("The daemon waits for the end of another one: as many are running as this process may have.");
        });
        tokio::select! {
            biased;
            () = stopped.raised() => None,
            permit = permit(&self.daemons) => Some(permit),
        }
    }
}

impl Default for Fibers {
    fn default() -> Self {
        Self::up_to(MAX_FIBERS)
    }
}

/// The threads of scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// This many threads of their own, with the timers and the network of the current runtime.
    Own(usize),
    /// The current thread, which must be running a `LocalSet` or a `LocalRuntime`. With virtual time, it is the only
    /// choice: time advances only while no task is running.
    Current,
}

impl Default for Threads {
    /// As many threads as there are processors, up to four.
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Own(processors.min(MAX_OWN_THREADS))
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: Threads::default(),
            clock: Clock::system(),
            seed: None,
            api: None,
            credentials: None,
            outside: Outside::default(),
            fibers: Fibers::default(),
            memory: MEMORY,
        }
    }
}

/// A handle to the script threads. Dropping it ends all calls.
pub struct Host {
    threads: Vec<Worker>,
    fibers: Fibers,
    operator_memo: memo::Current,
    memory: AtomicU64,
    generations: AtomicU64,
}

struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// The scripts of one operator, ready to be called. They are dropped when this handle is dropped and their last call
/// has ended.
pub struct Installed {
    generation: u64,
    program: Arc<Program>,
    indexes: Arc<Indexes>,
    threads: Vec<mpsc::WeakUnboundedSender<Job>>,
}

impl Installed {
    /// Returns the installed program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Returns the indexes, which the scripts read.
    pub fn indexes(&self) -> &Arc<Indexes> {
        &self.indexes
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for jobs in &self.threads {
            // A thread that has ended has nothing to drop.
            let sent = jobs.upgrade().map(|jobs| jobs.send(Job::Uninstall(self.generation)));
            drop(sent);
        }
    }
}

impl Host {
    /// Starts the script threads.
    ///
    /// # Errors
    /// If the system cannot create threads.
    ///
    /// # Panics
    /// Outside of a runtime, and with [`Threads::Current`] outside of a `LocalSet` and of a `LocalRuntime`.
    pub fn start(options: Options) -> std::io::Result<Self> {
        let Options { threads, clock, seed, api, credentials, outside, fibers, memory } = options;
        let (operator_memo, process_memory) = (memo::Current::default(), Arc::clone(&fibers.memory));
        let (shared, outside) = (Arc::default(), outside.without_tokens());
        let operator = Arc::clone(&operator_memo);
        let settings =
            ThreadSettings { clock, seed, api, credentials, outside, operator_memo: operator, shared, process_memory };
        let threads = match threads {
            Threads::Current => vec![here(settings)],
            Threads::Own(count) => {
                (0..count.max(1)).map(|number| own(number, settings.clone())).collect::<Result<_, _>>()?
            }
        };
        Ok(Self { threads, fibers, operator_memo, memory: AtomicU64::new(memory), generations: AtomicU64::new(0) })
    }

    /// Changes the memory above which later calls wait, in bytes.
    pub fn set_memory(&self, memory: u64) {
        self.memory.store(memory, Ordering::Relaxed);
    }

    /// Compiles the scripts of an operator on all threads: first on one, so that problems are reported once.
    ///
    /// # Errors
    /// All problems of the scripts.
    pub async fn install(&self, program: Arc<Program>) -> Result<Installed, Vec<Problem>> {
        let indexes = Indexes::new(&program.declaration.indexes);
        self.install_with(program, indexes).await
    }

    /// Compiles the scripts of an operator on all threads, with the indexes that they read.
    ///
    /// # Errors
    /// All problems of the scripts.
    pub async fn install_with(&self, program: Arc<Program>, indexes: Indexes) -> Result<Installed, Vec<Problem>> {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let threads: Vec<_> = self.threads.iter().map(|worker| worker.jobs.downgrade()).collect();
        let indexes = Arc::new(indexes);
        let installed = Installed { generation, program: Arc::clone(&program), indexes: Arc::clone(&indexes), threads };
        for worker in &self.threads {
            let (reply, answer) = oneshot::channel();
            let (program, indexes) = (Arc::clone(&program), Arc::clone(&indexes));
            let job = Job::Install { generation, program, indexes, reply };
            worker.jobs.send(job).map_err(|_| gone())?;
            answer.await.map_err(|_| gone())??;
        }
        Ok(installed)
    }

    /// Calls a function of the installed scripts. A daemon waits while as many daemons are running as the host allows.
    ///
    /// *Cancel safety*: if the call is dropped, the script is ended as soon as it waits or has run for a millisecond;
    /// its changes are lost, except for those made in the cluster.
    pub fn call<'a>(&'a self, installed: &'a Installed, call: Call) -> impl Future<Output = Returned> + Send + 'a {
        // Thousands of daemons wait for their calls: none of the futures has a place for what only the script needs.
        self.call_boxed(installed, Box::new(call))
    }

    async fn call_boxed(&self, installed: &Installed, call: Box<Call>) -> Returned {
        let bindings = &installed.program.declaration.bindings;
        let is_daemon = bindings.get(call.target).is_some_and(|binding| binding.kind == BindingKind::Daemon);
        let _daemon = match &call.subject {
            Subject::Background { stopped, .. } if is_daemon => match self.fibers.daemon(&call, stopped).await {
                Some(permit) => Some(permit),
                None => return Returned::cancelled("the daemon was asked to stop before it began"),
            },
            _ => None,
        };
        self.fibers.memory.at_most(self.memory.load(Ordering::Relaxed)).await;
        let permit = self.fibers.permit().await;
        let (reply, answer) = oneshot::channel();
        let jobs = self.thread_of(&call.subject.turn());
        let job = CallJob { generation: installed.generation, call, reply, permit };
        // If the thread has ended, the job is dropped here, and the answer fails.
        drop(jobs.send(Job::Call(Box::new(job))));
        match answer.await {
            Ok(returned) => returned,
            Err(_) => Returned::cancelled("the script thread has ended"),
        }
    }

    /// Evaluates an expression of the installed scripts, and returns whether its value counts as true.
    ///
    /// # Errors
    /// The text of the expression's failure, with its position.
    pub async fn evaluate(
        &self,
        installed: &Installed,
        subject: &Subject,
        evaluation: Evaluation,
    ) -> Result<bool, String> {
        self.send_evaluation(installed, subject, evaluation, Job::Evaluate).await
    }

    /// Evaluates an expression of a delay: seconds, or a duration as text.
    ///
    /// # Errors
    /// The text of the expression's failure, with its position, also if its value is no duration.
    pub async fn evaluate_delay(
        &self,
        installed: &Installed,
        subject: &Subject,
        delay: Predicate,
    ) -> Result<Duration, String> {
        let evaluation = Evaluation { predicate: delay, candidate: Candidate::Whole };
        self.send_evaluation(installed, subject, evaluation, Job::EvaluateDelay).await
    }

    async fn send_evaluation<T>(
        &self,
        installed: &Installed,
        subject: &Subject,
        evaluation: Evaluation,
        job_of: impl FnOnce(Box<EvaluateJob<T>>) -> Job,
    ) -> Result<T, String> {
        self.fibers.memory.at_most(self.memory.load(Ordering::Relaxed)).await;
        let permit = self.fibers.permit().await;
        let (reply, answer) = oneshot::channel();
        let job = EvaluateJob { generation: installed.generation, subject: subject.clone(), evaluation, reply, permit };
        let gone = || "the script thread has ended".to_owned();
        self.thread_of(&subject.turn()).send(job_of(Box::new(job))).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Returns the present state of the operator's memo.
    pub fn operator_memo(&self) -> Arc<OperatorMemo> {
        Arc::clone(&self.operator_memo.read())
    }

    /// Drops the memo of a deleted object, by its key.
    pub fn forget(&self, memo: &Arc<str>) {
        // A thread that has ended has no memos.
        let _ = self.thread_of(memo).send(Job::Forget(Arc::clone(memo)));
    }

    /// Returns counts of the state that the script threads keep between calls.
    pub async fn kept(&self) -> MemoryCounts {
        let mut kept = MemoryCounts::default();
        for worker in &self.threads {
            let (reply, answer) = oneshot::channel();
            // A thread that has ended keeps nothing.
            drop(worker.jobs.send(Job::Count(reply)));
            kept += answer.await.unwrap_or_default();
        }
        kept
    }

    /// Ends all calls, and waits for the threads.
    pub async fn stop(mut self) {
        let threads: Vec<_> = self.threads.drain(..).filter_map(|worker| worker.thread).collect();
        // Ending a script takes no longer than its next operation, but joining still must not block the runtime's
        // threads.
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
        let _ = joined.await;
    }

    /// Calls that run in turns are on one thread, chosen by `Subject::turn`.
    fn thread_of(&self, turn: &str) -> &mpsc::UnboundedSender<Job> {
        let mut hasher = DefaultHasher::new();
        turn.hash(&mut hasher);
        let index = hasher.finish() % self.threads.len() as u64;
        &self.threads[index as usize].jobs
    }
}

async fn permit(semaphore: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    Arc::clone(semaphore).acquire_owned().await.expect("the semaphore is never closed")
}

fn gone() -> Vec<Problem> {
    vec![Problem::error(SourcePosition::default(), "the script thread has ended")]
}

fn here(settings: ThreadSettings) -> Worker {
    let (jobs, received) = mpsc::unbounded_channel();
    // The thread's sender to itself must not keep it alive.
    let thread = Thread::new(settings, jobs.downgrade());
    drop(spawn_local(thread.run(received)));
    Worker { jobs, thread: None }
}

fn own(number: usize, settings: ThreadSettings) -> std::io::Result<Worker> {
    let (jobs, received) = mpsc::unbounded_channel();
    let runtime = Handle::current();
    let own_jobs = jobs.downgrade();
    let run = move || {
        let set = LocalSet::new();
        let thread = Thread::new(settings, own_jobs);
        runtime.block_on(set.run_until(rounds::of(thread.run(received))));
    };
    let thread = std::thread::Builder::new().name(format!("script-{number}")).stack_size(THREAD_STACK).spawn(run)?;
    Ok(Worker { jobs, thread: Some(thread) })
}
