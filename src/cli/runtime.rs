//! The threads of commands that run until a signal arrives.

use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime, Runtime};

use crate::cluster::in_flight;
use crate::script::Threads;
use crate::telemetry;

use super::memory;
use super::output::print_error;

/// Up to this number of processors, one thread runs the engine and the scripts: the API server uses the others anyway,
/// and a call needs no wake-up of another thread.
const ONE_THREAD_PROCESSORS: usize = 2;

/// From this number of unanswered requests on, the only thread waits before it looks for answers.
const MANY_REQUESTS: usize = 16;

/// How long it waits then: it takes several answers and events up together, while their code is in the caches of the
/// processor, and leaves the processor to the API server meanwhile. Each request of such a burst takes longer anyway.
const PAUSE: Duration = Duration::from_millis(2);

/// Limit of engine threads: API servers cannot deliver more events than these handle.
const MAX_ENGINE_THREADS: usize = 4;

/// The threads of operators on a cluster.
pub(super) enum EngineRuntime {
    /// One thread for the engine and the scripts. A task that wakes another one, such as a call of a script, costs no
    /// system call there; with a `LocalSet` in an ordinary runtime, it does.
    Shared(LocalRuntime),
    /// Threads of the engine; scripts have their own.
    Separate(Runtime),
}

impl EngineRuntime {
    /// Starts as many threads as the processors can use. Prints the error if that fails.
    ///
    /// With more than two processors, half of them run the engine, the others the scripts. One thread takes in 70,000
    /// events per second; the threads beyond that mostly wake each other.
    pub(super) fn start() -> Option<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if processors <= ONE_THREAD_PROCESSORS {
            let mut builder = Builder::new_current_thread();
            builder.on_thread_park(|| {
                telemetry::write_lines_of_this_thread();
                if in_flight::count() >= MANY_REQUESTS {
                    std::thread::sleep(PAUSE);
                }
            });
            let runtime = started(prepared(&mut builder).build_local(LocalOptions::default()), "engine")?;
            runtime.spawn_local(memory::release_regularly());
            return Some(Self::Shared(runtime));
        }
        let mut builder = Builder::new_multi_thread();
        telemetry::batch_lines_of(&mut builder);
        builder.worker_threads((processors / 2).clamp(1, MAX_ENGINE_THREADS));
        start(builder, "engine").map(Self::Separate)
    }

    /// Returns the threads of the scripts.
    pub(super) fn script_threads(&self) -> Threads {
        match self {
            Self::Shared(_) => Threads::Current,
            Self::Separate(_) => Threads::default(),
        }
    }

    /// Runs a future to its end, and waits for the last tasks up to a limit.
    pub(super) fn run<T>(self, future: impl Future<Output = T>, limit: Duration) -> T {
        match self {
            Self::Shared(runtime) => {
                let output = runtime.block_on(future);
                runtime.shutdown_timeout(limit);
                output
            }
            Self::Separate(runtime) => {
                let output = runtime.block_on(future);
                runtime.shutdown_timeout(limit);
                output
            }
        }
    }
}

/// Starts the threads of operators beside the embedded API server, as many as there are processors. Prints the error if
/// that fails.
pub(super) fn start_development_threads() -> Option<Runtime> {
    let mut builder = Builder::new_multi_thread();
    telemetry::batch_lines_of(&mut builder);
    start(builder, "engine")
}

/// Starts the threads of the embedded API server, as many as there are processors. Prints the error if that fails.
pub(super) fn start_server_threads() -> Option<Runtime> {
    start(Builder::new_multi_thread(), "server")
}

fn start(mut builder: Builder, owner: &str) -> Option<Runtime> {
    let runtime = started(prepared(&mut builder).build(), owner)?;
    runtime.spawn(memory::release_regularly());
    Some(runtime)
}

fn prepared(builder: &mut Builder) -> &mut Builder {
    builder.enable_all().thread_name("kopfd")
}

fn started<T>(runtime: io::Result<T>, owner: &str) -> Option<T> {
    runtime.map_err(|error| print_error(&format!("cannot start the threads of the {owner}: {error}"))).ok()
}
