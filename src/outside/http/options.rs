//! The options of the client.

use std::sync::Arc;

use super::super::reach::ApiServer;
use super::super::resolver::{Resolver, SystemResolver};
use super::proxy::Proxies;

/// The options of the client.
#[derive(Clone)]
pub(crate) struct Options {
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolver>,
    /// The API server.
    pub api_server: ApiServer,
    /// The proxies of the environment.
    pub(super) proxies: Arc<Proxies>,
}

impl Options {
    /// Returns the options of this process.
    pub(crate) fn of_process(api_server: ApiServer) -> Self {
        Self { resolver: Arc::new(SystemResolver), api_server, proxies: Arc::new(Proxies::of_process()) }
    }
}
