//! The world outside of the cluster, for the host functions of scripts: HTTP servers, and the programs and files of the machine.
//!
//! What scripts may ask for is decided before, by the functions of `script`. Nothing is opened before a script asks for it.

mod addresses;
mod clusters;
mod files;
pub mod http;
mod programs;
mod reach;
mod resolver;
mod roots;
mod sql;

use std::sync::Arc;

use crate::script::Outside;

pub use programs::end_all;
pub use sql::Secrets;

/// Returns what the scripts of one operator can reach from this process. `api_server` returns the address of the API server, which is
/// reached only by its own names; `secrets` has the passwords of databases, if there is a cluster.
pub fn of_process(api_server: impl Fn() -> String + Send + Sync + 'static, secrets: Option<Arc<dyn Secrets>>) -> Outside {
    let api_server: reach::ApiServer = Arc::new(api_server);
    let client = http::Client::new(http::Options::of_process(Arc::clone(&api_server)));
    let (programs, files) = (programs::LocalPrograms::default(), files::LocalFiles::default());
    let databases = sql::LocalDatabases::new(sql::Options { resolver: Arc::new(resolver::SystemResolver), api_server, secrets });
    Outside::new(Arc::new(client), Arc::new(programs), Arc::new(files), Arc::new(databases))
        .with_clusters(Arc::new(clusters::OrdinaryAddresses))
}
