//! The threads of commands that run until a signal arrives.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::script::Threads;
use crate::telemetry;

use super::memory;
use super::output::print_error;

/// Up to this number of processors, one thread runs the engine and the scripts: the API server uses the others anyway, and a call needs
/// no wake-up of another thread.
const ONE_THREAD_PROCESSORS: usize = 2;

/// Limit of engine threads: API servers cannot deliver more events than these handle.
const MAX_ENGINE_THREADS: usize = 4;

/// The threads of operators on a cluster.
pub(super) enum EngineRuntime {
    /// One thread for the engine and the scripts.
    Shared(Runtime, LocalSet),
    /// Threads of the engine; scripts have their own.
    Separate(Runtime),
}

impl EngineRuntime {
    /// Starts as many threads as the processors can use. Prints the error if that fails.
    ///
    /// With more than two processors, half of them run the engine, the others the scripts. One thread takes in 70,000 events per second;
    /// the threads beyond that mostly wake each other.
    pub(super) fn start() -> Option<Self> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let is_shared = processors <= ONE_THREAD_PROCESSORS;
        let mut builder = if is_shared { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        telemetry::batch_lines_of(&mut builder);
        builder.worker_threads((processors / 2).clamp(1, MAX_ENGINE_THREADS));
        let runtime = start(builder, "engine")?;
        Some(if is_shared { Self::Shared(runtime, LocalSet::new()) } else { Self::Separate(runtime) })
    }

    /// Returns the threads of the scripts.
    pub(super) fn script_threads(&self) -> Threads {
        match self {
            Self::Shared(..) => Threads::Current,
            Self::Separate(_) => Threads::default(),
        }
    }

    /// Runs a future to its end, and waits for the last tasks up to a limit.
    pub(super) fn run<T>(self, future: impl Future<Output = T>, limit: Duration) -> T {
        match self {
            Self::Shared(runtime, set) => {
                // The script host spawns on the set, and is started from a task of the runtime.
                let entered = set.enter();
                let output = set.block_on(&runtime, future);
                drop(entered);
                drop(set);
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

/// Starts the threads of operators beside the embedded API server, as many as there are processors. Prints the error if that fails.
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
    let started = builder.enable_all().thread_name("kopfd").build();
    let runtime = started.map_err(|error| print_error(&format!("cannot start the threads of the {owner}: {error}"))).ok()?;
    runtime.spawn(memory::release_regularly());
    Some(runtime)
}
