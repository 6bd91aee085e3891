//! The calls of webhooks over HTTPS.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use super::webhook::{Client, Webhook};

/// The most bytes of an answer: that of a request to the server.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Where systems keep the authorities that they trust.
const SYSTEM_AUTHORITIES: &[&str] =
    &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"];

/// Who calls webhooks.
pub trait Calls: Send + Sync {
    /// Sends the question and returns the answer, or what went wrong in the words of the API server.
    fn call(&self, webhook: &Webhook, question: Value) -> impl Future<Output = Result<Value, String>> + Send;
}

/// Calls webhooks over HTTPS.
#[derive(Debug, Clone, Default)]
pub struct Https {
    /// The local addresses of services: `namespace/name` or `namespace/name:port` to a URL without a path.
    pub services: BTreeMap<String, String>,
}

impl Calls for Https {
    async fn call(&self, webhook: &Webhook, question: Value) -> Result<Value, String> {
        let shown = with_timeout(&shown_url(&webhook.client), webhook.timeout);
        let failed = |text: &str| format!("failed to call webhook: Post {shown:?}: {text}");
        let url = self.url(&webhook.client).map_err(|text| failed(&text))?;
        let exchange = exchange(webhook, with_timeout(&url, webhook.timeout), question);
        match tokio::time::timeout(webhook.timeout, exchange).await {
            Err(_) => Err(failed("context deadline exceeded")),
            Ok(Err(Problem::Connection(text))) => Err(failed(&text)),
            Ok(Err(Problem::Status(code))) => Err(format!(
                "failed to call webhook: an error on the server (\"unknown\") has prevented the request from succeeding (status {code})"
            )),
            Ok(Ok(body)) => serde_json::from_slice(&body)
                .map_err(|error| format!("failed to call webhook: couldn't get version/kind; json parse error: {error}")),
        }
    }
}

impl Https {
    /// Returns where to call: services are not reachable without a cluster, so each needs a local address.
    fn url(&self, client: &Client) -> Result<String, String> {
        match client {
            Client::Url(url) => Ok(url.clone()),
            Client::Service { namespace, name, port, path } => {
                let local =
                    self.services.get(&format!("{namespace}/{name}:{port}")).or_else(|| self.services.get(&format!("{namespace}/{name}")));
                let local = local.ok_or_else(|| format!("service {name:?} not found"))?;
                Ok(format!("{}/{}", local.trim_end_matches('/'), path.trim_start_matches('/')))
            }
        }
    }
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
async fn exchange(webhook: &Webhook, url: String, question: Value) -> Result<Bytes, Problem> {
    let tls = tls(webhook).await.map_err(Problem::Connection)?;
    let mut https = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Client::Service { namespace, name, .. } = &webhook.client {
        let name = ServerName::try_from(format!("{name}.{namespace}.svc")).map_err(|error| connection(&error))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    let client: HttpClient<_, Full<Bytes>> = HttpClient::builder(TokioExecutor::new()).build(https.enable_http1().wrap_connector(tcp));
    let request = Request::post(url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::USER_AGENT, "kube-apiserver-admission")
        .body(Full::new(Bytes::from(question.to_string())))
        .map_err(|error| connection(&error))?;
    let response = client.request(request).await.map_err(|error| connection(&error))?;
    if !response.status().is_success() {
        return Err(Problem::Status(response.status()));
    }
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| Problem::Connection(error.to_string()))
}

async fn tls(webhook: &Webhook) -> Result<ClientConfig, String> {
    let authorities = if webhook.authorities.is_empty() { system_authorities().await } else { webhook.authorities.clone() };
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_slice_iter(&authorities).filter_map(Result::ok);
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 && !webhook.authorities.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
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
