//! Connections to hosts, by the network addresses that their names may stand for.
//!
//! The addresses are checked when a connection is made, and exactly the checked ones are used: another answer of the
//! DNS in between changes nothing.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use url::Url;

use super::addresses::{self, ApiServerNames};
use super::resolver::Resolver;
use crate::script::outside::Grants;

/// The time limit for the connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Returns the address of the API server; empty if it is unknown.
pub(super) type ApiServer = Arc<dyn Fn() -> String + Send + Sync>;

/// The reason why there is no connection to a host.
pub(super) enum Unreachable {
    /// It stands for an address that it may not stand for: this one.
    Forbidden(&'static str),
    /// There is no address, or no connection.
    Failed(String),
}

/// Returns the addresses of a host that it may stand for.
pub(super) async fn allowed(
    host: &str,
    grants: &Grants,
    resolver: &dyn Resolver,
    api_server: &ApiServer,
) -> Result<Vec<IpAddr>, Unreachable> {
    let found = found(host, resolver).await?;
    let api_server = names_of(api_server, host, resolver).await;
    let judge = |address: &IpAddr| addresses::refusal(host, *address, grants, &api_server);
    let allowed: Vec<IpAddr> = found.iter().copied().filter(|address| judge(address).is_none()).collect();
    if allowed.is_empty() {
        return Err(Unreachable::Forbidden(found.iter().find_map(judge).unwrap_or("no address")));
    }
    Ok(allowed)
}

/// Returns all addresses of a host.
pub(super) async fn found(host: &str, resolver: &dyn Resolver) -> Result<Vec<IpAddr>, Unreachable> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found = resolver.resolve(host).await;
    let found =
        found.map_err(|cause| Unreachable::Failed(format!("the address of {host} cannot be found: {cause}")))?;
    if found.is_empty() { Err(Unreachable::Failed(format!("{host} has no address"))) } else { Ok(found) }
}

/// Returns the known addresses and names of the API server. If its name cannot be resolved, no connection is made to it
/// either.
async fn names_of(api_server: &ApiServer, host: &str, resolver: &dyn Resolver) -> ApiServerNames {
    let mut known = ApiServerNames::default();
    let own = Url::parse(&api_server()).ok().and_then(|url| url.host_str().map(str::to_owned));
    for name in own.into_iter().chain(std::env::var("KUBERNETES_SERVICE_HOST").ok()) {
        let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        if let Ok(address) = name.parse() {
            known.addresses.insert(addresses::plain(address));
        } else if name != host {
            known.addresses.extend(resolver.resolve(&name).await.unwrap_or_default().into_iter().map(addresses::plain));
            known.names.insert(name);
        } else {
            known.names.insert(name);
        }
    }
    known
}

/// Connects to the first address that accepts.
pub(super) async fn connect(addresses: &[IpAddr], port: u16) -> Result<TcpStream, Unreachable> {
    let mut failed = String::new();
    for address in addresses {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => {
                // What is sent arrives without it, too.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(cause)) => failed = cause.to_string(),
            Err(_) => failed = format!("no answer within {} seconds", CONNECT_TIMEOUT.as_secs()),
        }
    }
    Err(Unreachable::Failed(format!("no connection: {failed}")))
}
