//! Fences of requests: a request that may write is sent only while it is allowed, and is aborted when that ends.
//!
//! The rule is checked three times: before a request waits for a connection, when its bytes are handed to the
//! connection, and as long as its answer is awaited. Only the second check is exact if the process was stopped: time
//! may pass before any other line of code.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use hyper::body::{Body, Frame, SizeHint};

use super::error::Error;

/// Whether requests may write.
pub trait Fence: Send + Sync {
    /// Tells whether they may, at this moment.
    fn is_open(&self) -> bool;

    /// Waits until they may not.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    fn closed(&self) -> BoxFuture<'_, ()>;

    /// Notes that a request has ended without an answer: it may still be on its way to the server.
    fn note_unanswered(&self);
}

/// Travels with a request to its transport.
#[derive(Clone)]
pub(crate) struct Fenced(pub Arc<dyn Fence>);

impl fmt::Debug for Fenced {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Fenced").field(&self.0.is_open()).finish()
    }
}

/// A request that is being sent. Unless an answer is noted, it counts as unanswered when this is dropped.
pub(crate) struct InFlight<'a>(Option<&'a dyn Fence>);

impl<'a> InFlight<'a> {
    pub(crate) fn new(fence: &'a Fenced) -> Self {
        Self(Some(&*fence.0))
    }

    /// Notes the end of the request.
    pub(crate) fn end<T>(mut self, ended: &Result<T, Error>) {
        // After these, the server does not process it later.
        if !matches!(ended, Err(Error::Connection(_) | Error::Timeout(_) | Error::Fenced)) {
            self.0 = None;
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|fence| fence.note_unanswered());
    }
}

/// The error of a body that may not be sent.
#[derive(Debug, thiserror::Error)]
#[error("the lease has run out")]
pub(crate) struct Closed;

/// Tells whether requests of a method may change something.
pub(crate) fn is_write(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The body of a request. It asks the fence when the connection takes its bytes, directly before they are written.
pub(crate) struct FencedBody {
    data: Option<Bytes>,
    fence: Option<Fenced>,
}

impl FencedBody {
    /// Returns a body that is sent only while a fence is open, if there is one.
    pub(crate) fn new(data: Bytes, fence: Option<Fenced>) -> Self {
        Self { data: Some(data).filter(|data| !data.is_empty()), fence }
    }
}

impl Body for FencedBody {
    type Data = Bytes;
    type Error = Closed;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Closed>>> {
        let Some(data) = self.data.take() else { return Poll::Ready(None) };
        match &self.fence {
            Some(Fenced(fence)) if !fence.is_open() => Poll::Ready(Some(Err(Closed))),
            _ => Poll::Ready(Some(Ok(Frame::data(data)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::sync::watch;

    use super::super::client::Request;
    use super::super::client::script::{Script, answer};
    use super::*;

    struct Gate {
        is_open: watch::Sender<bool>,
        unanswered: AtomicUsize,
    }

    impl Gate {
        fn new(is_open: bool) -> Arc<Self> {
            Arc::new(Self { is_open: watch::Sender::new(is_open), unanswered: AtomicUsize::new(0) })
        }
    }

    impl Fence for Gate {
        fn is_open(&self) -> bool {
            *self.is_open.borrow()
        }

        fn closed(&self) -> BoxFuture<'_, ()> {
            async {
                let _ = self.is_open.subscribe().wait_for(|is_open| !is_open).await;
            }
            .boxed()
        }

        fn note_unanswered(&self) {
            self.unanswered.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn patch() -> Request {
        Request::patch("/x").with_json("application/json", &serde_json::json!({}))
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_fence_lets_reads_pass_and_no_write() {
        let script = Script::new(|_| Ok(answer(200, "{}")));
        let client = script.client().await;
        let gate = Gate::new(false);
        let fenced = client.fenced(gate.clone());
        assert!(matches!(fenced.request(&patch()).await, Err(Error::Fenced)));
        assert!(matches!(fenced.request(&Request::post("/x")).await, Err(Error::Fenced)));
        fenced.request(&Request::get("/x")).await.unwrap();
        client.request(&patch()).await.unwrap();
        gate.is_open.send_replace(true);
        fenced.request(&patch()).await.unwrap();
        assert_eq!(*script.requests.lock(), ["GET /x", "PATCH /x", "PATCH /x"]);
        assert_eq!(gate.unanswered.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_not_repeated_after_the_fence_was_closed() {
        let gate = Gate::new(true);
        let script = Script::new({
            let gate = gate.clone();
            move |_| {
                gate.is_open.send_replace(false);
                Ok(answer(503, ""))
            }
        });
        let fenced = script.client().await.fenced(gate.clone());
        assert!(matches!(fenced.request(&patch()).await, Err(Error::Fenced)));
        assert_eq!(script.requests.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_cut_off_counts_as_unanswered() {
        let script = Script::new(|_| Err(Error::Connection("broken".into())));
        let gate = Gate::new(true);
        let fenced = script.client().await.fenced(gate.clone());
        let request = patch().repeated(super::super::client::Repeat::Never);
        assert!(fenced.request(&request).await.is_err());
        assert_eq!(gate.unanswered.load(Ordering::SeqCst), 1);
        let refusing = Script::new(|_| Ok(answer(409, ""))).client().await.fenced(gate.clone());
        assert!(refusing.request(&request).await.is_err());
        assert_eq!(gate.unanswered.load(Ordering::SeqCst), 1);
        let dropped = tokio::time::timeout(Duration::ZERO, fenced.request(&request)).await;
        assert!(dropped.is_err());
        assert_eq!(gate.unanswered.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn the_bytes_of_a_write_are_refused_if_the_fence_has_closed_before_they_are_taken() {
        use http_body_util::BodyExt as _;
        let gate = Gate::new(true);
        let body = |gate: &Arc<Gate>| FencedBody::new(Bytes::from_static(b"x"), Some(Fenced(gate.clone())));
        let (early, late) = (body(&gate), body(&gate));
        assert_eq!(early.collect().await.unwrap().to_bytes(), "x");
        gate.is_open.send_replace(false);
        assert!(late.collect().await.is_err());
        assert_eq!(FencedBody::new(Bytes::from_static(b"x"), None).collect().await.unwrap().to_bytes(), "x");
    }
}
