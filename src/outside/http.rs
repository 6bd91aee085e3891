//! The HTTP client of scripts.
//!
//! Requests with equal settings share connections. The network addresses of a host are checked when a connection is
//! made, and exactly the checked ones are used: another answer of the DNS in between changes nothing.

mod connector;
mod error;
mod options;
mod proxy;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;

use self::connector::Connector;
pub(crate) use self::options::Options;
use super::causes;
use super::roots::Roots;
use crate::script::outside::{HttpAnswer, HttpClient, HttpConnection, HttpError, HttpProblem, HttpRequest};

/// Idle connections to one host, and how long they are kept.
const IDLE_CONNECTIONS: usize = 8;
const IDLE_TIME: Duration = Duration::from_secs(30);

/// Pools with different settings, such as client certificates. More are unusual: the oldest one is dropped, and its
/// connections end.
const MAX_POOLS: usize = 16;

/// The bytes of the headers of an answer, and their number.
const MAX_HEAD: usize = 256 << 10;
const MAX_HEADERS: usize = 200;

type Pool = HyperClient<HttpsConnector<Connector>, Full<Bytes>>;

/// The client of one operator.
pub(crate) struct Client {
    options: Options,
    roots: Roots,
    /// The newest one is the last.
    pools: Mutex<Vec<(Arc<HttpConnection>, Pool)>>,
}

impl Client {
    /// Returns a client without connections.
    pub(crate) fn new(options: Options) -> Self {
        Self { options, roots: Roots::default(), pools: Mutex::default() }
    }

    async fn pool(&self, connection: &Arc<HttpConnection>) -> Result<Pool, HttpError> {
        if let Some((_, pool)) = self.pools.lock().iter().find(|(known, _)| known == connection) {
            return Ok(pool.clone());
        }
        let tls = tls::config(connection, &self.roots).await?;
        let connector = Connector::new(Arc::clone(connection), self.options.clone());
        let https =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(connector);
        let pool: Pool = HyperClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .http1_max_buf_size(MAX_HEAD)
            .http1_max_headers(MAX_HEADERS)
            .build(https);
        let mut pools = self.pools.lock();
        if pools.len() >= MAX_POOLS {
            pools.remove(0);
        }
        pools.push((Arc::clone(connection), pool.clone()));
        Ok(pool)
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpAnswer, HttpError> {
        let HttpRequest { max_bytes, connection, .. } = &request;
        let (max_bytes, connection) = (*max_bytes, Arc::clone(connection));
        let pool = self.pool(&connection).await?;
        let mut sent = written(request)?;
        if let Some(authorization) = self.options.proxies.authorization(&connection, sent.uri()) {
            sent.headers_mut().insert(http::header::PROXY_AUTHORIZATION, authorization);
        }
        let response = pool.request(sent).await.map_err(error::of_client)?;
        let (head, mut body) = response.into_parts();
        let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect();
        let too_large = || error::of(HttpProblem::TooLarge, format!("the answer has more than {max_bytes} bytes"));
        let announced = hyper::body::Body::size_hint(&body).lower();
        if usize::try_from(announced).map_or(true, |announced| announced > max_bytes) {
            return Err(too_large());
        }
        let mut received = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|cause| error::of(HttpProblem::Broken, causes::chain("the answer has ended early", &cause)))?;
            let Some(data) = frame.data_ref() else { continue };
            if received.len() + data.len() > max_bytes {
                return Err(too_large());
            }
            received.extend_from_slice(data);
        }
        Ok(HttpAnswer { status: head.status.as_u16(), headers, body: received })
    }
}

impl HttpClient for Client {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpError>> {
        self.exchange(request).boxed()
    }
}

fn written(request: HttpRequest) -> Result<Request<Full<Bytes>>, HttpError> {
    let wrong = |what: &str| error::of(HttpProblem::Broken, format!("the request cannot be written: {what}"));
    let uri: Uri = request.url.as_str().parse().map_err(|_| wrong("its address"))?;
    let mut written = Request::builder().method(request.method.as_str()).uri(uri);
    for (name, value) in &request.headers {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("the name of a header"))?;
        let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| wrong("a header"))?;
        value.set_sensitive(true);
        written = written.header(name, value);
    }
    written.body(Full::new(Bytes::from(request.body))).map_err(|_| wrong("its method"))
}
