//! The embedded server as a server under comparison.

use std::collections::BTreeMap;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header};
use kopfd_apiserver::auth::access::{Authentication, User};
use kopfd_apiserver::{ApiServer, Settings};
use kopfd_base::kit::Clock;

use super::run::{RequestUser, Server};

/// The server under test, in this process.
pub(crate) struct Embedded(ApiServer);

impl Embedded {
    /// Returns an empty server.
    pub(crate) fn new() -> Self {
        let users = [
            ("administrator".to_owned(), User::new("admin", &["system:masters", "system:authenticated"])),
            ("guest".to_owned(), User::new("guest", &["guests", "system:authenticated"])),
        ];
        let settings = Settings {
            authentication: Authentication::Tokens(BTreeMap::from(users)),
            seed: Some(1),
            ..Settings::default()
        };
        Self(ApiServer::new(settings, Clock::starting_at("2020-01-01T00:00:00Z".parse().expect("a moment"))))
    }
}

impl Server for Embedded {
    async fn send(&self, user: RequestUser, mut request: Request<Bytes>) -> Response<Body> {
        let token = match user {
            RequestUser::Administrator => Some("Bearer administrator"),
            RequestUser::Guest => Some("Bearer guest"),
            RequestUser::UnknownToken => Some("Bearer unknown"),
            RequestUser::Anonymous => None,
        };
        if let Some(token) = token {
            request.headers_mut().insert(header::AUTHORIZATION, token.parse().expect("a header"));
        }
        self.0.answer(request).await
    }

    fn settle(&self) {
        self.0.settle();
    }
}
