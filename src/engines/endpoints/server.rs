//! The listener of the endpoints, on a thread of its own: it answers even while the event loop of the operators is
//! stuck.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tracing::debug;

use crate::engines::hooks::Service;
use crate::http::{Limits, Listener};
use crate::kit::Stop;

use super::{Answer, Endpoints, LivenessUrl};

/// The limits of clients: probes and scrapes are short, and slow clients are cut off.
const LIMITS: Limits = Limits {
    connections: 100,
    head_timeout: Duration::from_secs(5),
    idle_timeout: Duration::from_secs(30),
    // As in kopf.
    grace: Duration::from_secs(1),
};

/// A running listener. It ends with its stop, or when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Listens on the first address of a URL that can be used.
    ///
    /// # Errors
    /// If none can be used, or the thread cannot be started.
    pub(crate) async fn start(url: &LivenessUrl, endpoints: Endpoints) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stop = Stop::new();
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (url, serving) = (url.clone(), stop.clone());
        let run = move || {
            runtime.block_on(async move {
                match bind(&url).await {
                    Err(error) => drop(sender.send(Err(error))),
                    Ok(listener) => {
                        drop(sender.send(Ok(listener.address())));
                        serve(listener, url, endpoints, serving).await;
                    }
                }
            });
        };
        let thread = std::thread::Builder::new().name("endpoints".to_owned()).spawn(run)?;
        let address = receiver.await.map_err(|_| io::Error::other("the thread of the endpoints has ended"))??;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Returns the address that it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request("the operators have ended");
        if let Some(thread) = self.thread.take() {
            // A panic was logged by the runtime's thread, and there is nothing left to serve.
            drop(thread.join());
        }
    }
}

async fn bind(url: &LivenessUrl) -> io::Result<Listener> {
    Ok(Listener::bind_first(url.addresses()?, None).await?.with_limits(LIMITS))
}

async fn serve(listener: Listener, url: LivenessUrl, endpoints: Endpoints, stop: Stop) {
    let hooks = Service::new(endpoints.hooks.clone(), "");
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let (endpoints, probes, hooks) = (endpoints.clone(), url.path.clone(), hooks.clone());
        async move {
            let is_endpoint = Endpoints::is_endpoint(request.uri().path(), &probes);
            let request = if is_endpoint { Err(request) } else { hooks.respond(request).await };
            Ok::<_, Infallible>(match request {
                Ok(answer) => answer,
                Err(request) => respond(&endpoints, &probes, request.method(), request.uri().path())
                    .await
                    .map(BodyExt::boxed_unsync),
            })
        }
    });
    listener.serve(service, stop).await;
}

async fn respond(endpoints: &Endpoints, probes: &str, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let answer = match *method {
        Method::GET | Method::HEAD => endpoints.answer(path, probes).await,
        _ => Answer {
            status: 405,
            content_type: "text/plain; charset=utf-8",
            body: "only GET and HEAD are allowed\n".to_owned(),
        },
    };
    debug!(target: "kopfd::endpoints", %method, path, status = answer.status, "A request to an endpoint was answered.");
    // The server itself leaves out the body of an answer to HEAD.
    let mut response = Response::new(Full::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if answer.status == 405 {
        headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpStream};

    use super::*;

    /// Sends bytes, and returns the answer until the server ends the connection.
    fn answer(address: SocketAddr, bytes: &[u8]) -> String {
        answer_after(address, bytes, |_| Ok(()))
    }

    /// Sends bytes and no more, and returns the answer. A server that sees the end before it has answered may end the
    /// connection without.
    fn answer_at_the_end(address: SocketAddr, bytes: &[u8]) -> String {
        answer_after(address, bytes, |stream| stream.shutdown(Shutdown::Write))
    }

    fn answer_after(address: SocketAddr, bytes: &[u8], end: impl FnOnce(&TcpStream) -> std::io::Result<()>) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        // The server may have closed the connection before it has read everything.
        let _ = stream.write_all(bytes).and_then(|()| end(&stream));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn malformed_requests_are_refused_and_do_no_harm() {
        let url = LivenessUrl::parse("http://127.0.0.1:0/healthz").unwrap();
        let server = Server::start(&url, Endpoints::default()).await.unwrap();
        let address = server.address();
        let large = format!("GET /livez HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "x".repeat(2 << 20));
        let many = format!("GET /livez HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(1_000));
        let malformed: [&[u8]; 14] = [
            b"",
            b"\0\0\0\0",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"hello\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET /livez\r\n\r\n",
            b"GET /livez HTTP/9.9\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nHost x\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"GET /\xff\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET /livez HTTP/1.1\r\nHo",
            large.as_bytes(),
            many.as_bytes(),
        ];
        for bytes in malformed {
            let answer = answer_at_the_end(address, bytes);
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
            assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{shown:?}: {answer}");
        }
        let posted =
            answer(address, b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc");
        assert!(
            posted.starts_with("HTTP/1.1 405") && posted.to_lowercase().contains("\nallow: get, head\r"),
            "{posted}"
        );
        let healthy = answer(address, b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert!(healthy.starts_with("HTTP/1.1 200") && healthy.ends_with("ok\n"), "{healthy}");
    }
}
