//! The environment of the cases: the embedded server, a real one, and for each case a namespace on both and a
//! directory.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::differences::DIFFERENCES;
use crate::embedded::Embedded;
use crate::excuse::Excuse;
use crate::harness::{Client, Cluster, Controllers, Options, TIMEOUT, Tools, eventually};
use crate::normal;

/// The group of the shared kind.
pub(crate) const GROUP: &str = "clients.kopfd.dev";

/// The definition of the shared kind: with columns, subresources, a default, limits, and descriptions.
const DEFINITION: &str = include_str!("gauges.yaml");

/// Limit of parallel cases: each command runs on two servers at once, and each keeps a CPU busy.
pub(crate) const THREADS: usize = 3;

/// Both servers, and the shared state of the cases.
pub(crate) struct TestServers {
    pair: [Server; 2],
    // Fields are dropped in this order; the clients above only hold connections.
    embedded: Embedded,
    _cluster: Cluster,
    tools: Tools,
    python: PathBuf,
    directory: PathBuf,
    runtime: Arc<Runtime>,
    commands: AtomicUsize,
    differences: Mutex<BTreeSet<usize>>,
}

/// One of the two servers.
pub(crate) struct Server {
    /// `embedded` or `real`.
    pub(crate) title: &'static str,
    /// The access of an administrator.
    pub(crate) kubeconfig: PathBuf,
    /// The home directory of commands, with their caches.
    pub(crate) home: PathBuf,
    /// A client without a model of Kubernetes.
    pub(crate) client: Client,
}

/// The environment of one case.
pub(crate) struct CaseContext<'w> {
    servers: &'w TestServers,
    /// The module and the name of the case.
    pub(crate) title: String,
    /// The namespace of the case, on both servers.
    pub(crate) namespace: String,
    /// The files of the case.
    pub(crate) directory: PathBuf,
    mismatches: RefCell<Vec<String>>,
}

impl TestServers {
    /// Starts both servers, and defines the shared kind.
    pub(crate) fn start(options: &Options) -> Self {
        let (tools, directory) = (options.tools.clone(), options.directory.clone());
        let python = std::env::var_os("KOPFD_CLIENTS_PYTHON").map(PathBuf::from);
        let cluster = Cluster::start(&directory.join("cluster"), &tools, Controllers::Housekeeping);
        let (_, runtime) = cluster.client().parts();
        drop(fs::remove_dir_all(directory.join("embedded")));
        let embedded = Embedded::start(&tools.kopfd, &directory.join("embedded"), &runtime);
        let servers = [
            Server::new("embedded", embedded.kubeconfig(), embedded.client(), &directory),
            Server::new("real", cluster.api_server().kubeconfig(), cluster.client().clone(), &directory),
        ];
        let servers = Self {
            pair: servers,
            embedded,
            _cluster: cluster,
            tools,
            python: python.expect("KOPFD_CLIENTS_PYTHON is set by tests/clients/run"),
            directory,
            runtime,
            commands: AtomicUsize::new(0),
            differences: Mutex::default(),
        };
        servers.pair.iter().for_each(define);
        servers
    }

    /// Returns both servers, the embedded one first.
    pub(crate) fn servers(&self) -> &[Server; 2] {
        &self.pair
    }

    /// Returns the programs.
    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Returns the Python interpreter with the official client.
    pub(crate) fn python(&self) -> &Path {
        &self.python
    }

    /// Returns the runtime of clients.
    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Returns the number of commands run on both servers.
    pub(crate) fn commands(&self) -> usize {
        self.commands.load(Ordering::Relaxed)
    }

    /// Counts a command.
    pub(crate) fn count(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the allowed differences of a command, and records that they occurred.
    pub(crate) fn excuse(&self, case: &str, command: &str) -> Option<&'static Excuse> {
        let number = DIFFERENCES.iter().position(|one| one.case == case && one.command == command)?;
        self.differences.lock().expect("no thread panics while holding the differences").insert(number);
        Some(&DIFFERENCES[number].excuse)
    }

    /// Prints the differences that occurred, and the listed ones that did not although their cases ran, which are
    /// errors.
    pub(crate) fn print_differences(&self, titles: &[String]) -> bool {
        let met = self.differences.lock().expect("no thread panics while holding the differences");
        let mut is_any_in_vain = false;
        println!("{} differences between the servers are allowed and were met", met.len());
        for (number, difference) in DIFFERENCES.iter().enumerate() {
            if !met.contains(&number) && titles.contains(&difference.case) {
                println!("this difference is listed, but there is none: {}: {}", difference.case, difference.command);
                is_any_in_vain = true;
            }
        }
        is_any_in_vain
    }
}

impl Server {
    fn new(title: &'static str, kubeconfig: PathBuf, client: Client, directory: &Path) -> Self {
        let home = directory.join(format!("{title}-home"));
        drop(fs::remove_dir_all(&home));
        fs::create_dir_all(&home).expect("a home directory can be made");
        Self { title, kubeconfig, home, client }
    }

    /// Waits until an object fulfils a condition, and returns it.
    pub(crate) fn object(&self, path: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let last = Cell::new(None);
        let _told = Told(path, &last);
        eventually(&format!("{path} {what}"), TIMEOUT / 2, || {
            let object = self.client.get(path);
            last.set(object.clone());
            object.filter(|object| condition(object))
        })
    }

    /// Waits until an object is gone.
    pub(crate) fn gone(&self, path: &str) {
        eventually(&format!("{path} is gone"), TIMEOUT / 2, || self.client.get(path).is_none().then_some(()));
    }
}

/// Shows the last state of an object after a failed wait.
struct Told<'a>(&'a str, &'a Cell<Option<Value>>);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{} is {}", self.0, self.1.take().unwrap_or_default());
        }
    }
}

impl<'w> CaseContext<'w> {
    /// Creates the namespace and the directory of a case.
    pub(crate) fn new(servers: &'w TestServers, title: &str, number: usize) -> Self {
        let namespace = format!("case-{number:02}");
        let directory = servers.directory.join(&namespace);
        drop(fs::remove_dir_all(&directory));
        fs::create_dir_all(&directory).expect("the directory of a case can be made");
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        for server in servers.servers() {
            server.client.create("/api/v1/namespaces", &object);
            // On a real server the service account is created a moment later.
            server.object(&format!("/api/v1/namespaces/{namespace}/serviceaccounts/default"), "is there", |_| true);
        }
        Self { servers, title: title.to_owned(), namespace, directory, mismatches: RefCell::default() }
    }

    /// Returns the shared state.
    pub(crate) fn servers(&self) -> &'w TestServers {
        self.servers
    }

    /// Writes a file of the case, and returns its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .expect("a directory of the case can be made");
        fs::write(&path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Returns the path of a collection in the namespace of the case, such as `configmaps` or `apps/v1/deployments`.
    pub(crate) fn path(&self, place: &str) -> String {
        let is_version =
            |part: &str| part.starts_with('v') && part[1..].starts_with(|sign: char| sign.is_ascii_digit());
        match place.splitn(3, '/').collect::<Vec<_>>()[..] {
            [group, version, rest] if is_version(version) => {
                format!("/apis/{group}/{version}/namespaces/{}/{rest}", self.namespace)
            }
            _ => format!("/api/v1/namespaces/{}/{place}", self.namespace),
        }
    }

    /// Returns an object of the embedded server, which must be equal on the real server.
    pub(crate) fn object(&self, place: &str) -> Value {
        let path = self.path(place);
        let [embedded, real] = self.servers.servers().each_ref().map(|server| server.client.get(&path));
        let [mut ours, mut theirs] =
            [&embedded, &real].map(|object| object.as_ref().map(normal::object).unwrap_or_default());
        if ours != theirs {
            let excuse = self.servers.excuse(&self.title, place).cloned().unwrap_or_default();
            (ours, theirs) = (excuse.without_fields(&ours), excuse.without_fields(&theirs));
        }
        if ours != theirs {
            let text = |object: &Value| serde_json::to_string_pretty(object).expect("JSON can be written");
            self.mismatch(format!("the object {place}\n{}", compare(&text(&ours), &text(&theirs))));
        }
        embedded.unwrap_or_default()
    }

    /// Records a failure, such as a difference between the servers.
    pub(crate) fn mismatch(&self, message: String) {
        self.mismatches.borrow_mut().push(message);
    }

    /// Returns the result of the case.
    pub(crate) fn verdict(&self) -> Result<(), String> {
        self.servers.embedded.expect_running();
        let mismatches = self.mismatches.borrow();
        if mismatches.is_empty() { Ok(()) } else { Err(mismatches.join("\n")) }
    }

    /// Returns the failures so far, and the last lines of the logs of the case.
    pub(crate) fn output_tail(&self) -> String {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).map(|path| {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            format!("--- the end of {}\n{}", path.display(), lines[lines.len().saturating_sub(25)..].join("\n"))
        });
        self.mismatches.borrow().iter().cloned().chain(logs).collect::<Vec<_>>().join("\n")
    }
}

/// Shows the lines that only one of two texts has, in order, with the line before each group of them.
pub(crate) fn compare(embedded: &str, real: &str) -> String {
    let (ours, theirs): (Vec<&str>, Vec<&str>) = (embedded.lines().collect(), real.lines().collect());
    // The length of the longest common subsequence of the rests of both.
    let mut common = vec![vec![0_u32; theirs.len() + 1]; ours.len() + 1];
    for (at, line) in ours.iter().enumerate().rev() {
        for (other_at, other) in theirs.iter().enumerate().rev() {
            common[at][other_at] = if line == other {
                common[at + 1][other_at + 1] + 1
            } else {
                common[at + 1][other_at].max(common[at][other_at + 1])
            };
        }
    }
    let (mut at, mut other_at, mut shown, mut before) = (0, 0, String::new(), None);
    while at < ours.len() || other_at < theirs.len() {
        let is_same = at < ours.len() && other_at < theirs.len() && ours[at] == theirs[other_at];
        if is_same {
            before = Some(ours[at]);
            (at, other_at) = (at + 1, other_at + 1);
            continue;
        }
        shown.extend(before.take().map(|line| format!("           {line}\n")));
        if other_at == theirs.len() || at < ours.len() && common[at + 1][other_at] >= common[at][other_at + 1] {
            shown.extend(["  embedded ", ours[at], "\n"]);
            at += 1;
        } else {
            shown.extend(["  real     ", theirs[other_at], "\n"]);
            other_at += 1;
        }
    }
    shown
}

fn define(server: &Server) {
    let definition: Value =
        serde_json::to_value(serde_saphyr::from_str::<Value>(DEFINITION).expect("the definition is YAML"))
            .expect("the definition can be written as JSON");
    let collection = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.client.create(collection, &definition);
    let is_established = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["type"] == "Established" && one["status"] == "True"))
    };
    server.object(&format!("{collection}/gauges.{GROUP}"), "is established", is_established);
    // A busy server may not be ready for a kind that it already serves.
    let path = format!("/apis/{GROUP}/v1/gauges");
    eventually("the kind is served", TIMEOUT, || server.client.request("GET", &path, "application/json", None).ok());
}
