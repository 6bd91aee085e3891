//! A socket that accepts connections, up to the limits of the process, until its stop.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Incoming};
use rustix::process::{Resource, getrlimit};
use tokio::net::{TcpListener, lookup_host};
use tokio::sync::watch;
use tower::ServiceExt as _;
use tower::util::BoxCloneService;
use tracing::warn;

use super::connection::{Accepted, AnswerError, ConnectionService, Connections, FIRST_REQUEST};
use super::limits::{BoxError, Limits};
use super::tls::ServerTls;
use crate::kit::{Stop, Tasks};

/// Files reserved for other purposes than connections, if the process may open enough of them.
const OTHER_FILES: usize = 32;
/// Pause after a failed accept.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// Minimum interval between warnings about failed accepts.
const ACCEPT_WARNINGS: Duration = Duration::from_mins(1);

/// An open socket.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
    tls: Option<ServerTls>,
    limits: Limits,
    resets: Option<watch::Receiver<u64>>,
}

impl Listener {
    /// Opens a socket; without TLS for plain HTTP.
    ///
    /// # Errors
    /// If the address is in use, or is not one of this machine.
    pub async fn bind(address: SocketAddr, tls: Option<ServerTls>) -> io::Result<Self> {
        let socket = TcpListener::bind(address).await?;
        let address = socket.local_addr()?;
        Ok(Self { socket, address, tls, limits: Limits::default(), resets: None })
    }

    /// Opens a socket at the first of these addresses that can be used.
    ///
    /// # Errors
    /// If none can be used, or there is none.
    pub async fn bind_first(
        addresses: impl IntoIterator<Item = SocketAddr>,
        tls: Option<&ServerTls>,
    ) -> io::Result<Self> {
        let mut failure = io::Error::other("the host has no address");
        for address in addresses {
            match Self::bind(address, tls.cloned()).await {
                Ok(listener) => return Ok(listener),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Opens a socket at a host of this machine. All interfaces (`None`) are those of IPv6 and IPv4, or only those of
    /// IPv4.
    ///
    /// # Errors
    /// If the host has no address that can be used.
    pub async fn bind_host(host: Option<&str>, port: u16, tls: Option<&ServerTls>) -> io::Result<Self> {
        let addresses: Vec<SocketAddr> = match host {
            None => vec![(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()],
            Some(host) => lookup_host((host.trim_matches(['[', ']']), port)).await?.collect(),
        };
        Self::bind_first(addresses, tls).await
    }

    /// Sets the limits of clients.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Resets all connections whenever this channel changes.
    #[must_use]
    pub fn with_resets(self, resets: watch::Receiver<u64>) -> Self {
        Self { resets: Some(resets), ..self }
    }

    /// Returns the address of the socket, with its actual port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients until the stop, and then until their requests have ended or the grace period is over.
    pub async fn serve<S, B>(self, service: S, stop: Stop)
    where
        S: tower::Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static,
    {
        let answered = |answer: Response<B>| {
            answer.map(|body| body.map_err(|error| AnswerError::from(error.into())).boxed_unsync())
        };
        let service = service.map_response(answered).map_err(|error: S::Error| AnswerError::from(error.into()));
        self.accept(BoxCloneService::new(service), stop).await;
    }

    /// Serves clients with a service of one type: all listeners share the code of connections, which is compiled in
    /// this package.
    fn accept(self, service: ConnectionService, stop: Stop) -> BoxFuture<'static, ()> {
        Box::pin(self.accept_until(service, stop))
    }

    async fn accept_until(self, service: ConnectionService, stop: Stop) {
        let connections: Arc<Connections> = Arc::default();
        let mut tasks: Tasks<()> = Tasks::default();
        let limit = self.limits.connections.min(file_limit());
        let mut warned_at: Option<Instant> = None;
        for id in 0.. {
            // One more than the limit is accepted: a waiting connection cannot be detected otherwise.
            let is_full = tasks.len() > limit;
            if is_full {
                connections.close_one_above(limit);
            }
            let accepted = tokio::select! {
                () = stop.requested() => break,
                accepted = self.socket.accept(), if !is_full => accepted,
                Some(_) = tasks.next_ended(), if !tasks.is_empty() => continue,
                () = connections.became_idle.notified(), if is_full => continue,
                () = tokio::time::sleep(FIRST_REQUEST), if is_full => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (tls, limits, entry) = (self.tls.clone(), self.limits, connections.enter(id));
                    let mut resets = self.resets.clone();
                    // Earlier resets do not concern this connection.
                    if let Some(resets) = &mut resets {
                        resets.mark_unchanged();
                    }
                    let accepted = Accepted { entry, stream, peer, tls, limits, resets };
                    tasks.spawn(peer.to_string(), accepted.serve(service.clone(), stop.clone()));
                }
                // Probably too many open files, opened by other parts of the process.
                Err(error) => {
                    if warned_at.is_none_or(|warned_at| warned_at.elapsed() > ACCEPT_WARNINGS) {
                        warn!(%error, connections = tasks.len(), "Connections cannot be accepted.");
                        warned_at = Some(Instant::now());
                    }
                    connections.close_one_above(0);
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
        drop(self.socket);
        tasks.finish(self.limits.grace).await;
    }
}

/// Returns the number of connections that the file limit of the process allows.
fn file_limit() -> usize {
    let files =
        getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    files - OTHER_FILES.min(files / 2)
}
