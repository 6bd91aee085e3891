//! A cluster without nodes: etcd, the API server and the controllers, as local processes.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Runtime;

use super::child;
use super::client::Client;
use super::process::Process;
use super::wait::eventually;

/// The administrator's token. The servers listen only on loopback, and only during one run.
const TOKEN: &str = "admin-of-the-suite";
/// The token of a user who has only the permissions given by a case.
pub(crate) const GUEST_TOKEN: &str = "guest-of-the-suite";
/// The name of that user.
pub(crate) const GUEST: &str = "guest";

const CONTROLLERS: &[&str] = &[
    "garbage-collector-controller",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "job-controller",
    "cronjob-controller",
    // Admission adds a finalizer to every claim, and only this controller removes it.
    "persistentvolumeclaim-protection-controller",
];

/// The controllers that the embedded API server has, too.
const HOUSEKEEPING: &[&str] = &["garbage-collector-controller", "namespace-controller", "serviceaccount-controller"];

/// The programs of the suite.
#[derive(Clone)]
pub(crate) struct Tools {
    /// etcd, the API server, the controllers and kubectl in one binary.
    pub(crate) kubernetes: PathBuf,
    /// The operator engine under test.
    pub(crate) kopfd: PathBuf,
    /// The command `kopf` of a virtual environment.
    pub(crate) kopf: PathBuf,
}

/// Whether a cluster has controllers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Controllers {
    /// All controllers: garbage collection, namespaces, workloads.
    Running,
    /// Garbage collection and namespaces, but no workloads.
    #[allow(dead_code, reason = "only the client suite starts a server without the other controllers")]
    Housekeeping,
    /// Only the API server: quick to start, and no object changes by itself.
    Absent,
}

/// A running cluster. Everything ends when it is dropped.
pub(crate) struct Cluster {
    // Fields are dropped in this order: clients of etcd before etcd.
    controllers: Option<Process>,
    api_server: ApiServer,
    etcd: Etcd,
    directory: PathBuf,
    tools: Tools,
    runtime: Arc<Runtime>,
    client: Client,
}

// A `Process` is only touched by the thread that owns it; the shared cluster is read.
struct Etcd {
    process: Process,
    port: u16,
    peers: u16,
    data: PathBuf,
    log: PathBuf,
}

impl Cluster {
    /// Starts a cluster with its files in `directory`, and waits until it answers.
    pub(crate) fn start(directory: &Path, tools: &Tools, controllers: Controllers) -> Self {
        if directory.exists() {
            fs::remove_dir_all(directory).expect("the files of an earlier run can be removed");
        }
        fs::create_dir_all(directory).expect("the directory of the cluster can be made");
        write_credentials(directory);
        let runtime = Arc::new(
            tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime for the client"),
        );
        let etcd = Etcd::start(directory, tools);
        let api_server = ApiServer::start(directory, tools, etcd.port, "api-server");
        let client = Client::new(Arc::clone(&runtime), &api_server.kubeconfig_text(TOKEN));
        api_server.wait_until_ready(&client);
        let names = match controllers {
            Controllers::Running => Some(CONTROLLERS),
            Controllers::Housekeeping => Some(HOUSEKEEPING),
            Controllers::Absent => None,
        };
        let controllers = names.map(|names| start_controllers(directory, tools, &api_server, names));
        Self { controllers, api_server, etcd, directory: directory.to_owned(), tools: tools.clone(), runtime, client }
    }

    /// Returns an administrator's client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the programs of this run.
    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Returns the default API server.
    pub(crate) fn api_server(&self) -> &ApiServer {
        &self.api_server
    }

    /// Starts another API server on the same etcd, for a case that disturbs it.
    pub(crate) fn another_api_server(&self, title: &str) -> ApiServer {
        let server = ApiServer::start(&self.directory, &self.tools, self.etcd.port, title);
        server.wait_until_ready(&self.client_of(&server));
        server
    }

    /// Returns a client of another server of this cluster.
    pub(crate) fn client_of(&self, server: &ApiServer) -> Client {
        Client::new(Arc::clone(&self.runtime), &server.kubeconfig_text(TOKEN))
    }

    /// Returns a connection with a token, or without one.
    pub(crate) fn connection(&self, token: Option<&str>) -> kube::Client {
        let mut kubeconfig = self.api_server.kubeconfig_text(token.unwrap_or_default());
        if token.is_none() {
            kubeconfig = kubeconfig.replace("\"token\": \"\"", "\"impersonate-groups\": []");
        }
        Client::new(Arc::clone(&self.runtime), &kubeconfig).parts().0
    }

    /// Resets the cluster: the servers restart on their ports with an empty store, whose revisions start again.
    pub(crate) fn start_over(&mut self) {
        assert!(self.controllers.is_none(), "only a cluster without controllers can start over");
        self.api_server.kill();
        self.etcd.start_over(&self.tools);
        self.api_server.restart();
        let client = self.client.clone();
        self.api_server.wait_until_ready(&client);
    }

    /// Runs kubectl as the administrator.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.tools.kubernetes);
        child::output(command.arg("kubectl").arg("--kubeconfig").arg(self.api_server.kubeconfig()).args(arguments))
    }

    /// Runs kubectl, which must succeed, and returns what it printed.
    pub(crate) fn kubectl_ok(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        assert!(
            output.status.success(),
            "kubectl {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Etcd {
    fn start(directory: &Path, tools: &Tools) -> Self {
        let (port, peers) = (free_port(), free_port());
        let (data, log) = (directory.join("etcd"), directory.join("etcd.log"));
        let process = Self::spawn(tools, port, peers, &data, &log);
        Self { process, port, peers, data, log }
    }

    fn spawn(tools: &Tools, port: u16, peers: u16, data: &Path, log: &Path) -> Process {
        let mut command = Command::new(&tools.kubernetes);
        command
            .arg("etcd")
            .arg(format!("--data-dir={}", data.display()))
            .arg(format!("--client-url=http://127.0.0.1:{port}"))
            .arg(format!("--peer-url=http://127.0.0.1:{peers}"));
        Process::start("etcd", &mut command, log)
    }

    fn start_over(&mut self, tools: &Tools) {
        self.process.kill();
        fs::remove_dir_all(&self.data).expect("the data of etcd can be removed");
        self.process = Self::spawn(tools, self.port, self.peers, &self.data, &self.log);
    }
}

/// One API server process, which can be killed, paused and restarted at the same address.
pub(crate) struct ApiServer {
    process: Option<Process>,
    directory: PathBuf,
    title: String,
    port: u16,
    etcd: u16,
    program: PathBuf,
}

impl ApiServer {
    fn start(directory: &Path, tools: &Tools, etcd: u16, title: &str) -> Self {
        let mut server = Self {
            process: None,
            directory: directory.to_owned(),
            title: title.to_owned(),
            port: free_port(),
            etcd,
            program: tools.kubernetes.clone(),
        };
        server.restart();
        write_private(&server.kubeconfig(), &server.kubeconfig_text(TOKEN));
        server
    }

    /// Starts the server (again). It takes some seconds until it answers.
    pub(crate) fn restart(&mut self) {
        let file = |name: &str| self.directory.join(name).display().to_string();
        let mut command = Command::new(&self.program);
        command
            .arg("kube-apiserver")
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.etcd))
            // Otherwise versions expire for watches from the sixth minute on.
            .arg("--etcd-compaction-interval=0")
            .arg(format!("--cert-dir={}", file(&format!("{}-certificates", self.title))))
            .arg(format!("--secure-port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--authorization-mode=RBAC"])
            .arg(format!("--token-auth-file={}", file("tokens.csv")))
            .args(["--service-cluster-ip-range=10.0.0.0/24", "--service-account-issuer=https://kopfd.test"])
            .arg(format!("--service-account-key-file={}", file("service-accounts.pem")))
            .arg(format!("--service-account-signing-key-file={}", file("service-accounts.pem")))
            .args([
                "--disable-admission-plugins=ServiceAccount",
                "--endpoint-reconciler-type=none",
                "--profiling=false",
            ]);
        let log = self.directory.join(format!("{}.log", self.title));
        self.process = Some(Process::start(&self.title, &mut command, &log));
    }

    /// Waits until the server answers that it is ready.
    pub(crate) fn wait_until_ready(&self, client: &Client) {
        eventually(&format!("{} is ready", self.title), Duration::from_mins(2), || {
            self.running().expect_running();
            let (client, runtime) = client.parts();
            let request = http::Request::get("/readyz").body(Vec::new()).expect("a request from well-formed parts");
            let answer = runtime
                .block_on(async { tokio::time::timeout(Duration::from_secs(5), client.request_text(request)).await });
            matches!(answer, Ok(Ok(text)) if text == "ok").then_some(())
        });
    }

    /// Kills the server.
    pub(crate) fn kill(&self) {
        self.running().kill();
    }

    /// Pauses the server: connections stay open and nothing is answered.
    pub(crate) fn silence(&self) {
        self.running().signal("STOP");
    }

    /// Continues a paused server.
    pub(crate) fn revive(&self) {
        self.running().signal("CONT");
    }

    /// Returns the address.
    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// Returns the certificate of the server with that of its authority, which it has made itself.
    pub(crate) fn certificate(&self) -> String {
        let file = self.directory.join(format!("{}-certificates", self.title)).join("apiserver.crt");
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Returns the file with the administrator's access to this server.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join(format!("{}.kubeconfig", self.title))
    }

    /// Writes a kubeconfig for the user without permissions.
    pub(crate) fn guest_kubeconfig(&self) -> PathBuf {
        let path = self.directory.join(format!("{}-guest.kubeconfig", self.title));
        write_private(&path, &self.kubeconfig_text(GUEST_TOKEN));
        path
    }

    /// Writes a kubeconfig for the user of a token into a directory.
    pub(crate) fn kubeconfig_of(&self, directory: &Path, token: &str) -> PathBuf {
        let path = directory.join("user.kubeconfig");
        write_private(&path, &self.kubeconfig_text(token));
        path
    }

    fn kubeconfig_text(&self, token: &str) -> String {
        kubeconfig(&self.url(), token)
    }

    fn running(&self) -> &Process {
        self.process.as_ref().expect("an API server has a process from its start on")
    }
}

/// Returns the text of a kubeconfig for a server of this suite.
pub(crate) fn kubeconfig(url: &str, token: &str) -> String {
    serde_json::to_string_pretty(&serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "suite",
        "clusters": [{"name": "suite", "cluster": {"server": url, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "suite", "user": {"token": token}}],
        "contexts": [{"name": "suite", "context": {"cluster": "suite", "user": "suite", "namespace": "default"}}],
    }))
    .expect("JSON can be written")
}

/// Returns the administrator's token.
pub(crate) fn admin_token() -> &'static str {
    TOKEN
}

fn start_controllers(directory: &Path, tools: &Tools, server: &ApiServer, names: &[&str]) -> Process {
    let mut command = Command::new(&tools.kubernetes);
    command
        .arg("kube-controller-manager")
        .arg(format!("--kubeconfig={}", server.kubeconfig().display()))
        .arg(format!("--controllers={}", names.join(",")))
        .args(["--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400"])
        // Namespaces and owners of new kinds must not wait for the usual half minute.
        .args(["--concurrent-gc-syncs=4", "--concurrent-namespace-syncs=4"]);
    Process::start("the controllers", &mut command, &directory.join("controllers.log"))
}

fn write_credentials(directory: &Path) {
    let tokens = format!("{TOKEN},admin,admin,\"system:masters\"\n{GUEST_TOKEN},{GUEST},{GUEST},\"guests\"\n");
    write_private(&directory.join("tokens.csv"), &tokens);
    let key = directory.join("service-accounts.pem");
    let made = child::output(Command::new("openssl").args(["genrsa", "-out"]).arg(&key).arg("2048"));
    assert!(made.status.success(), "openssl: {}", String::from_utf8_lossy(&made.stderr));
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("the mode of our own file can be set");
}

/// Returns a port without a listener, a different one at each call. The system gives outgoing connections ports from
/// 32,768 on: a port from that range could be taken before the server is started.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes beside each other begin at different ones.
    let start = std::process::id().wrapping_mul(97) % COUNT;
    let ports = (0..COUNT).map(|_| FIRST + (start + NEXT.fetch_add(1, Ordering::Relaxed)) % COUNT);
    let mut ports = ports.map(|port| u16::try_from(port).expect("ports below the maximum"));
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).expect("a free port on loopback")
}

/// Returns the revision of an object or a list as a number. Within one etcd, revisions order all writes.
pub(crate) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .and_then(|text| text.parse().ok())
        .expect("objects of a real server have numeric revisions")
}
