//! Servers of webhooks in the built binary: the addresses that the API server is told, tunnels, plain HTTP, and the
//! bounds of a server.

use std::io::{BufRead as _, BufReader, ErrorKind, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ChildStderr;
use std::time::{Duration, Instant};

use kopfd::cluster::Request;
use serde_json::{Value, json};

use super::admission::{SCRIPT, review};
use super::{Api, Cluster};
use crate::child::{LIMIT, Process};

/// A process of operators with one server each.
struct Run {
    process: Process,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Run {
    /// Starts operators by their names and the settings of their servers. Programs are first looked for in the folder
    /// `bin`.
    fn start(cluster: &Cluster, operators: &[(&str, &str)]) -> Self {
        std::fs::create_dir(cluster.path("operators")).unwrap();
        for (name, server) in operators {
            // API servers call webhooks by TLS only.
            let managed =
                if server.contains("insecure") { String::new() } else { format!("managed: {name}.example.com, ") };
            let manifest = format!(
                "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: {name}}}\nspec:\n  settings:\n    \
                 admission: {{{managed}server: {{{server}}}}}\n  resources:\n    \
                 - {{resource: v1/configmaps, script: a.rhai, webhooks: [{{on: validate, fn: check}}]}}\n"
            );
            cluster.write(&format!("operators/{name}.yaml"), &manifest);
        }
        cluster.write("operators/a.rhai", SCRIPT);
        let mut command = cluster.kopfd();
        let path = format!("{}:{}", cluster.path("bin").display(), std::env::var("PATH").unwrap());
        command.env("PATH", path).args([
            "run",
            "-c",
            "operators",
            "--kubeconfig",
            "kubeconfig",
            "--log-format",
            "plain",
        ]);
        let mut process = Process::start(&mut command);
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Waits until a server listens, and returns its address.
    fn address(&mut self) -> String {
        let told =
            self.lines.by_ref().map(Result::unwrap).find(|line| line.contains("Webhooks are answered at")).unwrap();
        told.rsplit_once(' ').unwrap().1.trim_end_matches('.').to_owned()
    }
}

/// Waits until the configuration of an operator is written, and returns the `clientConfig` of its webhook.
fn client_config(api: &Api, operator: &str) -> Value {
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{operator}.example.com");
    api.wait(&path, |found| found["webhooks"].as_array().is_some_and(|webhooks| webhooks.len() == 1));
    api.send(&Request::get(&path)).unwrap()["webhooks"][0]["clientConfig"].take()
}

/// Sends a review to a server without TLS. Returns the status and the text of the answer.
fn send(address: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = connect(address);
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    // A server that refuses a request need not read all of it.
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

#[test]
fn the_api_server_is_told_the_host_of_the_kind_of_server_which_its_certificate_names() {
    let cluster = Cluster::start();
    let local = "addr: 127.0.0.1";
    let servers = [
        ("plain", format!("kind: server, {local}"), "127.0.0.1", "", vec![]),
        ("cube", format!("kind: k3d, {local}"), "host.k3d.internal", "", vec![]),
        ("mini", format!("kind: minikube, {local}"), "host.minikube.internal", "", vec![]),
        ("dock", format!("kind: dockerDesktop, {local}"), "host.docker.internal", "", vec![]),
        ("named", format!("kind: k3d, {local}, host: hooks.example.com, path: /a/"), "hooks.example.com", "/a", vec![]),
        // The embedded API server is none of the known kinds.
        ("auto", format!("kind: autoServer, {local}"), "127.0.0.1", "", vec![]),
        (
            "more",
            format!("kind: server, {local}, extraSans: [proxy.example.com, 10.9.8.7]"),
            "127.0.0.1",
            "",
            vec!["proxy.example.com", "10.9.8.7"],
        ),
    ];
    let operators: Vec<(&str, &str)> = servers.iter().map(|(name, server, ..)| (*name, server.as_str())).collect();
    let mut run = Run::start(&cluster, &operators);
    let addresses: Vec<String> = servers.iter().map(|_| run.address()).collect();
    let api = cluster.client();
    for (name, _, host, path, further) in servers {
        let config = client_config(&api, name);
        let url: http::Uri = config["url"].as_str().unwrap().parse().unwrap();
        let port = url.port_u16().unwrap();
        assert_eq!(url.to_string(), format!("https://{host}:{port}{path}/check"), "{name}");
        assert!(
            config["caBundle"].is_string() && addresses.contains(&format!("127.0.0.1:{port}")),
            "{name}: {config} {addresses:?}"
        );
        let limit = Duration::from_secs(20);
        let certificate = api.runtime.block_on(kopfd::http::presented_certificate("127.0.0.1", port, limit)).unwrap();
        let mut found: Vec<&str> = certificate.alternative_names.iter().map(|(_, name)| name.as_str()).collect();
        let mut expected = [vec![host, "127.0.0.1"], further].concat();
        found.sort_unstable();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(found, expected, "{name}");
    }
}

/// Writes a program that tells the address of a tunnel as ngrok does, and that it was started in a file with the name
/// of the port.
fn write_ngrok(cluster: &Cluster, file: &str) {
    let path = cluster.path(file);
    let script = format!(
        "#!/bin/sh\necho \"$$ $* $NGROK_AUTHTOKEN\" > {}/$2.started\n\
         echo \"{{\\\"msg\\\":\\\"started tunnel\\\",\\\"url\\\":\\\"https://t$2.example.com\\\"}}\"\nexec sleep 1000\n",
        cluster.folder.path().display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn webhooks_are_reached_through_a_tunnel_whose_program_ends_with_the_operator() {
    let cluster = Cluster::start();
    std::fs::create_dir(cluster.path("bin")).unwrap();
    write_ngrok(&cluster, "bin/ngrok");
    write_ngrok(&cluster, "other-ngrok");
    let declared =
        format!("kind: ngrok, path: /a, token: t0ken, region: eu, binary: {}", cluster.path("other-ngrok").display());
    // The kind of the cluster is unknown, so that it needs a tunnel.
    let run = Run::start(&cluster, &[("declared", &declared), ("auto", "kind: autoTunnel")]);
    let api = cluster.client();
    let mut programs = Vec::new();
    for (name, path, options) in [("declared", "/a", " --region=eu t0ken"), ("auto", "", " ")] {
        let config = client_config(&api, name);
        assert!(config.get("caBundle").is_none(), "the tunnel has a certificate of its own: {config}");
        let url = config["url"].as_str().unwrap();
        let port: u16 = url.trim_start_matches("https://t").split('.').next().unwrap().parse().unwrap();
        assert_eq!(url, format!("https://t{port}.example.com{path}/check"));
        let started = std::fs::read_to_string(cluster.path(&format!("{port}.started"))).unwrap();
        let (id, arguments) = started.trim_end_matches('\n').split_once(' ').unwrap();
        assert_eq!(arguments, format!("http {port} --log=stdout --log-format=json{options}"));
        let (status, answer) =
            send(&format!("127.0.0.1:{port}"), &format!("{path}/check"), &review(&json!({})).to_string());
        assert!(status == 200 && answer.contains(r#""allowed":true"#), "{status} {answer}");
        programs.push(Path::new("/proc").join(id));
    }
    assert!(programs.iter().all(|program| program.exists()));
    run.process.signal("TERM");
    assert_eq!(run.process.wait(LIMIT).code(), Some(0));
    assert!(!programs.iter().any(|program| program.exists()), "the programs run longer than the operator");
}

const INSECURE: &[(&str, &str)] = &[("a", "kind: server, addr: 127.0.0.1, insecure: true")];

/// The largest review.
const LARGEST: usize = 3 << 20;

#[test]
fn a_slow_review_has_half_a_minute_and_reviews_of_more_than_64_mib_at_once_are_refused() {
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster, INSECURE);
    let address = run.address();
    let head = |length: usize| format!("POST /check HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    let mut slow = connect(&address);
    let began = Instant::now();
    slow.write_all(format!("{}{{", head(100)).as_bytes()).unwrap();

    // 21 reviews that lack one byte leave 20 bytes more than 1 MiB.
    let hold = || {
        let mut stream = connect(&address);
        stream.write_all(head(LARGEST).as_bytes()).unwrap();
        // The server may refuse it before its end.
        let _ = stream.write_all(&vec![b' '; LARGEST - 1]);
        stream
    };
    let mut held: Vec<TcpStream> = std::iter::repeat_with(hold).take(21).collect();
    let [small, large] = [0, 1 << 20].map(|size| review(&json!({"text": "x".repeat(size)})).to_string());
    let in_time = |text: &str| assert!(began.elapsed() < Duration::from_secs(25), "{text}");
    loop {
        let (status, _) = send(&address, "/check", &large);
        // While the server was still reading, it may have refused one of those instead of this one.
        if status == 503 && held.iter().all(is_open) {
            break;
        }
        held.iter_mut().filter(|stream| !is_open(stream)).for_each(|stream| *stream = hold());
        in_time("a review beyond 64 MiB is refused");
    }
    assert_eq!(send(&address, "/check", &large), (503, "too many reviews are in flight\n".to_owned()));
    assert_eq!(send(&address, "/check", &small).0, 200);
    drop(held);
    while send(&address, "/check", &large).0 != 200 {
        in_time("closed connections hold nothing");
    }

    let mut answer = String::new();
    let mut part = [0; 1_000];
    while !answer.contains("in time\n") {
        let length = slow.read(&mut part).unwrap();
        assert!(length > 0, "the server closes the connection without an answer: {answer:?}");
        answer.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    let took = began.elapsed();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.ends_with("the review did not arrive in time\n"), "{answer}");
    assert!((Duration::from_secs(29)..Duration::from_secs(50)).contains(&took), "{took:?}");
}

/// The maximum number of connections.
const CONNECTIONS: usize = 1_000;

/// Asks for what is not allowed, which is answered at once and keeps the connection.
fn ask(stream: &mut TcpStream) {
    stream.write_all(b"GET /check HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    let mut part = [0; 1_000];
    while !answer.ends_with("only POST is allowed\n") {
        let length = stream.read(&mut part).unwrap();
        assert!(length > 0, "the connection is closed: {answer:?}");
        answer.push_str(&String::from_utf8_lossy(&part[..length]));
    }
}

fn is_open(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_server_keeps_1000_connections_and_closes_the_longest_idle_one_for_another() {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let files = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse::<usize>().ok());
    if files.is_some_and(|files| files < CONNECTIONS + 200) {
        // A process that may not open as many files has a lower limit.
        return;
    }
    let cluster = Cluster::start();
    let mut run = Run::start(&cluster, INSECURE);
    let address = run.address();
    let mut streams: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = connect(&address);
            ask(&mut stream);
            stream
        })
        .collect();
    assert!(streams.iter().all(is_open), "as many connections are kept");
    let mut another = connect(&address);
    ask(&mut another);
    let began = Instant::now();
    while is_open(&streams[0]) {
        assert!(began.elapsed() < LIMIT, "the connection that was idle longest stays open");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(streams[1..].iter().all(is_open) && is_open(&another), "one is closed");
    ask(&mut streams[1]);
    ask(&mut another);
}
