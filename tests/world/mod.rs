//! One object's world for tests: a scripted API server with one object, scripted handlers, and the reactor's own code
//! between them, all in virtual time; and the embedded API server with the engine's client.

pub(crate) mod api_server;
pub(crate) mod callbacks;
pub(crate) mod declare;
pub(crate) mod embedded;
pub(crate) mod host;
pub(crate) mod log;
pub(crate) mod scene;
pub(crate) mod scripted;
pub(crate) mod server;
pub(crate) mod timeline;

pub(crate) use scene::Scene;

use std::future::Future;

/// Runs a future to its end on its own runtime with virtual time, in a `LocalSet` for scripts.
pub(crate) fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime without any threads starts"), future)
}
