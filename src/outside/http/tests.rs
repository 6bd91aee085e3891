//! Tests of the client against an HTTPS server in the process. All traffic stays on the loopback interface.

mod server;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use url::Url;

use self::server::Server;
use super::super::resolver::Resolver;
use super::proxy::Proxies;
use super::{Client, Options};
use crate::http::install_crypto_provider;
use crate::script::outside::{
    Grants, HttpAnswer, HttpClient, HttpConnection, HttpError, HttpProblem, HttpRequest, Identity, ProxyChoice,
};

/// A test that takes longer has failed.
const LIMIT: Duration = Duration::from_secs(20);

/// Answers with one list of addresses after the other; the last one stays.
struct Answers {
    lists: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Answers {
    fn new(lists: &[&[&str]]) -> Arc<Self> {
        let list = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self { lists: lists.iter().map(list).collect(), asked: AtomicUsize::new(0) })
    }
}

impl Resolver for Answers {
    fn resolve(&self, _: &str) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst).min(self.lists.len() - 1);
        futures::future::ready(Ok(self.lists[number].clone())).boxed()
    }
}

fn client(resolver: &Arc<Answers>, api_server: &'static str) -> Client {
    let resolver: Arc<dyn Resolver> = Arc::<Answers>::clone(resolver);
    Client::new(Options {
        resolver,
        api_server: Arc::new(|| api_server.to_owned()),
        proxies: Arc::new(Proxies::none()),
    })
}

fn local() -> Client {
    client(&Answers::new(&[&["127.0.0.1"]]), "")
}

fn listed(entries: &[&str]) -> Grants {
    Grants::of(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>())
}

fn request(server: &Server, host: &str, path: &str) -> HttpRequest {
    HttpRequest {
        method: "GET".to_owned(),
        url: Url::parse(&format!("https://{host}:{}{path}", server.port)).unwrap(),
        headers: vec![("x-test".to_owned(), "1".to_owned())],
        body: Vec::new(),
        max_bytes: 1_000,
        connection: Arc::new(HttpConnection {
            grants: listed(&["localhost"]),
            authorities: Some(server.authority.clone()),
            ..HttpConnection::default()
        }),
    }
}

fn connection(request: &mut HttpRequest, change: impl FnOnce(&mut HttpConnection)) {
    change(Arc::make_mut(&mut request.connection));
}

async fn send(client: &Client, request: HttpRequest) -> Result<HttpAnswer, HttpError> {
    tokio::time::timeout(LIMIT, client.send(request)).await.expect("an answer in time")
}

async fn problem(client: &Client, request: HttpRequest) -> HttpProblem {
    send(client, request).await.unwrap_err().problem
}

#[tokio::test]
async fn requests_and_answers_are_carried_over_tls_on_one_connection() {
    let (server, client) = (Server::start().await, local());
    for _ in 0..3 {
        let mut sent = request(&server, "localhost", "/echo?a=1");
        sent.method = "POST".to_owned();
        sent.body = b"hello".to_vec();
        let answer = send(&client, sent).await.unwrap();
        assert_eq!((answer.status, answer.header("x-twice")), (200, Some("1")));
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.starts_with("POST /echo?a=1 HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("x-test: 1\r\n") && text.ends_with("\r\n\r\nhello"), "{text}");
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn names_that_stand_for_refused_addresses_are_refused() {
    let server = Server::start().await;
    for address in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1", "0.0.0.0"] {
        let client = client(&Answers::new(&[&[address]]), "");
        let mut sent = request(&server, "api.example.com", "/");
        connection(&mut sent, |connection| connection.grants = listed(&["api.example.com"]));
        let error = send(&client, sent).await.unwrap_err();
        assert_eq!(error.problem, HttpProblem::Forbidden, "{address}");
        assert!(error.message.contains("api.example.com stands for"), "{}", error.message);
    }
    let client = client(&Answers::new(&[&["10.96.0.1"]]), "https://10.96.0.1:443");
    let mut sent = request(&server, "api.example.com", "/");
    connection(&mut sent, |connection| connection.grants = listed(&["api.example.com"]));
    assert_eq!(problem(&client, sent).await, HttpProblem::Forbidden);
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_connection_goes_to_the_checked_address_also_if_the_next_answer_differs() {
    let server = Server::start().await;
    // The checked list has one allowed address; a second lookup would lead elsewhere.
    let answers = Answers::new(&[&["169.254.169.254", "127.0.0.1"], &["169.254.169.254"]]);
    let client = client(&answers, "");
    let named = |path: &str| {
        let mut sent = request(&server, "api.example.com", path);
        connection(&mut sent, |connection| connection.grants = listed(&["api.example.com", "127.0.0.1"]));
        sent
    };
    assert_eq!(send(&client, named("/close")).await.unwrap().status, 200);
    assert_eq!(answers.asked.load(Ordering::SeqCst), 1, "one lookup for the check and the connection");
    assert_eq!(problem(&client, named("/echo")).await, HttpProblem::Forbidden, "a new connection is checked again");
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn servers_are_verified() {
    let (server, other, client) = (Server::start().await, Server::start().await, local());
    let mut sent = request(&server, "localhost", "/echo");
    connection(&mut sent, |connection| connection.authorities = Some(other.authority.clone()));
    assert_eq!(problem(&client, sent).await, HttpProblem::Tls);
    let mut sent = request(&server, "other.localhost", "/echo");
    connection(&mut sent, |connection| connection.grants = listed(&["other.localhost"]));
    let error = send(&client, sent).await.unwrap_err();
    assert_eq!(error.problem, HttpProblem::Tls, "{}", error.message);
    let mut sent = request(&server, "localhost", "/echo");
    connection(&mut sent, |connection| connection.authorities = Some(b"nothing".to_vec()));
    assert_eq!(problem(&client, sent).await, HttpProblem::Tls);
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_that_of_the_client() {
    let (server, client) = (Server::with_client_certificates().await, local());
    assert!(send(&client, request(&server, "localhost", "/echo")).await.is_err());
    let mut sent = request(&server, "localhost", "/echo");
    let (certificate, key) = server.client_certificate();
    connection(&mut sent, |connection| connection.identity = Some(Identity { certificate, key }));
    assert_eq!(send(&client, sent).await.unwrap().status, 200);
    let mut sent = request(&server, "localhost", "/echo");
    connection(&mut sent, |connection| {
        connection.identity = Some(Identity { certificate: b"x".to_vec(), key: b"y".to_vec() });
    });
    assert_eq!(problem(&client, sent).await, HttpProblem::Tls);
}

#[tokio::test]
async fn answers_are_read_up_to_the_limit() {
    let (server, client) = (Server::start().await, local());
    for path in ["/large", "/endless"] {
        assert_eq!(problem(&client, request(&server, "localhost", path)).await, HttpProblem::TooLarge, "{path}");
    }
    assert_eq!(problem(&client, request(&server, "localhost", "/short")).await, HttpProblem::Broken);
    assert_eq!(problem(&client, request(&server, "localhost", "/nonsense")).await, HttpProblem::Broken);
}

#[tokio::test]
async fn a_dropped_request_closes_its_connection() {
    let (server, client) = (Server::start().await, local());
    for path in ["/silent", "/slow"] {
        let sent = client.send(request(&server, "localhost", path));
        assert!(tokio::time::timeout(Duration::from_millis(300), sent).await.is_err(), "{path}");
        tokio::time::timeout(LIMIT, server.all_closed()).await.expect("the connection is closed");
    }
}

#[tokio::test]
async fn requests_go_through_a_proxy_in_a_tunnel() {
    let server = Server::start().await;
    let (proxy, asked) = server::proxy(server.port).await;
    let client = client(&Answers::new(&[&["127.0.0.1"]]), "");
    let mut sent = request(&server, "far.example.com", "/echo");
    // The certificate of the server is for `localhost`.
    sent.url.set_host(Some("localhost")).unwrap();
    connection(&mut sent, |connection| {
        connection.proxy = ProxyChoice::Given(Url::parse(&format!("http://user:pw@localhost:{proxy}")).unwrap());
    });
    assert_eq!(send(&client, sent.clone()).await.unwrap().status, 200);
    let head = asked.lock().clone();
    assert!(head.starts_with(&format!("CONNECT localhost:{} HTTP/1.1\r\n", server.port)), "{head}");
    assert!(head.to_ascii_lowercase().contains("proxy-authorization: basic dxnlcjpwdw=="), "{head}");
    connection(&mut sent, |connection| connection.grants = Grants::default());
    assert_eq!(problem(&client, sent).await, HttpProblem::Forbidden, "a proxy of a script is checked like a server");
}

#[tokio::test]
async fn a_host_that_does_not_answer_is_a_failed_connection() {
    let (server, client) = (Server::start().await, local());
    let mut sent = request(&server, "localhost", "/echo");
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    sent.url.set_port(Some(unused.local_addr().unwrap().port())).unwrap();
    drop(unused);
    assert_eq!(problem(&client, sent).await, HttpProblem::Connect);
}
