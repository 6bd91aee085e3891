//! Opens connections: to the checked addresses of a host, or to a proxy.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower::Service;

use super::super::causes;
use super::super::reach::{self, Unreachable};
use super::error;
use super::options::Options;
use super::proxy::Route;
use crate::script::outside::{HttpConnection, HttpError, HttpProblem};

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
                opened.map_err(|cause| {
                    error::of(HttpProblem::Connect, causes::chain("no connection through the proxy", &cause))
                })
            }
        }
    }

    /// The administrator of the process decides about the proxies of its environment: only others are checked.
    async fn to_proxy(&self, ToProxy { uri, is_checked }: &ToProxy) -> Result<Stream, HttpError> {
        if *is_checked {
            return self.checked(uri).await;
        }
        let (host, port) = place(uri)?;
        let addresses = reach::found(&host, &*self.options.resolver).await;
        connect(&addresses.map_err(|why| unreachable(&host, why))?, port).await
    }

    /// Connects to the addresses of a host that it may stand for.
    async fn checked(&self, target: &Uri) -> Result<Stream, HttpError> {
        let (host, port) = place(target)?;
        let Options { resolver, api_server, .. } = &self.options;
        let allowed = reach::allowed(&host, &self.connection.grants, &**resolver, api_server).await;
        connect(&allowed.map_err(|why| unreachable(&host, why))?, port).await
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

async fn connect(addresses: &[IpAddr], port: u16) -> Result<Stream, HttpError> {
    let stream = reach::connect(addresses, port).await.map_err(|why| unreachable("the host", why))?;
    Ok(Stream { io: TokioIo::new(stream), is_proxied: false })
}

fn unreachable(host: &str, why: Unreachable) -> HttpError {
    match why {
        Unreachable::Forbidden(what) => error::of(
            HttpProblem::Forbidden,
            format!("{host} stands for {what}, which is not listed under `allow.http`"),
        ),
        Unreachable::Failed(message) => error::of(HttpProblem::Connect, message),
    }
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
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<std::io::Result<()>> {
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
