//! The server on a socket with TLS, and as a service for clients in the same process.

use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::json;

use super::ApiServer;
use crate::faults::injection::Broken;
use crate::http::api_error::ApiError;
use crate::http::identity::{self, Identity};
use crate::http::kubeconfig::NAME;
use crate::http::reply;
use crate::http::request::MAX_BODY;
use kopfd_base::http::{BodyError, BodyLimits, Connection, Listener, read_body};
use kopfd_base::kit::Stop;
use kopfd_base::yaml;

/// The limits of request bodies.
const BODIES: BodyLimits = BodyLimits { bytes: MAX_BODY, timeout: Duration::from_secs(30) };

/// A service that answers without a socket. Cheap to clone.
#[derive(Clone)]
pub struct Service(ApiServer);

impl Service {
    /// Returns the service of a server.
    pub fn new(server: ApiServer) -> Self {
        Self(server)
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
        let server = self.0.clone();
        Box::pin(async move { server.respond(request).await })
    }
}

/// Errors of listening.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is in use, or not one of this machine.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    /// The certificates cannot be created or used.
    #[error(transparent)]
    Identity(#[from] identity::Error),
}

/// A socket that is ready to be served.
pub struct Listening {
    listener: Listener,
    authority: String,
}

impl Listening {
    /// Opens a socket, with a new certificate.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub async fn open(address: SocketAddr) -> Result<Self, Error> {
        Self::open_as(address, &Identity::new(address.ip())?).await
    }

    /// Opens a socket, with existing certificates.
    ///
    /// # Errors
    /// If the address or the certificates cannot be used.
    pub async fn open_as(address: SocketAddr, identity: &Identity) -> Result<Self, Error> {
        let listener =
            Listener::bind(address, Some(identity.tls()?)).await.map_err(|error| Error::Listen(address, error))?;
        Ok(Self { listener, authority: identity.authority().to_owned() })
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Returns the kubeconfig of a client with a token.
    pub fn kubeconfig(&self, token: &str) -> String {
        let address = self.address();
        let host = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(ip) if ip.is_unspecified() => "[::1]".to_owned(),
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let server = format!("https://{host}:{}", address.port());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": NAME,
            "clusters": [{"name": NAME, "cluster": {"server": server, "certificate-authority-data": STANDARD.encode(&self.authority)}}],
            "users": [{"name": NAME, "user": {"token": token}}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        });
        yaml::dump(&config).expect("plain texts have a form in YAML")
    }

    /// Serves clients until the stop.
    pub async fn serve(self, server: ApiServer, stop: Stop) {
        let resets = server.api.injection().restarts();
        let service = tower::service_fn(move |request| {
            let server = server.clone();
            async move { receive(&server, request).await }
        });
        self.listener.with_resets(resets).serve(service, stop).await;
    }
}

/// Answers a request. If the answer breaks, its connection is reset.
async fn receive(server: &ApiServer, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let connection =
        request.extensions().get::<Connection>().expect("the listener tells the connection of every request").clone();
    let answer = answer(server, request).await.inspect_err(|_| connection.reset())?;
    Ok(answer.map(|body| {
        Body::new(body.map_err(move |error| {
            connection.reset();
            error
        }))
    }))
}

/// Reads the whole body, which is small, and answers.
async fn answer(server: &ApiServer, request: Request<Incoming>) -> Result<Response<Body>, Broken> {
    let (head, body) = request.into_parts();
    let failure = match read_body(body, BODIES).await {
        Ok(whole) => return Box::pin(server.respond(Request::from_parts(head, whole))).await,
        Err(BodyError::TooLarge(rest)) => return Ok(rest.answer(too_large()).await.map(Body::new)),
        Err(error @ BodyError::Broken(_)) => ApiError::bad_request(error.to_string()),
        Err(error @ BodyError::Timeout) => ApiError::new(408, "Timeout", error.to_string()),
    };
    Ok(reply::refuse(failure))
}

/// Returns the answer to a request with a body that is too large.
pub(crate) fn too_large() -> Response<Body> {
    let text = format!("Request entity too large: limit is {MAX_BODY}");
    reply::refuse(ApiError::new(413, "RequestEntityTooLarge", text))
}
