//! The client over a real connection: credentials, plug-ins, broken streams, and an absent server.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod burst;
mod commands;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use futures::StreamExt;
use hyper_util::rt::TokioIo;
use kopfd::cluster::{Client, Error, LoginError, Networking, Options, Repeat, Request, Seen, Sink, Watcher, Watching};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::object::Resource;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use super::child::Deadline;

/// A server that accepts only the token `good`, and records the requests.
#[derive(Clone, Default)]
struct Server {
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Serves as long as the tasks run, and returns the address.
    async fn start(&self, tasks: &mut Tasks<()>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(Self::answer).with_state(self.clone());
        tasks.spawn("server", async move { axum::serve(listener, router).await.unwrap() });
        address
    }

    #[expect(clippy::unused_async, reason = "handlers are asynchronous")]
    async fn answer(State(server): State<Self>, RawQuery(query): RawQuery, headers: HeaderMap) -> Response {
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        if header("authorization") != "Bearer good" {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        let query = query.unwrap_or_default();
        server.asked.lock().push(format!("{} {} {query}", header("user-agent"), header("accept-encoding")));
        if !query.contains("watch=true") {
            return r#"{"metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"a","uid":"a"}}]}"#
                .into_response();
        }
        let name = if query.contains("resourceVersion=10") { "b" } else { "c" };
        let event = format!(
            r#"{{"type":"ADDED","object":{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"11"}}}}}}"#
        );
        let chunks = [Ok(event + "\n{\"type\":\"ADD"), Err(std::io::Error::other("broken"))];
        let chunks = futures::stream::iter(chunks).then(|chunk| async {
            // The server flushes its buffer when no more data is available.
            tokio::task::yield_now().await;
            chunk
        });
        Body::from_stream(chunks).into_response()
    }
}

/// Writes a kubeconfig whose user has these credentials.
fn kubeconfig(directory: &TempDir, server: &str, user: &str) -> Options {
    let path = directory.path().join("config");
    let text = format!(
        "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {user}}}]}}"
    );
    std::fs::write(&path, text).unwrap();
    let networking = Networking { error_backoffs: vec![Duration::from_millis(10)], ..Networking::default() };
    Options { kubeconfig: Some(path), networking, ..Options::default() }
}

fn token_file(directory: &TempDir, token: &str) -> String {
    let path = directory.path().join("token");
    std::fs::write(&path, token).unwrap();
    format!("{{tokenFile: '{}'}}", Path::new(&path).display())
}

async fn client(options: Options) -> Client {
    Client::connect(options, Clock::system()).await.unwrap()
}

#[tokio::test]
async fn a_token_that_was_rotated_is_read_again() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let address = server.start(&mut tasks).await;
    let user = token_file(&directory, "old");
    let client = client(kubeconfig(&directory, &address, &user)).await;
    assert!(matches!(client.request(&Request::get("/api")).await, Err(Error::Login(LoginError::Refused))));
    token_file(&directory, "good");
    // A failed login is not repeated at once, so a new client represents a later time.
    let client = self::client(kubeconfig(&directory, &address, &user)).await;
    token_file(&directory, "old");
    assert_eq!(client.request(&Request::get("/api?x=1")).await.unwrap().status, 200);
    assert_eq!(*server.asked.lock(), [format!("kopfd/{}  x=1", env!("CARGO_PKG_VERSION"))]);
}

#[tokio::test]
async fn refused_credentials_are_replaced_at_once() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let address = server.start(&mut tasks).await;
    let user = token_file(&directory, "old");
    let client = client(kubeconfig(&directory, &address, &user)).await;
    token_file(&directory, "good");
    assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_plug_in_brings_the_token() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let address = server.start(&mut tasks).await;
    let script = r#"echo '{\"status\": {\"token\": \"good\"}}'"#;
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, \"{script}\"], interactiveMode: Never}}}}"
    );
    let client = client(kubeconfig(&directory, &address, &user)).await;
    assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200);
}

/// Serves with the certificate that kopf creates for its webhook servers, and returns a kubeconfig with it as the
/// authority.
async fn self_signed(server: &Server, tasks: &mut Tasks<()>, directory: &TempDir, host: &str) -> Options {
    kopfd::http::install_crypto_provider();
    let pem = |file: &str| {
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("base/tests/certificates").join(file)).unwrap()
    };
    let chain = vec![CertificateDer::from_pem_slice(&pem("kopf.crt")).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&pem("kopf.key")).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new().fallback(Server::answer).with_state(server.clone());
    tasks.spawn("server", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let service = hyper_util::service::TowerToHyperService::new(router.clone());
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        }
    });
    let options = kubeconfig(directory, &format!("https://{host}:{port}"), "{token: good}");
    let path = options.kubeconfig.as_ref().unwrap();
    let authority = base64::engine::general_purpose::STANDARD.encode(pem("kopf.crt"));
    let text = std::fs::read_to_string(path).unwrap();
    std::fs::write(
        path,
        text.replace("cluster: {server", &format!("cluster: {{certificate-authority-data: '{authority}', server")),
    )
    .unwrap();
    options
}

#[tokio::test]
async fn a_server_whose_certificate_is_its_own_authority_is_spoken_to() {
    let _deadline = Deadline::of_test();
    for host in ["localhost", "127.0.0.1"] {
        let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
        let client = client(self_signed(&server, &mut tasks, &directory, host).await).await;
        assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200, "{host}");
    }
}

/// A proxy that opens tunnels for a user with a password, and returns the target of the first one.
async fn proxy(listener: TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut head).await.unwrap(), 0);
    }
    let head = String::from_utf8(head).unwrap();
    // `u:p@`
    assert!(head.to_ascii_lowercase().contains("proxy-authorization: basic dtpwqa==\r\n"), "{head}");
    let target = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap().to_owned();
    let mut server = TcpStream::connect(&target).await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    drop(tokio::io::copy_bidirectional(&mut stream, &mut server).await);
    target
}

#[tokio::test]
async fn a_proxy_leads_to_the_same_server_with_the_same_trust() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let options = self_signed(&server, &mut tasks, &directory, "localhost").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut proxies = Tasks::default();
    proxies.spawn("proxy", proxy(listener));
    let path = options.kubeconfig.clone().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("cluster: {", &format!("cluster: {{proxy-url: 'http://u:p%40@{address}', ")))
        .unwrap();
    let client = client(options).await;
    assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200);
    drop(client);
    let proxied = tokio::time::timeout(Duration::from_secs(10), proxies.next_ended()).await.unwrap().unwrap();
    let target = proxied.result.unwrap().unwrap();
    assert!(target.starts_with("localhost:"), "{target}");
}

#[tokio::test]
async fn a_server_with_another_name_than_its_certificate_is_refused() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let client = client(self_signed(&server, &mut tasks, &directory, "127.0.0.2").await).await;
    let request = Request::new(http::Method::POST, "/api").repeated(Repeat::Unreached);
    let error = client.request(&request).await.unwrap_err();
    let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
    assert!(text.contains("invalid peer certificate"), "{text}");
    assert!(server.asked.lock().is_empty());
}

/// A plug-in that returns another token at every login, `t1` first, and counts its runs.
fn counting_plug_in(directory: &TempDir, expires_at: &str) -> String {
    let script = directory.path().join("login.sh");
    let text = format!(
        "n=$(($(cat \"$1\" 2>/dev/null || echo 0) + 1))\necho $n > \"$1\"\n\
         printf '{{\"status\": {{\"token\": \"t%s\", \"expirationTimestamp\": \"{expires_at}\"}}}}' $n\n"
    );
    std::fs::write(&script, text).unwrap();
    let (script, count) = (script.display(), directory.path().join("logins"));
    let arguments = format!("['{script}', '{}']", count.display());
    format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: {arguments}, interactiveMode: Never}}}}"
    )
}

/// Serves clients with the current token.
async fn renewing_server(tasks: &mut Tasks<()>, token: &Arc<Mutex<String>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let token = Arc::clone(token);
    let answer = move |headers: HeaderMap| {
        let is_valid = headers.get("authorization").is_some_and(|value| *value == format!("Bearer {}", token.lock()));
        std::future::ready(if is_valid { StatusCode::OK } else { StatusCode::UNAUTHORIZED })
    };
    tasks.spawn("server", async move { axum::serve(listener, Router::new().fallback(answer)).await.unwrap() });
    address
}

#[tokio::test]
async fn a_plug_in_is_asked_again_when_its_token_is_refused() {
    let _deadline = Deadline::of_test();
    let (mut tasks, directory, token) =
        (Tasks::default(), TempDir::new().unwrap(), Arc::new(Mutex::new("t1".to_owned())));
    let address = renewing_server(&mut tasks, &token).await;
    let client = client(kubeconfig(&directory, &address, &counting_plug_in(&directory, "2999-01-01T00:00:00Z"))).await;
    let logins = || std::fs::read_to_string(directory.path().join("logins")).unwrap().trim().to_owned();
    for _ in 0..2 {
        assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200);
    }
    assert_eq!(logins(), "1");
    "t2".clone_into(&mut token.lock());
    for _ in 0..2 {
        assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200);
    }
    assert_eq!(logins(), "2");
}

#[tokio::test]
async fn a_plug_in_is_asked_again_before_its_token_ends() {
    let _deadline = Deadline::of_test();
    let (mut tasks, directory, token) =
        (Tasks::default(), TempDir::new().unwrap(), Arc::new(Mutex::new("t2".to_owned())));
    let address = renewing_server(&mut tasks, &token).await;
    // The first token is already expired, so that it is never sent: the server would refuse it.
    let user = counting_plug_in(&directory, "2020-01-01T00:00:00Z");
    let client = client(kubeconfig(&directory, &address, &user)).await;
    assert_eq!(client.request(&Request::get("/api")).await.unwrap().status, 200);
    assert_eq!(std::fs::read_to_string(directory.path().join("logins")).unwrap(), "2\n");
}

#[tokio::test]
async fn a_client_certificate_identifies_the_user() {
    use base64::engine::general_purpose::STANDARD;
    let _deadline = Deadline::of_test();
    kopfd::http::install_crypto_provider();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = rcgen::CertifiedIssuer::self_signed(params, key).unwrap();
    let signed = |name: &str, purpose| {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![purpose];
        (params.signed_by(&key, &authority).unwrap(), key)
    };
    let (served, served_key) = signed("localhost", rcgen::ExtendedKeyUsagePurpose::ServerAuth);
    let (own, own_key) = signed("operator", rcgen::ExtendedKeyUsagePurpose::ClientAuth);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.der().clone()).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap();
    let key = PrivateKeyDer::try_from(served_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder().with_client_cert_verifier(verifier);
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(vec![served.der().clone()], key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = Tasks::default();
    tasks.spawn("server", async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let shown = stream.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec()).unwrap_or_default();
            let router = Router::new().fallback(move || std::future::ready(shown.clone()));
            let service = hyper_util::service::TowerToHyperService::new(router);
            drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
        }
    });
    let directory = TempDir::new().unwrap();
    let trusting = |user: &str| {
        let options = kubeconfig(&directory, &format!("https://localhost:{port}"), user);
        let path = options.kubeconfig.as_ref().unwrap();
        let authority = STANDARD.encode(authority.pem());
        let text = std::fs::read_to_string(path).unwrap();
        std::fs::write(
            path,
            text.replace("cluster: {server", &format!("cluster: {{certificate-authority-data: '{authority}', server")),
        )
        .unwrap();
        options
    };
    let (certificate, key) = (STANDARD.encode(own.pem()), STANDARD.encode(own_key.serialize_pem()));
    let by_data = format!("{{client-certificate-data: '{certificate}', client-key-data: '{key}'}}");
    let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
    std::fs::write(&certificate, own.pem()).unwrap();
    std::fs::write(&key, own_key.serialize_pem()).unwrap();
    let by_files = format!("{{client-certificate: '{}', client-key: '{}'}}", certificate.display(), key.display());
    for user in [by_data, by_files] {
        let answer = client(trusting(&user)).await.request(&Request::get("/api")).await.unwrap();
        assert_eq!(answer.body, own.der().to_vec(), "{user}");
    }
    let request = Request::new(http::Method::POST, "/api").repeated(Repeat::Never);
    assert!(client(trusting("{token: good}")).await.request(&request).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_not_there_was_surely_not_reached() {
    let _deadline = Deadline::of_test();
    let directory = TempDir::new().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = client(kubeconfig(&directory, &address, "{token: good}")).await;
    let request = Request::new(http::Method::POST, "/api").repeated(Repeat::Unreached);
    assert!(matches!(client.request(&request).await, Err(Error::Connect(_))));
}

/// The shortest time limit that the settings allow.
const SHORT: Duration = Duration::from_millis(100);

/// Returns a listener to which no further connection can be opened, with the connections that fill its queue.
async fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(SHORT, TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 10, "the queue of a listener is limited");
    }
    (listener, waiting)
}

#[tokio::test]
async fn the_time_for_opening_a_connection_is_a_setting() {
    let _deadline = Deadline::of_test();
    let (listener, _waiting) = full_listener().await;
    let (directory, address) = (TempDir::new().unwrap(), format!("http://{}", listener.local_addr().unwrap()));
    let networking = Networking { connect_timeout: Some(SHORT), error_backoffs: Vec::new(), ..Networking::default() };
    let client = client(Options { networking, ..kubeconfig(&directory, &address, "{token: good}") }).await;
    // Without the setting, this error comes after 30 seconds.
    let failed = tokio::time::timeout(Duration::from_secs(20), client.request(&Request::get("/api"))).await.unwrap();
    assert!(matches!(failed, Err(Error::Connect(_))), "{failed:?}");
}

#[tokio::test]
async fn the_time_for_opening_a_watch_is_a_setting() {
    let _deadline = Deadline::of_test();
    let (mut tasks, directory) = (Tasks::default(), TempDir::new().unwrap());
    // The list is answered, and the watch is not.
    let router = Router::new().fallback(async |RawQuery(query): RawQuery| {
        if query.unwrap_or_default().contains("watch=true") {
            std::future::pending::<()>().await;
        }
        r#"{"metadata":{"resourceVersion":"10"},"items":[]}"#
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tasks.spawn("server", async move { axum::serve(listener, router).await.unwrap() });
    let watching = Watching { connect_timeout: Some(SHORT), ..Watching::default() };
    let options = Options { watching, ..kubeconfig(&directory, &address, "{token: good}") };
    let resource = Resource {
        version: "v1".into(),
        plural: "pods".into(),
        kind: "Pod".into(),
        namespaced: true,
        ..Resource::default()
    };
    let mut watcher = Watcher::new(client(options).await, resource, None).unwrap();
    let (sender, mut failures) = mpsc::channel(1);
    tasks.spawn("watcher", async move { watcher.run(&mut Failures(sender), &Stop::new()).await });
    // Without the setting, it comes after the inactivity timeout of 70 seconds.
    let failure = tokio::time::timeout(Duration::from_secs(20), failures.recv()).await.unwrap().unwrap();
    assert!(failure.contains("100ms") || failure.contains("0.1"), "{failure}");
}

/// Passes on the failures of requests.
struct Failures(mpsc::Sender<String>);

impl Sink for Failures {
    async fn seen(&mut self, _: Seen<'_>) {}

    async fn listed(&mut self) {}

    fn request_failed(&mut self, error: &Error) {
        // Only the first one is awaited.
        let _ = self.0.try_send(error.to_string());
    }
}

struct Names(mpsc::Sender<String>);

impl Sink for Names {
    async fn seen(&mut self, seen: Seen<'_>) {
        let _ = self.0.send(seen.head.name().to_owned()).await;
    }

    async fn listed(&mut self) {}
}

#[tokio::test]
async fn a_broken_watch_continues_from_its_last_version() {
    let _deadline = Deadline::of_test();
    let (server, mut tasks, directory) = (Server::default(), Tasks::default(), TempDir::new().unwrap());
    let address = server.start(&mut tasks).await;
    let options = Options { watching: Watching::default(), ..kubeconfig(&directory, &address, "{token: good}") };
    let resource = Resource {
        version: "v1".into(),
        plural: "pods".into(),
        kind: "Pod".into(),
        namespaced: true,
        ..Resource::default()
    };
    let mut watcher = Watcher::new(client(options).await, resource, None).unwrap();
    let (sender, mut names) = mpsc::channel(1);
    tasks.spawn("watcher", async move { watcher.run(&mut Names(sender), &Stop::new()).await });
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let name = tokio::time::timeout(Duration::from_secs(10), names.recv()).await.unwrap();
        seen.push(name.unwrap());
    }
    assert_eq!(seen, ["a", "b", "c"]);
    let asked = server.asked.lock();
    assert!(asked[1].contains(" identity watch=true"), "{}", asked[1]);
    assert!(asked[2].ends_with("resourceVersion=11"), "{}", asked[2]);
}
