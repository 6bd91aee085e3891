//! Answers requests from the network: records them, and applies faults before, during, or after their execution.
//!
//! [`crate::faults`] decides about faults.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::json;

use super::answer::AUDIT_ID;
use super::{ApiServer, bodies, control};
use crate::api::Api;
use crate::auth::access::{self, User};
use crate::faults::injection::Broken;
use crate::faults::requests::RecordedRequest;
use crate::faults::{self, Action, AnswerBody, Expiry, Fault, Phase};
use crate::http::api_error::ApiError;
use crate::http::deadline::{self, Deadline};
use crate::http::reply;
use crate::http::request::{ParsedRequest, Path, ResourcePath, verb};

/// The writer of a conflicting change.
const CONFLICT_USER_AGENT: &str = "kopfd-fault/1";
/// The label of a conflicting change.
const CONFLICT_LABEL: &str = "kopfd.dev/fault";

impl ApiServer {
    /// Answers a request from the network, with the record and the faults.
    ///
    /// # Errors
    /// If the connection breaks before the answer. If it breaks later, the body ends with an error.
    pub async fn respond(&self, request: Request<Bytes>) -> Result<Response<Body>, Broken> {
        if self.api.injection().is_down() {
            return Err(Broken);
        }
        let parsed = ParsedRequest::read(request);
        let id = self.audit_id(&parsed.headers);
        let mut response = self.respond_in_time(parsed).await?;
        response.headers_mut().insert(AUDIT_ID, id);
        Ok(response)
    }

    async fn respond_in_time(&self, parsed: ParsedRequest) -> Result<Response<Body>, Broken> {
        let user = self.authenticate(&parsed);
        if self.api.settings().has_control && control::is_for(&parsed) {
            return Ok(control::answer(self, user, &parsed).await);
        }
        let deadline = match Deadline::of(&parsed) {
            Ok(deadline) => deadline,
            Err(failure) => return Ok(reply::refuse(failure)),
        };
        deadline.wait(Box::pin(self.respond_to(user, parsed))).await.unwrap_or_else(|| Ok(deadline::passed()))
    }

    async fn respond_to(&self, user: Result<User, ApiError>, parsed: ParsedRequest) -> Result<Response<Body>, Broken> {
        if self.api.injection().is_idle() {
            return Ok(self.plain(user, parsed, None).await);
        }
        let attributes = RequestAttributes::of(&self.api, &parsed, user.as_ref().ok());
        let fault = self.api.injection().faults().decide(&attributes.request(&parsed));
        // The request ends when this is dropped, even if the client is gone.
        let guard = {
            let mut requests = self.api.injection().requests();
            let number = requests.is_enabled().then(|| requests.begin(attributes.recorded(&parsed, fault.as_ref())));
            number.map(|number| RequestGuard { api: self.api.clone(), number })
        };
        let is_watch = attributes.verb == "watch";
        let answered = match fault {
            None => Ok(self.plain(user, parsed, None).await),
            Some(fault) => self.respond_with_fault(user, parsed, fault).await,
        };
        match guard {
            Some(guard) => Ok(self.record(guard, answered?, is_watch)),
            None => answered,
        }
    }

    /// Decides whether the webhooks of a request fail.
    pub(super) fn webhook_fault(&self, user: &User, parsed: &ParsedRequest) -> Option<Fault> {
        if self.api.injection().faults().is_empty() {
            return None;
        }
        let attributes = RequestAttributes::of(&self.api, parsed, Some(user));
        self.api.injection().faults().decide_about_webhooks(&attributes.request(parsed))
    }

    async fn plain(&self, user: Result<User, ApiError>, parsed: ParsedRequest, fault: Option<Fault>) -> Response<Body> {
        match user {
            Ok(user) => self.carry_out(user, parsed, fault).await,
            Err(failure) => reply::refuse(failure),
        }
    }

    /// Records the result of a request. A watch ends when it is no longer read.
    fn record(&self, guard: RequestGuard, response: Response<Body>, is_watch: bool) -> Response<Body> {
        self.api.injection().requests().note_answer(guard.number, response.status().as_u16(), self.api.now());
        if !is_watch || response.status() != StatusCode::OK {
            return response;
        }
        response.map(|body| bodies::observed(body, move |piece| guard.note(piece)))
    }

    /// Carries out a request with a fault.
    async fn respond_with_fault(
        &self,
        user: Result<User, ApiError>,
        parsed: ParsedRequest,
        fault: Fault,
    ) -> Result<Response<Body>, Broken> {
        let random = fault.random;
        let action = fault.action.clone();
        if let Some(answer) = self.replacement(&action, &parsed) {
            return Ok(answer);
        }
        match action {
            Action::Reset { phase: Phase::Before } => return Err(Broken),
            Action::Delay { ms, jitter, phase: Phase::Before } => tokio::time::sleep(delay(ms, jitter, random)).await,
            Action::Conflict { .. } => self.write_conflict(&parsed).await,
            _ => {}
        }
        let response = self.plain(user, parsed, Some(fault)).await;
        match action {
            Action::StatusAfter { code } => return Ok(reply::refuse(failure(code, "", ""))),
            Action::Reset { phase: Phase::After } => return Err(Broken),
            Action::Reset { phase: Phase::MidBody } => return Ok(response.map(bodies::broken_in_the_middle)),
            Action::SlowBody { bytes_per_sec } => return Ok(response.map(|body| bodies::slow(body, bytes_per_sec))),
            Action::Delay { ms, jitter, phase: Phase::After } => tokio::time::sleep(delay(ms, jitter, random)).await,
            Action::Delay { ms, jitter, phase: Phase::MidBody } => {
                return Ok(response.map(|body| bodies::paused_in_the_middle(body, delay(ms, jitter, random))));
            }
            _ => {}
        }
        if response.status() != StatusCode::OK {
            return Ok(response);
        }
        Ok(match action {
            Action::WatchDrop { after_events, after_ms, how } => {
                response.map(|body| bodies::dropped(body, after_events, after_ms.map(Duration::from_millis), how))
            }
            Action::WatchExpire { how: Expiry::Event } => response.map(|_| bodies::error_event(&self.expired())),
            Action::WatchError { code, reason } => response.map(|_| bodies::error_event(&failure(code, &reason, ""))),
            Action::WatchStall { ms } => response.map(|body| bodies::stalled(body, ms.map(Duration::from_millis))),
            Action::WatchDelay { ms } => response.map(|body| bodies::late(body, Duration::from_millis(ms))),
            _ => response,
        })
    }

    /// Returns the answer of a fault that prevents the request.
    fn replacement(&self, action: &Action, parsed: &ParsedRequest) -> Option<Response<Body>> {
        Some(match action {
            Action::Status { code, reason, message, retry_after, body } => {
                injected(failure(*code, reason, message), *retry_after, *body)
            }
            Action::Throttle { retry_after, .. } => {
                let failure = ApiError::new(429, "TooManyRequests", "Too many requests, please try again later.");
                injected(failure, Some(retry_after.unwrap_or(1)), AnswerBody::Text)
            }
            Action::Unauthorized { .. } => reply::refuse(ApiError::new(401, "Unauthorized", "Unauthorized")),
            Action::NotReady { .. } => reply::refuse(ApiError::storage_not_ready()),
            Action::DiscoveryFail { group, code } => {
                let text =
                    format!("the server is currently unable to handle the request (get {group} {})", parsed.text);
                reply::refuse(failure(*code, "", &text))
            }
            Action::WatchExpire { how: Expiry::Http } => reply::refuse(self.expired()),
            _ => return None,
        })
    }

    fn expired(&self) -> ApiError {
        let current = self.api.with(|state| state.store.revision());
        ApiError::new(410, "Expired", format!("too old resource version: 1 ({current})"))
    }

    /// Writes the object before the request does.
    async fn write_conflict(&self, parsed: &ParsedRequest) {
        let Path::Objects(resource_path) = &parsed.path else { return };
        let path = Path::Objects(ResourcePath { subresource: None, ..resource_path.clone() });
        let revision = self.api.with(|state| state.store.revision()).to_string();
        let body = json!({"metadata": {"labels": {CONFLICT_LABEL: revision}}}).to_string();
        let mut headers = http::HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/merge-patch+json"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static(CONFLICT_USER_AGENT));
        let write =
            ParsedRequest { method: Method::PATCH, path, headers, body: body.into(), ..ParsedRequest::default() };
        // If the object does not exist, the request reports it.
        drop(self.carry_out(User::administrator(), write, None).await);
    }
}

/// Records the end of a request when it is dropped.
struct RequestGuard {
    api: Api,
    number: u64,
}

impl RequestGuard {
    fn note(&self, piece: &Bytes) {
        let lines = piece.split(|byte| *byte == b'\n').count() - 1;
        self.api.injection().requests().note_events(self.number, lines as u64);
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.api.injection().requests().end(self.number);
    }
}

/// The attributes of a request.
#[derive(Debug, Default)]
struct RequestAttributes {
    verb: String,
    resource_path: ResourcePath,
    user: String,
    defined_at: Option<jiff::Timestamp>,
    at: jiff::Timestamp,
}

impl RequestAttributes {
    fn of(api: &Api, parsed: &ParsedRequest, user: Option<&User>) -> Self {
        let (verb, resource_path) = match &parsed.path {
            Path::Objects(resource_path) => {
                (verb(&parsed.method, resource_path, &parsed.query).to_owned(), resource_path.clone())
            }
            Path::Group(group) | Path::Resources(group, _) => {
                (parsed.method.as_str().to_lowercase(), group_path(group))
            }
            _ => (parsed.method.as_str().to_lowercase(), ResourcePath::default()),
        };
        let registry = api.registry();
        let defined_at = registry
            .find(&resource_path.group, &resource_path.version, &resource_path.plural)
            .and_then(|served| served.defined_at);
        Self {
            verb,
            resource_path,
            user: user.map(|user| user.name.clone()).unwrap_or_default(),
            defined_at,
            at: api.now(),
        }
    }

    fn request<'a>(&'a self, parsed: &'a ParsedRequest) -> faults::Request<'a> {
        faults::Request {
            verb: &self.verb,
            group: &self.resource_path.group,
            resource: &self.resource_path.plural,
            subresource: self.resource_path.subresource.as_deref().unwrap_or_default(),
            namespace: self.resource_path.namespace.as_deref().unwrap_or_default(),
            name: self.resource_path.name.as_deref().unwrap_or_default(),
            user_agent: user_agent(parsed),
            user: &self.user,
            token: access::bearer(&parsed.headers).unwrap_or_default(),
            defined_at: self.defined_at,
            at: self.at,
        }
    }

    fn recorded(&self, parsed: &ParsedRequest, fault: Option<&Fault>) -> RecordedRequest {
        let request = self.request(parsed);
        let text = str::to_owned;
        RecordedRequest {
            at: self.at,
            method: text(parsed.method.as_str()),
            path: parsed.uri.clone(),
            verb: text(request.verb),
            group: text(request.group),
            resource: text(request.resource),
            subresource: text(request.subresource),
            namespace: text(request.namespace),
            name: text(request.name),
            user: text(request.user),
            user_agent: text(request.user_agent),
            fault: fault.map(|fault| fault.rule),
            ..RecordedRequest::default()
        }
    }
}

fn group_path(group: &str) -> ResourcePath {
    ResourcePath { group: group.to_owned(), ..ResourcePath::default() }
}

fn user_agent(parsed: &ParsedRequest) -> &str {
    parsed.headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn delay(ms: u64, jitter: u64, random: u64) -> Duration {
    let extra = jitter.checked_add(1).map_or(random, |bound| random % bound);
    Duration::from_millis(ms.saturating_add(extra))
}

/// Returns a failure with the default reason of its code, unless one is given.
fn failure(code: u16, reason: &str, message: &str) -> ApiError {
    let usual = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "Unknown",
    };
    let reason = if reason.is_empty() { usual } else { reason };
    let message = if message.is_empty() { "a fault on demand" } else { message };
    ApiError::new(code, reason.to_owned(), message)
}

fn injected(failure: ApiError, retry_after: Option<u64>, body: AnswerBody) -> Response<Body> {
    let failure =
        ApiError { details: crate::http::api_error::Details { retry_after, ..failure.details.clone() }, ..failure };
    let mut response = reply::refuse(failure.clone());
    let text = |media: &'static str, text: String| (HeaderValue::from_static(media), Body::from(text));
    let (media, body) = match body {
        AnswerBody::Status => return response,
        AnswerBody::Text => text("text/plain; charset=utf-8", format!("{}\n", failure.message)),
        AnswerBody::Html => {
            let page = format!(
                "<html>\n<head><title>{}</title></head>\n<body><h1>{}</h1></body>\n</html>\n",
                failure.code, failure.message
            );
            text("text/html", page)
        }
        AnswerBody::Empty => {
            response.headers_mut().remove(header::CONTENT_TYPE);
            *response.body_mut() = Body::empty();
            return response;
        }
    };
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    *response.body_mut() = body;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_delays_do_not_overflow() {
        assert_eq!(delay(5, 3, 7), Duration::from_millis(8));
        assert_eq!(delay(5, 3, 8), Duration::from_millis(5));
        assert_eq!(delay(0, u64::MAX, u64::MAX), Duration::from_millis(u64::MAX));
        assert_eq!(delay(u64::MAX, u64::MAX, 7), Duration::from_millis(u64::MAX));
    }
}
