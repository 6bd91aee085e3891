//! An HTTPS server that answers well and badly, and a proxy.

#![expect(clippy::disallowed_methods, reason = "the servers end with the runtime of their test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::install_crypto_provider;

/// The server. Its certificate is for `localhost` and `api.example.com`.
pub(super) struct Server {
    pub port: u16,
    pub authority: Vec<u8>,
    issuer: CertifiedIssuer<'static, KeyPair>,
    accepted: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts a server.
    pub(super) async fn start() -> Self {
        Self::listen(false).await
    }

    /// Starts a server that serves clients with certificates only.
    pub(super) async fn with_client_certificates() -> Self {
        Self::listen(true).await
    }

    async fn listen(wants_certificates: bool) -> Self {
        install_crypto_provider();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let names = ["localhost", "api.example.com"].map(str::to_owned);
        let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
        let builder = ServerConfig::builder();
        let builder = if wants_certificates {
            let mut roots = RootCertStore::empty();
            roots.add(issuer.der().clone()).unwrap();
            builder.with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (accepted, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, opened, busy) = (Arc::clone(&accepted), Arc::clone(&open), Arc::<AtomicUsize>::default());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                opened.fetch_add(1, Ordering::SeqCst);
                let (acceptor, opened, busy) = (acceptor.clone(), Arc::clone(&opened), Arc::clone(&busy));
                tokio::spawn(async move {
                    if let Ok(mut stream) = acceptor.accept(stream).await {
                        serve(&mut stream, &busy).await;
                    }
                    opened.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, authority: issuer.pem().into_bytes(), issuer, accepted, open, task }
    }

    /// Returns the number of connections so far.
    pub(super) fn connections(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Waits until there are no connections.
    pub(super) async fn all_closed(&self) {
        while self.open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Returns a certificate of a client with its key, in PEM.
    pub(super) fn client_certificate(&self) -> (Vec<u8>, Vec<u8>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["operator".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem().into_bytes(), key.serialize_pem().into_bytes())
    }
}

/// Returns the head and the body of the next request; `None` at the end of the connection.
async fn receive(stream: &mut TlsStream<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut received = Vec::new();
    loop {
        if let Some(end) = received.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..end]).into_owned();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok()).unwrap_or(0);
            if received.len() >= end + 4 + length {
                return Some((head, received.split_off(end + 4)));
            }
        }
        let mut buffer = [0; 4_096];
        match stream.read(&mut buffer).await {
            Ok(count) if count > 0 => received.extend_from_slice(&buffer[..count]),
            _ => return None,
        }
    }
}

async fn serve(stream: &mut TlsStream<TcpStream>, busy: &AtomicUsize) {
    while let Some((head, body)) = receive(stream).await {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let ok = |length: usize, more: &str| {
            format!("HTTP/1.1 200 OK\r\nX-Twice: 1\r\nX-Twice: 2\r\nContent-Length: {length}\r\n{more}\r\n")
        };
        let answered = match path.as_str() {
            "/echo" => {
                let body = [head.as_bytes(), b"\r\n\r\n", &body].concat();
                stream.write_all(&[ok(body.len(), "").as_bytes(), &body].concat()).await
            }
            "/close" => {
                let _ = stream.write_all(ok(0, "Connection: close\r\n").as_bytes()).await;
                let _ = stream.shutdown().await;
                return;
            }
            "/redirect" => stream.write_all(&moved("/echo")).await,
            "/away" => stream.write_all(&moved("https://169.254.169.254/latest/meta-data")).await,
            "/busy" if busy.fetch_add(1, Ordering::SeqCst) > 0 => stream.write_all(ok(0, "").as_bytes()).await,
            "/busy" => stream.write_all(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n").await,
            "/large" => stream.write_all(ok(1_001, "").as_bytes()).await,
            "/short" => {
                let _ = stream.write_all((ok(100, "") + "abc").as_bytes()).await;
                let _ = stream.shutdown().await;
                return;
            }
            "/endless" => endless(stream, Duration::ZERO).await,
            "/slow" => endless(stream, Duration::from_millis(100)).await,
            "/nonsense" => stream.write_all(b"hello, this is no HTTP\r\n\r\n").await,
            _ => Ok(()),
        };
        if answered.and(stream.flush().await).is_err() {
            return;
        }
    }
}

fn moved(location: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

async fn endless(stream: &mut TlsStream<TcpStream>, pause: Duration) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    loop {
        stream.write_all(b"1\r\nx\r\n").await?;
        stream.flush().await?;
        tokio::time::sleep(pause).await;
    }
}

/// Starts a proxy that leads one connection to a port. Returns its port, and the head of the request to it.
pub(super) async fn proxy(target: u16) -> (u16, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let head = Arc::new(Mutex::new(String::new()));
    let heard = Arc::clone(&head);
    tokio::spawn(async move {
        let Ok((mut client, _)) = listener.accept().await else { return };
        let mut buffer = [0; 4_096];
        let mut received = String::new();
        while !received.contains("\r\n\r\n") {
            let Ok(count) = client.read(&mut buffer).await else { return };
            received += &String::from_utf8_lossy(&buffer[..count]);
        }
        *heard.lock() = received;
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", target)).await else { return };
        if client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.is_ok() {
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        }
    });
    (port, head)
}
