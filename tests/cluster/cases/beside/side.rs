//! One side of a comparison: a namespace with one operator after another, and everything that they do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use jiff::Timestamp;
use kopfd::kit::Clock;
use serde_json::{Value, json};

use super::document::{BesideCase, EngineName, Group, Handover, Step};
use super::log::{Log, LogLine};
use crate::harness::{
    Client, Engine, Kind, Launch, Operator, TIMEOUT, TestContext, Tools, Watch, Write, WriteProxy, caught, eventually,
    free_port,
};

/// Time limit of the end of an operator.
const END: Duration = Duration::from_secs(30);

/// The files that the operators of all groups share.
const SHARED: [&str; 2] = ["notes.py", "notes.rhai"];

/// A side.
pub(super) struct Side {
    engines: Vec<EngineName>,
    namespace: String,
    directory: PathBuf,
    client: Client,
    tools: Tools,
    proxy: WriteProxy,
    port: u16,
    log: Log,
    watches: [Watch; 2],
    recorded: Mutex<Recorded>,
}

/// What was observed besides the log, the requests and the objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Recorded {
    /// Moments by the names of a case and a mark.
    pub(super) marks: BTreeMap<(String, String), Timestamp>,
    /// Answers of the endpoint, by case.
    pub(super) answers: BTreeMap<String, Vec<String>>,
    /// Failed steps, by case.
    pub(super) failures: BTreeMap<String, String>,
    /// The exit codes of the operators; `None` for a signal.
    pub(super) exits: Vec<Option<i32>>,
}

/// Returns the usual kind.
pub(super) fn thing_kind() -> Kind {
    Kind::of_group("beside.kopfd.test")
}

/// Returns the second kind, for indexes over several kinds.
pub(super) fn other_kind() -> Kind {
    thing_kind().named("Other", "others")
}

impl Side {
    /// Creates a side: its namespace, its proxy, and the files of its operators.
    pub(super) fn new(context: &TestContext<'_>, sources: &Path, group: &Group, number: usize, attempt: usize) -> Self {
        let namespace = format!("{}-{attempt}-{number}", context.namespace);
        context.make_namespace(&namespace);
        let directory = context.directory().join(format!("side-{number}-{attempt}"));
        copy_sources(sources, group.operator.as_ref().unwrap_or(&group.name), &directory);
        let client = context.client().clone();
        let watches = [thing_kind(), other_kind()].map(|kind| client.watch_all(&kind.collection(&namespace)));
        Self {
            engines: group.sides[number].clone(),
            proxy: WriteProxy::open(&client, usize::MAX),
            port: free_port(),
            log: Log::of(context.directory().join(format!("side-{number}-{attempt}.log"))),
            tools: context.cluster().tools().clone(),
            recorded: Mutex::default(),
            namespace,
            directory,
            client,
            watches,
        }
    }

    /// Returns the names of the engines.
    pub(super) fn title(&self) -> String {
        let mut names: Vec<String> = self.engines.iter().map(|engine| format!("{engine:?}").to_lowercase()).collect();
        names.dedup();
        names.join(" then ")
    }

    /// Tells whether Python kopf does everything here.
    pub(super) fn is_kopf(&self) -> bool {
        self.engines.iter().all(|engine| engine.engine() == Engine::Kopf)
    }

    /// Returns the namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns all requests that changed something.
    pub(super) fn writes(&self) -> Vec<Write> {
        self.proxy.writes()
    }

    /// Returns the Kubernetes Events in the namespace.
    pub(super) fn events(&self) -> Vec<Value> {
        self.client.list(&format!("/api/v1/namespaces/{}/events", self.namespace))
    }

    /// Returns what was observed so far.
    pub(super) fn recorded(&self) -> Recorded {
        self.records().clone()
    }

    /// Returns the newest event about an object from the watches.
    pub(super) fn newest(&self, name: &str) -> Option<Value> {
        self.watches.iter().find_map(|watch| watch.last_of(name))
    }

    /// Runs all steps of all cases. A failure of a case is recorded, and does not end the others.
    pub(super) fn run(&self, group: &Group) {
        self.perform_all(group, |case| &case.before, None);
        let turns = if group.cases.iter().any(|case| !case.again.is_empty()) { 2 } else { 1 };
        for (turn, engine) in self.engines.iter().enumerate().take(turns) {
            let operator = Operator::start(&self.tools, &self.launch(group, engine.engine()));
            if group.serves {
                self.wait_for_beacon(&operator, turn);
            }
            self.perform_all(group, |case| if turn == 0 { &case.steps } else { &case.again }, Some(&operator));
            let is_crashed = group.handover == Handover::Crash && turn + 1 < turns;
            let code = end(&operator, group, is_crashed);
            self.records().exits.push(code);
            if turn + 1 < turns {
                self.perform_all(group, |case| &case.between, None);
            }
        }
    }

    /// Waits until the operator sees new objects: it watches, and its indexes are filled.
    fn wait_for_beacon(&self, operator: &Operator, turn: usize) {
        let name = format!("beacon-{turn}");
        let beacon = json!({"metadata": {"name": name, "labels": {"beacon": "yes"}}});
        self.create(&thing_kind(), beacon);
        eventually("the operator sees the beacon", TIMEOUT, || {
            operator.expect_running();
            let seen = self.log.lines(|line| line.object.as_deref() == Some(name.as_str()) && line.call().is_some());
            (!seen.is_empty()).then_some(())
        });
    }

    /// Performs the steps of all cases concurrently.
    fn perform_all(&self, group: &Group, steps: impl Fn(&BesideCase) -> &[Step] + Sync, operator: Option<&Operator>) {
        thread::scope(|scope| {
            for case in &group.cases {
                let steps = steps(case);
                if !steps.is_empty() {
                    scope.spawn(move || {
                        if let Err(message) = caught(|| self.perform_case(case, steps, operator)) {
                            self.records().failures.insert(case.name.clone(), message);
                        }
                    });
                }
            }
        });
    }

    fn perform_case(&self, case: &BesideCase, steps: &[Step], operator: Option<&Operator>) {
        for step in steps {
            let began_at = Clock::system().now();
            self.perform(case, step, operator);
            if let Some(mark) = &step.mark {
                // The operator may see a change before the answer to the request arrives here.
                let moment = if step.action.is_change() { began_at } else { Clock::system().now() };
                self.records().marks.insert((case.name.clone(), mark.clone()), moment);
            }
        }
    }

    /// Creates an object from its metadata and fields.
    pub(super) fn create(&self, kind: &Kind, mut object: Value) {
        object["apiVersion"] = json!(kind.api_version());
        object["kind"] = json!(kind.name);
        self.client.create(&kind.collection(&self.namespace), &object);
    }

    /// Changes an object by a merge patch.
    pub(super) fn patch(&self, kind: &Kind, name: &str, patch: &Value) {
        self.client.merge(&kind.path(&self.namespace, name), patch);
    }

    /// Requests the deletion of an object.
    pub(super) fn delete(&self, kind: &Kind, name: &str) {
        self.client.delete(&kind.path(&self.namespace, name));
    }

    /// Records an answer of the operator's endpoint.
    pub(super) fn record_answer(&self, case: &BesideCase, answer: String) {
        self.records().answers.entry(case.name.clone()).or_default().push(answer);
    }

    /// Returns the port of the operator's endpoint.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the lines of the log that belong to a case: about its objects, and about its activities.
    pub(super) fn lines_of(&self, case: &BesideCase) -> Vec<LogLine> {
        self.log.lines(|line| match &line.object {
            Some(object) => case.has_object(object),
            None => line.call().is_some_and(|call| case.activities.contains(&call.name)),
        })
    }

    fn launch(&self, group: &Group, engine: Engine) -> Launch {
        let options = group.options.iter().map(|option| option.replace("PORT", &self.port.to_string()));
        Launch {
            engine,
            source: if engine == Engine::Kopf {
                self.directory.join("main.py")
            } else {
                self.directory.join("operator.yaml")
            },
            kubeconfig: self.proxy.kubeconfig(&self.directory),
            namespaces: vec![self.namespace.clone()],
            options: std::iter::once("--log-format=json".to_owned()).chain(options).collect(),
            variables: Vec::new(),
            log: self.log.path().to_owned(),
            has_derived_rights: false,
        }
    }

    fn records(&self) -> MutexGuard<'_, Recorded> {
        self.recorded.lock().expect("no thread panics while holding the records")
    }
}

/// Ends an operator, or waits until it ends by itself, and returns its exit code.
fn end(operator: &Operator, group: &Group, is_crashed: bool) -> Option<i32> {
    if is_crashed {
        operator.kill();
        return None;
    }
    if group.serves {
        return operator.stop().code();
    }
    eventually("the operator ends by itself", END, || operator.ended()).code()
}

fn copy_sources(sources: &Path, group: &str, directory: &Path) {
    fs::create_dir_all(directory).expect("the directory of a side can be made");
    let of_group = fs::read_dir(sources.join(group)).expect("the files of a group can be listed");
    let of_group = of_group.map(|entry| entry.expect("an entry can be read").path());
    for file in of_group.chain(SHARED.map(|name| sources.join(name))) {
        let name = file.file_name().expect("a file has a name");
        fs::copy(&file, directory.join(name)).unwrap_or_else(|error| panic!("cannot copy {}: {error}", file.display()));
    }
}
