//! Calls over real connections, to a server with its own certificate.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use kopfd_base::http::{Authority, Validity};

/// A server for one call: it answers with the text, or never.
struct Server {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    bundle: String,
}

impl Server {
    async fn new(name: &str) -> Self {
        let authority = Authority::make("test", Validity::unlimited()).unwrap();
        let issued = authority.issue(&[name.to_owned()], Validity::unlimited()).unwrap();
        Self::with(&issued.chain, &issued.key, &authority.pem()).await
    }

    async fn with(certificate: &str, key: &str, authority: &str) -> Self {
        kopfd_base::http::install_crypto_provider();
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        Self { listener, acceptor: TlsAcceptor::from(Arc::new(config)), bundle: STANDARD.encode(authority) }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }

    async fn serve(&self, status: &str, answer: Option<&str>) {
        let (stream, _) = self.listener.accept().await.unwrap();
        let Ok(mut stream) = self.acceptor.accept(stream).await else { return };
        let mut request = Vec::new();
        while !request.ends_with(b"}") && stream.read_buf(&mut request).await.unwrap_or(0) > 0 {}
        let request = String::from_utf8(request).unwrap();
        assert!(request.starts_with("POST /x?timeout=1s HTTP/1.1\r\n"), "{request}");
        assert!(request.contains("user-agent: kube-apiserver-admission\r\n"), "{request}");
        let Some(body) = answer else { return std::future::pending().await };
        let text = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let _ = stream.read(&mut [0; 1]).await;
    }
}

async fn call(
    https: &Caller,
    client: Value,
    server: &Server,
    status: &str,
    answer: Option<&str>,
) -> Result<Value, String> {
    let webhook = Webhook::read(&json!({"name": "vx.ex.dev", "clientConfig": client, "timeoutSeconds": 1}));
    let asked = https.call(&webhook, json!({"kind": "AdmissionReview"}));
    let served = async {
        server.serve(status, answer).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        outcome = asked => outcome,
        () = served => unreachable!("the server never ends"),
    }
}

#[tokio::test]
async fn a_webhook_is_called_with_its_own_authority() {
    let server = Server::new("localhost").await;
    let client = json!({"url": format!("https://localhost:{}/x", server.port()), "caBundle": server.bundle});
    let answer = call(&Caller::default(), client, &server, "200 OK", Some("{\"a\": 1}")).await;
    assert_eq!(answer, Ok(json!({"a": 1})));
}

#[tokio::test]
async fn a_webhook_of_kopf_is_called_whose_certificate_is_its_own_authority() {
    let (certificate, key) = (
        include_str!("../../../base/tests/certificates/kopf.crt"),
        include_str!("../../../base/tests/certificates/kopf.key"),
    );
    for host in ["localhost", "127.0.0.1"] {
        let server = Server::with(certificate, key, certificate).await;
        let client = json!({"url": format!("https://{host}:{}/x", server.port()), "caBundle": server.bundle});
        let answer = call(&Caller::default(), client, &server, "200 OK", Some("{}")).await;
        assert_eq!(answer, Ok(json!({})), "{host}");
    }
    // The certificate lacks the name of the service.
    let server = Server::with(certificate, key, certificate).await;
    let services = BTreeMap::from([("default/hook".to_owned(), format!("https://127.0.0.1:{}", server.port()))]);
    let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/x"}, "caBundle": server.bundle});
    let answer = call(&Caller { services, hook: None }, client, &server, "200 OK", Some("{}")).await;
    assert!(answer.unwrap_err().contains("not valid for name"));
}

#[tokio::test]
async fn a_service_is_called_at_its_local_address_by_its_own_name() {
    let server = Server::new("hook.default.svc").await;
    let services = BTreeMap::from([("default/hook".to_owned(), format!("https://127.0.0.1:{}", server.port()))]);
    let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/x"}, "caBundle": server.bundle});
    let answer = call(&Caller { services, hook: None }, client, &server, "200 OK", Some("{}")).await;
    assert_eq!(answer, Ok(json!({})));
}

#[tokio::test]
async fn a_service_without_a_local_address_is_not_found() {
    let server = Server::new("localhost").await;
    let client = json!({"service": {"namespace": "default", "name": "nosvc", "path": "/x"}});
    let answer = call(&Caller::default(), client, &server, "200 OK", Some("{}")).await;
    let text =
        "failed to call webhook: Post \"https://nosvc.default.svc:443/x?timeout=1s\": service \"nosvc\" not found";
    assert_eq!(answer, Err(text.to_owned()));
}

#[tokio::test]
async fn errors_of_all_kinds_are_distinguished() {
    let server = Server::new("localhost").await;
    let url = format!("https://localhost:{}/x", server.port());
    let client = json!({"url": url, "caBundle": server.bundle});
    let answer = call(&Caller::default(), client.clone(), &server, "500 Oops", Some("{}")).await;
    assert!(answer.unwrap_err().contains("an error on the server"));
    let answer = call(&Caller::default(), client.clone(), &server, "200 OK", Some("no json")).await;
    assert!(answer.unwrap_err().contains("json parse error"));
    let answer = call(&Caller::default(), client, &server, "200 OK", None).await;
    assert_eq!(answer, Err(format!("failed to call webhook: Post \"{url}?timeout=1s\": context deadline exceeded")));
    let stranger = Server::new("localhost").await;
    let answer =
        call(&Caller::default(), json!({"url": url, "caBundle": stranger.bundle}), &server, "200 OK", Some("{}")).await;
    assert!(answer.unwrap_err().contains("certificate"));
    let answer =
        call(&Caller::default(), json!({"url": url, "caBundle": "Z2FyYmFnZQ=="}), &server, "200 OK", Some("{}")).await;
    assert!(answer.unwrap_err().contains("unable to load root certificates"));
}
