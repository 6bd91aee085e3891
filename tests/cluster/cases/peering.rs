//! Peers: kopfd and Python kopf 1.44.6 pause for each other by the same records.

use std::path::Path;
use std::process::{Command, Output};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::cases;
use super::examples::log_says;
use super::peering_definitions::install;
use crate::harness::{Case, Engine, Handler, Kind, Launch, Operator, TestContext, child};

pub(crate) const CASES: &[Case] = cases![
    a_killed_kopfd_is_noticed_by_kopf_when_its_record_expires,
    a_killed_kopf_is_noticed_by_kopfd_when_its_record_expires,
    kopfd_pauses_kopf_by_its_priority,
    kopf_pauses_kopfd_by_its_priority,
    equal_priorities_pause_both_engines,
    a_freeze_by_kopf_pauses_kopfd_until_it_resumes,
    a_freeze_by_kopfd_pauses_kopf_until_it_resumes,
    engines_that_serve_all_namespaces_meet_in_the_cluster_wide_peering,
];

/// How long a paused operator is given to do what it must not do.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn other(engine: Engine) -> Engine {
    if engine == Engine::Kopf { Engine::Kopfd } else { Engine::Kopf }
}

pub(super) fn name(engine: Engine) -> &'static str {
    if engine == Engine::Kopf { "kopf" } else { "kopfd" }
}

/// A case with a peering object in its namespace, or for the whole cluster.
pub(crate) struct Peers<'c> {
    context: &'c TestContext<'c>,
    pub(crate) kind: Kind,
    is_clusterwide: bool,
}

impl<'c> Peers<'c> {
    pub(crate) fn new(context: &'c TestContext<'c>, is_clusterwide: bool) -> Self {
        let kind = context.thing();
        install(context.cluster(), "kopf.dev", &context.namespace);
        let peers = Self { context, kind, is_clusterwide };
        let (collection, _) = peers.paths();
        let object_kind = if is_clusterwide { "ClusterKopfPeering" } else { "KopfPeering" };
        let object = json!({"apiVersion": "kopf.dev/v1", "kind": object_kind, "metadata": {"name": peers.name()}});
        context.client().create(&collection, &object);
        peers
    }

    pub(crate) fn name(&self) -> String {
        format!("of-{}", self.context.namespace)
    }

    /// Returns the paths of the collection, and of the object.
    pub(crate) fn paths(&self) -> (String, String) {
        let collection = if self.is_clusterwide {
            "/apis/kopf.dev/v1/clusterkopfpeerings".to_owned()
        } else {
            format!("/apis/kopf.dev/v1/namespaces/{}/kopfpeerings", self.context.namespace)
        };
        let path = format!("{collection}/{}", self.name());
        (collection, path)
    }

    /// Starts an engine with a priority, and with the lifetime of its record in seconds.
    pub(super) fn start(&self, engine: Engine, priority: i64, lifetime: u64) -> Rc<Operator> {
        let handlers = [Handler::on("create", "on_create").with("retries", 9), Handler::on("update", "on_update")];
        let launch = self.context.launch(engine, std::slice::from_ref(&self.kind), &handlers);
        set_lifetime(&launch, lifetime);
        let namespaces = if self.is_clusterwide { Vec::new() } else { launch.namespaces.clone() };
        let options =
            vec![format!("--peering={}", self.name()), format!("--priority={priority}"), "--verbose".to_owned()];
        let operator = self.context.start(&Launch { namespaces, options, ..launch });
        self.context.eventually("the record of the operator is written", || {
            let object = self.context.client().get(&self.paths().1)?;
            let is_own = |record: &Value| record["priority"] == priority && record["lifetime"] == lifetime;
            object["status"].as_object().is_some_and(|records| records.values().any(is_own)).then_some(())
        });
        operator
    }

    /// Creates an object, and waits until an engine has handled it, and no other.
    pub(crate) fn expect_handled_by(&self, object: &str, engine: Engine) {
        self.context.create(&self.kind, object, json!({"size": 1}));
        self.context.handled(&self.kind, object);
        let engines: Vec<String> =
            self.context.calls().into_iter().filter(|call| call.object == object).map(|call| call.engine).collect();
        assert_eq!(engines, [name(engine)], "{object} is handled once");
    }

    /// Creates an object that nobody may handle.
    fn expect_unhandled(&self, object: &str) {
        self.context.create(&self.kind, object, json!({"size": 1}));
        std::thread::sleep(PATIENCE);
        assert_eq!(self.context.calls_of(object), [""; 0], "both engines are paused");
    }

    pub(super) fn log_says(&self, operator: &Operator, text: &str) {
        log_says(self.context, operator, text);
    }

    fn command(&self, engine: Engine, arguments: &[&str]) -> Output {
        let tools = self.context.cluster().tools();
        let program: &Path = if engine == Engine::Kopf { &tools.kopf } else { &tools.kopfd };
        let mut command = Command::new(program);
        command.args(arguments).arg(format!("--peering={}", self.name()));
        if !self.is_clusterwide {
            command.args(["-n", &self.context.namespace]);
        }
        command.env("KUBECONFIG", self.context.cluster().api_server().kubeconfig());
        let output = child::output(&mut command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

/// Adds the lifetime of records to the files of an operator.
pub(super) fn set_lifetime(launch: &Launch, seconds: u64) {
    let (file, text) = match launch.engine {
        Engine::Kopf => {
            let text = format!(
                "\n@kopf.on.startup()\ndef configure(settings, **_):\n    settings.peering.lifetime = {seconds}\n"
            );
            (launch.source.clone(), text)
        }
        Engine::Kopfd => {
            (launch.source.join("operator.yaml"), format!("  settings: {{peering: {{lifetime: {seconds}}}}}\n"))
        }
    };
    let before = std::fs::read_to_string(&file).expect("the file was written");
    std::fs::write(&file, before + &text).expect("the file can be written");
}

fn kopfd_pauses_kopf_by_its_priority(context: &TestContext<'_>) {
    higher_pauses_lower(context, Engine::Kopfd, false);
}

fn kopf_pauses_kopfd_by_its_priority(context: &TestContext<'_>) {
    higher_pauses_lower(context, Engine::Kopf, false);
}

fn engines_that_serve_all_namespaces_meet_in_the_cluster_wide_peering(context: &TestContext<'_>) {
    higher_pauses_lower(context, Engine::Kopfd, true);
}

fn higher_pauses_lower(context: &TestContext<'_>, higher: Engine, is_clusterwide: bool) {
    let peers = Peers::new(context, is_clusterwide);
    let lower = peers.start(other(higher), 5, 60);
    peers.expect_handled_by("before", other(higher));
    let operator = peers.start(higher, 10, 60);
    peers.log_says(&lower, "Pausing operations in favour of [<Peer ");
    peers.expect_handled_by("meanwhile", higher);
    context.stop(&operator);
    peers.log_says(
        &lower,
        "Resuming operations after the pause. Conflicting operators with the same priority are gone.",
    );
    peers.expect_handled_by("after", other(higher));
}

fn equal_priorities_pause_both_engines(context: &TestContext<'_>) {
    let peers = Peers::new(context, false);
    let kopf = peers.start(Engine::Kopf, 5, 60);
    peers.expect_handled_by("before", Engine::Kopf);
    let kopfd = peers.start(Engine::Kopfd, 5, 60);
    for operator in [&kopf, &kopfd] {
        peers.log_says(operator, "Possibly conflicting operators with the same priority: [<Peer ");
    }
    // The other one is paused already: a mandatory peering begins with a pause.
    peers.log_says(&kopf, "Pausing all operators, including self: [<Peer ");
    peers.expect_unhandled("one");
    context.stop(&kopf);
    context.handled(&peers.kind, "one");
    peers.expect_handled_by("after", Engine::Kopfd);
}

fn a_killed_kopfd_is_noticed_by_kopf_when_its_record_expires(context: &TestContext<'_>) {
    killed_is_noticed(context, Engine::Kopfd);
}

fn a_killed_kopf_is_noticed_by_kopfd_when_its_record_expires(context: &TestContext<'_>) {
    killed_is_noticed(context, Engine::Kopf);
}

fn killed_is_noticed(context: &TestContext<'_>, killed: Engine) {
    let peers = Peers::new(context, false);
    let lower = peers.start(other(killed), 5, 60);
    peers.expect_handled_by("before", other(killed));
    let operator = peers.start(killed, 10, 8);
    peers.log_says(&lower, "Pausing operations in favour of [<Peer ");
    peers.expect_handled_by("meanwhile", killed);
    context.kill(&operator);
    let killed_at = std::time::Instant::now();
    peers.log_says(&lower, "Resuming operations after the pause.");
    assert!(killed_at.elapsed() < Duration::from_secs(14), "the record was valid for eight seconds");
    peers.expect_handled_by("after", other(killed));
}

fn a_freeze_by_kopf_pauses_kopfd_until_it_resumes(context: &TestContext<'_>) {
    freeze_pauses(context, Engine::Kopf);
}

fn a_freeze_by_kopfd_pauses_kopf_until_it_resumes(context: &TestContext<'_>) {
    freeze_pauses(context, Engine::Kopfd);
}

fn freeze_pauses(context: &TestContext<'_>, by: Engine) {
    let peers = Peers::new(context, false);
    let operator = peers.start(other(by), 5, 60);
    peers.expect_handled_by("before", other(by));
    peers.command(by, &["freeze", "--lifetime=600", "--id=person@desk"]);
    peers.log_says(&operator, "Pausing operations in favour of [<Peer person@desk: priority=100, lifetime=600, ");
    peers.expect_unhandled("frozen");
    peers.command(by, &["resume", "--id=person@desk"]);
    context.handled(&peers.kind, "frozen");
    peers.expect_handled_by("after", other(by));
}
