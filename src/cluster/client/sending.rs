//! Sends one request, and reads its answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::TryStreamExt;
use http::{HeaderValue, header};
use tokio::time::timeout;

use super::super::error::Error;
use super::super::fence::Fenced;
use super::super::transport::{Answer, ByteStream, Transport};
use super::request::Request;

/// Fails if the work takes longer than a time limit, if there is one.
pub(crate) async fn in_time<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match limit {
        None => work.await,
        Some(limit) => timeout(limit, work).await.unwrap_or(Err(Error::Timeout(limit))),
    }
}

/// Sends a request by a transport, which asks the fence before it sends the bytes.
pub(super) async fn send(
    transport: &dyn Transport,
    request: &Request,
    fence: Option<&Fenced>,
    is_watch: bool,
) -> Result<Answer, Error> {
    let mut built = build(request, is_watch)?;
    if let Some(fence) = fence {
        built.extensions_mut().insert(fence.clone());
    }
    transport.send(built).await
}

/// Returns a request as transports send it. Watches are not compressed: servers flush one gzip member per event, and
/// decoders stop after the first.
pub(super) fn build(request: &Request, is_watch: bool) -> Result<http::Request<Bytes>, Error> {
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
pub(super) async fn collect(mut body: ByteStream, limit: usize) -> Result<Bytes, Error> {
    let mut collected = BytesMut::new();
    while collected.len() < limit
        && let Some(chunk) = body.try_next().await.map_err(Error::Connection)?
    {
        collected.extend_from_slice(&chunk);
    }
    Ok(collected.freeze())
}
