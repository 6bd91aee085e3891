//! Opens connections: to the checked addresses of a host, or to a proxy.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;
use url::Url;

use super::addresses::{self, ApiServerNames};
use super::error;
use super::options::Options;
use super::proxy::Route;
use crate::script::outside::{HttpConnection, HttpError, HttpProblem};

/// The time limit for the connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Opens the connections of one pool.
#[derive(Clone)]
pub(super) struct Connector(Arc<Inner>);

struct Inner {
    connection: Arc<HttpConnection>,
    options: Options,
}

impl Connector {
    /// Returns the connector of requests with these settings.
    pub(super) fn new(connection: Arc<HttpConnection>, options: Options) -> Self {
        Self(Arc::new(Inner { connection, options }))
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = HttpError;
    type Future = BoxFuture<'static, Result<Stream, HttpError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let inner = Arc::clone(&self.0);
        async move { inner.open(target).await }.boxed()
    }
}

impl Inner {
    async fn open(&self, target: Uri) -> Result<Stream, HttpError> {
        match self.options.proxies.route(&self.connection, &target)? {
            Route::Direct => self.checked(&target).await,
            Route::Proxy { uri, is_checked, authorization } => {
                let to_proxy = ToProxy { uri: uri.clone(), is_checked };
                if target.scheme_str() != Some("https") {
                    return Ok(Stream { is_proxied: true, ..self.to_proxy(&to_proxy).await? });
                }
                let stream = self.to_proxy(&to_proxy).await?;
                let mut tunnel = Tunnel::new(uri, tower::service_fn(ready(stream)));
                if let Some(authorization) = authorization {
                    tunnel = tunnel.with_auth(authorization);
                }
                let opened = tunnel.call(target).await;
                opened.map_err(|cause| error::of(HttpProblem::Connect, error::chain("no connection through the proxy", &cause)))
            }
        }
    }

    /// The administrator of the process decides about the proxies of its environment: only others are checked.
    async fn to_proxy(&self, ToProxy { uri, is_checked }: &ToProxy) -> Result<Stream, HttpError> {
        if *is_checked {
            return self.checked(uri).await;
        }
        let (host, port) = place(uri)?;
        let addresses = self.addresses(&host).await?;
        connect(&addresses, port).await
    }

    /// Connects to the addresses of a host that it may stand for.
    async fn checked(&self, target: &Uri) -> Result<Stream, HttpError> {
        let (host, port) = place(target)?;
        let found = self.addresses(&host).await?;
        let api_server = self.api_server(&host).await;
        let judge = |address: &IpAddr| addresses::refusal(&host, *address, &self.connection.grants, &api_server);
        let allowed: Vec<IpAddr> = found.iter().copied().filter(|address| judge(address).is_none()).collect();
        if allowed.is_empty() {
            let what = found.iter().find_map(judge).unwrap_or("no address");
            let message = format!("{host} stands for {what}, which is not listed under `allow.http`");
            return Err(error::of(HttpProblem::Forbidden, message));
        }
        connect(&allowed, port).await
    }

    async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, HttpError> {
        if let Ok(address) = host.parse() {
            return Ok(vec![address]);
        }
        let found = self.options.resolver.resolve(host).await;
        let found = found.map_err(|cause| error::of(HttpProblem::Connect, format!("the address of {host} cannot be found: {cause}")))?;
        if found.is_empty() {
            return Err(error::of(HttpProblem::Connect, format!("{host} has no address")));
        }
        Ok(found)
    }

    /// Returns what is known about the API server. If its name cannot be resolved, no connection is made to it either.
    async fn api_server(&self, host: &str) -> ApiServerNames {
        let mut known = ApiServerNames::default();
        let own = Url::parse(&(self.options.api_server)()).ok().and_then(|url| url.host_str().map(str::to_owned));
        for name in own.into_iter().chain(std::env::var("KUBERNETES_SERVICE_HOST").ok()) {
            let name = name.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
            if let Ok(address) = name.parse() {
                known.addresses.insert(addresses::plain(address));
            } else if name != host {
                known.addresses.extend(self.options.resolver.resolve(&name).await.unwrap_or_default().into_iter().map(addresses::plain));
                known.names.insert(name);
            } else {
                known.names.insert(name);
            }
        }
        known
    }
}

struct ToProxy {
    uri: Uri,
    is_checked: bool,
}

/// Returns a service that gives one stream away.
fn ready(stream: Stream) -> impl FnMut(Uri) -> futures::future::Ready<Result<Stream, HttpError>> {
    let mut stream = Some(stream);
    move |_| {
        let stream = stream.take();
        futures::future::ready(stream.ok_or_else(|| error::of(HttpProblem::Connect, "the connection is used")))
    }
}

fn place(target: &Uri) -> Result<(String, u16), HttpError> {
    let host = target.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    if host.is_empty() {
        return Err(error::of(HttpProblem::Connect, "the address has no host"));
    }
    let default = if target.scheme_str() == Some("https") { 443 } else { 80 };
    Ok((host.to_ascii_lowercase(), target.port_u16().unwrap_or(default)))
}

/// Connects to the first address that accepts.
async fn connect(addresses: &[IpAddr], port: u16) -> Result<Stream, HttpError> {
    let mut failed = String::new();
    for address in addresses {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => {
                // The request is sent without it, too.
                let _ = stream.set_nodelay(true);
                return Ok(Stream { io: TokioIo::new(stream), is_proxied: false });
            }
            Ok(Err(cause)) => failed = cause.to_string(),
            Err(_) => failed = format!("no answer within {} seconds", CONNECT_TIMEOUT.as_secs()),
        }
    }
    Err(error::of(HttpProblem::Connect, format!("no connection: {failed}")))
}

/// A connection to a server or to a proxy.
pub(super) struct Stream {
    io: TokioIo<TcpStream>,
    /// Whether requests have the whole address, for a proxy.
    is_proxied: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl Read for Stream {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
