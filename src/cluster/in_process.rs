//! A transport to a server in the same process: no sockets, no TLS, and the clock of that process.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tower::util::{BoxCloneSyncService, ServiceExt as _};

use super::error::{BoxError, Error, LoginError};
use super::settings::ConnectionSettings;
use super::transport::{Answer, Connection, Login, Transport};

/// A login to a server in the same process. Cheap to clone.
#[derive(Clone)]
pub struct InProcess(BoxCloneSyncService<Request<Bytes>, Answer, BoxError>);

impl InProcess {
    /// Returns a transport to a service. An error of the service counts as a broken connection.
    pub fn new<S, B>(service: S) -> Self
    where
        S: tower::Service<Request<Bytes>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(BoxCloneSyncService::new(service.map_err(Into::into).map_response(|response: Response<B>| {
            let (head, body) = response.into_parts();
            let body = body.into_data_stream().map(|piece| piece.map_err(Into::into)).boxed();
            Answer { status: head.status.as_u16(), headers: head.headers, body }
        })))
    }
}

impl Transport for InProcess {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Answer, Error>> {
        let service = self.0.clone();
        Box::pin(async move {
            // As on a network, other tasks run in between.
            tokio::task::yield_now().await;
            service.oneshot(request).await.map_err(Error::Connection)
        })
    }
}

impl Login for InProcess {
    fn login(&self, _: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        let connection = Connection::over(self.clone(), "this process");
        Box::pin(async { Ok(vec![connection]) })
    }
}
