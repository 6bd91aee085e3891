//! Reads whole bodies of requests, with limits of size and time.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit of the discarded rest of a body that is too large, so that its client gets to read the answer.
const MAX_REST: usize = 16 << 20;
/// The time limit for that.
const REST_TIMEOUT: Duration = Duration::from_secs(5);

/// After how many bytes room is made for all that a client has announced.
const BEGINNING: usize = 64 << 10;

/// The limits of a body.
#[derive(Debug, Clone, Copy)]
pub struct BodyLimits {
    /// The maximum size.
    pub bytes: usize,
    /// The maximum time.
    pub timeout: Duration,
}

/// The reason why a body was not read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than allowed.
    #[error("the body is too large")]
    TooLarge(Rest),
    /// It did not arrive in time.
    #[error("the body did not arrive in time")]
    Timeout,
    /// The connection broke, or the client does not speak HTTP.
    #[error("the body cannot be read: {0}")]
    Broken(Box<dyn std::error::Error + Send + Sync>),
}

/// The reason why a body that shares a budget with others was not read.
#[derive(Debug, thiserror::Error)]
pub enum SharedBodyError {
    /// The budget is used up.
    #[error("too many bytes of other requests are held")]
    Exhausted,
    /// The body itself is the reason.
    #[error(transparent)]
    Body(#[from] BodyError),
}

/// The unread rest of a body.
#[derive(Debug)]
pub struct Rest(Incoming);

/// Reads a whole body.
///
/// # Errors
/// If it is too large or too slow, or the connection breaks.
pub async fn read_body(mut body: Incoming, limits: BodyLimits) -> Result<Bytes, BodyError> {
    match tokio::time::timeout(limits.timeout, Limited::new(&mut body, limits.bytes).collect()).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge(Rest(body))),
        Ok(Err(error)) => Err(BodyError::Broken(error)),
        Err(_) => Err(BodyError::Timeout),
    }
}

/// Reads a whole body that shares a budget of bytes with others: one permit of the semaphore for each byte, until the
/// returned permits are dropped. A client that sends little takes little of it, whatever size it has announced.
///
/// # Errors
/// If the body is too large or too slow, the budget is used up, or the connection breaks.
pub async fn read_body_within(
    mut body: Incoming,
    limits: BodyLimits,
    budget: &Arc<Semaphore>,
) -> Result<(Bytes, OwnedSemaphorePermit), SharedBodyError> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX).min(limits.bytes);
    let reading = async {
        let mut read = BytesMut::new();
        let mut held = Arc::clone(budget).try_acquire_many_owned(0).map_err(|_| SharedBodyError::Exhausted)?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| SharedBodyError::Body(BodyError::Broken(error.into())))?;
            let Some(data) = frame.data_ref() else { continue };
            if read.len() + data.len() > limits.bytes {
                return Ok(None);
            }
            let bytes = u32::try_from(data.len()).map_err(|_| SharedBodyError::Exhausted)?;
            held.merge(Arc::clone(budget).try_acquire_many_owned(bytes).map_err(|_| SharedBodyError::Exhausted)?);
            if read.len() >= BEGINNING {
                read.reserve(announced.saturating_sub(read.len()));
            }
            read.extend_from_slice(data);
        }
        Ok::<_, SharedBodyError>(Some((read.freeze(), held)))
    };
    let ended = tokio::time::timeout(limits.timeout, reading).await;
    ended.unwrap_or(Err(BodyError::Timeout.into()))?.ok_or_else(|| BodyError::TooLarge(Rest(body)).into())
}

impl Rest {
    /// Returns the answer to a request whose body is too large. A client that is still sending may not read yet, so the
    /// rest of the body is received up to a limit. The unread part is kept with the answer: HTTP/2 cancels a stream
    /// whose request is dropped before its answer.
    pub async fn answer<B>(mut self, answer: Response<B>) -> Response<UnsyncBoxBody<Bytes, B::Error>>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let mut left = MAX_REST;
        let reading = async {
            while left > 0
                && let Some(Ok(frame)) = self.0.frame().await
            {
                left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            }
        };
        // The answer is the same, whether the client has finished or not.
        drop(tokio::time::timeout(REST_TIMEOUT, reading).await);
        answer.map(|body| {
            UnsyncBoxBody::new(body.map_frame(move |frame| {
                let _kept = &self.0;
                frame
            }))
        })
    }
}
