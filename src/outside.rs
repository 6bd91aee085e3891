//! The world outside of the cluster, for the host functions of scripts: HTTP servers, and the programs and files of the machine.
//!
//! What scripts may ask for is decided before, by the functions of `script`. Nothing is opened before a script asks for it.

mod clusters;
mod files;
pub mod http;
mod programs;

use std::sync::Arc;

use crate::script::Outside;

pub use programs::end_all;

/// Returns what the scripts of one operator can reach from this process. `api_server` returns the address of the API server, which is
/// reached only by its own names.
pub fn of_process(api_server: impl Fn() -> String + Send + Sync + 'static) -> Outside {
    let client = http::Client::new(http::Options::of_process(Arc::new(api_server)));
    let (programs, files) = (programs::LocalPrograms::default(), files::LocalFiles::default());
    Outside::new(Arc::new(client), Arc::new(programs), Arc::new(files)).with_clusters(Arc::new(clusters::OrdinaryAddresses))
}
