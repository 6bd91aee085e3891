//! Connections to servers that are checked before: by their names, and by the addresses that these stand for.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use tower::Service;

/// Decides which servers may be connected with.
pub trait Guard: Send + Sync {
    /// Returns why a server may not be connected with, by its name and port.
    fn refusal_of_server(&self, host: &str, port: u16) -> Option<String>;
    /// Returns why the name of a server may not stand for an address.
    fn refusal_of_address(&self, host: &str, address: IpAddr) -> Option<String>;
}

/// A server that may not be connected with.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(String);

/// Checks a server by its name, and by its address if the name is one.
///
/// # Errors
/// If it may not be connected with.
pub(crate) fn check(guard: &dyn Guard, server: &Uri) -> Result<(), Refused> {
    let host = server.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = server.port_u16().unwrap_or(if server.scheme_str() == Some("http") { 80 } else { 443 });
    let refusal = guard.refusal_of_server(host, port);
    let refusal = refusal.or_else(|| host.parse().ok().and_then(|address| guard.refusal_of_address(host, address)));
    refusal.map_or(Ok(()), |refusal| Err(Refused(refusal)))
}

/// Resolves a name, and returns only the allowed addresses: exactly these are connected with.
#[derive(Clone)]
pub(crate) struct CheckedResolver(Arc<dyn Guard>);

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let host = name.as_str().trim_end_matches('.');
            let refusals: Vec<Option<String>> =
                found.iter().map(|address| guard.refusal_of_address(host, address.ip())).collect();
            let allowed: Vec<SocketAddr> = found
                .iter()
                .zip(&refusals)
                .filter(|(_, refusal)| refusal.is_none())
                .map(|(address, _)| *address)
                .collect();
            match refusals.into_iter().flatten().next() {
                Some(refusal) if allowed.is_empty() => Err(io::Error::other(Refused(refusal))),
                _ => Ok(allowed.into_iter()),
            }
        })
    }
}

/// Opens connections to checked servers.
#[derive(Clone)]
pub(crate) struct Guarded {
    tcp: HttpConnector<CheckedResolver>,
    guard: Arc<dyn Guard>,
}

impl Guarded {
    /// Returns the connector of a guard. `configure` sets its options.
    pub(crate) fn new(guard: Arc<dyn Guard>, configure: impl FnOnce(&mut HttpConnector<CheckedResolver>)) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(CheckedResolver(Arc::clone(&guard)));
        configure(&mut tcp);
        Self { tcp, guard }
    }
}

impl Service<Uri> for Guarded {
    type Response = <HttpConnector<CheckedResolver> as Service<Uri>>::Response;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Self::Response>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_ready(context).map_err(io::Error::other)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        // Names of addresses, such as 127.0.0.1, are not looked up.
        let checked = check(&*self.guard, &server);
        let connecting = self.tcp.call(server);
        Box::pin(async move {
            checked.map_err(io::Error::other)?;
            connecting.await.map_err(io::Error::other)
        })
    }
}
