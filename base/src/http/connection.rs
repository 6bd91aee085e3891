//! One connection: its handshake, its requests, and its end.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;
use tower::util::BoxCloneService;
use tracing::debug;

use super::limits::{BoxError, Limits};
use super::peer_certificate::PeerCertificate;
use super::tls::ServerTls;
use crate::kit::Stop;

/// Concurrent requests on one HTTP/2 connection: enough for all watches of a large operator.
const MAX_STREAMS: u32 = 4_000;
/// Time that a connection has for its first request before it may be closed in favour of others. Without it, a busy
/// listener would close each connection that it accepts above its limit.
pub(super) const FIRST_REQUEST: Duration = Duration::from_millis(500);
/// Interval of pings to silent HTTP/2 clients.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The connection of a request; every request has it among its extensions.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The address of the client.
    pub peer: SocketAddr,
    /// The verified certificate of the client, with its intermediate ones. Empty without one.
    pub certificates: Arc<[CertificateDer<'static>]>,
    reset: Stop,
}

impl Connection {
    /// Breaks the connection with a TCP reset.
    pub fn reset(&self) {
        self.reset.request("reset");
    }

    /// Returns the fields of the client's certificate, if it has one.
    pub fn peer_certificate(&self) -> Option<PeerCertificate> {
        self.certificates.first().and_then(PeerCertificate::read)
    }
}

/// The open connections of a listener.
#[derive(Debug, Default)]
pub(super) struct Connections {
    open: Mutex<BTreeMap<u64, Arc<Activity>>>,
    /// Notified when a connection has answered its last request.
    pub(super) became_idle: Notify,
}

/// The number of pending requests of a connection, and since when it has none.
#[derive(Debug)]
struct Activity {
    state: Mutex<Requests>,
    closing: Stop,
}

#[derive(Debug)]
struct Requests {
    /// Requests without a complete answer.
    pending: usize,
    /// Whether there was any request.
    had_any: bool,
    idle_since: Instant,
}

impl Connections {
    /// Closes the connection that has been idle longest, if there are more than the limit.
    pub(super) fn close_one_above(&self, limit: usize) {
        let open = self.open.lock();
        let (closing, others): (Vec<_>, Vec<_>) = open.values().partition(|activity| activity.closing.is_requested());
        if others.len() <= limit {
            return;
        }
        drop(closing);
        let idle = others.into_iter().filter_map(|activity| Some((activity.idle_since()?, activity)));
        if let Some((_, activity)) = idle.min_by_key(|(since, _)| *since) {
            activity.closing.request("closed in favour of newer connections");
        }
    }

    /// Adds an accepted connection, so that it counts before its task runs.
    pub(super) fn enter(self: &Arc<Self>, id: u64) -> Entry {
        let requests = Requests { pending: 0, had_any: false, idle_since: Instant::now() };
        let activity = Arc::new(Activity { state: Mutex::new(requests), closing: Stop::new() });
        self.open.lock().insert(id, Arc::clone(&activity));
        Entry { id, activity, connections: Arc::clone(self) }
    }
}

impl Activity {
    /// Returns since when it has been idle, unless its first request may be on the way.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        let is_idle = state.pending == 0 && (state.had_any || state.idle_since.elapsed() >= FIRST_REQUEST);
        is_idle.then_some(state.idle_since)
    }

    /// Tells whether there has been no request.
    fn is_unused(&self) -> bool {
        !self.state.lock().had_any
    }

    /// Waits until the connection has been idle for too long.
    async fn too_idle(&self, limits: &Limits) {
        loop {
            let left = {
                let state = self.state.lock();
                let limit = if state.had_any { limits.idle_timeout } else { limits.head_timeout };
                if state.pending == 0 { limit.saturating_sub(state.idle_since.elapsed()) } else { limit }
            };
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

/// The entry of an open connection.
pub(super) struct Entry {
    id: u64,
    activity: Arc<Activity>,
    connections: Arc<Connections>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connections.open.lock().remove(&self.id);
    }
}

/// The service of a connection.
pub(super) type ConnectionService =
    BoxCloneService<Request<Incoming>, Response<UnsyncBoxBody<Bytes, AnswerError>>, AnswerError>;

/// The reason why there is no answer, or the rest of one is missing.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct AnswerError(#[from] BoxError);

/// A request without a complete answer.
struct Pending {
    activity: Arc<Activity>,
    connections: Arc<Connections>,
}

impl Pending {
    fn begin(entry: &Entry) -> Self {
        let mut state = entry.activity.state.lock();
        state.pending += 1;
        state.had_any = true;
        drop(state);
        Self { activity: Arc::clone(&entry.activity), connections: Arc::clone(&entry.connections) }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut state = self.activity.state.lock();
        state.pending -= 1;
        if state.pending == 0 {
            state.idle_since = Instant::now();
            self.connections.became_idle.notify_one();
        }
    }
}

/// A body that counts as a pending request until it is dropped.
struct PendingBody {
    body: UnsyncBoxBody<Bytes, AnswerError>,
    _pending: Pending,
}

impl Body for PendingBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An accepted connection.
pub(super) struct Accepted {
    pub(super) entry: Entry,
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) tls: Option<ServerTls>,
    pub(super) limits: Limits,
    /// Changes when all connections must be reset.
    pub(super) resets: Option<watch::Receiver<u64>>,
}

impl Accepted {
    /// Serves the connection until either side closes it.
    pub(super) async fn serve(mut self, service: ConnectionService, stop: Stop) {
        let entry = Arc::new(self.entry);
        let activity = Arc::clone(&entry.activity);
        // Answers are small and needed at once.
        drop(self.stream.set_nodelay(true));
        let reset = Stop::new();
        let shaken = tokio::select! {
            () = stop.requested() => return,
            () = activity.closing.requested() => return,
            shaken = tokio::time::timeout(self.limits.head_timeout, shake_hands(self.stream, self.tls.as_ref(), reset.clone())) => shaken,
        };
        let Ok(Ok(stream)) = shaken else { return };
        let info = Connection { peer: self.peer, certificates: stream.certificates(), reset: reset.clone() };
        let service = service_fn(move |mut request: Request<Incoming>| {
            let pending = Pending::begin(&entry);
            request.extensions_mut().insert(info.clone());
            let answer = service.clone().oneshot(request);
            async move { answer.await.map(|answer| answer.map(|body| PendingBody { body, _pending: pending })) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.head_timeout);
        builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS).keep_alive_interval(KEEP_ALIVE);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        tokio::select! {
            biased;
            () = reset.requested() => return,
            () = ticked(self.resets.as_mut()) => return reset.request("a reset of all connections"),
            served = connection.as_mut() => {
                if let Err(error) = served {
                    debug!(%error, "A connection has ended.");
                }
                return;
            }
            () = stop.requested() => {}
            () = async { tokio::select! { () = activity.closing.requested() => {}, () = activity.too_idle(&self.limits) => {} } } => {
                // A graceful shutdown would wait for the first request.
                if activity.is_unused() {
                    return;
                }
            }
        }
        connection.as_mut().graceful_shutdown();
        drop(tokio::time::timeout(self.limits.grace, connection).await);
    }
}

/// Waits for a reset; without a channel, forever.
async fn ticked(resets: Option<&mut watch::Receiver<u64>>) {
    if let Some(resets) = resets
        && resets.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

async fn shake_hands(stream: TcpStream, tls: Option<&ServerTls>, reset: Stop) -> io::Result<Stream> {
    let io = match tls {
        None => Io::Plain(stream),
        Some(tls) => Io::Tls(Box::new(TlsAcceptor::from(tls.config()).accept(stream).await?)),
    };
    Ok(Stream { io, reset })
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The bytes of a connection, which can be reset.
struct Stream {
    io: Io,
    reset: Stop,
}

impl Stream {
    fn certificates(&self) -> Arc<[CertificateDer<'static>]> {
        let Io::Tls(tls) = &self.io else { return Arc::default() };
        tls.get_ref()
            .1
            .peer_certificates()
            .unwrap_or_default()
            .iter()
            .map(|certificate| certificate.clone().into_owned())
            .collect()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.reset.is_requested() {
            let tcp = match &self.io {
                Io::Plain(tcp) => tcp,
                Io::Tls(tls) => tls.get_ref().0,
            };
            // Without it, the connection would be closed gracefully.
            drop(tcp.set_zero_linger());
        }
    }
}

/// Calls the same function of either kind of stream.
macro_rules! forward {
    ($self:ident, $function:ident $(, $argument:expr)*) => {
        match &mut $self.io {
            Io::Plain(tcp) => Pin::new(tcp).$function($($argument),*),
            Io::Tls(tls) => Pin::new(tls).$function($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        forward!(self, poll_read, context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        forward!(self, poll_write, context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_flush, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_shutdown, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, poll_write_vectored, context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(tcp) => tcp.is_write_vectored(),
            Io::Tls(tls) => tls.is_write_vectored(),
        }
    }
}
