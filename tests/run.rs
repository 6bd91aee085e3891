//! `kopfd run`: its options and their environment variables, its signals, and a log without a reader.

#![expect(clippy::unwrap_used, reason = "a test that fails may panic")]

mod admission;
mod endurance;
mod hooks;
mod logs;
mod pausing;
mod peers;
mod reload;
mod replicas;
mod status;
mod webhook_servers;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use kopfd::cluster::{Client, Error, Options, Request};
use kopfd::kit::Clock;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::child::{LIFETIME, LIMIT, Process, ask, output};

/// An embedded API server, with a folder for all files.
struct Cluster {
    process: Process,
    folder: TempDir,
}

impl Cluster {
    fn start() -> Self {
        let objects =
            [object("default", "one"), object("other", "two")].map(|object| object.to_string()).join("\n---\n");
        let namespace = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}"#;
        Self::start_with(&format!("{namespace}\n---\n{objects}"), LIFETIME)
    }

    /// Starts it with objects, as a stream of YAML.
    fn start_with(objects: &str, lifetime: Duration) -> Self {
        Self::start_with_options(objects, lifetime, &[])
    }

    /// Starts it with objects, as a stream of YAML, and with further options.
    fn start_with_options(objects: &str, lifetime: Duration, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("objects.yaml"), objects).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
        command
            .args(["apiserver", "--kubeconfig-out", "kubeconfig", "--apply", "objects.yaml", "--data", "data"])
            .args(options);
        command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start_for(&mut command, lifetime);
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        lines.map(Result::unwrap).find(|line| line.starts_with("export KUBECONFIG=")).unwrap();
        Self { process, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn client(&self) -> Api {
        self.client_of("kubeconfig")
    }

    fn client_of(&self, kubeconfig: &str) -> Api {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = Options { kubeconfig: Some(self.path(kubeconfig)), ..Options::default() };
        let client = runtime.block_on(Client::connect(options, Clock::system())).unwrap();
        Api { runtime, client }
    }

    /// Returns the command `kopfd` without the settings of this machine's user.
    fn kopfd(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// Access to the server for tests.
struct Api {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Api {
    fn send(&self, request: &Request) -> Result<Value, Error> {
        self.runtime
            .block_on(self.client.request(request))
            .map(|response| serde_json::from_slice(&response.body).unwrap())
    }

    fn create(&self, object: &Value) {
        let path = format!("{}?fieldManager=test", path(object));
        let request = Request::new(http::Method::POST, path).with_json("application/json", object);
        assert_eq!(self.runtime.block_on(self.client.request(&request)).unwrap().status, 201);
    }

    /// Waits until the operator has stored that it has handled an object.
    fn wait_until_handled(&self, namespace: &str, name: &str) {
        let is_handled =
            |found: &Value| found["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"].is_string();
        self.wait(&format!("{}/{name}", path(&object(namespace, name))), is_handled);
    }

    fn wait_until_there(&self, path: &str) {
        self.wait(path, |_| true);
    }

    fn wait(&self, path: &str, is_right: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            if let Ok(found) = self.runtime.block_on(self.client.request(&Request::get(path)))
                && is_right(&serde_json::from_slice(&found.body).unwrap())
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{path} is not as it should be within {LIMIT:?}");
    }
}

fn path(object: &Value) -> String {
    format!("/api/v1/namespaces/{}/configmaps", object["metadata"]["namespace"].as_str().unwrap())
}

fn object(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name, "labels": {"app": "tested"}}})
}

/// Returns an operator for labelled config maps with one handler, which is an inline script.
fn operator(on: &str, script: &str) -> String {
    let script = script.replace('\n', "\n            ");
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: tested}}\nspec:\n  limits: {{output: 256Mi}}\n  \
         settings: {{queueing: {{exitTimeout: 1h}}}}\n  resources:\n    - resource: v1/configmaps\n      labels: {{app: tested}}\n      \
         handlers:\n        - on: {on}\n          id: handler\n          run: |\n            {script}\n"
    )
}

/// Returns a script that logs this many lines of 10 kB.
fn noise(lines: usize) -> String {
    format!("for i in 0..{lines} {{ logger.info(\"{}\"); }}", "x".repeat(10_000))
}

/// A script that reports its progress to the test, and never ends.
const STUCK: &str = "k8s::create(#{apiVersion: \"v1\", kind: \"Secret\", metadata: #{name: \"marker\", namespace: \"default\"}});\nsleep(3600);";

#[test]
fn an_operator_with_an_unread_log_continues_and_counts_lost_lines() {
    const NOISE: usize = 1500;
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("create", &noise(NOISE)));
    let mut run = Process::start(cluster.kopfd().args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]));
    let log = run.stderr.take().unwrap();
    let api = cluster.client();
    for (namespace, name) in [("default", "one"), ("other", "two")] {
        api.wait_until_handled(namespace, name);
    }
    api.create(&object("default", "later"));
    api.wait_until_handled("default", "later");

    let reader = std::thread::spawn(move || count(log));
    run.signal("TERM");
    assert_eq!(run.wait(LIMIT).code(), Some(0));
    let (written, dropped) = reader.join().unwrap();
    assert!(dropped > 0, "{written} lines were written, and none dropped");
    // The operator starts, watches, gets the signal, and stops; each handler logs its lines, succeeds, and its cause is
    // processed.
    assert_eq!(written + dropped, 4 + 3 * (NOISE + 2));
}

/// Reads a log to its end. Returns the number of written lines, and the reported number of dropped ones.
fn count(log: ChildStderr) -> (usize, usize) {
    let (mut written, mut dropped) = (0, 0);
    for line in BufReader::new(log).lines().map(Result::unwrap) {
        match line.split_once(" lines were dropped: ") {
            None => written += 1,
            Some((before, _)) => {
                let number = before.rsplit(' ').next().unwrap();
                assert!(number.len() < 4 || number.contains(','), "{number}");
                dropped += number.replace(',', "").parse::<usize>().unwrap();
            }
        }
    }
    (written, dropped)
}

#[test]
fn a_log_that_is_not_read_does_not_hold_up_the_end() {
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("create", &noise(100)));
    let mut run = Process::start(cluster.kopfd().args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]));
    // The pipe stays open and full.
    let log = run.stderr.take().unwrap();
    cluster.client().wait_until_handled("default", "one");
    run.signal("TERM");
    assert_eq!(run.wait(LIMIT).code(), Some(0));
    drop(log);

    cluster.write("objects.yaml", &object("default", "one").to_string());
    let mut command = cluster.kopfd();
    command.args(["dev", "operator.yaml", "--apply", "objects.yaml", "--kubeconfig-out", "dev.kubeconfig"]);
    let mut dev = Process::start(command.stdout(Stdio::piped()));
    let log = dev.stderr.take().unwrap();
    BufReader::new(dev.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find(|line| line.starts_with("export "))
        .unwrap();
    cluster.client_of("dev.kubeconfig").wait_until_handled("default", "one");
    dev.signal("INT");
    assert_eq!(dev.wait(LIMIT).code(), Some(0));
    drop(log);
}

#[test]
fn a_second_signal_ends_the_process_at_once_even_if_its_log_is_not_read() {
    let ways = [
        (String::new(), "TERM", "TERM"),
        (noise(100), "TERM", "TERM"),
        (String::new(), "TERM", "INT"),
        (String::new(), "INT", "INT"),
    ];
    for (noise, first, second) in ways {
        let cluster = Cluster::start();
        cluster.write("operator.yaml", &operator("create", &format!("{noise}\n{STUCK}")));
        let mut run = Process::start(cluster.kopfd().args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]));
        let mut log = run.stderr.take().unwrap();
        cluster.client().wait_until_there("/api/v1/namespaces/default/secrets/marker");
        run.signal(first);
        std::thread::sleep(Duration::from_secs(1));
        assert!(run.is_running(), "the handler has an hour to finish");
        run.signal(second);
        assert_eq!(run.wait(Duration::from_secs(10)).code(), Some(130));
        if noise.is_empty() {
            let mut printed = String::new();
            log.read_to_string(&mut printed).unwrap();
            assert!(
                printed.contains(&format!("Signal SIG{first} is received. The operator is stopping.")),
                "{printed}"
            );
            let again = if first == second { "again".to_owned() } else { format!("after SIG{first}") };
            assert!(
                printed.contains(&format!("Signal SIG{second} is received {again}. The process ends at once.")),
                "{printed}"
            );
        }
    }
}

#[test]
fn an_operator_that_does_not_stop_in_time_is_ended() {
    let cluster = Cluster::start();
    let limited =
        operator("create", STUCK).replace("settings: {", "settings: {process: {ultimateExitingTimeout: 1s}, ");
    cluster.write("operator.yaml", &limited);
    let mut run = Process::start(cluster.kopfd().args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]));
    let mut log = run.stderr.take().unwrap();
    cluster.client().wait_until_there("/api/v1/namespaces/default/secrets/marker");
    run.signal("TERM");
    assert_eq!(run.wait(LIMIT).code(), Some(130));
    let mut printed = String::new();
    log.read_to_string(&mut printed).unwrap();
    assert!(printed.contains("The operator does not stop in time. The process ends at once."), "{printed}");
}

#[test]
fn a_slow_reader_of_the_log_gets_all_of_it() {
    const NOISE: usize = 100;
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("create", &noise(NOISE)));
    cluster.write("objects.yaml", &object("default", "one").to_string());
    let mut command = cluster.kopfd();
    command.args(["dev", "operator.yaml", "--apply", "objects.yaml", "--once", "--kubeconfig-out", "dev.kubeconfig"]);
    let mut dev = Process::start(&mut command);
    let mut log = dev.stderr.take().unwrap();
    let (mut read, mut chunk) = (Vec::new(), vec![0; 16 << 10]);
    loop {
        match log.read(&mut chunk).unwrap() {
            0 => break,
            count => read.extend_from_slice(&chunk[..count]),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let read = String::from_utf8(read).unwrap();
    assert_eq!(read.lines().filter(|line| line.ends_with("xxx")).count(), NOISE);
    assert!(read.ends_with("Operator 'tested' has stopped.\n"), "{}", &read[read.len() - 200..]);
    assert_eq!(dev.wait(LIMIT).code(), Some(0));
}

/// Runs an operator that logs a warning for each object, until the first one. Returns its log.
fn logged(cluster: &Cluster, arguments: &[&str], environment: &[(&str, &str)]) -> String {
    let mut command = cluster.kopfd();
    command.args(arguments).envs(environment.iter().copied());
    let mut run = Process::start(&mut command);
    let mut log = BufReader::new(run.stderr.take().unwrap());
    let mut printed = String::new();
    while !printed.contains("warned of") {
        let before = printed.len();
        log.read_line(&mut printed).unwrap();
        assert!(printed.len() > before, "{arguments:?} {environment:?}: the log has ended:\n{printed}");
    }
    run.signal("TERM");
    log.read_to_string(&mut printed).unwrap();
    assert_eq!(run.wait(LIMIT).code(), Some(0), "{arguments:?} {environment:?}:\n{printed}");
    printed
}

const WARNING: &str = "logger.warning(`warned of ${name}`);";

#[test]
fn the_proxy_of_the_environment_is_used_only_if_a_setting_allows_it() {
    let cluster = Cluster::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", listener.local_addr().unwrap());
    let arguments = ["run", "operator.yaml", "--kubeconfig", "kubeconfig"];
    cluster.write("operator.yaml", &operator("event", WARNING));
    logged(&cluster, &arguments, &[("HTTPS_PROXY", &proxy)]);
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the proxy was used");
    listener.set_nonblocking(false).unwrap();

    let allowed = operator("event", WARNING).replace("settings: {", "settings: {networking: {trustEnv: true}, ");
    cluster.write("operator.yaml", &allowed);
    let mut command = cluster.kopfd();
    let _run = Process::start(command.args(arguments).env("HTTPS_PROXY", &proxy).stderr(Stdio::null()));
    let mut line = String::new();
    BufReader::new(listener.accept().unwrap().0).read_line(&mut line).unwrap();
    assert!(line.starts_with("CONNECT 127.0.0.1:"), "{line}");
}

#[test]
fn every_line_of_a_json_log_is_an_object_whatever_a_script_logs() {
    let texts = [
        "two\nlines",
        "}{\"severity\": \"error\"}",
        "tab\tand return\r",
        "\u{0}\u{1b}[31m\u{7f}\u{9b}",
        "\u{2028}\u{2029}\u{202e}",
        "\\\"'`${}",
    ];
    let cluster = Cluster::start();
    // A script reads the texts from the object, as it reads any input of users.
    let mut tested = object("default", "hostile");
    tested["data"] = texts.iter().enumerate().map(|(number, text)| (number.to_string(), json!(text))).collect();
    let script = "for number in 0..body.data?.len() ?? 0 { logger.info(body.data[`${number}`]); } if name == \"hostile\" { logger.warning(\"warned of all\"); throw body.data[\"0\"]; }";
    cluster.write("operator.yaml", &operator("event", script));
    cluster.client().create(&tested);
    let printed = logged(
        &cluster,
        &["run", "operator.yaml", "--kubeconfig", "kubeconfig", "--log-format", "json", "--log-refkey", "about"],
        &[],
    );
    let lines: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect();
    let messages: Vec<&str> = lines
        .iter()
        .filter(|line| line["about"]["name"] == "hostile")
        .map(|line| line["message"].as_str().unwrap())
        .collect();
    for text in texts {
        assert!(messages.contains(&text), "{text:?} is not in {messages:#?}");
    }
    let revisions: BTreeSet<&str> = lines
        .iter()
        .filter(|line| line["about"]["name"] == "hostile")
        .map(|line| line["revision"].as_str().unwrap_or_default())
        .collect();
    assert!(revisions.len() == 1 && revisions.iter().all(|revision| revision.len() == 12), "{revisions:?}");
}

/// A form of an option: on the command line, or in the environment.
type Way = (&'static [&'static str], &'static [(&'static str, &'static str)]);

#[test]
fn manifests_and_the_cluster_follow_the_options_and_the_environment() {
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("event", WARNING));
    // The current context is unusable.
    let text = std::fs::read_to_string(cluster.path("kubeconfig")).unwrap();
    let mut config = kopfd::object::yaml::parse(&text).unwrap().remove(0);
    let good = config["contexts"][0]["name"].as_str().unwrap().to_owned();
    let nowhere = json!({"name": "nowhere", "cluster": {"server": "https://127.0.0.1:1"}});
    config["clusters"].as_array_mut().unwrap().push(nowhere);
    let context = json!({"name": "nowhere", "context": {"cluster": "nowhere", "user": config["users"][0]["name"]}});
    config["contexts"].as_array_mut().unwrap().push(context);
    config["current-context"] = "nowhere".into();
    cluster.write("two.kubeconfig", &config.to_string());
    let good: &'static str = good.leak();

    let ways: [Way; 9] = [
        (&["run", "operator.yaml", "--kubeconfig", "kubeconfig"], &[]),
        (&["operator.yaml", "--kubeconfig", "kubeconfig"], &[]),
        (&["run", "--config", "operator.yaml", "--kubeconfig", "kubeconfig"], &[]),
        (&["--config", "operator.yaml", "--kubeconfig", "kubeconfig"], &[]),
        (&["-c", "operator.yaml"], &[("KOPFD_KUBECONFIG", "kubeconfig")]),
        (&["run"], &[("KOPFD_CONFIG", "operator.yaml"), ("KUBECONFIG", "kubeconfig")]),
        (&["run", "operator.yaml"], &[("KOPFD_CONFIG", "nothing.yaml"), ("KUBECONFIG", "kubeconfig")]),
        (&["run", "operator.yaml", "--kubeconfig", "two.kubeconfig", "--context", "CONTEXT"], &[]),
        (&["run", "operator.yaml"], &[("KUBECONFIG", "two.kubeconfig"), ("KOPFD_CONTEXT", "CONTEXT")]),
    ];
    for (arguments, environment) in ways {
        let named = |text: &&'static str| if *text == "CONTEXT" { good } else { *text };
        let arguments: Vec<&str> = arguments.iter().map(named).collect();
        let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, named(value))).collect();
        let printed = logged(&cluster, &arguments, &environment);
        assert!(printed.contains("watches configmaps.v1 in all namespaces"), "{printed}");
    }
    for arguments in [&["run"][..], &[]] {
        let output = output(cluster.kopfd().args(arguments));
        assert_eq!(output.status.code(), Some(2));
        let printed = String::from_utf8(output.stderr).unwrap();
        assert!(
            printed.starts_with("error: ")
                && printed.contains("--config FILE|DIR") | printed.contains("`kopfd run operator.yaml`"),
            "{printed}"
        );
    }
}

#[test]
fn namespaces_follow_the_options_or_the_environment() {
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("event", WARNING));
    let ways: [(Way, &[&str]); 6] = [
        ((&["--all-namespaces"], &[]), &["all namespaces"]),
        ((&["-A"], &[]), &["all namespaces"]),
        ((&[], &[("KOPFD_ALL_NAMESPACES", "true")]), &["all namespaces"]),
        ((&["--namespace", "def*,!x", "-n", "other"], &[]), &["namespace default", "namespace other"]),
        ((&[], &[("KOPFD_NAMESPACES", "default oth*")]), &["namespace default", "namespace other"]),
        ((&["-n", "oth*"], &[("KOPFD_NAMESPACES", "default")]), &["namespace other"]),
    ];
    for ((options, environment), scopes) in ways {
        let arguments = [&["run", "operator.yaml", "--kubeconfig", "kubeconfig"], options].concat();
        let printed = logged(&cluster, &arguments, environment);
        let watched: BTreeSet<&str> = printed
            .lines()
            .filter_map(|line| line.split_once("watches configmaps.v1 in ")?.1.strip_suffix('.'))
            .collect();
        assert_eq!(watched, scopes.iter().copied().collect(), "{arguments:?} {environment:?}:\n{printed}");
    }
    let mut command = cluster.kopfd();
    let output = output(command.args(["run", "operator.yaml", "-A"]).env("KOPFD_NAMESPACES", "default"));
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_log_follows_the_options_or_the_environment() {
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("event", WARNING));
    let (info, debug) = ("[INFO    ]", "[DEBUG   ]");
    let in_json = r#""message":"warned of one","#;
    // The texts that the log must and must not have.
    let ways: [(Way, &[&str], &[&str]); 20] = [
        ((&[], &[]), &[info, "kopfd.objects        [WARNING ] [default/one] warned of one"], &[debug]),
        ((&["--verbose"], &[]), &[info, debug, "is invoked."], &["hyper"]),
        ((&["-v"], &[]), &[debug], &["hyper"]),
        ((&[], &[("KOPFD_VERBOSE", "true")]), &[debug], &["hyper"]),
        ((&["--debug"], &[]), &[debug, "hyper"], &[]),
        ((&["-d"], &[]), &[debug, "hyper"], &[]),
        ((&[], &[("KOPFD_DEBUG", "true")]), &[debug, "hyper"], &[]),
        ((&["--quiet"], &[]), &["warned of"], &[info, debug]),
        ((&["-q"], &[]), &["warned of"], &[info, debug]),
        ((&[], &[("KOPFD_QUIET", "true")]), &["warned of"], &[info, debug]),
        ((&["--log-format", "plain"], &[]), &["\n[default/one] warned of one\n"], &[info]),
        ((&["--log-format", "json"], &[]), &[in_json, r#""object":{"#, r#""severity":"warn""#], &[info]),
        ((&[], &[("KOPFD_LOG_FORMAT", "JSON")]), &[in_json, r#""object":{"#], &[info]),
        ((&["--log-format", "json", "--log-refkey", "k8s"], &[]), &[r#""k8s":{"#], &[r#""object":{"#]),
        ((&["--log-format=json"], &[("KOPFD_LOG_REFKEY", "k8s")]), &[r#""k8s":{"#], &[r#""object":{"#]),
        ((&["--log-format", "json", "--log-prefix"], &[]), &[r#""message":"[default/one] warned of one","#], &[]),
        (
            (&["--log-format", "json"], &[("KOPFD_LOG_PREFIX", "true")]),
            &[r#""message":"[default/one] warned of one","#],
            &[],
        ),
        ((&["--log-format", "plain", "--log-prefix=false"], &[]), &["\nwarned of one\n"], &[]),
        ((&["--log-format", "plain"], &[("KOPFD_LOG_PREFIX", "false")]), &["\nwarned of one\n"], &[]),
        ((&["--log-format", "plain", "--no-log-prefix"], &[]), &["\nwarned of one\n"], &[]),
    ];
    for ((options, environment), wanted, unwanted) in ways {
        let arguments = [&["run", "operator.yaml", "--kubeconfig", "kubeconfig", "-n", "default"], options].concat();
        let printed = logged(&cluster, &arguments, environment);
        for part in wanted {
            assert!(printed.contains(part), "{options:?} {environment:?}: {part:?} is missing in\n{printed}");
        }
        for part in unwanted {
            assert!(!printed.contains(part), "{options:?} {environment:?}: {part:?} is in\n{printed}");
        }
    }
}

#[test]
fn the_files_of_the_embedded_server_are_its_owners_and_it_listens_on_loopback() {
    let cluster = Cluster::start();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&cluster.path("kubeconfig")), 0o600);
    let data = cluster.path("data");
    assert_eq!(mode(&data), 0o700);
    let files: Vec<PathBuf> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    let listening = listeners(cluster.process.id());
    assert_eq!(listening.len(), 1, "{listening:?}");
    assert!(listening.iter().all(std::net::IpAddr::is_loopback), "{listening:?}");
}

/// Options and variables of the embedded server, and the address and the port that it takes; any free port if there is
/// none.
type Listening<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str, Option<&'a str>);

#[test]
fn the_embedded_server_follows_its_options_or_the_environment() {
    let cluster = Cluster::start();
    let listeners_of_ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners_of_ports.map(|free| free.local_addr().unwrap().port().to_string());
    let [one, other] = [&*ports[0], &*ports[1]];
    let options = ["--port", other, "--address", "127.0.0.3"];
    let environment = [("KOPFD_APISERVER_PORT", one), ("KOPFD_APISERVER_ADDRESS", "127.0.0.2")];
    let empty = environment.map(|(name, _)| (name, ""));
    let ways: [Listening<'_>; 4] = [
        (&[], &environment, "127.0.0.2", Some(one)),
        (&options, &[], "127.0.0.3", Some(other)),
        (&options, &environment, "127.0.0.3", Some(other)),
        (&[], &empty, "127.0.0.1", None),
    ];
    for (options, environment, address, port) in ways {
        let mut command = cluster.kopfd();
        command
            .args(["apiserver", "--kubeconfig-out", "second.kubeconfig"])
            .args(options)
            .envs(environment.iter().copied());
        let mut server = Process::start(command.stdout(Stdio::piped()));
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told = line
            .trim_end()
            .strip_prefix("The API server listens on https://")
            .and_then(|rest| rest.strip_suffix('.'))
            .unwrap();
        let (told_address, told_port) = told.rsplit_once(':').unwrap();
        assert_eq!(told_address, address, "{options:?} {environment:?}");
        assert!(port.is_none_or(|port| told_port == port), "{options:?} {environment:?}: {told}");
        assert_eq!(listeners(server.id()), [address.parse::<std::net::IpAddr>().unwrap()]);
    }
}

/// Returns the addresses that a process listens on.
fn listeners(process: u32) -> Vec<std::net::IpAddr> {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let targets = open.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    let sockets: BTreeSet<String> = targets
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // 0A is the state of a listener.
            if columns[3] == "0A" && sockets.contains(columns[9]) {
                found.push(address(columns[1].split(':').next().unwrap()));
            }
        }
    }
    found
}

/// Reads an address in the form of the kernel: words of 32 bits in native byte order.
fn address(hex: &str) -> std::net::IpAddr {
    let word = |index: usize| u32::from_str_radix(&hex[index * 8..index * 8 + 8], 16).unwrap().to_ne_bytes();
    if hex.len() == 8 {
        return std::net::Ipv4Addr::from(word(0)).into();
    }
    let bytes: Vec<u8> = (0..4).flat_map(word).collect();
    std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap()).into()
}

/// Starts the operator of `operator.yaml` with its endpoints. Returns their address, and the thread that reads the log.
fn probed(cluster: &Cluster) -> (Process, String, std::thread::JoinHandle<usize>) {
    let mut command = cluster.kopfd();
    command
        .args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"])
        .env("KOPFD_LIVENESS", "http://127.0.0.1:0/healthz");
    let mut run = Process::start(&mut command);
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.find(|line| line.contains("Probes are answered at")).unwrap();
    let address = told.rsplit_once('(').unwrap().1.trim_end_matches(").").to_owned();
    (run, address, std::thread::spawn(move || lines.count()))
}

#[test]
fn an_operator_is_not_ready_before_its_indexes_are_filled() {
    let cluster = Cluster::start();
    let waiting = r#"while !k8s::exists("v1/configmaps", "default", "go") { sleep(0.05); }"#;
    let index = format!("      indexes:\n        - {{id: names, run: '{waiting} return entry(name, 1);'}}\n");
    cluster.write("operator.yaml", &format!("{}{index}", operator("create", "return #{done: true};")));
    let (run, address, log) = probed(&cluster);
    let state = || ask(&address, "GET", "/readyz");
    let began = Instant::now();
    let reason = "operator 'tested' has not filled its indexes yet\n";
    // Before that, it discovers the kinds and lists the objects.
    while !state().1.ends_with(&format!("\r\n\r\n{reason}")) {
        assert!(began.elapsed() < LIMIT, "{}", state().1);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!((state().0, ask(&address, "GET", "/livez").0), (503, 200));
    cluster
        .client()
        .create(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "go"}}));
    while state().0 != 200 {
        assert!(began.elapsed() < LIMIT, "{}", state().1);
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.client().wait_until_handled("default", "one");
    assert!(
        ask(&address, "GET", "/metrics").1.contains("kopfd_index_objects{operator=\"tested\",index=\"names\"} 2\n")
    );
    run.signal("TERM");
    assert_eq!(run.wait(LIMIT).code(), Some(0));
    log.join().unwrap();
}

#[test]
fn the_endpoints_answer_while_slow_clients_hold_their_connections() {
    let cluster = Cluster::start();
    let activities = "  activities:\n    startup: [{id: begin, run: 'memo.begun = true;'}]\n    \
         login: [{id: sign_in, run: 'return login::kubeconfig();'}]\n    \
         probe: [{id: backlog, run: 'return #{begun: memo.begun};'}]\n";
    cluster.write("operator.yaml", &format!("{}{activities}", operator("create", "return #{done: true};")));
    let (run, address, log) = probed(&cluster);
    cluster.client().wait_until_handled("default", "one");
    cluster.client().wait_until_handled("other", "two");

    let slow: Vec<_> = (0..150).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    let (status, answer) = ask(&address, "GET", "/healthz");
    assert!(status == 200 && answer.ends_with(r#"{"backlog":{"begun":true}}"#), "{answer}");
    assert!(answer.contains("content-type: application/json; charset=utf-8"), "{answer}");
    drop(slow);
    for path in ["/readyz", "/livez"] {
        let (status, answer) = ask(&address, "GET", path);
        assert!(status == 200 && answer.ends_with("ok\n"), "{answer}");
    }
    let (status, answer) = ask(&address, "HEAD", "/healthz");
    assert!(status == 200 && answer.ends_with("\r\n\r\n"), "{answer}");
    assert_eq!((ask(&address, "GET", "/elsewhere").0, ask(&address, "POST", "/healthz").0), (404, 405));
    let (status, text) = ask(&address, "GET", "/metrics");
    assert_eq!(status, 200);
    for sample in [
        r#"kopfd_handler_calls_total{operator="tested",handler="handler",outcome="succeeded"} 2"#,
        r#"kopfd_handler_calls_total{operator="tested",handler="begin",outcome="succeeded"} 1"#,
        r#"kopfd_watches{operator="tested",resource="configmaps.v1",state="watching"} 1"#,
        r#"kopfd_logins_total{operator="tested",outcome="succeeded"} 1"#,
        r#"kopfd_handler_calls_total{operator="tested",handler="sign_in",outcome="succeeded"} 1"#,
        r#"kopfd_api_requests_total{operator="tested",verb="list",resource="configmaps.v1",code="200"} 1"#,
        r#"kopfd_workers{operator="tested",resource="configmaps.v1"} 0"#,
        r#"kopfd_queue_events{operator="tested",resource="configmaps.v1"} 0"#,
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample}\n{text}");
    }
    run.signal("TERM");
    assert_eq!(run.wait(LIMIT).code(), Some(0));
    log.join().unwrap();
}

#[test]
fn a_liveness_url_that_cannot_be_used_ends_the_command() {
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("create", "return 1;"));
    let arguments = ["run", "operator.yaml", "--kubeconfig", "kubeconfig", "--liveness"];
    let invalid = output(cluster.kopfd().args(arguments).arg("https://127.0.0.1:1/healthz"));
    assert_eq!(invalid.status.code(), Some(2));
    let printed = String::from_utf8(invalid.stderr).unwrap();
    assert!(
        printed.contains("expected a URL that begins with http://, such as http://0.0.0.0:8080/healthz"),
        "{printed}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/healthz", taken.local_addr().unwrap());
    let failed = output(cluster.kopfd().args(arguments).arg(&url));
    assert_eq!(failed.status.code(), Some(1));
    let printed = String::from_utf8(failed.stderr).unwrap();
    assert!(printed.contains(&format!("Cannot listen for probes at {url}: ")), "{printed}");
}
