//! Asks the endpoints of another process.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::LivenessUrl;

/// Time limit for connecting, and for each piece of the answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of an answer in bytes: a state of ten thousand kinds and handlers.
const MAX_ANSWER: u64 = 16 << 20;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The host has no address.
    #[error("the host {0} has no address")]
    Host(String, #[source] io::Error),
    /// Nothing accepts connections there.
    #[error("nothing listens there")]
    Refused,
    /// It cannot be reached.
    #[error("no connection")]
    Connect(#[source] io::Error),
    /// The connection broke, or the answer took too long.
    #[error("no complete answer")]
    Broken(#[source] io::Error),
    /// The answer is not HTTP.
    #[error("the answer is not HTTP")]
    Foreign,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Received {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// Asks for a path at the host and port of a URL. A server that listens on all addresses is asked on loopback.
///
/// # Errors
/// If there is no complete answer.
pub(crate) fn ask(url: &LivenessUrl, path: &str) -> Result<Received, ClientError> {
    let addresses = url.addresses().map_err(|error| ClientError::Host(url.host.clone(), error))?;
    let mut stream = connect(&addresses)?;
    let limited = stream.set_read_timeout(Some(TIMEOUT)).and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
    // An answer to HTTP/1.0 has no chunks, and ends with its connection.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {}:{}\r\nAccept: application/json\r\n\r\n", url.host, url.port);
    limited.and_then(|()| stream.write_all(request.as_bytes())).map_err(ClientError::Broken)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).map_err(ClientError::Broken)?;
    read(&answer).ok_or(ClientError::Foreign)
}

fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, ClientError> {
    let mut failure = ClientError::Refused;
    for address in addresses {
        match TcpStream::connect_timeout(&reachable(*address), TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => failure = ClientError::Connect(error),
        }
    }
    Err(failure)
}

fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(host) if host.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(host) if host.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        host => host,
    };
    SocketAddr::new(host, address.port())
}

fn read(answer: &[u8]) -> Option<Received> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    Some(Received { status, body: answer[end + 4..].to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_is_asked_on_loopback() {
        let asked = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(asked("0.0.0.0:8080"), "127.0.0.1:8080");
        assert_eq!(asked("[::]:80"), "[::1]:80");
        assert_eq!(asked("192.0.2.1:80"), "192.0.2.1:80");
    }

    #[test]
    fn an_answer_has_a_status_and_a_body() {
        let found = read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
        assert_eq!((found.status, found.body.as_slice()), (200, &b"{}"[..]));
        for foreign in ["", "220 mail.example.com ESMTP\r\n\r\n", "HTTP/1.1 fine\r\n\r\n", "HTTP/1.1 200 OK\r\nno end"]
        {
            assert_eq!(read(foreign.as_bytes()), None, "{foreign:?}");
        }
    }
}
