//! Requests to the API server: limited in number and time, retried where that is safe, with renewed credentials.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, timeout};
use tracing::{debug, error, info};

use crate::kit::{Backoff, Clock};

use super::config::{BuiltIn, CredentialSources, Networking, Options, Watching};
use super::error::{Error, LoginError};
use super::transport::{Answer, ByteStream, Connection, Login, Transport};

/// Concurrent calls, each on its own connection. More calls would only wait in the server.
const IN_FLIGHT: usize = 64;

/// Logins within one request: after three refused sets of fresh credentials a fourth will not help.
const LOGINS: usize = 3;

/// Pause after a failed login.
const LOGIN_PAUSE: Duration = Duration::from_secs(5);

/// Number of refused credentials that are remembered, so that they are not used again.
const REFUSED: usize = 3;

/// Credentials are renewed this long before they expire.
const RENEWAL: Duration = Duration::from_secs(10);

/// Bytes read of the error body when a watch fails to open.
const FAILURE_LIMIT: usize = 64 << 10;

/// The client of one cluster. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    login: Box<dyn Login>,
    session: RwLock<Session>,
    /// Held during a login, so that concurrent requests wait for it and do not log in themselves.
    renewal: Mutex<Renewal>,
    in_flight: Semaphore,
    networking: Networking,
    watching: Watching,
    clock: Clock,
}

/// The connection in use. The generation grows with each login.
#[derive(Clone)]
struct Session {
    connection: Arc<Connection>,
    generation: u64,
}

#[derive(Default)]
struct Renewal {
    refused: Vec<u64>,
    failure: Option<(Instant, LoginError)>,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The content type of the body.
    pub content_type: Option<&'static str>,
    /// The body.
    pub body: Bytes,
    /// When it may be retried.
    pub repeat: Repeat,
    /// The maximum number of retries, if lower than in the settings.
    pub max_retries: usize,
}

/// When a failed request may be retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    /// After every transient failure: the request is idempotent.
    Safe,
    /// Only if the server certainly did not process it: it was not reached, or it refused for lack of capacity.
    Unreached,
    /// Never: the caller handles failures.
    Never,
}

impl Request {
    /// Returns a GET request.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Returns a POST request, which is not repeated once it may have reached the server.
    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path).repeated(Repeat::Unreached)
    }

    /// Returns a PATCH request.
    pub fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Returns a request without a body that may be retried.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), content_type: None, body: Bytes::new(), repeat: Repeat::Safe, max_retries: usize::MAX }
    }

    /// Returns the request with a JSON body of some content type.
    #[must_use]
    pub fn with_json(self, content_type: &'static str, body: &Value) -> Self {
        Self { content_type: Some(content_type), body: body.to_string().into(), ..self }
    }

    /// Returns the request with another retry rule.
    #[must_use]
    pub fn repeated(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }
}

/// A successful answer.
#[derive(Debug, Clone)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Response {
    /// Returns the body as JSON.
    ///
    /// # Errors
    /// If the body is not JSON.
    pub fn json(&self) -> Result<Value, Error> {
        serde_json::from_slice(&self.body).map_err(|error| Error::Payload(error.into()))
    }
}

impl Client {
    /// Logs in and returns the client.
    ///
    /// # Errors
    /// If there are no usable credentials. No request is sent to the server.
    pub async fn connect(options: Options, clock: Clock) -> Result<Self, Error> {
        let (networking, watching) = (options.networking.clone(), options.watching.clone());
        let login = BuiltIn::new(options, CredentialSources::of_process());
        Self::with_login(Box::new(login), networking, watching, clock).await
    }

    /// Logs in with the given login and returns the client.
    ///
    /// # Errors
    /// If the login fails.
    pub async fn with_login(login: Box<dyn Login>, networking: Networking, watching: Watching, clock: Clock) -> Result<Self, Error> {
        let connection = Arc::new(login.login().await?);
        debug!(server = connection.server, "Connected.");
        let inner = Inner {
            login,
            session: RwLock::new(Session { connection, generation: 0 }),
            renewal: Mutex::default(),
            in_flight: Semaphore::new(IN_FLIGHT),
            networking,
            watching,
            clock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the namespace of the context or of the service account.
    pub fn default_namespace(&self) -> String {
        self.inner.session.read().connection.default_namespace.clone()
    }

    /// Returns the address of the server, for messages.
    pub fn server(&self) -> String {
        self.inner.session.read().connection.server.clone()
    }

    /// Returns the settings of all requests.
    pub fn networking(&self) -> &Networking {
        &self.inner.networking
    }

    /// Returns the settings of watches.
    pub fn watching(&self) -> &Watching {
        &self.inner.watching
    }

    /// Sends a request, retries it as its rule allows, and returns the successful answer.
    ///
    /// *Cancel safety*: the server may or may not have processed a dropped request.
    ///
    /// # Errors
    /// The last failure.
    pub async fn request(&self, request: &Request) -> Result<Response, Error> {
        let pauses: Vec<Duration> = self.inner.networking.error_backoffs.iter().copied().take(request.max_retries).collect();
        let total = if request.repeat == Repeat::Never { 1 } else { pauses.len() + 1 };
        let mut backoff = Backoff::new(pauses);
        let mut number = 1;
        loop {
            let failure = match self.attempt(request).await {
                Ok(response) if number > 1 => {
                    debug!(attempt = %format_args!("#{number}/{total}"), method = %request.method, path = request.path, "A repeated request succeeded.");
                    return Ok(response);
                }
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            if !may_repeat(request.repeat, &failure) {
                return Err(failure);
            }
            let attempt = format!("#{number}/{total}");
            let Some(pause) = backoff.next_or_end() else {
                error!(attempt, method = %request.method, path = request.path, error = failure.chain(), "A request failed for good.");
                return Err(failure);
            };
            let pause = self.pause(pause, &failure);
            error!(attempt, method = %request.method, path = request.path, error = failure.chain(), ?pause, "A request failed; it will be repeated.");
            tokio::time::sleep(pause).await;
            number += 1;
        }
    }

    /// Returns the time limit for opening a stream, and for the requests before it.
    pub(crate) fn opening_limit(&self) -> Option<Duration> {
        let Inner { networking, watching, .. } = &*self.inner;
        let limit = watching.connect_timeout.or(networking.connect_timeout).or(networking.request_timeout);
        limit.into_iter().chain(watching.inactivity_timeout).min()
    }

    /// Opens a stream of lines. Failures are returned at once, without retries: the watcher decides what to do.
    ///
    /// # Errors
    /// If the stream cannot be opened, or not in time.
    pub async fn open(&self, path: &str) -> Result<ByteStream, Error> {
        let limit = self.opening_limit();
        let request = Request::get(path).repeated(Repeat::Never);
        let mut session = self.session().await?;
        for _ in 0..LOGINS {
            match self.open_with(&session.connection, &request, limit).await {
                Err(error) if error.status() == Some(401) => session = self.renew(session.generation, true).await?,
                other => return other,
            }
        }
        Err(LoginError::Refused.into())
    }

    async fn open_with(&self, connection: &Connection, request: &Request, limit: Option<Duration>) -> Result<ByteStream, Error> {
        let answer = in_time(limit, send(&*connection.watches, request, true)).await?;
        if (200..300).contains(&answer.status) { Ok(answer.body) } else { Err(self.failure_of(answer, limit).await) }
    }

    /// Sends a request once, and again with new credentials if the current ones are refused.
    async fn attempt(&self, request: &Request) -> Result<Response, Error> {
        let mut session = self.session().await?;
        for _ in 0..LOGINS {
            match self.attempt_with(&session.connection, request).await {
                Err(error) if error.status() == Some(401) => session = self.renew(session.generation, true).await?,
                other => return other,
            }
        }
        Err(LoginError::Refused.into())
    }

    async fn attempt_with(&self, connection: &Connection, request: &Request) -> Result<Response, Error> {
        let _permit = self.inner.in_flight.acquire().await.expect("the semaphore is never closed");
        in_time(self.inner.networking.request_timeout, async {
            let answer = send(&*connection.calls, request, false).await?;
            let (status, headers) = (answer.status, answer.headers);
            let body = collect(answer.body, usize::MAX).await?;
            match status {
                200..300 => Ok(Response { status, headers, body }),
                _ => Err(Error::of_answer(status, self.retry_after(&headers), &body)),
            }
        })
        .await
    }

    /// Returns the current session, or a new one if its credentials have expired.
    async fn session(&self) -> Result<Session, Error> {
        let session = self.inner.session.read().clone();
        let ends_at = session.connection.expires_at;
        if ends_at.is_some_and(|ends_at| self.inner.clock.now() + RENEWAL >= ends_at) {
            return self.renew(session.generation, false).await;
        }
        Ok(session)
    }

    async fn renew(&self, generation: u64, is_refused: bool) -> Result<Session, Error> {
        let mut renewal = self.inner.renewal.lock().await;
        let session = self.inner.session.read().clone();
        if session.generation != generation {
            return Ok(session);
        }
        if let Some((at, error)) = &renewal.failure
            && at.elapsed() < LOGIN_PAUSE
        {
            return Err(error.clone().into());
        }
        if is_refused && !renewal.refused.contains(&session.connection.fingerprint) {
            renewal.refused.truncate(REFUSED - 1);
            renewal.refused.insert(0, session.connection.fingerprint);
        }
        let found = match self.inner.login.login().await {
            Ok(connection) if is_refused && renewal.refused.contains(&connection.fingerprint) => Err(LoginError::Refused),
            other => other,
        };
        match found {
            Ok(connection) => {
                info!(server = connection.server, "Logged in anew.");
                let session = Session { connection: Arc::new(connection), generation: generation + 1 };
                *self.inner.session.write() = session.clone();
                renewal.failure = None;
                Ok(session)
            }
            Err(error) => {
                error!(%error, "The login failed.");
                renewal.failure = Some((Instant::now(), error.clone()));
                Err(error.into())
            }
        }
    }

    async fn failure_of(&self, answer: Answer, limit: Option<Duration>) -> Error {
        let retry_after = self.retry_after(&answer.headers);
        match in_time(limit, collect(answer.body, FAILURE_LIMIT)).await {
            Ok(body) => Error::of_answer(answer.status, retry_after, &body),
            Err(_) => Error::of_answer(answer.status, retry_after, &[]),
        }
    }

    /// Returns the seconds of `Retry-After`, which come as a number or as a date. Fractions are dropped.
    fn retry_after(&self, headers: &HeaderMap) -> Option<u64> {
        let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
        if let Ok(seconds) = text.parse::<f64>() {
            return (seconds.is_finite() && seconds >= 0.0).then_some(seconds as u64);
        }
        let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
        Some(date.duration_since(self.inner.clock.now()).as_secs().max(0).unsigned_abs())
    }

    fn pause(&self, backoff: Duration, failure: &Error) -> Duration {
        let asked = failure.retry_after().filter(|_| failure.status() == Some(429));
        match asked {
            Some(asked) if asked > backoff || self.inner.networking.enforce_retry_after => asked,
            _ => backoff,
        }
    }
}

/// Tells whether a failure is transient and the request may be sent again.
fn may_repeat(repeat: Repeat, failure: &Error) -> bool {
    let is_untouched = matches!(failure, Error::Connect(_)) || failure.status() == Some(429);
    let may_pass = match failure {
        Error::Connect(_) | Error::Connection(_) | Error::Timeout(_) => true,
        Error::Status { status, .. } => matches!(status, 403 | 429 | 500..) && !failure.is_about_types(),
        _ => false,
    };
    match repeat {
        Repeat::Safe => may_pass,
        Repeat::Unreached => is_untouched,
        Repeat::Never => false,
    }
}

pub(crate) async fn in_time<T>(limit: Option<Duration>, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    match limit {
        None => work.await,
        Some(limit) => timeout(limit, work).await.unwrap_or(Err(Error::Timeout(limit))),
    }
}

/// Watches are not compressed: servers flush one gzip member per event, and decoders stop after the first.
async fn send(transport: &dyn Transport, request: &Request, is_watch: bool) -> Result<Answer, Error> {
    let mut built = http::Request::builder().method(request.method.clone()).uri(&request.path);
    built = built.header(header::ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(content_type) = request.content_type {
        built = built.header(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if is_watch {
        built = built.header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    let built = built.body(request.body.clone()).map_err(|error| Error::Payload(error.into()))?;
    transport.send(built).await
}

/// Reads a body up to a limit, and ignores the rest.
async fn collect(mut body: ByteStream, limit: usize) -> Result<Bytes, Error> {
    let mut collected = BytesMut::new();
    while collected.len() < limit
        && let Some(chunk) = body.try_next().await.map_err(Error::Connection)?
    {
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.freeze())
}

#[cfg(test)]
#[path = "client/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "client/script.rs"]
pub(crate) mod script;
