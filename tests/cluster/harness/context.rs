//! The environment of one case: its namespaces, its kinds, its operators, and a record of its handlers' calls.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Client, Watch};
use super::cluster::{ApiServer, Cluster, admin_token, revision};
use super::kind::Kind;
use super::operator::{Engine, Launch, Operator};
use super::twins::{self, Handler, Notes};
use super::wait::{TIMEOUT, eventually};
use super::write_proxy::WriteProxy;

mod calls;
mod rights;

use calls::Calls;
pub(crate) use rights::{account_token, create_account, rbac_options};

/// An object that is unchanged for this long counts as settled, even on a busy machine.
const REST: Duration = Duration::from_millis(400);

/// The environment of one case.
pub(crate) struct TestContext<'c> {
    cluster: &'c Cluster,
    /// The namespace of the case; also the first part of its API group.
    pub(crate) namespace: String,
    notes: String,
    calls: Calls,
    directory: PathBuf,
    kinds: RefCell<Vec<Kind>>,
    operators: RefCell<Vec<Rc<Operator>>>,
    /// The logs of operators with derived rights.
    derived_logs: RefCell<BTreeSet<PathBuf>>,
    launched: Cell<usize>,
    /// The last awaited object, shown if the wait fails.
    last_seen: RefCell<Option<Value>>,
    /// An operator behind a gate, which is killed and restarted when the gate stops.
    crashing: RefCell<Option<Crashing>>,
}

struct Crashing {
    proxy: WriteProxy,
    launch: Launch,
    operator: Rc<Operator>,
    has_crashed: bool,
}

/// One recorded call of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The revision of the record, in the order of all writes in the cluster.
    pub(crate) revision: u64,
    /// The time by the operator's clock.
    pub(crate) at: jiff::Timestamp,
    /// The handler's id.
    pub(crate) handler: String,
    /// The object's name.
    pub(crate) object: String,
    /// The object's namespace, or empty.
    pub(crate) namespace: String,
    /// The engine: `kopfd` or `kopf`.
    pub(crate) engine: String,
    /// The number of earlier attempts; 0 for events.
    pub(crate) retry: u64,
    /// The cause; for events the type of the event.
    pub(crate) reason: String,
    /// The old state, the new state, and the difference between them.
    pub(crate) change: [Value; 3],
}

/// One version of an object from a watch.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// Its revision.
    pub(crate) revision: u64,
    /// The object; `None` if it was deleted.
    pub(crate) object: Option<Value>,
}

impl<'c> TestContext<'c> {
    /// Creates the environment: a namespace, a namespace for notes, and an empty directory.
    pub(crate) fn new(cluster: &'c Cluster, name: &str, directory: &Path) -> Self {
        let context = Self {
            cluster,
            namespace: name.to_owned(),
            notes: format!("notes-of-{name}"),
            calls: Calls::default(),
            directory: directory.to_owned(),
            kinds: RefCell::default(),
            operators: RefCell::default(),
            derived_logs: RefCell::default(),
            launched: Cell::new(0),
            last_seen: RefCell::default(),
            crashing: RefCell::default(),
        };
        if directory.exists() {
            fs::remove_dir_all(directory).expect("the files of an earlier run can be removed");
        }
        fs::create_dir_all(directory).expect("the directory of the case can be made");
        context.make_namespace(&context.namespace);
        context.make_namespace(&context.notes);
        context
    }

    /// Returns the shared cluster.
    pub(crate) fn cluster(&self) -> &'c Cluster {
        self.cluster
    }

    /// Returns the administrator's client.
    pub(crate) fn client(&self) -> &'c Client {
        self.cluster.client()
    }

    /// Returns the directory of the case.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Creates a namespace.
    pub(crate) fn make_namespace(&self, name: &str) {
        self.client().ensure("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
    }

    /// Returns a namespaced kind with a status subresource in the group of the case, not installed yet.
    pub(crate) fn own_kind(&self) -> Kind {
        Kind::of_group(&format!("{}.kopfd.test", self.namespace))
    }

    /// Installs the usual kind.
    pub(crate) fn thing(&self) -> Kind {
        let kind = self.own_kind();
        self.install(&kind);
        kind
    }

    /// Installs a kind and waits until objects can be created.
    pub(crate) fn install(&self, kind: &Kind) {
        let (path, definition) = kind.definition();
        self.client().ensure(path, &definition);
        eventually(&format!("{} is served", kind.selector()), TIMEOUT, || {
            self.client().request("GET", &kind.collection(&self.namespace), "application/json", None).ok()
        });
        self.kinds.borrow_mut().push(kind.clone());
    }

    /// Starts the engine under test with handlers for a kind, in the namespace of the case.
    pub(crate) fn operator(&self, kind: &Kind, handlers: &[Handler]) -> Rc<Operator> {
        self.operator_of(Engine::under_test(), kind, handlers)
    }

    /// Starts an engine with handlers for a kind, in the namespace of the case.
    pub(crate) fn operator_of(&self, engine: Engine, kind: &Kind, handlers: &[Handler]) -> Rc<Operator> {
        let launch = self.launch(engine, std::slice::from_ref(kind), handlers);
        self.start(&launch)
    }

    /// Writes the files of an operator, and returns its start options in the namespace of the case.
    pub(crate) fn launch(&self, engine: Engine, kinds: &[Kind], handlers: &[Handler]) -> Launch {
        let url = self.cluster.api_server().url();
        let notes = Notes { namespace: &self.notes, url: &url, token: admin_token() };
        let number = self.launched.replace(self.launched.get() + 1);
        let directory = self.directory.join(format!("operator-{number}"));
        fs::create_dir_all(&directory).expect("the directory of an operator can be made");
        write(&directory.join("operator.yaml"), &twins::manifest(&self.namespace, kinds, handlers));
        write(&directory.join("twin.rhai"), &twins::script(&notes));
        write(&directory.join("twin.py"), &twins::python(kinds, handlers, &notes));
        Launch {
            engine,
            source: if engine == Engine::Kopf { directory.join("twin.py") } else { directory },
            kubeconfig: self.cluster.api_server().kubeconfig(),
            namespaces: vec![self.namespace.clone()],
            options: Vec::new(),
            variables: Vec::new(),
            log: self.log_path(engine),
            has_derived_rights: false,
        }
    }

    /// Returns the start options of kopfd with an existing manifest, in the namespace of the case.
    pub(crate) fn launch_source(&self, manifest: &Path) -> Launch {
        Launch {
            engine: Engine::Kopfd,
            source: manifest.to_owned(),
            kubeconfig: self.cluster.api_server().kubeconfig(),
            namespaces: vec![self.namespace.clone()],
            options: Vec::new(),
            variables: Vec::new(),
            log: self.log_path(Engine::Kopfd),
            has_derived_rights: false,
        }
    }

    /// Starts an operator. If it ends by itself, the next wait of the case fails at once.
    pub(crate) fn start(&self, launch: &Launch) -> Rc<Operator> {
        let operator = Rc::new(Operator::start(self.cluster.tools(), launch));
        self.operators.borrow_mut().push(Rc::clone(&operator));
        if launch.has_derived_rights {
            self.derived_logs.borrow_mut().insert(launch.log.clone());
        }
        operator
    }

    /// Kills an operator. Gives the server a moment to finish its last requests.
    pub(crate) fn kill(&self, operator: &Rc<Operator>) {
        operator.kill();
        self.operators.borrow_mut().retain(|other| !Rc::ptr_eq(other, operator));
        std::thread::sleep(Duration::from_millis(200));
    }

    /// Starts an operator that is killed after the server has carried out its n-th write, and then restarted.
    ///
    /// The crash happens during any wait of the case.
    pub(crate) fn start_and_crash_after(&self, launch: &Launch, writes: usize) {
        let proxy = WriteProxy::open(self.client(), writes);
        // The proxy has the rights of the administrator.
        let launch =
            Launch { kubeconfig: proxy.kubeconfig(&self.directory), has_derived_rights: false, ..launch.clone() };
        let operator = self.start(&launch);
        self.crashing.replace(Some(Crashing { proxy, launch, operator, has_crashed: false }));
    }

    /// Ends that operator, and tells whether it was crashed.
    pub(crate) fn end_crashing(&self) -> bool {
        let crashing = self.crashing.take().expect("an operator was started to be crashed");
        self.kill(&crashing.operator);
        crashing.has_crashed
    }

    fn crash_if_due(&self) {
        let mut crashing = self.crashing.borrow_mut();
        let Some(crashing) = crashing.as_mut().filter(|crashing| crashing.proxy.is_shut()) else { return };
        self.kill(&crashing.operator);
        crashing.proxy.reopen();
        crashing.operator = self.start(&crashing.launch);
        crashing.has_crashed = true;
    }

    /// Stops an operator gracefully.
    pub(crate) fn stop(&self, operator: &Rc<Operator>) {
        operator.expect_running();
        let status = operator.stop();
        self.operators.borrow_mut().retain(|other| !Rc::ptr_eq(other, operator));
        assert!(status.success(), "{:?} stops without an error on SIGTERM, not with {status}", operator.engine());
    }

    /// Waits until a probe returns a value, and fails early if an operator has ended by itself.
    pub(crate) fn eventually<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        self.eventually_within(TIMEOUT, what, probe)
    }

    /// Like `eventually`, with another limit.
    pub(crate) fn eventually_within<T>(&self, within: Duration, what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
        eventually(what, within, || {
            self.crash_if_due();
            self.operators.borrow().iter().for_each(|operator| operator.expect_running());
            probe()
        })
    }

    /// Creates an object with a spec.
    pub(crate) fn create(&self, kind: &Kind, name: &str, spec: Value) -> Value {
        self.create_in(&self.namespace, kind, name, spec)
    }

    /// Creates an object in a namespace.
    pub(crate) fn create_in(&self, namespace: &str, kind: &Kind, name: &str, spec: Value) -> Value {
        let object =
            json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name}, "spec": spec});
        self.client().create(&kind.collection(namespace), &object)
    }

    /// Returns an object, if it exists.
    pub(crate) fn get(&self, kind: &Kind, name: &str) -> Option<Value> {
        self.client().get(&kind.path(&self.namespace, name))
    }

    /// Changes an object by a merge patch.
    pub(crate) fn merge(&self, kind: &Kind, name: &str, patch: Value) -> Value {
        self.client().merge(&kind.path(&self.namespace, name), &patch)
    }

    /// Requests the deletion of an object.
    pub(crate) fn delete(&self, kind: &Kind, name: &str) {
        self.client().delete(&kind.path(&self.namespace, name));
    }

    /// Waits until an object fulfils a condition, and returns it.
    pub(crate) fn object(&self, kind: &Kind, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.eventually(&format!("{name} {what}"), || {
            let object = self.get(kind, name);
            self.last_seen.replace(object.clone());
            object.filter(&condition)
        })
    }

    /// Waits until an object is handled: its last-handled state is stored, and it has no progress.
    pub(crate) fn handled(&self, kind: &Kind, name: &str) -> Value {
        self.object(kind, name, "is handled", is_handled);
        self.at_rest(kind, name)
    }

    /// Waits until an object is handled with its current spec.
    pub(crate) fn handled_again(&self, kind: &Kind, name: &str) -> Value {
        self.object(kind, name, "is handled with its newest spec", |object| {
            is_handled(object) && last_handled(object).is_some_and(|essence| essence["spec"] == object["spec"])
        });
        self.at_rest(kind, name)
    }

    /// Waits until an object is unchanged for a moment, and returns it: the status is written after the rest.
    fn at_rest(&self, kind: &Kind, name: &str) -> Value {
        let seen = Cell::new((0, Instant::now()));
        self.eventually(&format!("{name} is at rest"), || {
            let object = self.get(kind, name)?;
            let (last, since) = seen.get();
            if last != revision(&object) {
                seen.set((revision(&object), Instant::now()));
                return None;
            }
            (since.elapsed() >= REST).then_some(object)
        })
    }

    /// Waits until an object is gone.
    pub(crate) fn gone(&self, kind: &Kind, name: &str) {
        self.eventually(&format!("{name} is gone"), || self.get(kind, name).is_none().then_some(()));
    }

    /// Returns all calls so far, in their order.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.read(self.client(), &format!("/api/v1/namespaces/{}/configmaps", self.notes))
    }

    /// Returns the calls for one object as `handler#retry`, in their order.
    pub(crate) fn calls_of(&self, object: &str) -> Vec<String> {
        self.calls().iter().filter(|call| call.object == object).map(Call::short).collect()
    }

    /// Waits until the calls for an object are exactly these, and fails at once if there are others.
    pub(crate) fn expect_calls(&self, object: &str, expected: &[&str]) {
        self.eventually(&format!("the calls for {object} are {expected:?}"), || {
            let calls = self.calls_of(object);
            let begin_alike =
                calls.len() <= expected.len() && calls.iter().zip(expected).all(|(call, expected)| call == expected);
            assert!(begin_alike, "the calls for {object} are {calls:?}, not {expected:?}");
            (calls.len() == expected.len()).then_some(())
        });
    }

    /// Waits a while, and checks that the calls for an object are still exactly these.
    pub(crate) fn expect_no_more_calls(&self, object: &str, expected: &[&str]) {
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(self.calls_of(object), expected, "the calls for {object} after a while");
    }

    /// Creates an object and waits until it is handled: then the operator is running and watching.
    pub(crate) fn wait_for_operator(&self, kind: &Kind) {
        let name = format!("beacon-{}", self.launched.get());
        self.create(kind, &name, json!({}));
        self.eventually("the operator handles its first object", || (!self.calls_of(&name).is_empty()).then_some(()));
    }

    /// Collects the versions of all objects of a kind in the namespace of the case.
    pub(crate) fn record(&self, kind: &Kind) -> Record {
        Record { watch: self.client().watch_all(&kind.collection(&self.namespace)) }
    }

    /// Returns the last awaited object, and the last lines of every operator of the case.
    pub(crate) fn output_tail(&self) -> String {
        let object = self.last_seen.borrow().as_ref().map(|object| format!("--- the last object\n{object}"));
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log")).map(|path| {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            format!("--- the end of {}\n{}", path.display(), lines[lines.len().saturating_sub(15)..].join("\n"))
        });
        object.into_iter().chain(logs).collect::<Vec<_>>().join("\n")
    }

    /// Returns a separate API server for the case on the shared etcd.
    pub(crate) fn api_server(&self) -> ApiServer {
        self.cluster.another_api_server(&format!("api-server-of-{}", self.namespace))
    }

    fn log_path(&self, engine: Engine) -> PathBuf {
        self.directory.join(match engine {
            Engine::Kopfd => "kopfd.log",
            Engine::Kopf => "kopf.log",
        })
    }
}

impl Drop for TestContext<'_> {
    // The operators end with the case. The objects end with the cluster, but every served kind costs all servers and
    // operators resources.
    fn drop(&mut self) {
        self.operators.borrow().iter().for_each(|operator| operator.kill());
        let unserved = json!([{"op": "replace", "path": "/spec/versions/0/served", "value": false}]);
        let own_group = format!("{}.", self.namespace);
        for kind in self.kinds.borrow().iter().filter(|kind| kind.group.starts_with(&own_group)) {
            // The case itself may have removed it.
            let _ =
                self.client().request("PATCH", &kind.definition_path(), "application/json-patch+json", Some(&unserved));
        }
    }
}

/// The versions of objects, collected by a watch.
pub(crate) struct Record {
    watch: Watch,
}

impl Record {
    /// Returns the versions of one object so far, in their order.
    pub(crate) fn versions(&self, name: &str) -> Vec<Version> {
        let is_named = |event: &&Value| event["object"]["metadata"]["name"] == name;
        self.watch.events().iter().filter(is_named).map(Version::of).collect()
    }

    /// Returns the versions of all objects so far, by the names of the objects.
    pub(crate) fn all_versions(&self) -> BTreeMap<String, Vec<Version>> {
        let mut versions: BTreeMap<String, Vec<Version>> = BTreeMap::new();
        for event in self.watch.events() {
            let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            versions.entry(name).or_default().push(Version::of(&event));
        }
        versions
    }
}

impl Version {
    fn of(event: &Value) -> Self {
        let object = &event["object"];
        Self { revision: revision(object), object: (event["type"] != "DELETED").then(|| object.clone()) }
    }
}

impl Call {
    /// Returns the handler and the number of earlier attempts.
    pub(crate) fn short(&self) -> String {
        format!("{}#{}", self.handler, self.retry)
    }

    fn of(config_map: &Value) -> Self {
        let text = |key: &str| config_map["data"][key].as_str().unwrap_or_default().to_owned();
        let parsed = |key: &str| serde_json::from_str(&text(key)).unwrap_or(Value::Null);
        Self {
            revision: revision(config_map),
            at: text("at").parse().unwrap_or_else(|error| panic!("the time of a call {:?}: {error}", text("at"))),
            handler: text("handler"),
            object: text("object"),
            namespace: text("namespace"),
            engine: text("engine"),
            retry: text("retry").parse().unwrap_or(0),
            reason: if text("reason").is_empty() { text("type") } else { text("reason") },
            change: [parsed("old"), parsed("new"), parsed("diff")],
        }
    }
}

/// Returns the stored last-handled state of an object.
pub(crate) fn last_handled(object: &Value) -> Option<Value> {
    let text = object["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"].as_str()?;
    Some(serde_json::from_str(text).expect("the stored state is JSON"))
}

/// Returns the stored progress of a handler on an object.
pub(crate) fn progress(object: &Value, handler: &str) -> Option<Value> {
    let text = object["metadata"]["annotations"][format!("kopf.zalando.org/{handler}")].as_str()?;
    Some(serde_json::from_str(text).expect("the stored progress is JSON"))
}

/// Tells whether the last-handled state is stored, without other annotations of the engine.
pub(crate) fn is_handled(object: &Value) -> bool {
    let Some(annotations) = object["metadata"]["annotations"].as_object() else { return false };
    let mut ours = annotations.keys().filter_map(|key| key.strip_prefix("kopf.zalando.org/"));
    let stored = annotations.contains_key("kopf.zalando.org/last-handled-configuration");
    stored && ours.all(|key| key == "last-handled-configuration" || key == "kopf-managed" || key == "touch-dummy")
}

/// Tells whether an object has the engine's finalizer.
pub(crate) fn has_finalizer(object: &Value) -> bool {
    let ours = "kopf.zalando.org/KopfFinalizerMarker";
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == ours))
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
