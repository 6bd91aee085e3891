//! What the connections of an operator depend on.

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::outside::reach::ApiServer;
use crate::outside::resolver::Resolver;
use crate::script::outside::sql::SecretKey;

/// Reads Secrets in the namespace of the operator. Errors are texts without values of Secrets.
pub trait Secrets: Send + Sync {
    /// Returns a value of a Secret, decoded.
    fn read(&self, key: &SecretKey) -> BoxFuture<'static, Result<String, String>>;
}

/// What connections depend on.
pub(crate) struct Options {
    /// Finds the addresses of names.
    pub resolver: Arc<dyn Resolver>,
    /// The API server, which is no database.
    pub api_server: ApiServer,
    /// The Secrets with passwords; `None` without a cluster.
    pub secrets: Option<Arc<dyn Secrets>>,
}
