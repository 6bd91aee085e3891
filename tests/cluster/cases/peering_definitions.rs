//! Definitions of peerings that are installed while both engines run, and those of `zalando.org`, the group that
//! earlier versions of kopf used.

use std::path::Path;
use std::rc::Rc;

use serde_json::json;

use super::cases;
use super::examples::log_says;
use super::peering::{PATIENCE, name, other, set_lifetime};
use crate::harness::{
    Case, Cluster, Controllers, Engine, Handler, Kind, Launch, Operator, TIMEOUT, TestContext, eventually, is_handled,
};

pub(crate) const CASES: &[Case] = cases![
    both_engines_work_alone_without_the_definition_and_notice_it_later,
    both_engines_use_the_peerings_of_the_earlier_group_and_those_of_both_groups,
    both_engines_use_the_peerings_of_a_namespace_in_the_earlier_group,
];

/// The path of definitions.
const DEFINITION_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The lifetime of records in seconds. Python kopf notices an object that comes late only with its next record, one to
/// five seconds later.
const LIFETIME: u64 = 10;

/// Installs the definitions of a group that kopfd ships, and waits until objects can be created.
pub(super) fn install(cluster: &Cluster, group: &str, namespace: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("manifests/peering/{group}.yaml"));
    let text = std::fs::read_to_string(file).expect("the definitions are there");
    for definition in kopfd::object::yaml::parse(&text).expect("they are YAML") {
        cluster.client().ensure(DEFINITION_PATH, &definition);
    }
    for path in [peerings(group, None), peerings(group, Some(namespace))] {
        eventually("peerings are served", TIMEOUT, || {
            cluster.client().request("GET", &path, "application/json", None).ok()
        });
    }
}

/// Returns the path of the peering objects of a namespace, or of operators of the whole cluster.
fn peerings(group: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("/apis/{group}/v1/namespaces/{namespace}/kopfpeerings"),
        None => format!("/apis/{group}/v1/clusterkopfpeerings"),
    }
}

/// A cluster with both engines, each of which handles the objects with its label.
struct Both<'c> {
    context: &'c TestContext<'c>,
    cluster: Cluster,
    kind: Kind,
    /// The namespace that both serve; `None` for the whole cluster.
    namespace: Option<&'static str>,
}

impl<'c> Both<'c> {
    fn new(context: &'c TestContext<'c>, namespace: Option<&'static str>) -> Self {
        let cluster =
            Cluster::start(&context.directory().join("cluster"), context.cluster().tools(), Controllers::Absent);
        let kind = context.own_kind();
        let (path, definition) = kind.definition();
        cluster.client().ensure(path, &definition);
        let objects = kind.collection("default");
        eventually("the kind is served", TIMEOUT, || {
            cluster.client().request("GET", &objects, "application/json", None).ok()
        });
        Self { context, cluster, kind, namespace }
    }

    /// Creates the peering object of the operators.
    fn create_peering(&self, group: &str) {
        let kind = if self.namespace.is_some() { "KopfPeering" } else { "ClusterKopfPeering" };
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "default"}});
        self.cluster.client().create(&peerings(group, self.namespace), &object);
    }

    /// Starts an engine.
    fn start(&self, engine: Engine, priority: i64, options: &[&str]) -> Rc<Operator> {
        let handlers = [Handler::on("create", "on_create").with("labels", json!({"for": name(engine)}))];
        let launch = self.context.launch(engine, std::slice::from_ref(&self.kind), &handlers);
        set_lifetime(&launch, LIFETIME);
        let priority = [format!("--priority={priority}"), "--verbose".to_owned()];
        let options = priority.into_iter().chain(options.iter().map(|option| (*option).to_owned())).collect();
        let kubeconfig = self.cluster.api_server().kubeconfig();
        let namespaces = self.namespace.map(str::to_owned).into_iter().collect();
        self.context.start(&Launch { kubeconfig, namespaces, options, ..launch })
    }

    /// Creates an object that an engine has to handle. Its handlers are called without a record: the namespace for
    /// these is in another cluster.
    fn create(&self, object: &str, engine: Engine) {
        let object = json!({
            "apiVersion": self.kind.api_version(), "kind": self.kind.name,
            "metadata": {"name": object, "labels": {"for": name(engine)}}, "spec": {"quiet": true},
        });
        self.cluster.client().create(&self.kind.collection("default"), &object);
    }

    fn wait_until_handled(&self, object: &str) {
        self.context.eventually(&format!("{object} is handled"), || self.is_handled(object).then_some(()));
    }

    fn is_handled(&self, object: &str) -> bool {
        self.cluster.client().get(&self.kind.path("default", object)).is_some_and(|found| is_handled(&found))
    }

    /// Waits until the peering object of a group has the records of these priorities only.
    fn wait_for_records(&self, group: &str, priorities: &[i64]) {
        let path = format!("{}/default", peerings(group, self.namespace));
        self.context.eventually(&format!("the records in {group} are {priorities:?}"), || {
            let object = self.cluster.client().get(&path)?;
            let mut found: Vec<i64> =
                object["status"].as_object()?.values().filter_map(|record| record["priority"].as_i64()).collect();
            found.sort_unstable();
            (found == priorities).then_some(())
        });
    }

    /// Checks that the engine with the lower priority is paused by the other one, until that ends.
    fn expect_pause_until_end(&self, lower: (&Rc<Operator>, Engine), higher: &Rc<Operator>, group: &str) {
        let (lower, engine) = lower;
        log_says(self.context, lower, "Pausing operations in favour of [<Peer ");
        self.create(&format!("frozen-{}", name(engine)), engine);
        self.create(&format!("meanwhile-{}", name(other(engine))), other(engine));
        self.wait_until_handled(&format!("meanwhile-{}", name(other(engine))));
        std::thread::sleep(PATIENCE);
        assert!(!self.is_handled(&format!("frozen-{}", name(engine))), "{} is paused", name(engine));
        self.wait_for_records(group, &[5, 10]);
        self.context.stop(higher);
        self.wait_until_handled(&format!("frozen-{}", name(engine)));
        self.wait_for_records(group, &[5]);
    }
}

fn both_engines_work_alone_without_the_definition_and_notice_it_later(context: &TestContext<'_>) {
    let both = Both::new(context, None);
    // Not by `--peering`, which makes it mandatory.
    let (kopfd, kopf) = (both.start(Engine::Kopfd, 5, &[]), both.start(Engine::Kopf, 10, &[]));
    for engine in [Engine::Kopfd, Engine::Kopf] {
        both.create(&format!("alone-{}", name(engine)), engine);
        both.wait_until_handled(&format!("alone-{}", name(engine)));
    }
    install(&both.cluster, "kopf.dev", "default");
    both.create_peering("kopf.dev");
    both.expect_pause_until_end((&kopfd, Engine::Kopfd), &kopf, "kopf.dev");
    // The other way round: kopf has noticed it, too.
    context.stop(&kopfd);
    let kopf = both.start(Engine::Kopf, 5, &[]);
    both.create("again-kopf", Engine::Kopf);
    both.wait_until_handled("again-kopf");
    both.wait_for_records("kopf.dev", &[5]);
    let kopfd = both.start(Engine::Kopfd, 10, &[]);
    both.expect_pause_until_end((&kopf, Engine::Kopf), &kopfd, "kopf.dev");
}

fn both_engines_use_the_peerings_of_the_earlier_group_and_those_of_both_groups(context: &TestContext<'_>) {
    let both = Both::new(context, None);
    install(&both.cluster, "zalando.org", "default");
    both.create_peering("zalando.org");
    let kopfd = both.start(Engine::Kopfd, 5, &["--peering=default"]);
    both.create("before-kopfd", Engine::Kopfd);
    both.wait_until_handled("before-kopfd");
    let kopf = both.start(Engine::Kopf, 10, &["--peering=default"]);
    both.expect_pause_until_end((&kopfd, Engine::Kopfd), &kopf, "zalando.org");
    // With both groups, a peering is mandatory in each of them: without the object of one, the operator pauses.
    install(&both.cluster, "kopf.dev", "default");
    std::thread::sleep(PATIENCE);
    both.create("between-kopfd", Engine::Kopfd);
    std::thread::sleep(PATIENCE);
    assert!(!both.is_handled("between-kopfd"), "the object of one group does not exist");
    both.create_peering("kopf.dev");
    both.wait_until_handled("between-kopfd");
    both.wait_for_records("kopf.dev", &[5]);
    context.stop(&kopfd);
    let kopf = both.start(Engine::Kopf, 5, &["--peering=default"]);
    both.create("again-kopf", Engine::Kopf);
    both.wait_until_handled("again-kopf");
    for group in ["kopf.dev", "zalando.org"] {
        both.wait_for_records(group, &[5]);
    }
    let kopfd = both.start(Engine::Kopfd, 10, &["--peering=default"]);
    both.wait_for_records("zalando.org", &[5, 10]);
    both.expect_pause_until_end((&kopf, Engine::Kopf), &kopfd, "kopf.dev");
    both.wait_for_records("zalando.org", &[5]);
}

fn both_engines_use_the_peerings_of_a_namespace_in_the_earlier_group(context: &TestContext<'_>) {
    let both = Both::new(context, Some("default"));
    install(&both.cluster, "zalando.org", "default");
    both.create_peering("zalando.org");
    let kopfd = both.start(Engine::Kopfd, 5, &["--peering=default"]);
    both.create("before-kopfd", Engine::Kopfd);
    both.wait_until_handled("before-kopfd");
    let kopf = both.start(Engine::Kopf, 10, &["--peering=default"]);
    both.expect_pause_until_end((&kopfd, Engine::Kopfd), &kopf, "zalando.org");
    context.stop(&kopfd);
    let kopf = both.start(Engine::Kopf, 5, &["--peering=default"]);
    both.create("before-kopf", Engine::Kopf);
    both.wait_until_handled("before-kopf");
    let kopfd = both.start(Engine::Kopfd, 10, &["--peering=default"]);
    both.expect_pause_until_end((&kopf, Engine::Kopf), &kopfd, "zalando.org");
}
