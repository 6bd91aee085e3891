//! Admission webhooks of the built binary: on the embedded API server, and with clients that harm.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ChildStderr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopfd::cluster::Request;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};

use super::{Cluster, object};
use crate::child::{LIMIT, Process};

/// Memory limit of the operator, in MiB. An unoptimised binary starts with about 50.
const MEMORY: u64 = 300;

pub(super) const SCRIPT: &str = r#"
fn check(body, operation, userinfo, warnings, dryrun) {
    warnings.push(`${operation} by ${userinfo.username}`);
    if body.data?.wrong == "yes" { throw reject("this is wrong", 422); }
    if body.data?.stuck == "yes" { loop {} }
}
fn complete(patch) { patch.data.completed = "yes"; }
"#;

/// The limit of operations is one that no machine reaches within the timeout.
const WEBHOOKS: &str = "[{on: validate, fn: check, timeout: 2s, limits: {operations: 1000000000000}}, {on: mutate, fn: complete, operations: [create]}]";

/// A running operator with webhooks, and its log.
struct Run {
    process: Process,
    lines: Lines<BufReader<ChildStderr>>,
    address: SocketAddr,
    /// The authority of its certificate.
    authority: String,
}

fn manifest(name: &str, server: &str, webhooks: &str) -> String {
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: {name}}}\nspec:\n  \
         settings: {{admission: {{server: {{kind: server, addr: 127.0.0.1, cadump: ca.pem{server}}}}}}}\n  resources:\n    \
         - {{resource: v1/configmaps, script: {name}.rhai, labels: {{app: tested}}, webhooks: {webhooks}}}\n"
    )
}

impl Run {
    fn start(cluster: &Cluster, server: &str, webhooks: &str) -> Self {
        std::fs::create_dir(cluster.path("operators")).unwrap();
        cluster.write("operators/a.yaml", &manifest("a", server, webhooks));
        cluster.write("operators/a.rhai", SCRIPT);
        Self::of_folder(cluster)
    }

    fn of_folder(cluster: &Cluster) -> Self {
        let mut command = cluster.kopfd();
        command.args(["run", "-c", "operators", "--kubeconfig", "kubeconfig", "--log-format", "plain"]);
        let mut process = Process::start(&mut command);
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let told = lines.by_ref().map(Result::unwrap).find(|line| line.contains("Webhooks are answered at")).unwrap();
        let address = told.rsplit_once(' ').unwrap().1.trim_end_matches('.').parse().unwrap();
        let authority = std::fs::read_to_string(cluster.path("ca.pem")).unwrap();
        Self { process, lines, address, authority }
    }

    fn wait_for(&mut self, text: &str) {
        assert!(self.lines.by_ref().map(Result::unwrap).any(|line| line.contains(text)), "no line has {text:?}");
    }

    fn connect(&self) -> StreamOwned<ClientConnection, TcpStream> {
        self.connect_with(kopfd::http::Trust::of_pem(self.authority.as_bytes()).client_config())
    }

    fn connect_with(&self, config: ClientConfig) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
    }

    /// Sends a request. Returns the status and the body of the answer.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = self.connect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        // A server that refuses a request need not read all of it.
        drop(stream.write_all(format!("{head}{body}").as_bytes()));
        let mut answer = Vec::new();
        // A server may close without the end of TLS.
        drop(stream.read_to_end(&mut answer));
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Has an object reviewed by a webhook. Returns the response.
    fn review(&self, id: &str, data: &Value) -> Value {
        let (status, body) = self.send("POST", &format!("/{id}"), &review(data).to_string());
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()["response"].take()
    }

    /// Returns the peak memory of the operator, in MiB.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
    }
}

pub(super) fn review(data: &Value) -> Value {
    let mut reviewed = object("default", "reviewed");
    reviewed["data"] = data.clone();
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "operation": "CREATE",
        "userInfo": {"username": "ann"}, "object": reviewed, "oldObject": null, "dryRun": false,
    }})
}

/// Returns a webhook configuration for config maps.
fn configuration(kind: &str, id: &str, run: &Run) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": id},
        "webhooks": [{
            "name": format!("{id}.tested.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["*"]}],
            "clientConfig": {"url": format!("https://{}/{id}", run.address), "caBundle": STANDARD.encode(&run.authority)},
        }],
    })
}

#[test]
fn the_api_server_has_requests_reviewed() {
    let cluster = Cluster::start();
    let run = Run::start(&cluster, "", WEBHOOKS);
    let api = cluster.client();
    let create = |path: &str, object: &Value| {
        let request =
            Request::new(http::Method::POST, format!("{path}?fieldManager=test")).with_json("application/json", object);
        api.runtime.block_on(api.client.request(&request))
    };
    for (kind, plural, id) in [
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "check"),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "complete"),
    ] {
        create(&format!("/apis/admissionregistration.k8s.io/v1/{plural}"), &configuration(kind, id, &run)).unwrap();
    }
    let maps = "/api/v1/namespaces/default/configmaps";
    let with = |name: &str, data: Value| {
        let mut map = object("default", name);
        map["data"] = data;
        map
    };
    let created = create(maps, &with("right", json!({"a": "b"}))).unwrap();
    let created: Value = serde_json::from_slice(&created.body).unwrap();
    assert_eq!(created["data"], json!({"a": "b", "completed": "yes"}));
    let refused = create(maps, &with("wrong", json!({"wrong": "yes"}))).unwrap_err();
    assert_eq!(refused.status(), Some(422));
    assert!(
        refused.to_string().contains("check.tested.example.com") && refused.to_string().contains("this is wrong"),
        "{refused}"
    );
    // Objects that the filters exclude are not called for.
    let mut other = with("other", json!({"wrong": "yes"}));
    other["metadata"]["labels"] = json!({"app": "other"});
    create(maps, &other).unwrap();
    // A mutating webhook is not called for deletions, and a validating one gets the old object.
    let deletion = Request::new(http::Method::DELETE, format!("{maps}/right"));
    api.runtime.block_on(api.client.request(&deletion)).unwrap();
}

#[test]
fn a_call_that_uses_up_its_time_denies_its_own_request_only() {
    let cluster = Cluster::start();
    let run = Run::start(&cluster, "", WEBHOOKS);
    std::thread::scope(|scope| {
        let stuck: Vec<_> = (0..3).map(|_| scope.spawn(|| run.review("check", &json!({"stuck": "yes"})))).collect();
        let response = run.review("check", &json!({}));
        assert_eq!((&response["allowed"], &response["warnings"]), (&json!(true), &json!(["CREATE by ann"])));
        for stuck in stuck {
            let response = stuck.join().unwrap();
            let message = response["status"]["message"].as_str().unwrap();
            assert!(
                response["allowed"] == false && response["status"]["code"] == 500 && message.contains("time"),
                "{response}"
            );
        }
    });
    let response = run.review("check", &json!({"wrong": "yes"}));
    assert_eq!(response["status"], json!({"message": "this is wrong", "code": 422}));
}

#[test]
fn harmful_clients_are_refused_and_others_are_served() {
    let cluster = Cluster::start();
    let run = Run::start(&cluster, ", path: /hooks/", WEBHOOKS);
    let body = review(&json!({})).to_string();
    for (method, path, body, expected) in [
        ("POST", "/check", &*body, 404),
        ("POST", "/hooks", &body, 404),
        ("POST", "/hooksX/check", &body, 404),
        ("POST", "/hooks/unknown", &body, 404),
        ("POST", "/hooks/", &body, 404),
        ("GET", "/hooks/check", "", 405),
        ("POST", "/hooks/check", "{broken", 400),
        ("POST", "/hooks/check", "[]", 500),
        ("POST", "/hooks/check", &"[".repeat(100_000), 400),
        ("POST", "/hooks/check", &" ".repeat(3 << 20), 400),
        ("POST", "/hooks/check", &" ".repeat((3 << 20) + 1), 413),
        ("POST", "/hooks/check", &" ".repeat(8 << 20), 413),
        ("POST", "/hooks/%63heck", &body, 200),
        ("POST", "/hooks/check?timeout=10s", &body, 200),
    ] {
        assert_eq!(run.send(method, path, body).0, expected, "{method} {path}");
    }
    let large = json!({"text": "x".repeat(1 << 20)});
    let began = Instant::now();
    let (status, answer) = run.send("POST", "/hooks/check", &review(&large).to_string());
    assert!(status == 200 && answer.contains(r#""allowed":true"#), "{status} {}", &answer[..200.min(answer.len())]);
    // The limit of an unoptimised binary on a busy machine.
    assert!(began.elapsed() < Duration::from_secs(5), "a review of 1 MB took {:?}", began.elapsed());

    // Slow clients have sent the head of a request, or a part of its body; others do not begin, or speak no TLS.
    let slow: Vec<_> = (0..50)
        .map(|number| {
            let mut stream = run.connect();
            let head = format!("POST /hooks/check HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n", 3 << 20);
            let sent = if number % 2 == 0 { head } else { format!("{head}\r\n{}", " ".repeat(1_000)) };
            stream.write_all(sent.as_bytes()).unwrap();
            stream
        })
        .collect();
    let mut idle: Vec<TcpStream> = (0..1_950).map_while(|_| TcpStream::connect(run.address).ok()).collect();
    if idle.len() < 1_950 {
        // This process may not open as many files.
        idle.truncate(idle.len().saturating_sub(100));
    }
    for stream in idle.iter_mut().step_by(3) {
        drop(stream.write_all(b"GET / HTTP/1.1\r\n\r\n"));
    }
    let began = Instant::now();
    for _ in 0..10 {
        assert_eq!(run.send("POST", "/hooks/check", &body).0, 200);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "ten reviews took {:?}", began.elapsed());
    assert!(run.memory() < MEMORY, "the operator has {} MiB", run.memory());
    drop((slow, idle));
    assert_eq!(run.send("POST", "/hooks/check", &body).0, 200);
}

#[test]
fn operators_with_equal_servers_share_a_listener_and_a_reload_does_not_close_it() {
    let cluster = Cluster::start();
    std::fs::create_dir(cluster.path("operators")).unwrap();
    let script = |text: &str| {
        format!("fn fa(warnings) {{ warnings.push(\"{text}\"); }} fn fb(warnings) {{ warnings.push(\"b\"); }}")
    };
    for (name, webhooks) in [("a", "[{on: validate, fn: fa}]"), ("b", "[{on: validate, fn: fb}]")] {
        cluster.write(&format!("operators/{name}.yaml"), &manifest(name, "", webhooks));
        cluster.write(&format!("operators/{name}.rhai"), &script("first"));
    }
    let mut run = Run::of_folder(&cluster);
    let answered = |run: &Run, id: &str| {
        // The other operator joins when it has discovered the cluster.
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            let (status, body) = run.send("POST", &format!("/{id}"), &review(&json!({})).to_string());
            if status == 200 {
                return serde_json::from_str::<Value>(&body).unwrap()["response"]["warnings"].take();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{id} is not answered within {LIMIT:?}");
    };
    assert_eq!((answered(&run, "fa"), answered(&run, "fb")), (json!(["first"]), json!(["b"])));
    let mut open = run.connect();
    cluster.write("operators/a.rhai", &script("second"));
    run.wait_for("Operator 'a' is reloaded");
    assert_eq!(answered(&run, "fa"), json!(["second"]));
    // A connection from before is answered, too.
    let body = review(&json!({})).to_string();
    let mut request = String::new();
    write!(
        request,
        "POST /fa HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    open.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    drop(open.read_to_end(&mut answer));
    assert!(String::from_utf8_lossy(&answer).contains(r#""warnings":["second"]"#));
    run.process.signal("TERM");
    assert_eq!(run.process.wait(LIMIT).code(), Some(0));
    assert!(TcpStream::connect(run.address).is_err(), "the listener is open after the end");
}

#[test]
fn clients_need_the_certificates_that_the_settings_ask_for() {
    let cluster = Cluster::start();
    let validity = kopfd::http::Validity::unlimited();
    let authority = kopfd::http::Authority::make("clients", validity).unwrap();
    cluster.write("clients.pem", &authority.pem());
    let script = "fn who(sslpeer, warnings) { warnings.push(sslpeer.subject[0][0][1]); }";
    std::fs::create_dir(cluster.path("operators")).unwrap();
    let server = ", verifyMode: required, verifyCafile: clients.pem";
    cluster.write("operators/a.yaml", &manifest("a", server, "[{on: validate, fn: who}]"));
    cluster.write("operators/a.rhai", script);
    let run = Run::of_folder(&cluster);
    let mut unknown = run.connect();
    drop(unknown.write_all(b"POST /who HTTP/1.1\r\nhost: x\r\n\r\n"));
    let mut answer = Vec::new();
    assert!(
        unknown.read_to_end(&mut answer).is_err() && answer.is_empty(),
        "a client without a certificate is answered"
    );

    let certificate = authority.issue_for_client("kube-apiserver", validity).unwrap();
    let chain = CertificateDer::pem_slice_iter(certificate.chain.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(certificate.key.as_bytes()).unwrap();
    let trust = Arc::new(kopfd::http::Trust::of_pem(run.authority.as_bytes()));
    kopfd::http::install_crypto_provider();
    let config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(trust)
        .with_client_auth_cert(chain, key)
        .unwrap();
    let mut stream = run.connect_with(config);
    let body = review(&json!({})).to_string();
    let head = format!("POST /who HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.contains(r#""warnings":["kube-apiserver"]"#), "{answer}");
}
