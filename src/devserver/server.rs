//! The server on a socket, with TLS; and as a service for clients in the same process.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tracing::debug;

use super::api::Api;
use super::failure::Failure;
use super::identity::{self, Identity};
use super::injection::Broken;
use super::reply;
use super::request::MAX_BODY;
use crate::kit::{Stop, Tasks};
use crate::object::yaml;

/// How long a client may take to shake hands, or to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// How much more is read of a body that is too large, so that its client comes to read the answer.
const MAX_REST: usize = 16 << 20;
/// How long that may take.
const REST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long open connections may take to end.
const GRACE: Duration = Duration::from_secs(1);
/// Connections that are served at the same time; each takes a few KiB.
const MAX_CONNECTIONS: usize = 8_000;

/// A service that answers without a socket. Cheap to clone.
#[derive(Clone)]
pub struct Service(Api);

impl Service {
    /// Returns the service of an API.
    pub fn new(api: Api) -> Self {
        Self(api)
    }
}

impl tower::Service<Request<Bytes>> for Service {
    type Response = Response<Body>;
    type Error = Broken;
    type Future = BoxFuture<'static, Result<Self::Response, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let api = self.0.clone();
        Box::pin(async move { api.respond(request).await })
    }
}

/// Why the server does not listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is taken, or not ours.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// There are no certificates.
    #[error(transparent)]
    Identity(#[from] identity::Error),
    /// The kubeconfig cannot be written.
    #[error("cannot write {0}")]
    Kubeconfig(String, #[source] std::io::Error),
    /// Clients of another server use the kubeconfig.
    #[error("{0} belongs to another kopfd that is still running")]
    InUse(String),
}

/// A kubeconfig that was written. While it lives, no other server takes its place.
#[derive(Debug)]
pub struct Kubeconfig {
    path: PathBuf,
    /// Has the lock.
    file: File,
}

impl Kubeconfig {
    /// Removes the file, if it is still the one that was written.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(self) -> io::Result<()> {
        let written = self.file.metadata()?;
        let found = match std::fs::metadata(&self.path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if (found.dev(), found.ino()) == (written.dev(), written.ino()) { std::fs::remove_file(&self.path) } else { Ok(()) }
    }
}

/// Tells whether a living process has written a kubeconfig.
fn is_in_use(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// A socket that is ready to be served.
pub struct Listening {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    address: SocketAddr,
    authority: String,
}

impl Listening {
    /// Opens a socket, with a certificate that is made for it.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub async fn open(address: SocketAddr) -> Result<Self, Error> {
        Self::open_as(address, &Identity::new(address.ip())?).await
    }

    /// Opens a socket, with certificates that are there already.
    ///
    /// # Errors
    /// If the address or the certificates cannot be used.
    pub async fn open_as(address: SocketAddr, identity: &Identity) -> Result<Self, Error> {
        let listener = TcpListener::bind(address).await.map_err(|error| Error::Listen(address, error))?;
        let address = listener.local_addr().map_err(|error| Error::Listen(address, error))?;
        let acceptor = TlsAcceptor::from(Arc::new(identity.server_config()?));
        Ok(Self { listener, acceptor, address, authority: identity.authority().to_owned() })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the kubeconfig of a client with a token.
    pub fn kubeconfig(&self, token: &str) -> String {
        let host = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let server = format!("https://{host}:{}", self.address.port());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "kopfd",
            "clusters": [{"name": "kopfd", "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(&self.authority)}}],
            "users": [{"name": "kopfd", "user": {"token": token}}],
            "contexts": [{"name": "kopfd", "context": {"cluster": "kopfd", "user": "kopfd", "namespace": "default"}}],
        });
        yaml::dump(&config).expect("plain texts have a form in YAML")
    }

    /// Writes the kubeconfig, readable by its owner only.
    ///
    /// # Errors
    /// If the file cannot be written, or is that of a server that is still running.
    pub fn write_kubeconfig(&self, path: &Path, token: &str) -> Result<Kubeconfig, Error> {
        if is_in_use(path) {
            return Err(Error::InUse(path.display().to_string()));
        }
        let fail = |error| Error::Kubeconfig(path.display().to_string(), error);
        // A file of somebody else's mode is replaced, never filled.
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(fail)?;
        file.write_all(self.kubeconfig(token).as_bytes()).map_err(fail)?;
        // The lock goes with the file to its place, and ends with the process, however that ends.
        file.lock().map_err(fail)?;
        std::fs::rename(&temporary, path).map_err(fail)?;
        Ok(Kubeconfig { path: path.to_owned(), file })
    }

    /// Serves clients until the stop.
    pub async fn serve(self, api: Api, stop: Stop) {
        let mut connections: Tasks<()> = Tasks::default();
        loop {
            let accepted = tokio::select! {
                () = stop.requested() => break,
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => accepted,
                Some(_) = connections.next_ended(), if !connections.is_empty() => continue,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (acceptor, api, stop) = (self.acceptor.clone(), api.clone(), stop.clone());
                    connections.spawn(peer.to_string(), connection(stream, acceptor, api, stop));
                }
                // Too many open files, for one: others may end meanwhile.
                Err(error) => {
                    debug!(%error, "A connection was not accepted.");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        connections.finish(GRACE).await;
    }
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, api: Api, stop: Stop) {
    // Events are small and wanted at once.
    drop(stream.set_nodelay(true));
    let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await else { return };
    let mut restarts = api.injection().restarts();
    let cut = Stop::new();
    let stream = Line { stream, cut: cut.clone() };
    let service = service_fn({
        let cut = cut.clone();
        move |request| {
            let (api, cut) = (api.clone(), cut.clone());
            async move { receive(&api, &cut, request).await }
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(4_000).keep_alive_interval(Duration::from_secs(30));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        biased;
        () = cut.requested() => {}
        _ = restarts.changed() => cut.request("a restart"),
        served = connection.as_mut() => if let Err(error) = served { debug!(%error, "A connection has ended.") },
        () = stop.requested() => {
            connection.as_mut().graceful_shutdown();
            drop(tokio::time::timeout(GRACE, connection).await);
        }
    }
}

/// A connection that can be cut: then it ends with a reset, as if a machine on the way had gone.
struct Line {
    stream: TlsStream<TcpStream>,
    cut: Stop,
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.cut.is_requested() {
            // Without it, the connection would just end.
            drop(self.stream.get_ref().0.set_zero_linger());
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffers: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Reads the whole body, which is small, and answers. If the answer breaks, so does the connection.
async fn receive(
    api: &Api,
    cut: &Stop,
    request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = axum::Error> + use<>>, Broken> {
    let answered = answer(api, request).await;
    let cut = cut.clone();
    let response = answered.inspect_err(|_| cut.request("a fault"))?;
    Ok(response.map(|body| {
        body.map_err(move |error| {
            cut.request("a fault");
            error
        })
    }))
}

async fn answer(api: &Api, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (head, mut body) = request.into_parts();
    let whole = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(&mut body, MAX_BODY).collect()).await {
        Ok(Ok(whole)) => whole.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Ok(too_large(body).await),
        Ok(Err(error)) => return Ok(reply::refuse(Failure::bad_request(format!("the body cannot be read: {error}")))),
        Err(_) => return Ok(reply::refuse(Failure::new(408, "Timeout", "the body did not come in time"))),
    };
    Box::pin(api.respond(Request::from_parts(head, whole))).await
}

/// Refuses a body that is too large. A client that is still sending may not read yet, so it is let come to its end if that is near; and
/// what is left lives as long as the answer, since a stream of HTTP/2 whose request is dropped before would be cancelled with it.
async fn too_large(mut body: Incoming) -> Response<Body> {
    let mut left = MAX_REST;
    let reading = async {
        while left > 0
            && let Some(Ok(frame)) = body.frame().await
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    // Whether it has come to its end makes no difference.
    drop(tokio::time::timeout(REST_TIMEOUT, reading).await);
    let text = format!("Request entity too large: limit is {MAX_BODY}");
    reply::refuse(Failure::new(413, "RequestEntityTooLarge", text)).map(|answer| {
        Body::new(answer.map_frame(move |frame| {
            let _kept = &body;
            frame
        }))
    })
}
