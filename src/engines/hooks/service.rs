//! Answers the HTTP requests to hooks: reads heads and bodies within their limits, and writes answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use tokio::sync::Semaphore;
use tracing::debug;

use super::answerer::{Pending, other_methods, refused, starting, unavailable, unknown};
use super::{Found, Hooks};
use crate::http::{BodyError, BodyLimits, Connection, PeerCertificate, SharedBodyError, read_body_within};
use crate::script::HookAnswer;
use crate::script::interface::subject::HookRequest;
use crate::telemetry::metrics::HookOutcome;

/// The bytes of all bodies in flight.
const MAX_BYTES_IN_FLIGHT: usize = 64 << 20;

/// An answer.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Answers a listener's requests to hooks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    hooks: Hooks,
    /// The prefix of the paths, without a slash at its end.
    prefix: Arc<str>,
    /// Has a permit for each byte of a body that may be in flight.
    bytes: Arc<Semaphore>,
}

impl Service {
    /// Returns the service of hooks below a path.
    pub(crate) fn new(hooks: Hooks, prefix: &str) -> Self {
        Self { hooks, prefix: prefix.into(), bytes: Arc::new(Semaphore::new(MAX_BYTES_IN_FLIGHT)) }
    }

    /// Answers a request; gives it back if no hook is at its path.
    ///
    /// # Errors
    /// The request.
    pub(crate) async fn respond(&self, request: Request<Incoming>) -> Result<Answer, Request<Incoming>> {
        let Some(path) = request.uri().path().strip_prefix(&*self.prefix).map(str::to_owned) else {
            return Err(request);
        };
        let (answer, hook) = match self.hooks.find(request.method().as_str(), &path) {
            Found::Unknown => return Err(request),
            Found::Starting => (written(&starting()), String::new()),
            Found::OtherMethods(methods) => (written(&other_methods(&methods)), String::new()),
            Found::Hook(pending) => {
                let hook = pending.hook().handler.id.clone();
                (self.answer(&pending, request, path).await, hook)
            }
        };
        debug!(target: "kopfd::hooks", hook, status = answer.status().as_u16(), "A request to a hook was answered.");
        Ok(answer)
    }

    /// Answers a request that no hook is for.
    pub(crate) fn not_found() -> Answer {
        written(&unknown())
    }

    async fn answer(&self, pending: &Pending, request: Request<Incoming>, path: String) -> Answer {
        let head = head_of(&request, path);
        if let Err(answer) = pending.admit(&head).await {
            return written(&answer);
        }
        let limits = BodyLimits { bytes: pending.hook().max_body, timeout: pending.hook().timeout };
        let invalid = |status, text: &str| pending.refuse((refused(status, text), HookOutcome::Invalid));
        match read_body_within(request.into_body(), limits, &self.bytes).await {
            Ok((body, _held)) => written(&pending.answer(HookRequest { body, ..head }).await),
            Err(SharedBodyError::Exhausted) => {
                written(&pending.refuse(unavailable("too many requests are in flight\n")))
            }
            Err(SharedBodyError::Body(BodyError::TooLarge(rest))) => rest.answer(written(&pending.too_large())).await,
            Err(SharedBodyError::Body(BodyError::Timeout)) => {
                written(&invalid(408, "the body did not arrive in time\n"))
            }
            Err(SharedBodyError::Body(BodyError::Broken(_))) => written(&invalid(400, "the body cannot be read\n")),
        }
    }
}

fn head_of(request: &Request<Incoming>, path: String) -> HookRequest {
    let texts = request.headers().iter();
    let certificate = request.extensions().get::<Connection>().and_then(Connection::peer_certificate);
    HookRequest {
        method: request.method().as_str().to_owned(),
        path,
        query: query_of(request.uri().query().unwrap_or_default()),
        headers: texts
            .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
            .collect(),
        certificate: certificate.map(names_of),
        ..HookRequest::default()
    }
}

/// Returns the common name and the alternative names.
fn names_of(certificate: PeerCertificate) -> Vec<String> {
    let common = certificate.subject.into_iter().filter(|(key, _)| key == "commonName");
    common.chain(certificate.alternative_names).map(|(_, name)| name).collect()
}

/// Returns the decoded parameters of a query.
pub(crate) fn query_of(query: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

fn written(answer: &HookAnswer) -> Answer {
    let mut response = Response::new(Full::from(answer.body.clone()).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    for (name, value) in &answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::try_from(value.as_str())) {
            headers.insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        let query = query_of("a=1&b=x%20y+z&flag&a=2&=&c=%C3%A9&d=a=b");
        let expected = [("", ""), ("a", "2"), ("b", "x y z"), ("c", "é"), ("d", "a=b"), ("flag", "")];
        assert_eq!(query.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect::<Vec<_>>(), expected);
    }
}
