//! Replicas of the built binary: a hand-over at a signal, a leader that is killed, one that is stopped beyond its
//! lease, and one that cannot renew its lease while its writes are slow. Each replica has a proxy to the API server
//! that records its writes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::extract::{Request as Received, State};
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode, header};
use kopfd::cluster::{Client, Error, Options, Repeat, Request};
use kopfd::kit::Clock;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Api, Cluster, object};
use crate::child::{LIMIT, Process, ask};

/// The Lease of the replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lease {
    /// The one of the operator, in the namespace of the context. The replicas have most settings by options, and some
    /// by variables.
    Default,
    /// One with another name and namespace. The first replica has all settings by options, the second one by variables.
    Named,
}

impl Lease {
    fn place(self) -> (&'static str, &'static str) {
        match self {
            Self::Default => ("default", "tested"),
            Self::Named => ("elections", "elected"),
        }
    }

    fn path(self) -> String {
        let (namespace, name) = self.place();
        format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    }
}

/// The times of the elections: a busy machine may need seconds for a request.
const LEASE_DURATION: Duration = Duration::from_secs(12);
const RENEW_DEADLINE: Duration = Duration::from_secs(8);
const RETRY_PERIOD: Duration = Duration::from_secs(1);

const OBJECTS: usize = 10;

/// When a write that was begun before a stop of the process is seen after its end.
const LATE: Duration = Duration::from_secs(2);

/// Attempts of a hand-over within a second.
const ATTEMPTS: usize = 3;

/// Three handlers in a chain, each with its own write.
const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: tested}
spec:
  resources:
    - resource: v1/configmaps
      labels: {app: tested}
      handlers:
        - {on: create, id: first, run: 'sleep(0.1); return 1;'}
        - {on: create, id: second, run: 'sleep(0.1); return 2;'}
        - {on: create, id: third, run: 'sleep(0.1); return 3;'}
      timers:
        - {id: beat, interval: 2, run: 'patch.metadata.annotations.beat = `${now()}`;'}
";

/// A write of a replica, when the server has got it.
#[derive(Debug, Clone)]
struct Write {
    at: Instant,
    path: String,
    /// The holder of the lease at this moment.
    holder: String,
}

struct ProxyState {
    client: Client,
    lease: Lease,
    writes: Mutex<Vec<Write>>,
    is_cut_for_leases: AtomicBool,
    /// How long writes are on their way, in milliseconds.
    way: AtomicU64,
}

/// A proxy to the API server.
struct Proxy {
    state: Arc<ProxyState>,
    kubeconfig: PathBuf,
    _runtime: tokio::runtime::Runtime,
}

impl Proxy {
    fn start(cluster: &Cluster, name: &str, lease: Lease) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = Options { kubeconfig: Some(cluster.path("kubeconfig")), ..Options::default() };
        let client = runtime.block_on(Client::connect(options, Clock::system())).unwrap();
        let state = ProxyState {
            client,
            lease,
            writes: Mutex::default(),
            is_cut_for_leases: AtomicBool::new(false),
            way: AtomicU64::new(0),
        };
        let state = Arc::new(state);
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let service = axum::Router::new().fallback(pass).with_state(Arc::clone(&state));
        drop(runtime.spawn(async move { axum::serve(listener, service).await.unwrap() }));
        let kubeconfig = cluster.path(&format!("{name}.kubeconfig"));
        let text = format!(
            "{{current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], clusters: [{{name: c, cluster: {{server: '{server}'}}}}], users: [{{name: u, user: {{}}}}]}}"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        Self { state, kubeconfig, _runtime: runtime }
    }

    fn writes(&self) -> Vec<Write> {
        self.state.writes.lock().clone()
    }
}

async fn pass(State(state): State<Arc<ProxyState>>, received: Received) -> Response {
    let (parts, body) = received.into_parts();
    let (method, path) = (parts.method.clone(), parts.uri.path_and_query().unwrap().to_string());
    let is_lease = path.contains("/leases");
    if method == Method::GET && path.contains("watch=true") {
        return match state.client.open(&path).await {
            Ok(stream) => Body::from_stream(stream).into_response(),
            Err(error) => refusal(&error),
        };
    }
    let body = to_bytes(body, 8 << 20).await.unwrap_or_default();
    if method != Method::GET && is_lease && state.is_cut_for_leases.load(Ordering::SeqCst) {
        return std::future::pending().await;
    }
    let kinds = [
        "application/json",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
    ];
    let given = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let content_type = kinds.into_iter().find(|kind| *kind == given);
    let request = Request { content_type, body, ..Request::new(method.clone(), path.clone()).repeated(Repeat::Never) };
    let forward = async move {
        // A review of the own rights writes nothing.
        let is_review = path.starts_with("/apis/authorization.k8s.io/");
        if method != Method::GET && !is_lease && !is_review {
            tokio::time::sleep(Duration::from_millis(state.way.load(Ordering::SeqCst))).await;
            let lease = state.client.request(&Request::get(state.lease.path())).await.unwrap().json().unwrap();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
            state.writes.lock().push(Write { at: Instant::now(), path, holder });
        }
        state.client.request(&request).await
    };
    // What was received is passed on, even if the sender has gone.
    match tokio::runtime::Handle::current().spawn(forward).await.unwrap() {
        Ok(response) => {
            let status = StatusCode::from_u16(response.status).unwrap();
            (status, [(header::CONTENT_TYPE, "application/json")], response.body).into_response()
        }
        Err(error) => refusal(&error),
    }
}

fn refusal(error: &Error) -> Response {
    let Error::Status { status, reason, message, details, .. } = error else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason, "message": message, "details": details});
    (StatusCode::from_u16(*status).unwrap(), [(header::CONTENT_TYPE, "application/json")], body.to_string())
        .into_response()
}

/// A running replica.
struct Replica {
    process: Process,
    proxy: Proxy,
    endpoint: String,
    log: PathBuf,
}

impl Replica {
    fn start(cluster: &Cluster, name: &str, lease: Lease) -> Self {
        let proxy = Proxy::start(cluster, name, lease);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = cluster.path(&format!("{name}.log"));
        let mut command = cluster.kopfd();
        let seconds = |time: Duration| format!("{}s", time.as_secs_f64());
        let [duration, deadline, period] = [LEASE_DURATION, RENEW_DEADLINE, RETRY_PERIOD].map(seconds);
        let (namespace, lease_name) = lease.place();
        command.args(["run", "operator.yaml", "--log-format=plain"]);
        if (lease, name) == (Lease::Named, "two") {
            command
                .envs([
                    ("KOPFD_LEADER_ELECT", "yes"),
                    ("KOPFD_LEASE", lease_name),
                    ("KOPFD_LEASE_NAMESPACE", namespace),
                ])
                .env("KOPFD_LEASE_DURATION", duration)
                .env("KOPFD_RENEW_DEADLINE", deadline)
                .env("KOPFD_RETRY_PERIOD", period);
        } else {
            command
                .arg("--leader-elect")
                .arg(format!("--lease-duration={duration}"))
                .arg(format!("--renew-deadline={deadline}"));
            match lease {
                Lease::Default => command.env("KOPFD_RETRY_PERIOD", period),
                Lease::Named => command.arg(format!("--retry-period={period}")).args([
                    "--lease",
                    lease_name,
                    "--lease-namespace",
                    namespace,
                ]),
            };
        }
        command
            .arg(format!("--liveness=http://127.0.0.1:{port}/healthz"))
            .env("KOPFD_KUBECONFIG", &proxy.kubeconfig)
            .envs([("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KOPFD_POD", name)])
            .stderr(std::fs::File::create(&log).unwrap());
        Self { process: Process::start(&mut command), proxy, endpoint: format!("127.0.0.1:{port}"), log }
    }

    fn wait_for(&self, text: &str) {
        let began = Instant::now();
        while !self.printed().contains(text) {
            assert!(began.elapsed() < LIMIT, "no line has {text:?}:\n{}", self.printed());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn printed(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

/// Two replicas, one of which leads.
struct Pair {
    cluster: Cluster,
    lease: Lease,
    api: Api,
    replicas: BTreeMap<String, Replica>,
}

impl Pair {
    fn start(lease: Lease) -> Self {
        let mut objects: Vec<String> =
            (0..OBJECTS).map(|number| object("default", &format!("c{number}")).to_string()).collect();
        objects.push(
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": Lease::Named.place().0}}).to_string(),
        );
        let cluster = Cluster::start_with(&objects.join("\n---\n"), crate::child::LIFETIME);
        cluster.write("operator.yaml", MANIFEST);
        let replicas =
            ["one", "two"].map(|name| (name.to_owned(), Replica::start(&cluster, name, lease))).into_iter().collect();
        let api = cluster.client();
        let pair = Self { cluster, lease, api, replicas };
        for number in 0..OBJECTS {
            pair.api.wait_until_handled("default", &format!("c{number}"));
        }
        pair
    }

    fn lease(&self) -> Value {
        self.api.send(&Request::get(self.lease.path())).unwrap()
    }

    /// Returns the pod of the leader.
    fn leader(&self) -> String {
        pod_of(self.lease()["spec"]["holderIdentity"].as_str().unwrap()).to_owned()
    }

    fn other(&self, leader: &str) -> &Replica {
        self.replicas.iter().find(|(name, _)| *name != leader).unwrap().1
    }

    /// Waits until another replica leads, and returns the time since a moment.
    fn taken_over(&self, leader: &str, since: Instant) -> Duration {
        let is_other = |lease: &Value| {
            lease["spec"]["holderIdentity"]
                .as_str()
                .is_some_and(|holder| !holder.is_empty() && pod_of(holder) != leader)
        };
        while !is_other(&self.lease()) {
            let printed: Vec<String> = self.replicas.values().map(Replica::printed).collect();
            assert!(since.elapsed() < LIMIT, "nobody has followed {leader}: {}", printed.join("\n"));
            std::thread::sleep(Duration::from_millis(5));
        }
        since.elapsed()
    }

    /// Creates an object, and waits until it is handled.
    fn handle(&self, name: &str) {
        self.api.create(&object("default", name));
        self.api.wait_until_handled("default", name);
    }

    fn check_writes(&self) {
        for (name, replica) in &self.replicas {
            let foreign = replica.proxy.writes().into_iter().filter(|write| pod_of(&write.holder) != name);
            let foreign: Vec<String> =
                foreign.map(|Write { path, holder, .. }| format!("{path} while {holder:?} leads")).collect();
            assert!(
                foreign.is_empty(),
                "{name} has written while it did not lead: {foreign:#?}\n{}",
                replica.printed()
            );
        }
    }
}

fn pod_of(identity: &str) -> &str {
    identity.split('_').next().unwrap_or_default()
}

#[test]
fn a_leader_hands_over_within_a_second_and_a_killed_one_is_followed_within_the_time_of_its_lease() {
    let mut pair = Pair::start(Lease::Named);
    let default = pair.api.send(&Request::get(Lease::Default.path()));
    assert!(
        matches!(default, Err(Error::Status { status: 404, .. })),
        "the Lease has the given name and namespace: {default:?}"
    );
    assert_eq!(pair.lease()["spec"]["leaseDurationSeconds"], LEASE_DURATION.as_secs());
    let leader = pair.leader();
    pair.other(&leader).wait_for("Operator 'tested' stands by as");
    for replica in pair.replicas.values() {
        replica.wait_for("Probes are answered at");
        let (_, ready) = ask(&replica.endpoint, "GET", "/readyz");
        assert!(ready.contains("200 OK"), "a replica that stands by is ready: {ready}");
    }
    let standby = pair.other(&leader);
    assert!(standby.proxy.writes().is_empty(), "{:?}", standby.proxy.writes());
    let (_, metrics) = ask(&standby.endpoint, "GET", "/metrics");
    assert!(!metrics.contains("kopfd_leader{operator=\"tested\"} 1"), "{metrics}");
    let (_, metrics) = ask(&pair.replicas[&leader].endpoint, "GET", "/metrics");
    assert!(metrics.contains("kopfd_leader{operator=\"tested\"} 1"), "{metrics}");
    let (_, status) = ask(&standby.endpoint, "GET", "/status");
    assert!(status.contains("\"role\":\"standby\"") && status.contains("\"lease\":\"elections/elected\""), "{status}");

    // One of some attempts must do: on a busy machine, single requests may take longer than a second.
    let mut times = Vec::new();
    while times.last().is_none_or(|took| *took > Duration::from_secs(1)) {
        assert!(
            times.len() < ATTEMPTS,
            "{times:?}:\n{}",
            pair.replicas.values().map(Replica::printed).collect::<String>()
        );
        let leader = pair.leader();
        let began = Instant::now();
        pair.replicas[&leader].process.signal("TERM");
        times.push(pair.taken_over(&leader, began));
        pair.handle(&format!("after-term-{}", times.len()));
        assert_eq!(pair.replicas[&leader].process.wait(LIMIT).code(), Some(0));
        pair.check_writes();
        pair.replicas.insert(leader.clone(), Replica::start(&pair.cluster, &leader, pair.lease));
        pair.replicas[&leader].wait_for("Operator 'tested' stands by as");
    }
    println!("SIGTERM: another replica leads after {times:?}");

    let second = pair.leader();
    let began = Instant::now();
    pair.replicas[&second].process.signal("KILL");
    let took = pair.taken_over(&second, began);
    println!("SIGKILL: another replica leads after {took:?}");
    // The machine may be busy.
    assert!(took <= LEASE_DURATION + RETRY_PERIOD + Duration::from_secs(2), "{took:?}");
    pair.handle("after-kill");
    pair.check_writes();
}

#[test]
fn a_leader_that_was_stopped_beyond_its_lease_writes_nothing_when_it_continues() {
    let pair = Pair::start(Lease::Default);
    let leader = pair.leader();
    let stopped = &pair.replicas[&leader];
    // It is stopped in the middle of its work.
    for number in 0..OBJECTS {
        pair.api.create(&object("default", &format!("late{number}")));
    }
    std::thread::sleep(Duration::from_millis(150));
    stopped.process.signal("STOP");
    pair.taken_over(&leader, Instant::now());
    let before = stopped.proxy.writes().len();
    let continued = Instant::now();
    stopped.process.signal("CONT");
    stopped.wait_for("does not lead any more and stands by");
    for number in 0..OBJECTS {
        pair.api.wait_until_handled("default", &format!("late{number}"));
    }
    pair.handle("after");
    // It may have been stopped between the last look at the clock and the system call that writes: that is one request.
    let late = stopped.proxy.writes().split_off(before);
    assert!(
        late.len() <= 1 && late.iter().all(|write| write.at < continued + LATE),
        "{late:#?}\n{}",
        stopped.printed()
    );
    // It is not ended, and leads again when the other one goes.
    pair.other(&leader).process.signal("TERM");
    let other = pair.replicas.keys().find(|name| **name != leader).unwrap();
    pair.taken_over(other, Instant::now());
    assert_eq!(pair.leader(), leader);
    pair.handle("again");
}

#[test]
fn a_leader_that_cannot_renew_its_lease_stops_before_its_slow_writes_could_meet_another_leader() {
    let pair = Pair::start(Lease::Default);
    let leader = pair.leader();
    let cut = &pair.replicas[&leader];
    cut.proxy.state.way.store(1_500, Ordering::SeqCst);
    cut.proxy.state.is_cut_for_leases.store(true, Ordering::SeqCst);
    let began = Instant::now();
    let took = pair.taken_over(&leader, began);
    println!("cut off from the lease: another replica leads after {took:?}");
    cut.wait_for("does not lead any more and stands by");
    pair.handle("after");
    std::thread::sleep(Duration::from_millis(1_600));
    assert!(!cut.proxy.writes().is_empty());
    pair.check_writes();
}

/// Options and variables, and why they are refused.
type Refusal = (&'static [&'static str], &'static [(&'static str, &'static str)], &'static str);

#[test]
fn options_of_the_election_that_cannot_work_are_refused() {
    const ELECTS: (&str, &str) = ("KOPFD_LEADER_ELECT", "true");
    let cluster = Cluster::start();
    cluster.write("operator.yaml", MANIFEST);
    let deadline = "the lease duration (15s) must be longer than the renew deadline (20s)";
    let ways: [Refusal; 4] = [
        (&["--leader-elect", "--renew-deadline=20s"], &[], deadline),
        (&[], &[ELECTS, ("KOPFD_RENEW_DEADLINE", "20s")], deadline),
        (
            &[],
            &[ELECTS, ("KOPFD_LEASE_DURATION", "9s")],
            "the lease duration (9s) must be longer than the renew deadline (10s)",
        ),
        (
            &[],
            &[ELECTS, ("KOPFD_RETRY_PERIOD", "9s")],
            "the renew deadline (10s) must be longer than 1.2 times the retry period (9s)",
        ),
    ];
    for (options, environment, reason) in ways {
        let mut command = cluster.kopfd();
        let refused = crate::child::output(
            command.args(["run", "operator.yaml"]).args(options).envs(environment.iter().copied()),
        );
        let printed = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{printed}");
        assert!(printed.starts_with(&format!("error: {reason}\nhint: ")), "{printed}");
    }
}
