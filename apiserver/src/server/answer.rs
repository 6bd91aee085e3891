//! Carries out requests: authentication, authorization, and the answer.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};

use super::ApiServer;
use crate::auth::access::{self, User};
use crate::auth::impersonation::{Refusal, impersonated};
use crate::discovery;
use crate::discovery::openapi;
use crate::faults::Fault;
use crate::http::api_error::ApiError;
use crate::http::deadline::{self, Deadline};
use crate::http::reply::{self, Reply};
use crate::http::request::{Accept, ParsedRequest, Path};
use crate::verbs::dispatch;
use crate::verbs::request_context::RequestContext;

/// The header with the id of a request, in requests and answers.
pub(super) const AUDIT_ID: &str = "audit-id";
/// Longer ids of clients are not accepted.
const MAX_AUDIT_ID: usize = 64;

impl ApiServer {
    /// Returns the effective user of a request: the authenticated or the impersonated one.
    ///
    /// # Errors
    /// If the token is unknown, no user is named for impersonation, or the right to it is missing.
    pub fn authenticate(&self, parsed: &ParsedRequest) -> Result<User, ApiError> {
        let unknown = |_| ApiError::new(401, "Unauthorized", "Unauthorized");
        self.api.with(|state| {
            let user = self.api.settings().authentication.user(&parsed.headers, &state.issued).map_err(unknown)?;
            impersonated(&state.store, user, &parsed.headers).map_err(|refusal| match refusal {
                Refusal::NoUser => {
                    ApiError::bad_request("requested groups, a uid or more of a user, without a user to impersonate")
                }
                // The refusal is about the request.
                Refusal::Right(user, missing) => ApiError {
                    details: access::refusal(&user, &access::Attributes::of_request(parsed)).details,
                    ..access::refusal(&user, &missing)
                },
            })
        })
    }

    /// Returns the id of a request: the one from the client, or a new one.
    pub fn audit_id(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(AUDIT_ID).filter(|id| (1..=MAX_AUDIT_ID).contains(&id.len()));
        given
            .cloned()
            .unwrap_or_else(|| HeaderValue::try_from(self.api.new_audit_id()).expect("an id fits into a header"))
    }

    /// Answers a request, without faults and without a record.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<Body> {
        let parsed = ParsedRequest::read(request);
        let deadline = match Deadline::of(&parsed) {
            Ok(deadline) => deadline,
            Err(failure) => return reply::refuse(failure),
        };
        match self.authenticate(&parsed) {
            Ok(user) => {
                deadline.wait(Box::pin(self.carry_out(user, parsed, None))).await.unwrap_or_else(deadline::passed)
            }
            Err(failure) => reply::refuse(failure),
        }
    }

    /// Answers a request of an authenticated user, without a record, and without faults except for those of webhooks.
    pub async fn answer_as(&self, user: User, request: Request<Bytes>) -> Response<Body> {
        let parsed = ParsedRequest::read(request);
        let fault = self.webhook_fault(&user, &parsed);
        self.carry_out(user, parsed, fault).await
    }

    /// Carries out a request. The fault is applied by reads, watches, or calls of webhooks.
    pub async fn carry_out(&self, user: User, parsed: ParsedRequest, fault: Option<Fault>) -> Response<Body> {
        let wanted = access::Attributes::of_request(&parsed);
        let ParsedRequest { method, path, text, query, headers, body, .. } = parsed;
        if !self.api.with(|state| access::is_allowed(&state.store, &user, &wanted)) {
            return reply::refuse(access::refusal(&user, &wanted));
        }
        if body.len() > crate::http::request::MAX_BODY {
            let text = format!("Request entity too large: limit is {}", crate::http::request::MAX_BODY);
            return reply::refuse(ApiError::new(413, "RequestEntityTooLarge", text));
        }
        if openapi::is_version_two(&text, &headers) {
            return reply::message(openapi::VERSION_TWO, openapi::VERSION_TWO_ANSWER);
        }
        let accept = match Accept::negotiate(&headers) {
            Ok(accept) => accept,
            Err(failure) => return reply::refuse(failure),
        };
        let answered = match path {
            Path::Objects(resource_path) => {
                let context = RequestContext {
                    method,
                    resource_path,
                    query,
                    headers,
                    body,
                    user,
                    accept,
                    now: self.api.now(),
                    fault,
                };
                dispatch::answer(&self.api, context).await
            }
            path if matches!(method, Method::GET | Method::HEAD) => {
                Ok(discovery::answer(&self.api.registry(), &path, &query, &text))
            }
            Path::Other(other) if other != "/version" => Ok(Reply::no_page()),
            _ => Err(ApiError::no_method()),
        };
        match answered {
            Ok(answer) => answer.into_response(accept),
            Err(failure) => reply::refuse(failure),
        }
    }
}
