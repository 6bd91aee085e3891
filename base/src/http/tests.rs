//! Listeners with real sockets and clients that write raw bytes.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, Semaphore};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::kit::{Stop, Tasks};

const PATIENCE: Duration = Duration::from_secs(20);

/// A listener whose service answers with the number of the client's certificates.
struct Server {
    address: SocketAddr,
    stop: Stop,
    /// Has a permit for each request for `/slow` that has arrived.
    arrived: Arc<Semaphore>,
    /// Lets requests for `/slow` continue.
    go_on: Arc<Notify>,
    tasks: Tasks<()>,
}

impl Server {
    async fn start(limits: Limits, tls: Option<ServerTls>) -> Self {
        let listener =
            Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), tls).await.unwrap().with_limits(limits);
        let (address, stop) = (listener.address(), Stop::new());
        let (arrived, go_on) = (Arc::new(Semaphore::new(0)), Arc::new(Notify::new()));
        let service = tower::service_fn({
            let (arrived, go_on) = (Arc::clone(&arrived), Arc::clone(&go_on));
            move |request: Request<Incoming>| {
                let (arrived, go_on) = (Arc::clone(&arrived), Arc::clone(&go_on));
                async move {
                    let connection = request.extensions().get::<Connection>().unwrap().clone();
                    match request.uri().path() {
                        "/slow" => {
                            let continued = go_on.notified();
                            arrived.add_permits(1);
                            continued.await;
                        }
                        "/reset" => connection.reset(),
                        _ => {}
                    }
                    let text = format!("certificates: {}", connection.certificates.len());
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
                }
            }
        });
        let mut tasks = Tasks::default();
        tasks.spawn("listener", listener.serve(service, stop.clone()));
        Self { address, stop, arrived, go_on, tasks }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn connect_tls(&self, config: rustls::ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        TlsConnector::from(Arc::new(config))
            .connect(ServerName::try_from("localhost").unwrap(), self.connect().await)
            .await
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), path: &str) {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

/// Returns the body of the next answer.
async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while !bytes.ends_with(b"certificates: 0") && !bytes.ends_with(b"certificates: 1") {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the connection has ended");
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer");
    String::from_utf8(bytes).unwrap().rsplit("\r\n\r\n").next().unwrap().to_owned()
}

/// Waits for the end of a connection.
async fn end(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<usize> {
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("the connection ends")
}

fn certificate() -> (Authority, Certificate) {
    let authority = Authority::make("test", Validity::unlimited()).unwrap();
    let issued = authority.issue(&["localhost".to_owned()], Validity::unlimited()).unwrap();
    (authority, issued)
}

#[tokio::test]
async fn idle_connections_are_closed_in_favour_of_others() {
    let server = Server::start(Limits { connections: 3, ..Limits::default() }, None).await;
    let mut open = Vec::new();
    for number in 0..12 {
        let mut client = server.connect().await;
        // Every second client sends nothing.
        if number % 2 == 0 {
            send(&mut client, "/").await;
            answer(&mut client).await;
        }
        open.push(client);
    }
    let mut last = server.connect().await;
    send(&mut last, "/").await;
    answer(&mut last).await;
    for client in &mut open[..8] {
        assert_eq!(end(client).await.unwrap_or_default(), 0);
    }
    // The last one is still open.
    send(&mut last, "/").await;
    answer(&mut last).await;
}

#[tokio::test]
async fn connections_with_requests_are_not_closed_for_others() {
    let server = Server::start(Limits { connections: 1, ..Limits::default() }, None).await;
    let mut busy = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        send(&mut client, "/slow").await;
        server.arrived.acquire().await.unwrap().forget();
        busy.push(client);
    }
    let mut other = server.connect().await;
    send(&mut other, "/").await;
    let waiting = tokio::time::timeout(Duration::from_millis(200), other.read_u8()).await;
    assert!(waiting.is_err(), "more connections than allowed");
    server.go_on.notify_waiters();
    for client in &mut busy {
        answer(client).await;
    }
    answer(&mut other).await;
}

#[tokio::test]
async fn silent_slow_and_idle_connections_are_closed() {
    let short = Duration::from_millis(100);
    let limits = Limits { head_timeout: short, idle_timeout: short, ..Limits::default() };
    let server = Server::start(limits, None).await;
    let (mut silent, mut slow, mut idle) = (server.connect().await, server.connect().await, server.connect().await);
    slow.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    send(&mut idle, "/").await;
    answer(&mut idle).await;
    for client in [&mut silent, &mut slow, &mut idle] {
        drop(end(client).await);
    }
    let (_, certificate) = certificate();
    let server = Server::start(limits, Some(ServerTls::new(&certificate).unwrap())).await;
    let mut handshake = server.connect().await;
    handshake.write_all(b"\x16\x03").await.unwrap();
    drop(end(&mut handshake).await);
}

#[tokio::test]
async fn a_stop_lets_requests_end_and_takes_no_more() {
    let mut server = Server::start(Limits { grace: PATIENCE, ..Limits::default() }, None).await;
    let (mut busy, mut idle) = (server.connect().await, server.connect().await);
    send(&mut idle, "/").await;
    answer(&mut idle).await;
    send(&mut busy, "/slow").await;
    // It is accepted once later ones are.
    send(&mut idle, "/").await;
    answer(&mut idle).await;
    server.stop.request("the end");
    assert_eq!(end(&mut idle).await.unwrap(), 0);
    server.go_on.notify_one();
    answer(&mut busy).await;
    drop(end(&mut busy).await);
    let ended = tokio::time::timeout(PATIENCE, server.tasks.next_ended()).await.unwrap();
    assert!(matches!(ended.unwrap().result, Some(Ok(()))));
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn a_service_may_reset_its_connection() {
    let server = Server::start(Limits::default(), None).await;
    let mut client = server.connect().await;
    send(&mut client, "/reset").await;
    assert_eq!(end(&mut client).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_certificate_is_replaced_without_closing_connections() {
    let ((first_authority, first), (second_authority, second)) = (certificate(), certificate());
    let tls = ServerTls::new(&first).unwrap();
    let server = Server::start(Limits::default(), Some(tls.clone())).await;
    let trusting = |authority: &Authority| Trust::of_pem(authority.pem().as_bytes()).client_config();
    let mut old = server.connect_tls(trusting(&first_authority)).await.unwrap();
    send(&mut old, "/").await;
    answer(&mut old).await;
    tls.replace(&second).unwrap();
    send(&mut old, "/").await;
    answer(&mut old).await;
    assert!(server.connect_tls(trusting(&first_authority)).await.is_err());
    let mut new = server.connect_tls(trusting(&second_authority)).await.unwrap();
    send(&mut new, "/").await;
    answer(&mut new).await;
    // An invalid certificate changes nothing.
    assert!(tls.replace(&Certificate { key: first.key, ..second }).is_err());
    assert!(server.connect_tls(trusting(&second_authority)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn files_of_a_certificate_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    let write = |certificate: &Certificate| {
        std::fs::write(&chain, &certificate.chain).unwrap();
        std::fs::write(&key, &certificate.key).unwrap();
    };
    let ((_, first), (_, second)) = (certificate(), certificate());
    write(&first);
    let tls = ServerTls::new(&Certificate::read(&chain, &key).unwrap()).unwrap();
    let (stop, mut tasks) = (Stop::new(), Tasks::<()>::default());
    tasks.spawn("follower", {
        let (tls, chain, key, stop) = (tls.clone(), chain.clone(), key.clone(), stop.clone());
        async move { tls.follow(chain, key, stop).await }
    });
    let served = || tls.served();
    let before = served();
    // Half of a renewal.
    std::fs::write(&chain, &second.chain).unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(served(), before);
    write(&second);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(served(), CertificateDer::from_pem_slice(second.chain.as_bytes()).unwrap());
    stop.request("the end");
    assert!(tasks.finish(PATIENCE).await.is_empty());
}

#[tokio::test]
async fn certificates_of_clients_are_verified_and_passed_on() {
    let (server_authority, certificate) = certificate();
    let client_authority = Authority::make("clients", Validity::unlimited()).unwrap();
    let tls = ServerTls::with_client_authorities(&certificate, Some(&client_authority.pem())).unwrap();
    let server = Server::start(Limits::default(), Some(tls)).await;
    let trust = || Trust::of_pem(server_authority.pem().as_bytes());
    let with = |issuer: &Authority| {
        let issued = issuer.issue_for_client("somebody", Validity::unlimited()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(issued.chain.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let builder = rustls::ClientConfig::builder().dangerous().with_custom_certificate_verifier(Arc::new(trust()));
        builder.with_client_auth_cert(chain, key).unwrap()
    };
    let mut known = server.connect_tls(with(&client_authority)).await.unwrap();
    send(&mut known, "/").await;
    assert_eq!(answer(&mut known).await, "certificates: 1");
    let mut nobody = server.connect_tls(trust().client_config()).await.unwrap();
    send(&mut nobody, "/").await;
    assert_eq!(answer(&mut nobody).await, "certificates: 0");
    // With TLS 1.3, a client notices a refusal when it reads.
    let mut stranger = server.connect_tls(with(&server_authority)).await.unwrap();
    assert!(end(&mut stranger).await.is_err());
}

#[tokio::test]
async fn the_presented_certificate_of_an_untrusted_server_is_read() {
    let (_, certificate) = certificate();
    let server = Server::start(Limits::default(), Some(ServerTls::new(&certificate).unwrap())).await;
    let read = presented_certificate("127.0.0.1", server.address.port(), PATIENCE).await.unwrap();
    assert_eq!(read.issuer, [("commonName".to_owned(), "test".to_owned())]);
    let plain = Server::start(Limits::default(), None).await;
    assert!(presented_certificate("127.0.0.1", plain.address.port(), Duration::from_secs(2)).await.is_err());
}
