//! Calls webhooks over HTTPS.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;

use super::webhook::{Client, Webhook};
use crate::faults::{Action, WebhookFailure};
use kopfd_base::http::Trust;

/// The maximum size of an answer: the same as of a request to the server.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// The user agent of calls to admission webhooks.
const AGENT: &str = "kube-apiserver-admission";

/// Locations of the trusted authorities of the system.
const SYSTEM_AUTHORITIES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A caller of webhooks.
pub trait CallWebhook: Send + Sync {
    /// Sends the review and returns the answer, or an error as the API server words it.
    fn call(&self, webhook: &Webhook, review: Value) -> impl Future<Output = Result<Value, String>> + Send;
}

/// Answers webhooks in the same process, by the URL and the review. `None` if it does not handle the URL.
pub type Hook = Arc<dyn Fn(&str, &Value) -> Option<BoxFuture<'static, Result<Value, HookError>>> + Send + Sync>;

/// The reason why a webhook in the same process has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HookError {
    /// It cannot be reached, as the API server words it.
    Unreachable(String),
    /// It answers with this HTTP status.
    Status(StatusCode),
}

/// Calls webhooks over HTTPS, or in the same process.
#[derive(Clone, Default)]
pub struct Caller {
    /// The local addresses of services: `namespace/name` or `namespace/name:port` to a URL without a path.
    pub services: BTreeMap<String, String>,
    /// The hook that is tried before a call over the network.
    pub hook: Option<Hook>,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Caller").field("services", &self.services).finish_non_exhaustive()
    }
}

impl CallWebhook for Caller {
    async fn call(&self, webhook: &Webhook, review: Value) -> Result<Value, String> {
        let target = Target {
            client: &webhook.client,
            authorities: &webhook.authorities,
            agent: AGENT,
            timeout: webhook.timeout,
        };
        self.post(&target, review).await.map_err(|text| format!("failed to call webhook: {text}"))
    }
}

/// Calls webhooks, unless a fault makes them fail.
#[derive(Debug, Clone, Copy)]
pub struct FaultyCaller<'a> {
    /// The caller without faults.
    pub caller: &'a Caller,
    /// The fault of the request.
    pub fault: Option<&'a Action>,
}

impl CallWebhook for FaultyCaller<'_> {
    async fn call(&self, webhook: &Webhook, review: Value) -> Result<Value, String> {
        let kind = match self.fault {
            Some(Action::WebhookFail { name, kind }) if name.as_ref().is_none_or(|name| *name == webhook.name) => *kind,
            _ => return self.caller.call(webhook, review).await,
        };
        let text = fail(kind, &webhook.client, webhook.timeout).await;
        Err(format!("failed to call webhook: {text}"))
    }
}

/// Returns the error of a call that a fault makes fail, after its time.
pub async fn fail(kind: WebhookFailure, client: &Client, timeout: Duration) -> String {
    let url = with_timeout(&shown_url(client), timeout);
    match kind {
        WebhookFailure::Timeout => {
            tokio::time::sleep(timeout).await;
            format!("Post {url:?}: context deadline exceeded")
        }
        WebhookFailure::Refused => format!("Post {url:?}: dial tcp: connect: connection refused"),
        WebhookFailure::Internal => server_error(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

/// The target of a call.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Its address.
    pub client: &'a Client,
    /// The accepted authorities of its certificate, as PEM; empty for those of the system.
    pub authorities: &'a [u8],
    /// The user agent.
    pub agent: &'a str,
    /// The time limit.
    pub timeout: Duration,
}

impl Caller {
    /// Sends a request and returns the answer, or an error as the API server words it.
    pub async fn post(&self, target: &Target<'_>, review: Value) -> Result<Value, String> {
        let shown = with_timeout(&shown_url(target.client), target.timeout);
        let failed = |text: &str| format!("Post {shown:?}: {text}");
        if let Some(answer) = self.hook.as_ref().and_then(|hook| hook(&shown_url(target.client), &review)) {
            return match tokio::time::timeout(target.timeout, answer).await {
                Err(_) => Err(failed("context deadline exceeded")),
                Ok(Err(HookError::Unreachable(text))) => Err(failed(&text)),
                Ok(Err(HookError::Status(code))) => Err(server_error(code)),
                Ok(Ok(answer)) => Ok(answer),
            };
        }
        let url = self.url(target.client).map_err(|text| failed(&text))?;
        let exchange = exchange(target, with_timeout(&url, target.timeout), review);
        match tokio::time::timeout(target.timeout, exchange).await {
            Err(_) => Err(failed("context deadline exceeded")),
            Ok(Err(Problem::Connection(text))) => Err(failed(&text)),
            Ok(Err(Problem::Status(code))) => Err(server_error(code)),
            Ok(Ok(body)) => serde_json::from_slice(&body)
                .map_err(|error| format!("couldn't get version/kind; json parse error: {error}")),
        }
    }

    /// Returns the URL: services are not reachable outside of a cluster, so each needs a local address.
    fn url(&self, client: &Client) -> Result<String, String> {
        match client {
            Client::Url(url) => Ok(url.clone()),
            Client::Service { namespace, name, port, path } => {
                let local = self
                    .services
                    .get(&format!("{namespace}/{name}:{port}"))
                    .or_else(|| self.services.get(&format!("{namespace}/{name}")));
                let local = local.ok_or_else(|| format!("service {name:?} not found"))?;
                Ok(format!("{}/{}", local.trim_end_matches('/'), path.trim_start_matches('/')))
            }
        }
    }
}

fn server_error(code: StatusCode) -> String {
    format!("an error on the server (\"unknown\") has prevented the request from succeeding (status {code})")
}

fn shown_url(client: &Client) -> String {
    match client {
        Client::Url(url) => url.clone(),
        Client::Service { namespace, name, port, path } => {
            format!("https://{name}.{namespace}.svc:{port}/{}", path.trim_start_matches('/'))
        }
    }
}

fn with_timeout(url: &str, timeout: Duration) -> String {
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}timeout={}s", timeout.as_secs())
}

enum Problem {
    Connection(String),
    Status(StatusCode),
}

fn connection(error: &(dyn std::error::Error + 'static)) -> Problem {
    let causes = std::iter::successors(Some(error), |error| error.source());
    Problem::Connection(causes.last().map(ToString::to_string).unwrap_or_default())
}

/// *Cancel safety*: dropping the future closes the connection.
async fn exchange(target: &Target<'_>, url: String, review: Value) -> Result<Bytes, Problem> {
    let tls = tls(target.authorities).await.map_err(Problem::Connection)?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Client::Service { namespace, name, .. } = target.client {
        let name = ServerName::try_from(format!("{name}.{namespace}.svc")).map_err(|error| connection(&error))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let client: HttpClient<_, Full<Bytes>> =
        HttpClient::builder(TokioExecutor::new()).build(https.enable_http1().wrap_connector(tcp));
    let request = Request::post(url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, target.agent)
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|error| connection(&error))?;
    let response = client.request(request).await.map_err(|error| connection(&error))?;
    if !response.status().is_success() {
        return Err(Problem::Status(response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| Problem::Connection(error.to_string()))
}

async fn tls(own: &[u8]) -> Result<ClientConfig, String> {
    if own.is_empty() {
        return Ok(Trust::of_pem(&system_authorities().await).client_config());
    }
    let trust = Trust::of_pem(own);
    if trust.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    Ok(trust.client_config())
}

async fn system_authorities() -> Vec<u8> {
    for path in SYSTEM_AUTHORITIES {
        if let Ok(bundle) = tokio::fs::read(path).await {
            return bundle;
        }
    }
    Vec::new()
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
