//! The HTTP service for clients in the same process.

use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};

use crate::faults::injection::Broken;
use crate::http::request::MAX_BODY;
use crate::server::ApiServer;
use crate::server::socket::too_large;
use kopfd_base::kit::Stop;

/// A `tower` service that answers as the server on a socket does. Cheap to clone.
///
/// Requests without an `Authorization` header are those of the administrator. When the server has stopped, requests
/// fail.
#[derive(Clone)]
pub struct ClientService {
    api: ApiServer,
    authorization: HeaderValue,
    stop: Stop,
}

impl ClientService {
    pub(super) fn new(api: ApiServer, token: &str, stop: Stop) -> Self {
        let authorization =
            HeaderValue::try_from(format!("Bearer {token}")).expect("tokens of the server are plain text");
        Self { api, authorization, stop }
    }

    async fn respond<B>(self, request: Request<B>) -> Result<Response<Body>, Broken>
    where
        B: hyper::body::Body<Error: Into<BoxError>>,
    {
        let (mut head, body) = request.into_parts();
        head.headers.entry(header::AUTHORIZATION).or_insert(self.authorization);
        let body = match Limited::new(body, MAX_BODY).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => return Ok(too_large()),
            // The client has given up its own request.
            Err(_) => return Err(Broken),
        };
        let response = Box::pin(self.api.respond(Request::from_parts(head, body)));
        let response = tokio::select! {
            biased;
            () = self.stop.requested() => return Err(Broken),
            response = response => response?,
        };
        Ok(response.map(|body| until(self.stop, body)))
    }
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl<B> tower::Service<Request<B>> for ClientService
where
    B: hyper::body::Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Broken;
    type Future = BoxFuture<'static, Result<Self::Response, Broken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.clone().respond(request))
    }
}

/// Returns a body that ends at the stop, as open watches must.
fn until(stop: Stop, body: Body) -> Body {
    let stopped = async move { stop.requested().await };
    let pieces: futures::stream::BoxStream<'static, Result<Bytes, axum::Error>> =
        body.into_data_stream().take_until(stopped).boxed();
    Body::from_stream(pieces)
}
