//! From the names of hosts to their network addresses.

use std::net::IpAddr;

use futures::FutureExt as _;
use futures::future::BoxFuture;

/// Finds the addresses of names.
pub(crate) trait Resolver: Send + Sync {
    /// Returns the addresses of a name, the preferred ones first.
    fn resolve(&self, name: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
pub(super) struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        async move { Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) }.boxed()
    }
}
