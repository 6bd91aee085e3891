//! One object's world for tests: a scripted API server with one object, scripted handlers, and the reactor's own code between them,
//! all in virtual time.

pub mod callbacks;
pub mod daemons;
pub mod declare;
pub mod embedded;
pub mod host;
pub mod scene;
pub mod scripted;
pub mod server;
pub mod timeline;

pub use scene::Scene;

use std::future::Future;

/// Runs a future to its end on its own runtime with virtual time, in a `LocalSet` for scripts.
pub fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    tokio::task::LocalSet::new().block_on(&runtime.expect("a runtime without any threads starts"), future)
}
