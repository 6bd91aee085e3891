//! Requests to the embedded server by its administrator.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::Value;

use crate::differ::embedded::Embedded;
use crate::differ::run::{RequestUser, Server as _};

/// Sends a request, and returns the status and the body of its answer.
pub(crate) async fn send(server: &Embedded, method: &str, path: &str, media: &str, body: Value) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Bytes::from(body.to_string()))
        .unwrap();
    let answer = server.send(RequestUser::Administrator, request).await;
    let status = answer.status().as_u16();
    (status, serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap())
}
