//! The database operator with the real controllers, and with the rights that are derived for it.
//!
//! There are no nodes: the cases report pods as ready. The timer is called every second.

use std::time::Duration;

use serde_json::{Value, json};

use super::cases;
use super::examples::{ExampleKind, apply_definition, example, launch_copy, log_says};
use crate::harness::child::ask;
use crate::harness::{Case, Kind, LIVENESS, Launch, TestContext, is_handled, last_handled};

pub(crate) const CASES: &[Case] = cases![
    a_database_lives_with_its_derived_rights,
    an_operator_without_a_right_tells_it_and_does_everything_else,
    a_database_that_cannot_be_provisioned_says_why,
];

/// The kind of the example.
pub(crate) const DATABASE: ExampleKind = ExampleKind { group: "techoral.com", kind: "Database", plural: "databases" };

/// The times of the timer in the manifest, and those of the cases.
const TIMES: [&str; 2] = ["interval: 60s, initialDelay: 60s", "interval: 1s, initialDelay: 1s"];

/// Installs the kind, and returns the start options of the operator with a fast timer, in the namespace of the case.
pub(crate) fn launch(context: &TestContext<'_>) -> Launch {
    apply_definition(context, "database");
    launch_copy(context, "database", &[("operator.yaml", TIMES[0], TIMES[1])])
}

/// Returns the existing children of a database, by their names and owner.
pub(crate) fn children(context: &TestContext<'_>, database: &Value) -> Vec<Value> {
    let (name, namespace) = (&database["metadata"]["name"], &database["metadata"]["namespace"]);
    let (name, namespace) = (name.as_str().expect("it has a name"), namespace.as_str().expect("it has a namespace"));
    let paths = [
        stateful_set(namespace, name),
        format!("/api/v1/namespaces/{namespace}/services/{name}-db"),
        format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}-data"),
        format!("/apis/batch/v1/namespaces/{namespace}/cronjobs/{name}-backup"),
    ];
    let children: Vec<Value> = paths.iter().filter_map(|path| context.client().get(path)).collect();
    for child in &children {
        let owner = &child["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["uid"], &owner["controller"]),
            (&database["metadata"]["uid"], &json!(true)),
            "its owner is the database: {child}"
        );
    }
    children
}

/// Returns the path of the StatefulSet of a database.
pub(crate) fn stateful_set(namespace: &str, name: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/statefulsets/{name}-db")
}

/// Reports all pods of a database as running and ready, as the kubelets of nodes would.
pub(crate) fn run_pods(context: &TestContext<'_>, namespace: &str, name: &str) {
    let pods = Kind::core("Pod", "pods", true);
    let running = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    for pod in context.client().list(&format!("{}?labelSelector=app%3D{name}-db", pods.collection(namespace))) {
        let pod_name = pod["metadata"]["name"].as_str().expect("a pod has a name");
        if pod["status"]["phase"] != "Running" {
            let path = format!("{}/status", pods.path(namespace, pod_name));
            // The pod may be deleted meanwhile.
            let _ = context.client().request("PATCH", &path, "application/merge-patch+json", Some(&running));
        }
    }
}

/// One database in a case.
struct Observed<'s, 'c> {
    context: &'s TestContext<'c>,
    namespace: &'static str,
    name: &'static str,
}

impl Observed<'_, '_> {
    fn path(&self) -> String {
        DATABASE.kind().path(self.namespace, self.name)
    }

    /// Waits until the database fulfils a condition, while its pods become ready.
    fn eventually(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        self.context.eventually(what, || {
            run_pods(self.context, self.namespace, self.name);
            self.context.client().get(&self.path()).filter(&condition)
        })
    }

    /// Waits until the current spec is handled.
    fn handled(&self, what: &str) -> Value {
        self.eventually(what, |object| {
            is_handled(object) && last_handled(object).is_some_and(|essence| essence["spec"] == object["spec"])
        })
    }

    /// Waits until all replicas are seen as ready.
    fn ready(&self, what: &str, replicas: u64) -> Value {
        self.eventually(what, |object| {
            object["status"]["state"] == "Ready" && object["status"]["readyReplicas"] == replicas
        })
    }

    fn edit(&self, spec: Value) {
        self.context.client().merge(&self.path(), &json!({"spec": spec}));
    }

    fn children(&self, database: &Value) -> Vec<Value> {
        children(self.context, database)
    }
}

fn a_database_lives_with_its_derived_rights(context: &TestContext<'_>) {
    check_deployment(context);
    let launch = Launch {
        // A pattern, for which namespaces are watched.
        namespaces: vec!["productio?".to_owned()],
        options: vec![LIVENESS.into()],
        ..launch(context)
    };
    let launch = context.with_derived_rights(launch);
    let operator = context.start(&launch);
    log_says(context, &operator, "The database operator starts.");
    context.cluster().kubectl_ok(&["apply", "-f", &example("database").join("obj.yaml").display().to_string()]);
    let database = Observed { context, namespace: "production", name: "orders-db" };

    let created = database.handled("the database is created");
    assert_eq!((&created["status"]["engine"], &created["status"]["version"]), (&json!("postgresql"), &json!("16")));
    let children = database.children(&created);
    assert_eq!(children.len(), 4, "all children are there: {children:#?}");
    check_stateful_set(&children[0]);
    assert_eq!(children[1]["spec"]["ports"][0]["port"], 5432);
    assert_eq!(children[2]["spec"]["resources"]["requests"]["storage"], "100Gi");

    let ready = database.ready("the database is ready", 2);
    assert_eq!(ready["status"]["endpoint"], "orders-db-db.production.svc.cluster.local:5432");
    let since =
        check_conditions(&ready, [("Ready", "True", "DatabaseReady"), ("Available", "True", "DatabaseAvailable")]);
    // The operator sees what it has written when its watch tells it, which may be after this case has seen it.
    context.eventually("the probe counts the database as ready", || {
        let (status, answer) = ask(&operator.endpoints(), "GET", "/healthz");
        (status == 200 && answer.ends_with(r#"{"databases":{"Ready":1}}"#)).then_some(())
    });

    database.edit(json!({"replicas": 3, "storage": "200Gi"}));
    let scaled = database.handled("the database is scaled");
    assert_eq!(scaled["status"]["replicas"], 3);
    assert!(scaled["status"]["pendingAction"].as_str().is_some_and(|action| action.contains("200Gi")), "{scaled}");
    assert_eq!(database.children(&scaled)[0]["spec"]["replicas"], 3);
    log_says(context, &operator, "change spec.replicas: 2 -> 3");
    let ready = database.ready("three replicas are ready", 3);

    let set = stateful_set("production", "orders-db");
    context.client().merge(&set, &json!({"spec": {"replicas": 1}}));
    let since_of = |object: &Value, index: usize| object["status"]["conditions"][index]["lastTransitionTime"].clone();
    let repaired = database.eventually("the timer has repaired the database", |object| {
        object["status"]["state"] == "Ready" && since_of(object, 0) != since_of(&ready, 0)
    });
    assert_eq!(database.children(&repaired)[0]["spec"]["replicas"], 3);
    assert_eq!(since_of(&repaired, 1), json!(since[1]), "with one replica, it was available");

    let before = context.client().get(&set).expect("it is there");
    context.client().delete(&set);
    log_says(context, &operator, "The StatefulSet is made again.");
    let made_again = database.eventually("the new StatefulSet is ready", |_| {
        let made = context.client().get(&set);
        made.is_some_and(|made| {
            made["metadata"]["uid"] != before["metadata"]["uid"] && made["status"]["readyReplicas"] == 3
        })
    });
    assert_eq!(database.children(&made_again).len(), 4, "it is a child again");
    database.ready("the database is ready with its new StatefulSet", 3);

    for (on, count) in [(false, 3), (true, 4)] {
        database.edit(json!({"backupEnabled": on}));
        let toggled = database.handled("the backups are toggled");
        assert_eq!(database.children(&toggled).len(), count, "backups are on: {on}");
    }
    context.client().delete(&database.path());
    context.eventually("the database is gone", || context.client().get(&database.path()).is_none().then_some(()));
    context.eventually_within(Duration::from_mins(2), "all children are gone", || {
        database.children(&created).is_empty().then_some(())
    });
    context.stop(&operator);
}

/// Applies the manifests of the deployment.
fn check_deployment(context: &TestContext<'_>) {
    let deploy = example("database").join("deploy");
    let [permissions, deployment] =
        ["rbac.yaml", "deployment.yaml"].map(|file| deploy.join(file).display().to_string());
    context.cluster().kubectl_ok(&["apply", "-f", &permissions]);
    context.cluster().kubectl_ok(&["apply", "-f", &deployment, "--dry-run=server"]);
}

fn check_stateful_set(set: &Value) {
    assert_eq!(set["metadata"]["labels"], json!({"app": "orders-db", "managed-by": "database-operator"}));
    assert_eq!((&set["spec"]["replicas"], &set["spec"]["serviceName"]), (&json!(2), &json!("orders-db-db")));
    assert_eq!(set["spec"]["selector"]["matchLabels"], json!({"app": "orders-db-db"}));
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!("db"), &json!("bitnami/postgresql:16")));
    assert_eq!(container["ports"][0]["containerPort"], 5432);
    let resources = json!({"requests": {"memory": "256Mi", "cpu": "100m"}, "limits": {"memory": "1Gi", "cpu": "500m"}});
    assert_eq!(container["resources"], resources);
}

/// Checks the conditions of a database, and returns their times.
fn check_conditions(database: &Value, expected: [(&str, &str, &str); 2]) -> [String; 2] {
    let conditions = database["status"]["conditions"].as_array().expect("there are conditions");
    assert_eq!(conditions.len(), 2, "{conditions:#?}");
    [0, 1].map(|index| {
        let condition = &conditions[index];
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let (kind, status, reason) = expected[index];
        assert_eq!(
            (text("type"), text("status"), text("reason")),
            (kind.to_owned(), status.to_owned(), reason.to_owned())
        );
        assert!(!text("message").is_empty(), "{condition}");
        let since = text("lastTransitionTime");
        since.parse::<jiff::Timestamp>().expect("the time can be read");
        since
    })
}

fn an_operator_without_a_right_tells_it_and_does_everything_else(context: &TestContext<'_>) {
    let launch = context.with_derived_rights(launch(context));
    let account =
        launch.kubeconfig.parent().and_then(|path| path.file_name()).expect("the account has a directory").to_owned();
    let role = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles/{}",
        context.namespace,
        account.to_str().expect("the name of an account is a text")
    );
    let mut rules = context.client().get(&role).expect("the role is there")["rules"].take();
    let rules = rules.as_array_mut().expect("a role has rules");
    let before = rules.len();
    rules.retain(|rule| rule["resources"] != json!(["statefulsets/scale"]));
    assert_eq!(rules.len() + 1, before, "{rules:#?}");
    context.client().merge(&role, &json!({"rules": rules}));
    let attributes = json!({"namespace": context.namespace, "group": "apps", "resource": "statefulsets", "subresource": "scale", "verb": "patch"});
    let account = account.to_str().expect("the name of an account is a text");
    context.eventually("the right is taken away", || (!context.is_allowed(account, &attributes)).then_some(()));
    let operator = context.start(&Launch { has_derived_rights: false, ..launch });
    log_says(context, &operator, "resources: [statefulsets/scale]");
    assert!(
        operator.log().contains(&format!("in a Role of the namespace {}", context.namespace)),
        "{}",
        operator.log()
    );
    assert!(!operator.log().contains("persistentvolumeclaims"), "nothing else is missing");
    // What needs other rights is done; what needs this one is tried again.
    let kind = DATABASE.kind();
    context.create(&kind, "orders", json!({"engine": "mysql", "version": "8", "storage": "1Gi", "replicas": 1}));
    let created = context.object(&kind, "orders", "is created", |object| last_handled(object).is_some());
    assert!(children(context, &created).len() >= 3, "its children are made");
    context.merge(&kind, "orders", json!({"spec": {"replicas": 2}}));
    log_says(context, &operator, "cannot patch resource");
    let user = format!("system:serviceaccount:default:{account}");
    assert!(operator.log().contains("forbidden") && operator.log().contains(&user), "{}", operator.log());
    operator.expect_running();
}

fn a_database_that_cannot_be_provisioned_says_why(context: &TestContext<'_>) {
    let kind = DATABASE.kind();
    context.start(&launch(context));
    // A name that is valid for a Database, and too long for a Service.
    let name = "x".repeat(63);
    context.create(&kind, &name, json!({"engine": "mysql", "version": "8", "storage": "1Gi"}));
    let object = context.handled(&kind, &name);
    assert_eq!(object["status"]["state"], "Failed", "{object}");
    assert!(object["status"]["error"].as_str().is_some_and(|error| !error.is_empty()), "{object}");
    let condition = &object["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Ready"), &json!("False"), &json!("ProvisionFailed"))
    );
    std::thread::sleep(Duration::from_secs(2));
    let later = context.get(&kind, &name).expect("it stays");
    assert_eq!(later["status"], object["status"], "the timer leaves it alone");
}
