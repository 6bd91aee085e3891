//! The host hands calls to the script threads, all calls of one object to the same thread.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{LocalSet, spawn_local};

use super::api::Api;
use super::call::{Call, Evaluation, Returned};
use super::problem::Problem;
use super::program::Program;
use super::subject::Subject;
pub use super::thread::Kept;
use super::thread::{CallJob, EvaluateJob, Ingredients, Job, Thread};
use super::verdict::failed;
use crate::kit::Clock;
use crate::kit::source::SourcePosition;
use crate::object::Patch;

/// The fibers of all threads. Each takes two of the 65,530 mappings that Linux grants a process, and running out of them is fatal.
pub const MAX_FIBERS: usize = 20_000;

/// The stack of a script thread, which compiles there: the parser recurses.
const THREAD_STACK: usize = 8 << 20;

/// What a host is made of.
pub struct Options {
    /// Where scripts run.
    pub threads: Threads,
    /// The clock.
    pub clock: Clock,
    /// The seed of random numbers, where they must be reproducible: in simulations.
    pub seed: Option<u64>,
    /// The cluster; none where there is none.
    pub api: Option<Arc<dyn Api>>,
    /// How many scripts may be running or waiting at once.
    pub max_fibers: usize,
}

/// Where scripts run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// On so many threads of their own, with the timers and the network of the current runtime.
    Own(usize),
    /// On the current thread, which must be running a `LocalSet`: virtual time goes on only while nothing else runs anywhere.
    Current,
}

impl Default for Options {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: Threads::Own(cores.min(4)), clock: Clock::system(), seed: None, api: None, max_fibers: MAX_FIBERS }
    }
}

/// The scripts' door. Dropping it ends all calls.
pub struct Host {
    threads: Vec<Worker>,
    fibers: Arc<Semaphore>,
    generations: AtomicU64,
}

struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// The scripts of one operator, ready to be called. Dropping it lets them go when their last call has ended.
pub struct Installed {
    generation: u64,
    program: Arc<Program>,
    threads: Vec<mpsc::WeakUnboundedSender<Job>>,
}

impl Installed {
    /// Returns the texts that were installed.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
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
    /// If the system gives no threads.
    ///
    /// # Panics
    /// Outside of a runtime, and with [`Threads::Current`] outside of a `LocalSet`.
    pub fn start(options: Options) -> std::io::Result<Self> {
        let Options { threads, clock, seed, api, max_fibers } = options;
        let ingredients = Ingredients { clock, seed, api, memory: Arc::default() };
        let threads = match threads {
            Threads::Current => vec![here(ingredients)],
            Threads::Own(count) => (0..count.max(1)).map(|number| own(number, ingredients.clone())).collect::<Result<_, _>>()?,
        };
        Ok(Self { threads, fibers: Arc::new(Semaphore::new(max_fibers)), generations: AtomicU64::new(0) })
    }

    /// Compiles the scripts of an operator on all threads: first on one, so that what is wrong is told once.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub async fn install(&self, program: Arc<Program>) -> Result<Installed, Vec<Problem>> {
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let threads: Vec<_> = self.threads.iter().map(|worker| worker.jobs.downgrade()).collect();
        let installed = Installed { generation, program: Arc::clone(&program), threads };
        for worker in &self.threads {
            let (reply, answer) = oneshot::channel();
            let job = Job::Install { generation, program: Arc::clone(&program), reply };
            worker.jobs.send(job).map_err(|_| gone())?;
            answer.await.map_err(|_| gone())??;
        }
        Ok(installed)
    }

    /// Calls a function of the installed scripts.
    ///
    /// *Cancel safety*: if the call is dropped, the script is ended as soon as it waits or has run for a millisecond;
    /// what it has changed is lost, except for what it has done in the cluster.
    pub async fn call(&self, installed: &Installed, call: Call) -> Returned {
        let permit = Arc::clone(&self.fibers).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (reply, answer) = oneshot::channel();
        let jobs = self.thread_of(&call.subject.turn());
        let job = CallJob { generation: installed.generation, call, reply, permit };
        // If the thread has ended, the answer fails with the job that is dropped here.
        drop(jobs.send(Job::Call(Box::new(job))));
        match answer.await {
            Ok(returned) => returned,
            Err(_) => Returned { is_cancelled: true, ..Returned::new(failed("the script thread has ended", None), Patch::default()) },
        }
    }

    /// Evaluates an expression of the installed scripts, and tells whether its value counts as true.
    ///
    /// # Errors
    /// The text of the expression's failure, and its place.
    pub async fn evaluate(&self, installed: &Installed, subject: &Subject, evaluation: Evaluation) -> Result<bool, String> {
        let permit = Arc::clone(&self.fibers).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let (reply, answer) = oneshot::channel();
        let job = EvaluateJob { generation: installed.generation, subject: subject.clone(), evaluation, reply, permit };
        let gone = || "the script thread has ended".to_owned();
        self.thread_of(&subject.turn()).send(Job::Evaluate(Box::new(job))).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    /// Drops the memory of an object that is gone.
    pub fn forget(&self, memo: &Arc<str>) {
        // A thread that has ended has no memories.
        let _ = self.thread_of(memo).send(Job::Forget(Arc::clone(memo)));
    }

    /// Returns how much the script threads keep beyond single calls.
    pub async fn kept(&self) -> Kept {
        let mut kept = Kept::default();
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
        // Ending a script takes no longer than its next operation; this is off the runtime's threads all the same.
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().for_each(|thread| drop(thread.join())));
        let _ = joined.await;
    }

    /// What takes turns is on one thread: `Subject::turn` says what that is.
    fn thread_of(&self, turn: &str) -> &mpsc::UnboundedSender<Job> {
        let mut hasher = DefaultHasher::new();
        turn.hash(&mut hasher);
        let index = hasher.finish() % self.threads.len() as u64;
        &self.threads[index as usize].jobs
    }
}

fn gone() -> Vec<Problem> {
    vec![Problem::error(SourcePosition::default(), "the script thread has ended")]
}

fn here(ingredients: Ingredients) -> Worker {
    let (jobs, received) = mpsc::unbounded_channel();
    // The thread's own way to itself must not keep it alive.
    let thread = Thread::new(ingredients, jobs.downgrade());
    drop(spawn_local(thread.run(received)));
    Worker { jobs, thread: None }
}

fn own(number: usize, ingredients: Ingredients) -> std::io::Result<Worker> {
    let (jobs, received) = mpsc::unbounded_channel();
    let runtime = Handle::current();
    let own_jobs = jobs.downgrade();
    let run = move || {
        let set = LocalSet::new();
        let thread = Thread::new(ingredients, own_jobs);
        runtime.block_on(set.run_until(thread.run(received)));
    };
    let thread = std::thread::Builder::new().name(format!("script-{number}")).stack_size(THREAD_STACK).spawn(run)?;
    Ok(Worker { jobs, thread: Some(thread) })
}
