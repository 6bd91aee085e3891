//! The events of a watch with a selector, up to its last bookmark.

use bytes::Bytes;
use futures::StreamExt as _;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::differ::embedded::Embedded;
use crate::differ::run::{RequestUser, Server as _};
use crate::requests::send;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(start_paused = true)]
async fn a_watch_sends_creations_changes_and_deletions() {
    let server = Embedded::new();
    let request =
        Request::get(format!("{PATH}?watch=true&timeoutSeconds=60&labelSelector=a%3Db&allowWatchBookmarks=true"));
    let mut lines = server
        .send(RequestUser::Administrator, request.body(Bytes::new()).unwrap())
        .await
        .into_body()
        .into_data_stream();
    let body = |labels: Value| json!({"metadata": {"name": "x", "labels": labels}});
    let (merge, one) = ("application/merge-patch+json", format!("{PATH}/x"));
    send(&server, "POST", PATH, "application/json", body(json!({"a": "b"}))).await;
    send(&server, "PATCH", &one, merge, json!({"data": {"k": "v"}})).await;
    send(&server, "PATCH", &one, merge, json!({"data": {"k": "v"}})).await;
    let (_, last) = send(&server, "PATCH", &one, merge, body(json!({"a": "c"}))).await;
    send(&server, "DELETE", &one, "application/json", json!({})).await;
    let mut text = String::new();
    while let Some(piece) = lines.next().await {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let words: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(words, ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]);
    let gone = &events[2]["object"]["metadata"];
    assert_eq!((&gone["labels"]["a"], &gone["resourceVersion"]), (&json!("b"), &last["metadata"]["resourceVersion"]));
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_a_negative_time_ends_at_once() {
    let server = Embedded::new();
    let begun_at = tokio::time::Instant::now();
    let request =
        Request::get(format!("{PATH}?watch=true&timeoutSeconds=-1&resourceVersion=1")).body(Bytes::new()).unwrap();
    server.send(RequestUser::Administrator, request).await.into_body().collect().await.unwrap();
    assert_eq!(begun_at.elapsed(), std::time::Duration::ZERO);
}
