//! Requests to the API server: limited in number and time, retried where that is safe, with renewed credentials.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::{HeaderMap, HeaderValue, Method, header};
use parking_lot::{Mutex as SyncMutex, RwLock};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::time::{Instant, timeout};
use tracing::{debug, error, info};

use crate::kit::{Backoff, Clock, TokenBucket};
use crate::object::secret::Values;
use crate::telemetry::OperatorMetrics;

use super::address;
use super::config::{BuiltIn, CredentialSources, Options};
use super::error::{Error, LoginError};
use super::fence::{Fence, Fenced, InFlight, is_write};
use super::settings::{ConnectionSettings, Networking, Watching};
use super::transport::{Answer, ByteStream, Connection, Duplex, Login, Transport, Upgrade};

/// Concurrent calls, each on its own connection. More calls would only wait in the server.
const IN_FLIGHT: usize = 64;

/// Logins within one request: after three refused sets of fresh credentials a fourth will not help.
const LOGINS: u64 = 3;

/// Pause after a failed login.
const LOGIN_PAUSE: Duration = Duration::from_secs(5);

/// Number of refused credentials of one source that are remembered, so that they are not used again.
const REFUSED: usize = 3;

/// Credentials are renewed this long before they expire.
const RENEWAL: Duration = Duration::from_secs(10);

/// Bytes read of the error body when a watch fails to open.
const FAILURE_LIMIT: usize = 64 << 10;

/// The client of one cluster. Clones are cheap and share everything.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    fence: Option<Fenced>,
    /// Whether requests wait neither for the budget nor for other requests.
    is_urgent: bool,
}

struct Inner {
    login: Box<dyn Login>,
    vault: RwLock<Vault>,
    /// Held during a login, so that concurrent requests wait for it and do not log in themselves.
    renewal: Mutex<Renewal>,
    /// The error of the last login, if it failed.
    failed: watch::Sender<Option<LoginError>>,
    in_flight: Semaphore,
    budget: Budget,
    settings: RwLock<Arc<ConnectionSettings>>,
    clock: Clock,
    metrics: OnceLock<OperatorMetrics>,
}

/// The budget of requests. Requests that wait for it are sent in the order in which they came.
struct Budget {
    /// Held by the request that gets the next token.
    next: Semaphore,
    bucket: SyncMutex<TokenBucket>,
    /// The beginning of the bucket's time.
    origin: Instant,
}

impl Default for Budget {
    fn default() -> Self {
        Self { next: Semaphore::new(1), bucket: SyncMutex::default(), origin: Instant::now() }
    }
}

/// The usable connections, the preferred one first. Before the first login there are none.
#[derive(Default)]
struct Vault {
    connections: VecDeque<Arc<Connection>>,
    /// Grows with each change.
    generation: u64,
    /// The number of logins so far.
    logins: u64,
}

/// The connection in use.
#[derive(Clone)]
struct Session {
    connection: Arc<Connection>,
    generation: u64,
    logins: u64,
}

impl Vault {
    fn session(&self) -> Option<Session> {
        let connection = Arc::clone(self.connections.front()?);
        Some(Session { connection, generation: self.generation, logins: self.logins })
    }

    fn replace(&mut self, connections: impl IntoIterator<Item = Arc<Connection>>) {
        self.connections = connections.into_iter().collect();
        self.generation += 1;
    }
}

#[derive(Default)]
struct Renewal {
    /// The fingerprints of refused credentials by source, the last one first.
    refused: BTreeMap<String, VecDeque<u64>>,
    failure: Option<(Instant, LoginError)>,
}

impl Renewal {
    fn refuse(&mut self, connection: &Connection) {
        let refused = self.refused.entry(connection.id.clone()).or_default();
        if !refused.contains(&connection.fingerprint) {
            refused.truncate(REFUSED - 1);
            refused.push_front(connection.fingerprint);
        }
    }

    fn is_refused(&self, connection: &Connection) -> bool {
        self.refused.get(&connection.id).is_some_and(|refused| refused.contains(&connection.fingerprint))
    }
}

/// Why other credentials are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// There was no login yet.
    Initial,
    /// The current ones expire.
    Expired,
    /// The server refuses the current ones.
    Refused,
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

    /// Returns an error of the server without what the request writes into a Secret: servers and webhooks quote what they refuse.
    fn without_secrets(&self, error: Error) -> Error {
        let (_, resource) = address::classify(&self.method, &self.path);
        match serde_json::from_slice(&self.body) {
            Ok(body) if resource == "secrets.v1" => error.without(&Values::of_request(&body)),
            _ => error,
        }
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
        let client = Self::new(login, ConnectionSettings { networking, watching }, clock);
        client.log_in().await?;
        Ok(client)
    }

    /// Returns a client that logs in with its first request.
    pub fn new(login: Box<dyn Login>, settings: ConnectionSettings, clock: Clock) -> Self {
        let inner = Inner {
            login,
            vault: RwLock::default(),
            renewal: Mutex::default(),
            failed: watch::Sender::new(None),
            in_flight: Semaphore::new(IN_FLIGHT),
            budget: Budget::default(),
            settings: RwLock::new(Arc::new(settings)),
            clock,
            metrics: OnceLock::new(),
        };
        Self { inner: Arc::new(inner), fence: None, is_urgent: false }
    }

    /// Returns a client of another server, which shares nothing but the settings, the clock, and the fence.
    pub(super) fn with_other_login(&self, login: Box<dyn Login>) -> Self {
        let other = Self::new(login, (*self.settings()).clone(), self.inner.clock.clone());
        Self { fence: self.fence.clone(), ..other }
    }

    /// Returns the client with a fence: requests that may change something fail while it is closed, and when it closes before their end.
    #[must_use]
    pub fn fenced(&self, fence: Arc<dyn Fence>) -> Self {
        Self { fence: Some(Fenced(fence)), ..self.clone() }
    }

    /// Returns the client for requests that wait neither for the budget of requests nor for other requests in flight.
    #[must_use]
    pub fn urgent(&self) -> Self {
        Self { is_urgent: true, ..self.clone() }
    }

    /// Counts requests and logins from now on. Only the first call has an effect.
    pub fn measure(&self, metrics: OperatorMetrics) {
        // Clones of the client share the first metrics.
        drop(self.inner.metrics.set(metrics));
    }

    /// Waits until the budget of requests allows one more, and takes it.
    ///
    /// *Cancel safety*: a request that stops waiting takes nothing.
    async fn await_budget(&self) {
        if self.is_urgent || self.settings().networking.requests.is_none() {
            return;
        }
        let Budget { next, bucket, origin } = &self.inner.budget;
        let began = Instant::now();
        let _turn = next.acquire().await.expect("the semaphore is never closed");
        // The settings may change while it waits.
        while let Some(rate) = self.settings().networking.requests {
            let taken = bucket.lock().take(rate, origin.elapsed());
            match taken {
                Ok(()) => break,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
        let waited = began.elapsed();
        if let Some(metrics) = self.inner.metrics.get().filter(|_| !waited.is_zero()) {
            metrics.waited_for_budget(waited);
        }
    }

    /// Runs a request, and counts it by the status of its answer.
    async fn counted<T>(
        &self,
        request: &Request,
        status_of: fn(&T) -> u16,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let Some(metrics) = self.inner.metrics.get() else { return work.await };
        let began = Instant::now();
        let done = work.await;
        let (verb, resource) = address::classify(&request.method, &request.path);
        let status;
        let code = match &done {
            Ok(answer) => {
                status = status_of(answer).to_string();
                &status
            }
            Err(Error::Status { status: found, .. }) => {
                status = found.to_string();
                &status
            }
            Err(Error::Connect(_)) => "connect",
            Err(Error::Connection(_)) => "connection",
            Err(Error::Timeout(_)) => "timeout",
            Err(_) => "other",
        };
        metrics.request(verb, &resource, code, began.elapsed());
        done
    }

    /// Logs in, unless there are credentials already.
    ///
    /// # Errors
    /// If the login fails.
    pub async fn log_in(&self) -> Result<(), Error> {
        self.session().await.map(drop)
    }

    /// Waits until a login fails, and returns its error.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn login_failed(&self) -> LoginError {
        let mut failed = self.inner.failed.subscribe();
        match failed.wait_for(Option::is_some).await.map(|error| error.clone()) {
            Ok(Some(error)) => error,
            _ => std::future::pending().await,
        }
    }

    /// Returns the namespace of the context or of the service account.
    pub fn default_namespace(&self) -> String {
        let session = self.inner.vault.read().session();
        session.map_or_else(|| "default".to_owned(), |session| session.connection.default_namespace.clone())
    }

    /// Returns the address of the server, for messages; empty before the login.
    pub fn server(&self) -> String {
        self.inner.vault.read().session().map(|session| session.connection.server.clone()).unwrap_or_default()
    }

    /// Returns the settings of requests and watches.
    pub fn settings(&self) -> Arc<ConnectionSettings> {
        Arc::clone(&self.inner.settings.read())
    }

    /// Replaces the settings of all later requests, and of all later logins.
    pub fn configure(&self, settings: ConnectionSettings) {
        *self.inner.settings.write() = Arc::new(settings);
    }

    /// Sends a request, retries it as its rule allows, and returns the successful answer.
    ///
    /// *Cancel safety*: the server may or may not have processed a dropped request.
    ///
    /// # Errors
    /// The last failure.
    pub async fn request(&self, request: &Request) -> Result<Response, Error> {
        let pauses: Vec<Duration> = self.settings().networking.error_backoffs.iter().copied().take(request.max_retries).collect();
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
            if let Some(metrics) = self.inner.metrics.get() {
                let (verb, resource) = address::classify(&request.method, &request.path);
                metrics.repetition(verb, &resource);
                if failure.status() == Some(429) || failure.retry_after().is_some() {
                    metrics.throttled(pause);
                }
            }
            tokio::time::sleep(pause).await;
            number += 1;
        }
    }

    /// Returns the time limit for opening a stream, and for the requests before it.
    pub(crate) fn opening_limit(&self) -> Option<Duration> {
        let settings = self.settings();
        let ConnectionSettings { networking, watching } = &*settings;
        let limit = watching.connect_timeout.or(networking.connect_timeout).or(networking.request_timeout);
        limit.into_iter().chain(watching.inactivity_timeout).min()
    }

    /// Opens a stream of lines. Failures are returned at once, without retries: the watcher decides what to do.
    ///
    /// # Errors
    /// If the stream cannot be opened, or not in time.
    pub async fn open(&self, path: &str) -> Result<ByteStream, Error> {
        let limit = self.opening_limit();
        let request = &Request::get(path).repeated(Repeat::Never);
        let open = |connection: Arc<Connection>| async move { self.open_with(&connection, request, limit).await };
        self.with_credentials(request, |_| 200, open).await
    }

    async fn open_with(&self, connection: &Connection, request: &Request, limit: Option<Duration>) -> Result<ByteStream, Error> {
        let answer = in_time(limit, send(&*connection.watches, request, None, true)).await?;
        if (200..300).contains(&answer.status) { Ok(answer.body) } else { Err(self.failure_of(answer, limit).await) }
    }

    /// Opens a connection for another protocol by a GET request with further headers, and runs work on it. Nothing is repeated. Although it is a
    /// GET, it may change something: it needs an open fence, and ends when the fence closes.
    ///
    /// *Cancel safety*: the connection is closed. What the server has begun by then may go on.
    ///
    /// # Errors
    /// If the server refuses the protocol, and those of the work.
    pub(super) async fn switched<T, F>(
        &self,
        path: &str,
        headers: &HeaderMap,
        work: impl FnOnce(HeaderMap, Box<dyn Duplex>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let request = &Request::get(path).repeated(Repeat::Never);
        let run = async {
            let switch = |connection: Arc<Connection>| async move { self.switch_with(&connection, request, headers).await };
            let (answered, duplex) = self.with_credentials(request, |_| 101, switch).await?;
            work(answered, duplex).await
        };
        let Some(fence) = &self.fence else { return run.await };
        if !fence.0.is_open() {
            return Err(Error::Fenced);
        }
        let in_flight = InFlight::new(fence);
        let ended = tokio::select! {
            biased;
            () = fence.0.closed() => Err(Error::Fenced),
            ended = run => ended,
        };
        in_flight.end(&ended);
        ended
    }

    async fn switch_with(
        &self,
        connection: &Connection,
        request: &Request,
        headers: &HeaderMap,
    ) -> Result<(HeaderMap, Box<dyn Duplex>), Error> {
        let mut built = build(request, false)?;
        built.headers_mut().extend(headers.clone());
        let limit = self.opening_limit();
        match in_time(limit, connection.calls.upgrade(built)).await? {
            Upgrade::Switched(answered, duplex) => Ok((answered, duplex)),
            Upgrade::Refused(answer) => Err(self.failure_of(answer, limit).await),
        }
    }

    /// Sends a request once, and again with new credentials if the current ones are refused.
    async fn attempt(&self, request: &Request) -> Result<Response, Error> {
        let attempt = |connection: Arc<Connection>| async move { self.attempt_with(&connection, request).await };
        self.with_credentials(request, |response| response.status, attempt).await
    }

    /// Sends a request, and again as long as its credentials are refused and there are others.
    async fn with_credentials<T, F>(
        &self,
        request: &Request,
        status_of: fn(&T) -> u16,
        send: impl Fn(Arc<Connection>) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut session = self.session().await?;
        let first = session.logins;
        while session.logins - first < LOGINS {
            self.await_budget().await;
            match self.counted(request, status_of, send(Arc::clone(&session.connection))).await {
                Err(error) if error.status() == Some(401) => session = self.renew(session.generation, Need::Refused).await?,
                other => return other,
            }
        }
        Err(LoginError::Refused.into())
    }

    async fn attempt_with(&self, connection: &Connection, request: &Request) -> Result<Response, Error> {
        match self.fence.as_ref().filter(|_| is_write(&request.method)) {
            None => self.send_once(connection, request, None).await,
            Some(fence) if !fence.0.is_open() => Err(Error::Fenced),
            Some(fence) => {
                let in_flight = InFlight::new(fence);
                let ended = tokio::select! {
                    biased;
                    () = fence.0.closed() => Err(Error::Fenced),
                    answered = self.send_once(connection, request, Some(fence)) => answered,
                };
                in_flight.end(&ended);
                ended
            }
        }
    }

    async fn send_once(&self, connection: &Connection, request: &Request, fence: Option<&Fenced>) -> Result<Response, Error> {
        let _permit =
            if self.is_urgent { None } else { Some(self.inner.in_flight.acquire().await.expect("the semaphore is never closed")) };
        in_time(self.settings().networking.request_timeout, async {
            let answer = send(&*connection.calls, request, fence, false).await?;
            let (status, headers) = (answer.status, answer.headers);
            let body = collect(answer.body, usize::MAX).await?;
            match status {
                200..300 => Ok(Response { status, headers, body }),
                _ => Err(request.without_secrets(Error::of_answer(status, self.retry_after(&headers), &body))),
            }
        })
        .await
    }

    /// Returns the current session, or a new one if there is none yet, or if its credentials have expired.
    async fn session(&self) -> Result<Session, Error> {
        let session = self.inner.vault.read().session();
        match session {
            None => self.renew(0, Need::Initial).await,
            Some(session) if self.is_expiring(&session.connection, RENEWAL) => self.renew(session.generation, Need::Expired).await,
            Some(session) => Ok(session),
        }
    }

    fn is_expiring(&self, connection: &Connection, margin: Duration) -> bool {
        connection.expires_at.is_some_and(|ends_at| self.inner.clock.now() + margin >= ends_at)
    }

    /// Returns a session with other credentials than those of a generation: the next known ones, or those of a new login.
    ///
    /// If that fails, the current ones are kept: the server may accept them again later.
    async fn renew(&self, generation: u64, need: Need) -> Result<Session, Error> {
        let mut renewal = self.inner.renewal.lock().await;
        let known: Vec<Arc<Connection>> = {
            let vault = self.inner.vault.read();
            if let Some(session) = vault.session().filter(|_| vault.generation != generation) {
                return Ok(session);
            }
            vault.connections.iter().cloned().collect()
        };
        if let Some(refused) = known.first().filter(|_| need == Need::Refused) {
            renewal.refuse(refused);
        }
        let others: Vec<_> = known.into_iter().skip(1).filter(|one| !self.is_expiring(one, RENEWAL)).collect();
        if !others.is_empty() {
            debug!("Other credentials of the last login are used.");
            let mut vault = self.inner.vault.write();
            vault.replace(others);
            return Ok(vault.session().expect("there are other credentials"));
        }
        if let Some((at, error)) = &renewal.failure
            && at.elapsed() < LOGIN_PAUSE
        {
            return Err(error.clone().into());
        }
        let found = self.new_credentials(&renewal, need).await;
        if let Some(metrics) = self.inner.metrics.get() {
            metrics.login(found.is_err());
        }
        match found {
            Ok(connections) => {
                let session = {
                    let mut vault = self.inner.vault.write();
                    vault.replace(connections);
                    vault.logins += 1;
                    vault.session().expect("a login returns credentials")
                };
                if need == Need::Initial {
                    debug!(server = session.connection.server, "Connected.");
                } else {
                    info!(server = session.connection.server, "Logged in anew.");
                }
                renewal.failure = None;
                self.inner.failed.send_replace(None);
                Ok(session)
            }
            Err(error) => {
                if need != Need::Initial {
                    error!(%error, "The login failed.");
                }
                renewal.failure = Some((Instant::now(), error.clone()));
                self.inner.failed.send_replace(Some(error.clone()));
                Err(error.into())
            }
        }
    }

    /// Logs in, and returns the credentials that the server has not refused.
    async fn new_credentials(&self, renewal: &Renewal, need: Need) -> Result<Vec<Arc<Connection>>, LoginError> {
        let found = self.inner.login.login(self.settings()).await?;
        // Credentials that were refused long ago may be valid again, unless that is why others are needed.
        let is_usable = |one: &Connection| need != Need::Refused || !renewal.is_refused(one);
        let (usable, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(is_usable);
        match (usable.is_empty(), refused.is_empty()) {
            (true, true) => Err(LoginError::Empty),
            (true, false) => Err(LoginError::Refused),
            (false, _) => Ok(usable.into_iter().map(Arc::new).collect()),
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
        match failure.retry_after() {
            Some(asked) if asked > backoff || self.settings().networking.enforce_retry_after => asked,
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

async fn send(transport: &dyn Transport, request: &Request, fence: Option<&Fenced>, is_watch: bool) -> Result<Answer, Error> {
    let mut built = build(request, is_watch)?;
    if let Some(fence) = fence {
        built.extensions_mut().insert(fence.clone());
    }
    transport.send(built).await
}

/// Returns a request as transports send it. Watches are not compressed: servers flush one gzip member per event, and decoders stop after the
/// first.
fn build(request: &Request, is_watch: bool) -> Result<http::Request<Bytes>, Error> {
    let mut built = http::Request::builder().method(request.method.clone()).uri(&request.path);
    built = built.header(header::ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(content_type) = request.content_type {
        built = built.header(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    if is_watch {
        built = built.header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }
    built.body(request.body.clone()).map_err(|error| Error::Payload(error.into()))
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
