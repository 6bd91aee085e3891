//! Requests to the API server: limited in number and time, retried where that is safe, with renewed credentials.

mod budget;
mod credentials;
mod request;
mod sending;
mod shared;

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::sync::Semaphore;
use tracing::{debug, error};

use crate::kit::{Backoff, Clock};
use crate::telemetry::OperatorMetrics;

use super::config::{BuiltIn, CredentialSources, Options};
use super::error::{Error, LoginError};
use super::fence::{Fence, Fenced, InFlight, is_write};
use super::in_flight::Counted;
use super::settings::{ConnectionSettings, Networking, Watching};
use super::transport::{Answer, ByteStream, Connection, Duplex, IN_FLIGHT, Login, Upgrade};

pub use request::{Repeat, Request, Response};
pub(crate) use sending::in_time;

use budget::Budget;
use credentials::{Credentials, Need};
use sending::{build, collect, send};
use shared::Shared;

/// Logins within one request: after three refused sets of fresh credentials a fourth will not help.
const LOGINS: u64 = 3;

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
    shared: Shared,
    credentials: Credentials,
    budget: Budget,
    in_flight: Semaphore,
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
    pub async fn with_login(
        login: Box<dyn Login>,
        networking: Networking,
        watching: Watching,
        clock: Clock,
    ) -> Result<Self, Error> {
        let client = Self::new(login, ConnectionSettings { networking, watching }, clock);
        client.log_in().await?;
        Ok(client)
    }

    /// Returns a client that logs in with its first request.
    pub fn new(login: Box<dyn Login>, settings: ConnectionSettings, clock: Clock) -> Self {
        let (shared, credentials) = (Shared::new(settings, clock), Credentials::of(login));
        let inner = Inner { shared, credentials, budget: Budget::default(), in_flight: Semaphore::new(IN_FLIGHT) };
        Self { inner: Arc::new(inner), fence: None, is_urgent: false }
    }

    /// Returns a client of another server, which shares nothing but the settings, the clock, and the fence.
    pub(super) fn with_other_login(&self, login: Box<dyn Login>) -> Self {
        let other = Self::new(login, (*self.settings()).clone(), self.inner.shared.clock.clone());
        Self { fence: self.fence.clone(), ..other }
    }

    /// Returns the client with a fence: requests that may write fail while it is closed, and when it closes before
    /// their end.
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
        self.inner.shared.measure(metrics);
    }

    /// Logs in, unless there are credentials already.
    ///
    /// # Errors
    /// If the login fails.
    pub async fn log_in(&self) -> Result<(), Error> {
        self.inner.credentials.session(&self.inner.shared).await.map(drop)
    }

    /// Waits until a login fails, and returns its error.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub async fn login_failed(&self) -> LoginError {
        self.inner.credentials.login_failed().await
    }

    /// Returns the namespace of the context or of the service account.
    pub fn default_namespace(&self) -> String {
        let session = self.inner.credentials.last();
        session.map_or_else(|| "default".to_owned(), |session| session.connection.default_namespace.clone())
    }

    /// Returns the address of the server, for messages; empty before the login.
    pub fn server(&self) -> String {
        self.inner.credentials.last().map(|session| session.connection.server.clone()).unwrap_or_default()
    }

    /// Returns the settings of requests and watches.
    pub fn settings(&self) -> Arc<ConnectionSettings> {
        self.inner.shared.settings()
    }

    /// Replaces the settings of all later requests, and of all later logins.
    pub fn configure(&self, settings: ConnectionSettings) {
        self.inner.shared.configure(settings);
    }

    /// Sends a request, retries it as its rule allows, and returns the successful answer.
    ///
    /// *Cancel safety*: the server may or may not have processed a dropped request.
    ///
    /// # Errors
    /// The last failure.
    pub async fn request(&self, request: &Request) -> Result<Response, Error> {
        let pauses: Vec<Duration> =
            self.settings().networking.error_backoffs.iter().copied().take(request.max_retries).collect();
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
            if !request.repeat.allows(&failure) {
                return Err(failure);
            }
            let attempt = format!("#{number}/{total}");
            let Some(pause) = backoff.next_or_end() else {
                error!(attempt, method = %request.method, path = request.path, error = failure.chain(), "A request failed for good.");
                return Err(failure);
            };
            let pause = self.inner.shared.pause(pause, &failure);
            error!(attempt, method = %request.method, path = request.path, error = failure.chain(), ?pause, "A request failed; it will be repeated.");
            self.inner.shared.count_repetition(request, &failure, pause);
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

    async fn open_with(
        &self,
        connection: &Connection,
        request: &Request,
        limit: Option<Duration>,
    ) -> Result<ByteStream, Error> {
        let answer = in_time(limit, send(&*connection.watches, request, None, true)).await?;
        if (200..300).contains(&answer.status) { Ok(answer.body) } else { Err(self.failure_of(answer, limit).await) }
    }

    /// Opens a connection for another protocol by a GET request with further headers, and runs work on it. Nothing is
    /// repeated. Although it is a GET, it may write: it needs an open fence, and ends when the fence closes.
    ///
    /// *Cancel safety*: the connection is closed. Work that the server has begun by then may go on.
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
            let switch =
                |connection: Arc<Connection>| async move { self.switch_with(&connection, request, headers).await };
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
        let Inner { shared, credentials, budget, .. } = &*self.inner;
        let mut session = credentials.session(shared).await?;
        let first = session.logins;
        while session.logins - first < LOGINS {
            if !self.is_urgent {
                budget.wait(shared).await;
            }
            match shared.counted(request, status_of, send(Arc::clone(&session.connection))).await {
                Err(error) if error.status() == Some(401) => {
                    session = credentials.renew(session.generation, Need::Refused, shared).await?;
                }
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

    async fn send_once(
        &self,
        connection: &Connection,
        request: &Request,
        fence: Option<&Fenced>,
    ) -> Result<Response, Error> {
        let _permit = if self.is_urgent {
            None
        } else {
            Some(self.inner.in_flight.acquire().await.expect("the semaphore is never closed"))
        };
        let _counted = Counted::begin();
        in_time(self.settings().networking.request_timeout, async {
            let answer = send(&*connection.calls, request, fence, false).await?;
            let (status, headers) = (answer.status, answer.headers);
            let body = collect(answer.body, usize::MAX).await?;
            match status {
                200..300 => Ok(Response { status, headers, body }),
                _ => Err(request.without_secrets(Error::of_answer(
                    status,
                    self.inner.shared.retry_after(&headers),
                    &body,
                ))),
            }
        })
        .await
    }

    async fn failure_of(&self, answer: Answer, limit: Option<Duration>) -> Error {
        let retry_after = self.inner.shared.retry_after(&answer.headers);
        match in_time(limit, collect(answer.body, FAILURE_LIMIT)).await {
            Ok(body) => Error::of_answer(answer.status, retry_after, &body),
            Err(_) => Error::of_answer(answer.status, retry_after, &[]),
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod script;
