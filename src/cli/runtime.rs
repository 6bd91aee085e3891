//! The threads of commands that run until a signal arrives.

use tokio::runtime::{Builder, Runtime};

use crate::telemetry;

use super::output::print_error;

/// Starts the threads of the engine: as many as there are processors, if no number is given. Prints the error if that fails.
pub(super) fn start_engine_threads(count: Option<usize>) -> Option<Runtime> {
    let mut builder = Builder::new_multi_thread();
    telemetry::batch_lines_of(&mut builder);
    if let Some(count) = count {
        builder.worker_threads(count);
    }
    start(builder, "engine")
}

/// Starts the threads of the embedded API server, as many as there are processors. Prints the error if that fails.
pub(super) fn start_server_threads() -> Option<Runtime> {
    start(Builder::new_multi_thread(), "server")
}

fn start(mut builder: Builder, owner: &str) -> Option<Runtime> {
    let started = builder.enable_all().thread_name("kopfd").build();
    started.map_err(|error| print_error(&format!("cannot start the threads of the {owner}: {error}"))).ok()
}
