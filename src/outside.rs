//! The world outside of the cluster, for the host functions of scripts: HTTP servers, and the programs and files of the
//! machine.
//!
//! What scripts may ask for is decided before, by the functions of `script`. Nothing is opened before a script asks for
//! it.

mod addresses;
mod causes;
mod clusters;
mod files;
pub(crate) mod http;
mod programs;
mod reach;
mod resolver;
mod roots;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod sql;

use std::sync::Arc;

use crate::script::Outside;
use crate::script::outside::sql::Secrets;

pub use programs::end_all;

/// Returns the access of one operator's scripts from this process. `api_server` returns the address of the API server,
/// which is reached only by its own names; `secrets` has the passwords of databases, if there is a cluster.
pub fn of_process(
    api_server: impl Fn() -> String + Send + Sync + 'static,
    secrets: Option<Arc<dyn Secrets>>,
) -> Outside {
    let api_server: reach::ApiServer = Arc::new(api_server);
    let client = http::Client::new(http::Options::of_process(Arc::clone(&api_server)));
    let (programs, files) = (programs::LocalPrograms::default(), files::LocalFiles::default());
    let outside = Outside::new(Arc::new(client), Arc::new(programs), Arc::new(files))
        .with_clusters(Arc::new(clusters::OrdinaryAddresses));
    with_databases(outside, api_server, secrets)
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn with_databases(outside: Outside, api_server: reach::ApiServer, secrets: Option<Arc<dyn Secrets>>) -> Outside {
    let options = sql::Options { resolver: Arc::new(resolver::SystemResolver), api_server, secrets };
    outside.with_databases(Arc::new(sql::LocalDatabases::new(options)))
}

/// Without a driver there are no databases.
#[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
fn with_databases(outside: Outside, _: reach::ApiServer, _: Option<Arc<dyn Secrets>>) -> Outside {
    outside
}
