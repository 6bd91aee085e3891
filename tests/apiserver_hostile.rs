//! Hostile and broken clients on the socket of the built binary: the right status, no panic, bounded memory.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, Empty, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::child::Process;

/// Memory limit of the server in these tests, in MiB. An unoptimised binary starts with about 40.
const MEMORY: u64 = 300;
/// The path of config maps.
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

struct Server {
    child: Process,
    address: SocketAddr,
    token: String,
    authority: Vec<u8>,
    _folder: TempDir,
}

impl Server {
    fn start() -> Self {
        Self::start_with("exec \"$@\"", &[])
    }

    /// Starts the server by a line of bash, in which `"$@"` is its command, with further arguments.
    fn start_with(line: &str, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        let mut command = Command::new("bash");
        command
            .args(["-c", line, "bash", env!("CARGO_BIN_EXE_kopfd"), "apiserver", "--kubeconfig-out"])
            .arg(&path)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = Process::start(&mut command);
        let said = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let address =
            said.trim_start_matches("The API server listens on https://").trim_end_matches('.').parse().unwrap();
        let config = kopfd::object::yaml::parse(&std::fs::read_to_string(path).unwrap()).unwrap().remove(0);
        let authority = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        let token = config["users"][0]["user"]["token"].as_str().unwrap().to_owned();
        Self { child, address, token, authority: STANDARD.decode(authority).unwrap(), _folder: folder }
    }

    fn tls(&self, protocol: &[u8]) -> TlsConnector {
        let mut config = kopfd::http::Trust::of_pem(&self.authority).client_config();
        config.alpn_protocols = vec![protocol.to_vec()];
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        self.tls(protocol).connect(ServerName::try_from("localhost").unwrap(), stream).await.unwrap()
    }

    /// Returns a client that works after the server is gone, too.
    fn client(&self) -> Client {
        Client { address: self.address, tls: self.tls(b"http/1.1"), token: self.token.clone() }
    }

    /// Returns the object at a path.
    async fn read(&self, path: &str) -> serde_json::Value {
        let answer = self.client().ask("GET", path, b"").await.unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Sends raw bytes, and returns everything received until the connection is silent or ends.
    async fn raw(&self, bytes: &[u8], silence: Duration) -> String {
        let (mut reader, mut writer) = tokio::io::split(self.connect(b"http/1.1").await);
        let bytes = bytes.to_vec();
        let mut answer = Vec::new();
        let reading = async {
            let mut buffer = vec![0; 16_384];
            while let Ok(Ok(count)) = tokio::time::timeout(silence, reader.read(&mut buffer)).await {
                if count == 0 {
                    break;
                }
                answer.extend_from_slice(&buffer[..count]);
            }
        };
        // A server that refuses a request need not read all of it.
        let writing = async { drop(writer.write_all(&bytes).await) };
        tokio::join!(reading, writing);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn head(&self, method: &str, path: &str, more: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\nconnection: close\r\n{more}\r\n",
            self.token
        )
    }

    /// Sends a request, and returns the status; 0 if the connection ended without one.
    async fn ask(&self, method: &str, path: &str, media: &str, body: &[u8]) -> u16 {
        let more = format!("content-type: {media}\r\ncontent-length: {}\r\n", body.len());
        status(&self.raw(&[self.head(method, path, &more).as_bytes(), body].concat(), Duration::from_secs(20)).await)
    }

    async fn get(&self, path: &str) -> u16 {
        self.ask("GET", path, "application/json", b"").await
    }

    async fn patch(&self, media: &str, body: &[u8]) -> u16 {
        self.ask("PATCH", &format!("{MAPS}/one?fieldManager=x"), &format!("application/{media}"), body).await
    }

    /// Checks that the server answers quickly, and has not grown.
    async fn is_well(&self) {
        let begun = Instant::now();
        assert_eq!(self.get(MAPS).await, 200);
        assert!(begun.elapsed() < Duration::from_secs(10), "the server answers after {:?}", begun.elapsed());
        let memory = self.memory();
        assert!(memory < MEMORY, "the server has {memory} MiB");
    }

    /// Returns the peak memory of the server, in MiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
    }
}

/// A client with a connection for each request.
#[derive(Clone)]
struct Client {
    address: SocketAddr,
    tls: TlsConnector,
    token: String,
}

impl Client {
    /// Sends a request with a limit of a few seconds, and returns the answer with its head.
    async fn ask(&self, method: &str, path: &str, body: &[u8]) -> std::io::Result<String> {
        let asking = async {
            let stream = TcpStream::connect(self.address).await?;
            let mut stream = self.tls.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
            let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
            let head = format!(
                "{method} {path} HTTP/1.0\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: {media}\r\ncontent-length: {}\r\n\r\n",
                self.token,
                body.len()
            );
            stream.write_all(&[head.as_bytes(), body].concat()).await?;
            let mut answer = Vec::new();
            // A killed server does not close TLS properly.
            stream.read_to_end(&mut answer).await?;
            Ok(String::from_utf8_lossy(&answer).into_owned())
        };
        tokio::time::timeout(Duration::from_secs(20), asking).await.expect("an answer, or the end of the connection")
    }
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or_default()
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels))
}

#[tokio::test]
async fn bodies_that_are_large_deep_or_broken_are_refused() {
    let server = Server::start();
    let json = "application/json";
    let one = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"}}"#;
    assert_eq!(server.ask("POST", MAPS, json, one).await, 201);
    let large = format!(r#"{{"metadata":{{"name":"large"}},"data":{{"x":"{}"}}}}"#, "x".repeat(10 << 20));
    assert_eq!(server.ask("POST", MAPS, json, large.as_bytes()).await, 413);
    assert_eq!(server.patch("merge-patch+json", large.as_bytes()).await, 413);
    for levels in [100, 10_000, 500_000] {
        let deep = nested(levels);
        let answered = server.ask("POST", MAPS, json, deep.as_bytes()).await;
        // Readable bodies have other errors.
        assert!(answered == 400 || (levels == 100 && answered == 422), "{levels} levels: {answered}");
        assert_eq!(server.ask("POST", MAPS, "application/yaml", deep.as_bytes()).await, 400, "{levels} levels");
        for media in ["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"] {
            let answered = server.patch(media, deep.as_bytes()).await;
            assert!(
                [400, 422].contains(&answered) || (levels == 100 && answered == 200),
                "{levels} levels of {media}: {answered}"
            );
        }
        let lists = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(server.patch("json-patch+json", lists.as_bytes()).await, 400, "{levels} levels");
        let value = format!(r#"[{{"op":"add","path":"/data","value":{deep}}}]"#);
        let answered = server.patch("json-patch+json", value.as_bytes()).await;
        assert!([400, 422].contains(&answered), "{levels} levels: {answered}");
    }
    let aliases = format!("a: &a [x]\n{}", (0..40).fold(String::new(), |text, _| text + "b: [*a, *a, *a]\n"));
    assert_eq!(server.ask("POST", MAPS, "application/yaml", aliases.as_bytes()).await, 400);
    for broken in
        [&b"{"[..], b"{\"a\":}", b"nonsense", b"\xff\xfe\x00", b"{\"a\":\"\xff\"}", b"", b"[1,2]", b"{}{}", b"\0\0\0\0"]
    {
        assert_eq!(server.ask("POST", MAPS, json, broken).await, 400, "{broken:?}");
        assert_eq!(server.patch("merge-patch+json", broken).await, 400, "{broken:?}");
    }
    for broken in [&b"a: ["[..], b"\xff\xfe", b"- 1\n- 2", b"a: b: c", b"%%%"] {
        assert_eq!(server.ask("POST", MAPS, "application/yaml", broken).await, 400, "{broken:?}");
        assert_eq!(server.patch("apply-patch+yaml", broken).await, 400, "{broken:?}");
    }
    let protobuf = "application/vnd.kubernetes.protobuf";
    for broken in [
        &b""[..],
        b"k8s",
        b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"k8s\0\x12\x05ab",
        b"json",
        b"k8s\0\xff\xff\xff",
    ] {
        let answered = server.ask("POST", MAPS, protobuf, broken).await;
        assert!([400, 415].contains(&answered), "{broken:?}: {answered}");
    }
    for media in
        ["text/plain", "application/xml", "application/cbor", "nonsense", ";;;", "multipart/form-data; boundary=x"]
    {
        assert_eq!(server.ask("POST", MAPS, media, one).await, 415, "{media}");
        assert_eq!(server.ask("PATCH", &format!("{MAPS}/one"), media, b"{}").await, 415, "{media}");
    }
    server.is_well().await;
}

#[tokio::test]
async fn an_oversized_body_is_refused_over_http2_after_it_was_sent() {
    let server = Server::start();
    for megabytes in [4, 12, 40] {
        let stream = TokioIo::new(server.connect(b"h2").await);
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let mut tasks = kopfd::kit::Tasks::<()>::default();
        tasks.spawn("connection", async move { drop(connection.await) });
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let pieces = futures::stream::iter(0..megabytes).map(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 1 << 20])))
        });
        let request = http::Request::post(format!("https://localhost{MAPS}"))
            .header("authorization", format!("Bearer {}", server.token))
            .header("content-type", "application/json");
        let request = request.body(StreamBody::new(pieces)).unwrap();
        let answer = client.send_request(request).await.unwrap_or_else(|error| panic!("{megabytes} MiB: {error:?}"));
        assert_eq!(answer.status(), 413, "{megabytes} MiB");
        let status =
            answer.into_body().collect().await.unwrap_or_else(|error| panic!("{megabytes} MiB: {error:?}")).to_bytes();
        assert!(String::from_utf8_lossy(&status).contains("RequestEntityTooLarge"), "{status:?}");
        // Clients that are cut off while they send may see a broken stream, and not read the answer. Too large bodies
        // are cut off in any case.
        assert_eq!(sent.load(Ordering::SeqCst) == megabytes, megabytes < 20, "{megabytes} MiB");
    }
    server.is_well().await;
}

#[tokio::test]
async fn paths_queries_and_names_that_make_no_sense_are_refused() {
    let server = Server::start();
    for path in ["%00", "%2e%2e", "..", "a%2Fb", "%ff", "%", "%zz", "%25", "a%0d%0ab", "%F0%9F%98%80", "a;b", "a|b"] {
        let answered = server.get(&format!("{MAPS}/{path}")).await;
        assert!([400, 404].contains(&answered), "{path}: {answered}");
    }
    for path in [
        "//",
        "/api//v1/namespaces",
        "/%61pi/v1/",
        "/api/v1/%6eamespaces",
        "/apis/../api/v1",
        "/api/v1/namespaces/%2e%2e/pods",
        "*",
    ] {
        let answered = server.get(path).await;
        assert!([200, 301, 400, 404].contains(&answered), "{path}: {answered}");
    }
    for query in [
        "limit=x",
        "limit=1e9",
        "limit=99999999999999999999",
        "timeoutSeconds=x&watch=1",
        "resourceVersion=x",
        "resourceVersion=-1",
    ] {
        let answered = server.get(&format!("{MAPS}?{query}")).await;
        assert!([400, 500].contains(&answered), "{query}: {answered}");
    }
    for query in [
        "continue=%00",
        "continue=AAAA",
        "labelSelector=%00",
        "labelSelector=((((",
        "fieldSelector=%ff",
        "fieldSelector=a%3Db",
    ] {
        assert_eq!(server.get(&format!("{MAPS}?{query}")).await, 400, "{query}");
    }
    for query in
        ["nonsense=1", "a=b&a=c&&&=&==", "limit=9223372036854775807", "limit=-9223372036854775808", "pretty", "%zz=%zz"]
    {
        assert_eq!(server.get(&format!("{MAPS}?{query}")).await, 200, "{query}");
    }
    let names: Vec<String> = (0..6_000).map(|number| format!("value-{number}")).collect();
    let many = format!("labelSelector=a+in+({})", names.join(","));
    assert!([200, 414].contains(&server.get(&format!("{MAPS}?{many}")).await));
    let many = format!("labelSelector={}", (0..6_000).map(|number| format!("a{number}")).collect::<Vec<_>>().join(","));
    assert_eq!(server.get(&format!("{MAPS}?{many}")).await, 200);
    let endless = format!("labelSelector={}", "a,".repeat(2_000_000));
    assert!([0, 400, 414, 431].contains(&server.get(&format!("{MAPS}?{endless}")).await));
    for name in ["UPPER", "a b", "a/b", "-a", "a-", "a..b", "ä", "a\u{0}", &"x".repeat(254), "*"] {
        let body = serde_json::json!({"metadata": {"name": name}}).to_string();
        let answered = server.ask("POST", MAPS, "application/json", body.as_bytes()).await;
        assert!([400, 422].contains(&answered), "{name}: {answered}");
    }
    server.is_well().await;
}

#[tokio::test]
async fn slow_half_closed_or_flooded_connections_do_not_affect_others() {
    let server = Server::start();
    let short = Duration::from_secs(2);
    let head = |more: &str| server.head("GET", MAPS, more);
    let flood = (0..5_000).fold(String::new(), |text, number| text + &format!("x-{number}: y\r\n"));
    assert_eq!(status(&server.raw(head(&flood).as_bytes(), short).await), 431);
    let long = format!("x-long: {}\r\n", "y".repeat(2 << 20));
    assert!([0, 400, 431].contains(&status(&server.raw(head(&long).as_bytes(), short).await)));
    for nonsense in [
        &b"\x00\x01\x02\x03\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n",
    ] {
        let answered = status(&server.raw(nonsense, short).await);
        assert!([0, 400, 404, 401, 505].contains(&answered), "{nonsense:?}: {answered}");
    }
    // Two lengths: in any interpretation, the bytes after the first request must not be taken for another one.
    let doubled = head("content-length: 5\r\ntransfer-encoding: chunked\r\n");
    let answer = server.raw(format!("{doubled}0\r\n\r\nGET / HTTP/1.1\r\n\r\n").as_bytes(), short).await;
    assert!(answer.matches("HTTP/1.1 ").count() <= 1, "{answer}");
    let old = format!("GET {MAPS} HTTP/1.0\r\nauthorization: Bearer {}\r\n\r\n", server.token);
    assert_eq!(status(&server.raw(old.as_bytes(), short).await), 200);

    let kept = head("").replace("connection: close\r\n", "");
    let pipelined = server.raw(format!("{kept}{kept}{}", head("")).as_bytes(), short).await;
    assert_eq!(pipelined.matches("HTTP/1.1 200 OK").count(), 3, "{pipelined}");

    let mut half = server.connect(b"http/1.1").await;
    half.write_all(kept.as_bytes()).await.unwrap();
    half.shutdown().await.unwrap();
    let mut answer = Vec::new();
    drop(tokio::time::timeout(short, half.read_to_end(&mut answer)).await);
    assert!([0, 200].contains(&status(&String::from_utf8_lossy(&answer))));

    // Two hundred clients that start and stop sending, in three ways, while others are served.
    let mut idle = Vec::new();
    for number in 0..200 {
        if number % 3 == 0 {
            let mut plain = TcpStream::connect(server.address).await.unwrap();
            plain.write_all(b"\x16\x03").await.unwrap();
            idle.push((Some(plain), None));
            continue;
        }
        let mut slow = server.connect(b"http/1.1").await;
        let begun = if number % 3 == 1 {
            "GET /api HTTP/1.1\r\nho".to_owned()
        } else {
            server.head("POST", MAPS, "content-length: 1000\r\n")
        };
        slow.write_all(begun.as_bytes()).await.unwrap();
        idle.push((None, Some(slow)));
    }
    server.is_well().await;
    // Clients without a complete head are disconnected.
    let headless = idle[1].1.as_mut().unwrap();
    let mut rest = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(25), headless.read_to_end(&mut rest)).await;
    assert!(ended.is_ok(), "a client that never ends its head is still there");
    server.is_well().await;
}

#[tokio::test]
async fn two_thousand_watches_take_bounded_memory_and_all_get_a_change() {
    const CONNECTIONS: usize = 20;
    const WATCHES: usize = 100;
    let server = Server::start();
    let before = server.memory();
    let mut connections = Vec::new();
    let mut watches = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TokioIo::new(server.connect(b"h2").await);
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let mut tasks = kopfd::kit::Tasks::<()>::default();
        tasks.spawn("connection", async move { drop(connection.await) });
        for _ in 0..WATCHES {
            let request = http::Request::get(format!("https://localhost{MAPS}?watch=true"))
                .header("authorization", format!("Bearer {}", server.token))
                .body(Empty::<Bytes>::new())
                .unwrap();
            watches.push(client.send_request(request).await.unwrap().into_body());
        }
        connections.push((client, tasks));
    }
    let value = "x".repeat(1_000);
    for number in 0..20 {
        let body = serde_json::json!({"metadata": {"name": format!("m{number}")}, "data": {"x": value}}).to_string();
        assert_eq!(server.ask("POST", MAPS, "application/json", body.as_bytes()).await, 201);
    }
    for watch in &mut watches {
        let frame = tokio::time::timeout(Duration::from_secs(30), watch.frame()).await.unwrap().unwrap().unwrap();
        assert!(frame.into_data().unwrap().starts_with(b"{\"type\":\"ADDED\""));
    }
    let per_watch = (server.memory() - before) * 1024 / watches.len() as u64;
    assert!(per_watch < 64, "a watch takes {per_watch} KiB");
    drop((watches, connections));
    server.is_well().await;
}

#[tokio::test]
async fn idle_connections_are_closed_when_file_descriptors_run_out() {
    let server = Server::start_with("ulimit -n 64; exec \"$@\"", &[]);
    let mut idle = Vec::new();
    // No connection waits until an older one is closed by its time limit.
    let all_opened = tokio::time::timeout(Duration::from_secs(20), async {
        for number in 0..200 {
            let stream = TcpStream::connect(server.address).await.unwrap();
            if number % 2 == 0 {
                idle.push((Some(stream), None));
            } else {
                // It may be closed for a newer one at any moment.
                idle.push((
                    None,
                    server.tls(b"http/1.1").connect(ServerName::try_from("localhost").unwrap(), stream).await.ok(),
                ));
            }
        }
        server.is_well().await;
    });
    all_opened.await.expect("the server takes connections");
    drop(idle);
    server.is_well().await;
}

/// Limits the file size of a process.
fn limit_files(server: &Server, bytes: &str) {
    let limited = Command::new("prlimit")
        .args(["--pid", &server.child.id().to_string(), &format!("--fsize={bytes}:unlimited")])
        .status();
    assert!(limited.unwrap().success());
}

#[tokio::test]
async fn a_full_disk_only_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let arguments = ["--data", data.to_str().unwrap()];
    // Without the trap, the limit would cause a signal instead of an error; a full disk causes none.
    let server = Server::start_with("trap '' XFSZ; exec \"$@\"", &arguments);
    let client = server.client();
    let body = |name: &str| {
        serde_json::json!({"metadata": {"name": name}, "data": {"x": "x".repeat(400_000)}}).to_string().into_bytes()
    };
    assert_eq!(status(&client.ask("POST", MAPS, &body("before")).await.unwrap()), 201);
    let size = std::fs::metadata(data.join("objects.redb")).unwrap().len();
    limit_files(&server, &(size + 2_000_000).to_string());
    let mut kept = vec!["before".to_owned()];
    // The store may still find room in its file after a refusal: it is full when it refuses again and again.
    let mut refusals = 0;
    let refused = loop {
        let name = format!("m{}", kept.len());
        assert!(kept.len() < 100, "the limit has no effect");
        let answer = client.ask("POST", MAPS, &body(&name)).await.unwrap();
        if status(&answer) == 201 {
            kept.push(name);
            refusals = 0;
            continue;
        }
        refusals += 1;
        if refusals == 10 {
            break answer;
        }
        // As below: after a reader the store may reuse what it has read.
        server.read(MAPS).await;
    };
    assert_eq!(status(&refused), 507, "{refused}");
    assert!(refused.contains("no space left for the store of objects"), "{refused}");
    let names = |list: &serde_json::Value| -> Vec<String> {
        let mut names: Vec<String> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    kept.sort();
    // While the disk is full, readers see only acknowledged writes.
    let (again, first) = (body("again"), body("first"));
    for _ in 0..5 {
        assert_eq!(names(&server.read(MAPS).await), kept);
        assert_eq!(status(&client.ask("POST", MAPS, &again).await.unwrap()), 507);
        assert_eq!(server.get(&format!("{MAPS}/again")).await, 404);
    }
    let list = server.read(MAPS).await;
    let watch = format!(
        "{MAPS}?watch=true&timeoutSeconds=2&resourceVersion={}",
        list["metadata"]["resourceVersion"].as_str().unwrap()
    );
    let (watched, failed) = tokio::join!(client.ask("GET", &watch, b""), client.ask("POST", MAPS, &first));
    assert!(!watched.unwrap().contains("ADDED"), "a write was seen that failed");
    assert_eq!(status(&failed.unwrap()), 507);

    limit_files(&server, "unlimited");
    assert_eq!(status(&client.ask("POST", MAPS, &again).await.unwrap()), 201);
    kept.push("again".to_owned());
    kept.sort();
    assert_eq!(names(&server.read(MAPS).await), kept);
    let events = client.ask("GET", &watch, b"").await.unwrap();
    assert_eq!(events.matches("\"ADDED\"").count(), 1, "the watch goes on after the failures");
    drop(server);
    let server = Server::start_with("exec \"$@\"", &arguments);
    assert_eq!(names(&server.read(MAPS).await), kept);
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_only_refuses_writes() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (file, away) = (data.join("objects.redb"), data.join("away"));
    let server = Server::start_with("trap '' XFSZ; exec \"$@\"", &["--data", data.to_str().unwrap()]);
    let client = server.client();
    let body = |name: &str| {
        serde_json::json!({"metadata": {"name": name}, "data": {"x": "x".repeat(400_000)}}).to_string().into_bytes()
    };
    let mut kept = 0;
    let post = async |name: &str| {
        let answer = client.ask("POST", MAPS, &body(name)).await.unwrap();
        (status(&answer), answer)
    };
    assert_eq!(post("before").await.0, 201);
    kept += 1;
    // After a failed write, the store is opened again.
    limit_files(&server, &std::fs::metadata(&file).unwrap().len().to_string());
    while post(&format!("m{kept}")).await.0 == 201 {
        kept += 1;
        assert!(kept < 100, "the limit has no effect");
    }
    std::fs::rename(&file, &away).unwrap();
    for _ in 0..3 {
        let (status, answer) = post("refused").await;
        assert_eq!(status, 500, "{answer}");
        assert!(answer.contains("the store of objects cannot be written"), "{answer}");
        assert_eq!(server.read(MAPS).await["items"].as_array().unwrap().len(), kept);
        assert_eq!(server.get(&format!("{MAPS}/refused")).await, 404);
    }
    limit_files(&server, "unlimited");
    std::fs::rename(&away, &file).unwrap();
    assert_eq!(post("again").await.0, 201);
    assert_eq!(server.read(MAPS).await["items"].as_array().unwrap().len(), kept + 1);
}

/// Objects that a writer keeps before it deletes the oldest one.
const KEPT: usize = 5;

/// A write of a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    /// The next number in the writer's own object.
    Count,
    /// An object with a number.
    Create(u64),
    /// The same.
    Delete(u64),
}

/// What the server has acknowledged to a writer.
#[derive(Debug, Clone, Default)]
struct Known {
    count: u64,
    /// The created objects that are not deleted.
    there: BTreeSet<u64>,
    created: u64,
    answers: u64,
    /// The last write, if the server was killed before it has answered: it may have succeeded.
    unanswered: Option<Write>,
}

impl Known {
    /// Returns the next write. Every second writer also creates and deletes objects.
    fn next(&self, writer: usize) -> Write {
        match self.there.first() {
            _ if writer.is_multiple_of(2) || self.answers.is_multiple_of(2) => Write::Count,
            Some(oldest) if self.there.len() >= KEPT => Write::Delete(*oldest),
            _ => Write::Create(self.created),
        }
    }

    /// Makes the next write, and tells whether the server has answered.
    async fn write(&mut self, client: &Client, writer: usize) -> bool {
        let write = self.next(writer);
        let named = |number| format!("w{writer}-{number}");
        let (method, path, body, success) = match write {
            Write::Count => {
                ("PATCH", format!("{MAPS}/w{writer}"), format!(r#"{{"data": {{"count": "{}"}}}}"#, self.count + 1), 200)
            }
            Write::Create(number) => {
                ("POST", MAPS.to_owned(), format!(r#"{{"metadata": {{"name": "{}"}}}}"#, named(number)), 201)
            }
            Write::Delete(number) => ("DELETE", format!("{MAPS}/{}", named(number)), String::new(), 200),
        };
        // A number is not used again: whether such an object exists must depend on one write only.
        self.created += u64::from(matches!(write, Write::Create(_)));
        self.unanswered = Some(write);
        match client.ask(method, &path, body.as_bytes()).await {
            Ok(answer) if status(&answer) == success => self.unanswered = None,
            Ok(answer) if !answer.is_empty() => panic!("{write:?}: {answer}"),
            _ => return false,
        }
        self.answers += 1;
        match write {
            Write::Count => self.count += 1,
            Write::Create(number) => assert!(self.there.insert(number)),
            Write::Delete(number) => assert!(self.there.remove(&number)),
        }
        true
    }

    /// Checks that the server has everything that it has acknowledged, and takes over what it has.
    async fn check(&mut self, server: &Server, writer: usize) {
        let count: u64 =
            server.read(&format!("{MAPS}/w{writer}")).await["data"]["count"].as_str().unwrap().parse().unwrap();
        let is_right = count == self.count || (self.unanswered == Some(Write::Count) && count == self.count + 1);
        assert!(is_right, "writer {writer}: the server has {count} after {self:?}");
        let list = server.read(MAPS).await;
        let names = list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap());
        let found: BTreeSet<u64> =
            names.filter_map(|name| name.strip_prefix(&format!("w{writer}-"))?.parse().ok()).collect();
        for number in found.symmetric_difference(&self.there) {
            let is_open = [Write::Create(*number), Write::Delete(*number)].map(Some).contains(&self.unanswered);
            assert!(is_open, "writer {writer}: object {number} of {found:?} after {self:?}");
        }
        (self.count, self.there, self.unanswered) = (count, found, None);
    }
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_when_the_server_is_killed() {
    const WRITERS: usize = 6;
    const KILLS: u64 = 15;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let arguments = ["--data", data.to_str().unwrap()];
    let mut acknowledged: [Known; WRITERS] = std::array::from_fn(|_| Known::default());
    for round in 0..=KILLS {
        let server = Server::start_with("exec \"$@\"", &arguments);
        for (writer, known) in acknowledged.iter_mut().enumerate() {
            if round == 0 {
                let body = format!(r#"{{"metadata": {{"name": "w{writer}"}}, "data": {{"count": "0"}}}}"#);
                assert_eq!(server.ask("POST", MAPS, "application/json", body.as_bytes()).await, 201);
            }
            known.check(&server, writer).await;
        }
        if round == KILLS {
            break;
        }
        let mut writers = kopfd::kit::Tasks::default();
        for (writer, mut known) in acknowledged.clone().into_iter().enumerate() {
            let client = server.client();
            writers.spawn(format!("writer {writer}"), async move {
                while known.write(&client, writer).await {}
                (writer, known)
            });
        }
        let answers = |acknowledged: &[Known]| acknowledged.iter().map(|known| known.answers).sum::<u64>();
        let before = answers(&acknowledged);
        tokio::time::sleep(Duration::from_millis(300 + round * 37 % 200)).await;
        // The server is killed while all are writing.
        drop(server);
        while let Some(ended) = tokio::time::timeout(Duration::from_secs(30), writers.next_ended()).await.unwrap() {
            let (writer, known) = ended.result.unwrap().unwrap();
            acknowledged[writer] = known;
        }
        assert!(answers(&acknowledged) > before, "nothing was written in round {round}");
    }
    let created: u64 = acknowledged.iter().map(|known| known.created).sum();
    let there: usize = acknowledged.iter().map(|known| known.there.len()).sum();
    assert!(
        there > 0 && created > there as u64,
        "{created} objects were created, and {there} are there: none was deleted"
    );
}
