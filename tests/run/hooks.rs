//! Hooks of the built binary: credentials on real connections, on the listener of the probes and on one of their own,
//! reloads, and touches.

use std::io::{BufRead as _, BufReader, Lines};
use std::net::{TcpListener, TcpStream};
use std::process::ChildStderr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopfd::cluster::Request;
use kopfd::handling::hook::auth::{Algorithm, Encoding, Signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::json;

use super::Cluster;
use crate::child::{LIMIT, Process};

const SCRIPT: &str = r#"
fn on_push(request) { return #{ after: request.json.after, touched: touch("v1/configmaps", "default", "one") }; }
fn ci(request) {
    if request.query.stuck == "yes" { sleep("1m"); }
    if request.query.wrong == "yes" { throw "the password is s3cret"; }
    return respond(202, "first\n", #{ headers: #{ "X-Kind": "ci" } });
}
fn who(request) { return request.certificate; }
fn follow(name, type, logger) { logger.info(`${name} is seen by ${type}`); }
"#;

const HOOKS: &str = "
    - {id: pushed, path: /github, fn: on_push, script: a.rhai, maxBody: 1Ki, auth: {hmac: {secret: github, header: X-Hub-Signature-256}}}
    - {path: /ci, fn: ci, script: a.rhai, timeout: 1s, concurrency: 1, auth: {token: {secret: ci}}}
    - {path: /open, methods: [GET, PUT], id: open, auth: none, run: 'return request.method;'}";

/// A running operator with hooks, and its log.
struct Run {
    process: Process,
    lines: Lines<BufReader<ChildStderr>>,
    address: String,
}

fn manifest(settings: &str, hooks: &str) -> String {
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: a}}\nspec:\n  settings: {{{settings}}}\n  hooks:{hooks}\n  \
         resources:\n    - {{resource: v1/configmaps, script: a.rhai, labels: {{app: tested}}, handlers: [{{on: event, fn: follow}}]}}\n"
    )
}

fn secret(name: &str, key: &str, value: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "default", "name": name}, "data": {key: STANDARD.encode(value)}})
}

impl Run {
    /// Starts the operator, and waits for the listener that a line of the log tells.
    fn start(cluster: &Cluster, told: &str) -> Self {
        let mut command = cluster.kopfd();
        command.args([
            "run",
            "-c",
            "operators",
            "--kubeconfig",
            "kubeconfig",
            "--log-format",
            "plain",
            "-L",
            "http://127.0.0.1:0/healthz",
        ]);
        let mut process = Process::start(&mut command);
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let line = lines.by_ref().map(Result::unwrap).find(|line| line.contains(told)).unwrap();
        let digits = line.rsplit_once("127.0.0.1:").unwrap().1;
        let port: String = digits.chars().take_while(char::is_ascii_digit).collect();
        Self { process, lines, address: format!("127.0.0.1:{port}") }
    }

    fn wait_for(&mut self, text: &str) {
        assert!(self.lines.by_ref().map(Result::unwrap).any(|line| line.contains(text)), "no line has {text:?}");
    }

    /// Sends a request, repeated until the operator serves.
    fn send(&self, line: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        for _ in 0..600 {
            let mut stream = TcpStream::connect(&self.address).unwrap();
            let answer = exchange(&mut stream, line, headers, body);
            if answer.0 != 503 {
                return answer;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("{line} is not answered");
    }
}

fn exchange(
    stream: &mut (impl std::io::Read + std::io::Write),
    line: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let headers = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<Vec<_>>().concat();
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}");
    // The server may answer before it has read everything.
    drop(stream.write_all(head.as_bytes()));
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default(), answer)
}

fn signed(key: &str, body: &str) -> String {
    let form = Signature {
        header: String::new(),
        algorithm: Algorithm::Sha256,
        prefix: "sha256=".to_owned(),
        encoding: Encoding::Hex,
    };
    form.sign(key.as_bytes(), body.as_bytes())
}

fn prepared(settings: &str, hooks: &str) -> Cluster {
    let cluster = Cluster::start();
    std::fs::create_dir(cluster.path("operators")).unwrap();
    cluster.write("operators/a.yaml", &manifest(settings, hooks));
    cluster.write("operators/a.rhai", SCRIPT);
    let api = cluster.client();
    for secret in [secret("github", "secret", "It's a Secret to Everybody"), secret("ci", "token", "s3cret\n")] {
        let request = Request::new(http::Method::POST, "/api/v1/namespaces/default/secrets")
            .with_json("application/json", &secret);
        api.send(&request).unwrap();
    }
    cluster
}

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn requests_are_verified_limited_and_touch_objects() {
    let cluster = prepared("", HOOKS);
    let mut run = Run::start(&cluster, "Probes are answered at");
    let body = r#"{"after": "6dcb09b"}"#;
    let signature = signed("It's a Secret to Everybody", body);
    let push =
        |signature: &str, body: &str| run.send("POST /github", &[JSON, ("X-Hub-Signature-256", signature)], body);
    let (status, answer) = push(&signature, body);
    assert!(status == 200 && answer.ends_with(r#"{"after":"6dcb09b","touched":true}"#), "{answer}");
    assert_eq!(run.send("POST /github", &[JSON], body).0, 401);
    assert_eq!(push(&signed("another", body), body).0, 403);
    assert_eq!(push(&signature, r#"{"after": "0000000"}"#).0, 403);
    let broken = "{";
    assert_eq!(push(&signed("It's a Secret to Everybody", broken), broken).0, 400);
    let large = "x".repeat(1_025);
    assert_eq!(push(&signed("It's a Secret to Everybody", &large), &large).0, 413);

    let token = |line: &str, token: &str| run.send(line, &[("Authorization", token)], "");
    let (status, answer) = token("POST /ci", "Bearer s3cret");
    assert!(status == 202 && answer.ends_with("first\n") && answer.contains("x-kind: ci"), "{answer}");
    let (status, answer) = token("POST /ci", "Basic s3cret");
    assert!(status == 401 && answer.contains("www-authenticate: Bearer"), "{answer}");
    assert_eq!(token("POST /ci", "Bearer wrong").0, 403);
    let (status, answer) = token("POST /ci?wrong=yes", "Bearer s3cret");
    assert!(status == 500 && !answer.contains("password") && !answer.contains("rhai"), "{answer}");
    assert_eq!(token("POST /ci?stuck=yes", "Bearer s3cret").0, 504);
    let (status, answer) = run.send("DELETE /open", &[], "");
    assert!(status == 405 && answer.contains("allow: GET, PUT"), "{answer}");
    assert!(run.send("PUT /open", &[], "").1.ends_with("\r\n\r\nPUT"));
    assert_eq!((run.send("POST /gitlab", &[], "").0, run.send("GET /livez", &[], "").0), (405, 200));

    let metrics = run.send("GET /metrics", &[], "").1;
    for count in [
        r#"kopfd_hook_requests_total{operator="a",hook="pushed",outcome="answered"} 1"#,
        r#"kopfd_hook_requests_total{operator="a",hook="pushed",outcome="unauthenticated"} 1"#,
        r#"kopfd_hook_requests_total{operator="a",hook="pushed",outcome="forbidden"} 2"#,
        r#"kopfd_hook_requests_total{operator="a",hook="ci",outcome="failed"} 2"#,
    ] {
        assert!(metrics.contains(count), "{count} is missing: {metrics}");
    }
    run.wait_for("one is seen by MODIFIED");
    run.wait_for("the password is s3cret");
    run.process.signal("TERM");
    assert_eq!(run.process.wait(LIMIT).code(), Some(0));
}

#[test]
fn hooks_follow_a_reload_and_replaced_secrets() {
    // The machine may be busy.
    let hooks = HOOKS.replace("timeout: 1s", "timeout: 1m");
    let cluster = prepared("", &hooks);
    let mut run = Run::start(&cluster, "Probes are answered at");
    let ci = |run: &Run, token: &str| run.send("POST /ci", &[("Authorization", token)], "");
    assert!(ci(&run, "Bearer s3cret").1.ends_with("first\n"));
    cluster.write("operators/a.rhai", &SCRIPT.replace("first", "second"));
    run.wait_for("Operator 'a' is reloaded");
    assert!(ci(&run, "Bearer s3cret").1.ends_with("second\n"));
    cluster.write("operators/a.yaml", &manifest("", &hooks.replace("/open", "/closed")));
    run.wait_for("Operator 'a' is reloaded");
    assert_eq!((run.send("GET /open", &[], "").0, run.send("GET /closed", &[], "").0), (404, 200));
    let patch = json!({"data": {"token": STANDARD.encode("renewed")}});
    let request =
        Request::patch("/api/v1/namespaces/default/secrets/ci").with_json("application/merge-patch+json", &patch);
    cluster.client().send(&request).unwrap();
    let began = std::time::Instant::now();
    while ci(&run, "Bearer renewed").0 != 202 {
        assert!(began.elapsed() < LIMIT, "the replaced token is refused");
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    assert_eq!(ci(&run, "Bearer s3cret").0, 403);
}

#[test]
fn a_listener_of_their_own_asks_for_client_certificates() {
    let validity = kopfd::http::Validity::unlimited();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = format!(
        "hooks: {{server: {{addr: 127.0.0.1, port: {port}, path: /h, certfile: tls.crt, pkeyfile: tls.key, verifyCafile: ca.pem}}}}"
    );
    let hooks = "\n    - {path: /who, fn: who, script: a.rhai, auth: {clientCertificate: {names: [ci.example.com]}}}";
    let cluster = prepared(&server, hooks);
    let authority = kopfd::http::Authority::make("tests", validity).unwrap();
    let own = authority.issue(&["localhost".to_owned()], validity).unwrap();
    for (name, text) in [("tls.crt", &own.chain), ("tls.key", &own.key), ("ca.pem", &authority.pem())] {
        cluster.write(name, text);
    }
    let run = Run::start(&cluster, "Hooks are answered at");
    let send = |name: Option<&str>| {
        kopfd::http::install_crypto_provider();
        let trust = Arc::new(kopfd::http::Trust::of_pem(authority.pem().as_bytes()));
        let config = ClientConfig::builder().dangerous().with_custom_certificate_verifier(trust);
        let config = match name {
            None => config.with_no_client_auth(),
            Some(name) => {
                let certificate = authority.issue_for_client(name, validity).unwrap();
                let chain = CertificateDer::pem_slice_iter(certificate.chain.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .unwrap();
                config
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap())
                    .unwrap()
            }
        };
        let config = Arc::new(config);
        for _ in 0..600 {
            let connection =
                ClientConnection::new(Arc::clone(&config), ServerName::try_from("localhost").unwrap()).unwrap();
            let mut stream = StreamOwned::new(connection, TcpStream::connect(&run.address).unwrap());
            let answer = exchange(&mut stream, "POST /h/who", &[], "");
            if answer.0 != 503 {
                return answer;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        panic!("the hook is not answered");
    };
    let (status, answer) = send(Some("ci.example.com"));
    assert!(status == 200 && answer.contains("ci.example.com"), "{answer}");
    assert_eq!(send(Some("other.example.com")).0, 403);
    assert_eq!(send(None).0, 401);
}

#[test]
fn an_operator_whose_hooks_nobody_can_reach_does_not_run() {
    let cluster = prepared("", HOOKS);
    let mut command = cluster.kopfd();
    let output = crate::child::output(command.args([
        "run",
        "-c",
        "operators",
        "--kubeconfig",
        "kubeconfig",
        "--log-format",
        "plain",
    ]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("settings.hooks.server"), "{text}");
}
