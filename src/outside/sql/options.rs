//! The options of an operator's connections.

use std::sync::Arc;

use crate::outside::reach::ApiServer;
use crate::outside::resolver::Resolver;
use crate::script::outside::sql::Secrets;

/// The options of connections.
pub(crate) struct Options {
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolver>,
    /// The API server, which is no database.
    pub api_server: ApiServer,
    /// The Secrets with passwords; `None` without a cluster.
    pub secrets: Option<Arc<dyn Secrets>>,
}
