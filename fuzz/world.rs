//! The shared part of the targets: an embedded API server in this process, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt as _;
use kopfd_apiserver::auth::access::{Authentication, User};
use kopfd_apiserver::{ApiServer, Settings, bootstrap};
use kopfd_base::kit::Clock;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The separator between the parts of an input.
pub const SEPARATOR: &str = "\n---\n";

/// Limit of chunks that are read from a stream.
const PIECES: usize = 20;
/// Time limit of reading from a stream, in virtual time.
const STREAM: Duration = Duration::from_secs(5);

/// A server with a custom kind, `things.ex.dev`, and the means to send requests.
pub struct World {
    api: ApiServer,
    runtime: Runtime,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body; null if it is not JSON.
    pub body: Value,
}

impl Default for World {
    fn default() -> Self {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let administrator = User::new("admin", &["system:masters", "system:authenticated"]);
        let authentication = Authentication::Tokens(BTreeMap::from([("t".to_owned(), administrator)]));
        let api = runtime.block_on(async {
            let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().expect("a moment"));
            let api = ApiServer::new(Settings { authentication, seed: Some(1), ..Settings::default() }, clock);
            bootstrap::apply(&api, vec![definition()]).await.expect("the definition is in order");
            api
        });
        Self { api, runtime }
    }
}

impl World {
    /// Sends a request.
    pub fn ask(&self, method: &str, path: &str, media: &str, body: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        let request = request.body(Bytes::from(body.to_owned())).expect("the request is well-formed");
        self.send(request)
    }

    /// Sends a request as the administrator, and runs the controllers afterwards.
    pub fn send(&self, mut request: Request<Bytes>) -> Answer {
        request.headers_mut().insert("authorization", "Bearer t".parse().expect("a header"));
        self.runtime.block_on(async {
            let response = self.api.answer(request).await;
            let status = response.status().as_u16();
            let mut body = response.into_body();
            let mut text = Vec::new();
            for _ in 0..PIECES {
                match tokio::time::timeout(STREAM, body.frame()).await {
                    Ok(Some(Ok(frame))) => text.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
                    _ => break,
                }
            }
            self.api.settle();
            let answer = Answer { status, body: serde_json::from_slice(&text).unwrap_or_default() };
            assert!((200..600).contains(&status), "{answer:?}");
            if answer.body["kind"] == "Status" && answer.body["status"] == "Failure" {
                assert_eq!(answer.body["code"], status, "{answer:?}");
            }
            answer
        })
    }
}

/// A definition with most schema features.
fn definition() -> Value {
    let spec = json!({
        "type": "object",
        "required": ["size"],
        "x-kubernetes-validations": [{"rule": "!has(self.high) || self.size <= self.high", "message": "too large"}],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "default": 1},
            "high": {"type": "integer"},
            "text": {"type": "string", "maxLength": 8, "pattern": "^[a-z]*$"},
            "color": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "maybe": {"type": "string", "nullable": true},
            "when": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": true},
            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "lines": {"type": "array", "maxItems": 4, "items": {"type": "string"}},
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "default": 3}}},
            },
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            "either": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                       "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        },
    });
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, is_stored: bool| {
        json!({
            "name": name, "served": true, "storage": is_stored,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                                         {"name": "First", "type": "string", "jsonPath": ".spec.items[?(@.k==\"a\")].v"}],
            "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.ex.dev"},
        "spec": {
            "group": "ex.dev", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)],
        },
    })
}
