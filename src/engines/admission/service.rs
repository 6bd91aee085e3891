//! Answers the HTTP requests of a server: finds the webhook in the path, reads the review, and has it answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::sync::Semaphore;
use tracing::debug;

use super::client_config::decoded;
use super::peer::RequestPeer;
use super::reviewer::{Reviewed, ReviewedBody};
use super::reviewers::Reviewers;
use crate::handling::admission::Review;
use crate::http::{BodyError, BodyLimits, Connection, SharedBodyError, read_body_within};
use crate::object::LateBody;
use crate::wire;

/// The maximum size of a review: API servers accept requests of this size.
const MAX_BYTES: usize = 3 << 20;
/// The maximum size of a conversion review: it has all objects of a list, unless the client asks for pages.
const MAX_CONVERSION_BYTES: usize = 32 << 20;
/// The time limit of a client for the body of a request: no API server waits longer for an answer.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// The bytes of all reviews in flight. Parsed, they take several times as much; ordinary ones have some thousand bytes.
pub(super) const MAX_BYTES_IN_FLIGHT: usize = 64 << 20;

const JSON: &str = "application/json; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The service that answers the requests to a webhook server.
pub(super) struct Service {
    /// The prefix of the paths of webhooks, without a slash at its end.
    path: String,
    reviewers: Reviewers,
    /// Has a permit for each byte of a review that may be in flight.
    bytes: Arc<Semaphore>,
}

impl Service {
    /// Returns the service of the webhooks below a path.
    pub(super) fn new(path: &str, reviewers: Reviewers) -> Self {
        Self { path: path.to_owned(), reviewers, bytes: Arc::new(Semaphore::new(MAX_BYTES_IN_FLIGHT)) }
    }

    /// Answers a request.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = match self.webhook(&method, &path) {
            Ok(id) => self.review(&id, request).await,
            Err((status, text)) => answer(&Reviewed::refused(status, text)),
        };
        debug!(target: "kopfd::admission", %method, path, status = answer.status().as_u16(), "A request to the webhooks was answered.");
        answer
    }

    /// Returns the id of the webhook in a path.
    fn webhook(&self, method: &Method, path: &str) -> Result<String, (u16, &'static str)> {
        let id = path.strip_prefix(&self.path).and_then(|rest| rest.strip_prefix('/')).and_then(decoded);
        match id {
            Some(_) if *method != Method::POST => Err((405, "only POST is allowed\n")),
            Some(id) => Ok(id),
            None => Err((404, "there are no webhooks at this path\n")),
        }
    }

    async fn review(&self, id: &str, request: Request<Incoming>) -> Answer {
        // An unknown webhook costs no reading.
        let Some(reviewer) = self.reviewers.of_webhook(id) else {
            return answer(&Reviewed::refused(404, "there is no such webhook\n"));
        };
        let peer = RequestPeer::of(request.headers(), request.extensions().get::<Connection>());
        let (bytes, too_large) = if reviewer.converts(id) {
            (MAX_CONVERSION_BYTES, "a conversion review has at most 32 MiB\n")
        } else {
            (MAX_BYTES, "a review has at most 3 MiB\n")
        };
        let limits = BodyLimits { bytes, timeout: BODY_TIMEOUT };
        let (body, _held) = match read_body_within(request.into_body(), limits, &self.bytes).await {
            Ok(read) => read,
            Err(SharedBodyError::Exhausted) => {
                return answer(&Reviewed::refused(503, "too many reviews are in flight\n"));
            }
            Err(SharedBodyError::Body(BodyError::TooLarge(rest))) => {
                return rest.answer(answer(&Reviewed::refused(413, too_large))).await;
            }
            Err(SharedBodyError::Body(BodyError::Timeout)) => {
                return answer(&Reviewed::refused(408, "the review did not arrive in time\n"));
            }
            Err(SharedBodyError::Body(BodyError::Broken(error))) => {
                return answer(&Reviewed::refused(400, format!("the review cannot be read: {error}\n")));
            }
        };
        match wire::Review::of(&body) {
            Ok(wire::Review { value, old }) => {
                let review = Review { value, old: old.map(LateBody::of) };
                drop(body);
                answer(&reviewer.review(Some(id), review, peer).await)
            }
            Err(error) => answer(&Reviewed::refused(400, format!("the review is no JSON: {error}\n"))),
        }
    }
}

fn answer(reviewed: &Reviewed) -> Answer {
    let (content_type, body) = match &reviewed.body {
        ReviewedBody::Review(review) => (JSON, wire::to_vec(review)),
        ReviewedBody::Text(text) => (TEXT, text.clone().into_bytes()),
    };
    let mut response = Response::new(Full::from(body).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(reviewed.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    if reviewed.status == 405 {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
    }
    response
}
