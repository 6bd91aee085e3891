//! The rights of operators: what is derived for the examples, and what the check at the start finds.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::path::{Path, PathBuf};

use kopfd::apiserver::auth::access::{Authentication, User};
use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::{ApiServer, Settings, bootstrap};
use kopfd::cluster::in_process::InProcess;
use kopfd::cluster::{Client, Networking, Watching};
use kopfd::handling::rights::{GrantScope, Layout, Right, Rights, rights};
use kopfd::kit::Clock;
use kopfd::manifest::rights::roles::{self, Account};
use kopfd::manifest::rights::{Circumstances, needs};
use kopfd::manifest::{self, Operator, known_kinds};
use kopfd::object::namespace::Pattern;
use kopfd::object::yaml;
use kopfd::reactor::Scope;
use kopfd::reactor::rights::{missing, report};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::world::in_virtual_time;

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn operator(path: &Path) -> Operator {
    let loaded = manifest::load(&[path.to_owned()]);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.operators.into_iter().next().unwrap()
}

fn database() -> Operator {
    operator(&examples().join("database/operator.yaml"))
}

fn derived(operator: &Operator, served: Option<&[&str]>) -> Rights {
    let known = known_kinds::of(std::slice::from_ref(operator));
    let found = needs(operator, &known, &Circumstances { is_namespaced: served.is_some(), ..Circumstances::default() });
    assert!(found.unresolved.is_empty(), "{:?}", found.unresolved);
    let served = served.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    rights(&found.needs, &Layout { served, home: "default".to_owned() })
}

/// Returns an operator of one block and one script.
fn written(folder: &Path, spec: &str, script: &str) -> manifest::Loaded {
    let path = folder.join("operator.yaml");
    std::fs::write(&path, format!("apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: demo}}\nspec:\n{spec}"))
        .unwrap();
    std::fs::write(folder.join("main.rhai"), script).unwrap();
    manifest::load(&[path])
}

/// Returns the rules for an operator, one in a line.
fn rules(spec: &str, script: &str, served: Option<&[&str]>) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let loaded = written(folder.path(), spec, script);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let rules = kopfd::handling::rights::rules(&derived(&loaded.operators[0], served));
    let line = |scope: &GrantScope, rule: &kopfd::handling::rights::Rule| {
        let scope = match scope {
            GrantScope::Cluster => String::new(),
            GrantScope::Namespace(name) => format!("{name}: "),
        };
        let names = if rule.names.is_empty() { String::new() } else { format!(" ({})", rule.names.join(",")) };
        format!(
            "{scope}{} {}{names}: {}",
            if rule.group.is_empty() { "core" } else { &rule.group },
            rule.resources.join(","),
            rule.verbs.join(",")
        )
    };
    rules.iter().flat_map(|(scope, rules)| rules.iter().map(move |rule| line(scope, rule))).collect()
}

const NO_SCAN: &str = "  settings: {scanning: {disabled: true}, peering: {standalone: true}}\n";

fn handler(on: &str) -> String {
    format!(
        "{NO_SCAN}  resources: [{{resource: deployments.apps, script: main.rhai, handlers: [{{on: {on}, fn: f}}]}}]\n"
    )
}

#[test]
fn each_kind_of_binding_has_the_rights_of_its_requests() {
    let watched = "apps deployments: list,watch";
    let patched = ["apps deployments: list,watch,patch", "apps deployments/status: patch"];
    assert_eq!(rules(&handler("create"), "fn f() {}", None), patched);
    assert_eq!(rules(&handler("event"), "fn f(body) {}", None), [watched]);
    assert_eq!(rules(&handler("event"), "fn f(patch) {}", None), patched);
    assert_eq!(rules(&handler("event"), "fn f() { return 1; }", None), patched);
    let index =
        format!("{NO_SCAN}  resources: [{{resource: deployments.apps, script: main.rhai, indexes: [{{fn: f}}]}}]\n");
    assert_eq!(rules(&index, "fn f() { return 1; }", None), [watched]);
    let timer = format!(
        "{NO_SCAN}  resources: [{{resource: deployments.apps, script: main.rhai, timers: [{{fn: f, interval: 1m}}]}}]\n"
    );
    assert_eq!(rules(&timer, "fn f() {}", None), patched);
    let everything = format!(
        "{NO_SCAN}  resources: [{{resource: everything, script: main.rhai, handlers: [{{on: event, fn: f}}]}}]\n"
    );
    assert_eq!(rules(&everything, "fn f() {}", None), ["* *: list,watch"]);
}

#[test]
fn the_engine_has_the_rights_of_its_own_requests() {
    let resources = "  resources: [{resource: v1/pods, script: main.rhai, handlers: [{on: event, fn: f}]}]\n";
    let alone = format!("  settings: {{peering: {{standalone: true}}}}\n{resources}");
    let events = resources;
    let pods = "core pods: list,watch";
    let definitions = "apiextensions.k8s.io customresourcedefinitions: list,watch";
    assert_eq!(rules(&alone, "fn f() {}", None), [definitions, pods]);
    assert_eq!(
        rules(&alone, "fn f() {}", Some(&["a"])),
        ["core namespaces: list,watch", definitions, "a: core pods: list,watch"]
    );
    let of_peers = |group: &str, plural: &str| {
        [format!("{group} {plural}: list,watch"), format!("{group} {plural} (default): patch")]
    };
    let peers = [of_peers("kopf.dev", "clusterkopfpeerings"), of_peers("zalando.org", "clusterkopfpeerings")].concat();
    assert_eq!(
        rules(&format!("  settings: {{scanning: {{disabled: true}}}}\n{events}"), "fn f() {}", None),
        [peers, vec![pods.to_owned()]].concat()
    );
    let posting = |settings: &str, script: &str| {
        rules(
            &format!("  settings: {{scanning: {{disabled: true}}, peering: {{standalone: true}}{settings}}}\n{events}"),
            script,
            None,
        )
    };
    let info = "fn f() { k8s::info(\"R\", \"m\"); }";
    assert_eq!(posting("", info), ["core events: create", pods]);
    assert_eq!(posting(", posting: {aggregated: true}", info), ["core events: create,patch", pods]);
    assert_eq!(posting(", posting: {enabled: false}", info), [pods]);
    assert_eq!(posting(", posting: {loggers: true}", "fn f() {}"), ["core events: create", pods]);
    let schedule = |missed: &str| {
        format!("{NO_SCAN}  schedules: [{{id: s, cron: '* * * * *', fn: f, script: main.rhai, missed: {missed}}}]\n")
    };
    assert_eq!(rules(&schedule("skip"), "fn f() {}", None), [""; 0]);
    assert_eq!(
        rules(&schedule("once"), "fn f() {}", None),
        ["default: core configmaps: create", "default: core configmaps (demo.schedules.kopfd.dev): get,patch"]
    );
    let canary = format!(
        "  settings: {{scanning: {{disabled: true}}, peering: {{standalone: true}}, posting: {{enabled: false}}, reload: {{canary: {{percent: 5, for: 10m}}}}}}\n{events}"
    );
    assert_eq!(
        rules(&canary, "fn f() {}", None),
        [pods, "default: core pods: get", "default: apps deployments,replicasets: get"]
    );
    let startup = format!("{NO_SCAN}  activities: {{startup: [{{fn: g, script: main.rhai}}]}}\n{events}");
    assert_eq!(
        rules(&startup, "fn f() {} fn g(settings) { settings.posting.loggers = true; }", None),
        ["core events: create,patch", pods]
    );
}

#[test]
fn each_function_of_scripts_has_the_rights_of_its_requests() {
    let calls = |call: &str| {
        let all = rules(&handler("event"), &format!("fn f(name, namespace, body) {{ {call} }}"), None);
        all.into_iter().filter(|line| line != "apps deployments: list,watch").collect::<Vec<_>>()
    };
    let table: [(&str, &[&str]); 17] = [
        ("k8s::get(\"v1/Secret\", \"a\");", &["core secrets (a): get"]),
        ("k8s::exists(\"secrets\", name);", &["core secrets: get"]),
        ("k8s::list(\"secrets\");", &["core secrets: list"]),
        ("k8s::create(#{apiVersion: \"v1\", kind: \"Secret\", metadata: #{name: \"a\"}});", &["core secrets: create"]),
        (
            "k8s::update(#{apiVersion: \"v1\", kind: \"Secret\", metadata: #{name: \"a\"}});",
            &["core secrets (a): update"],
        ),
        (
            "k8s::apply(#{apiVersion: \"v1\", kind: \"Secret\", metadata: #{name: \"a\"}});",
            &["core secrets: create", "core secrets (a): patch"],
        ),
        ("k8s::patch(\"secrets\", \"a\", #{});", &["core secrets (a): patch"]),
        ("k8s::patch_status(\"pods\", name, #{});", &["core pods/status: patch"]),
        ("k8s::patch_status(\"secrets\", name, #{});", &["core secrets: patch"]),
        ("k8s::patch_status(\"things.example.com\", name, #{});", &["example.com things,things/status: patch"]),
        ("k8s::scale(\"statefulsets.apps\", name, 1);", &["apps statefulsets/scale: patch"]),
        ("k8s::delete(\"secrets\", name);", &["core secrets: delete"]),
        ("k8s::get(\"secrets\", \"there\", \"a\");", &["there: core secrets (a): get"]),
        ("k8s::list(\"secrets\", \"there\");", &["there: core secrets: list"]),
        ("k8s::get(\"nodes\", \"a\");", &["core nodes (a): get"]),
        (
            "k8s::apply(adopt(#{apiVersion: \"v1\", kind: \"Service\", metadata: #{name: name}}));",
            &["apps deployments/finalizers: update", "core services: create,patch"],
        ),
        ("for kind in [\"v1/Secret\", \"v1/Pod\"] { k8s::list(kind, namespace); }", &["core pods,secrets: list"]),
    ];
    for (call, expected) in table {
        assert_eq!(calls(call), expected, "{call}");
    }
    assert_eq!(calls("k8s::delete(body);"), ["apps deployments: delete"]);
}

#[test]
fn a_namespaced_operator_has_roles_of_its_namespaces() {
    let script = "fn f(name) { k8s::get(\"secrets\", name); k8s::get(\"nodes\", name); k8s::list(\"pods\"); k8s::get(\"configmaps\", \"there\", name); }";
    assert_eq!(
        rules(&handler("event"), script, Some(&["one", "two"])),
        [
            "core nodes: get",
            "core pods: list",
            "one: apps deployments: list,watch",
            "one: core secrets: get",
            "there: core configmaps: get",
            "two: apps deployments: list,watch",
            "two: core secrets: get",
        ]
    );
}

#[test]
fn declared_rules_are_added_with_their_names_and_namespaces() {
    let of = |rule: &str| {
        let spec = format!("  allow: {{k8s: [{rule}]}}\n{}", handler("event"));
        let script = "fn f(spec) { k8s::get(spec.kind, \"a\"); }";
        rules(&spec, script, None).into_iter().filter(|line| line != "apps deployments: list,watch").collect::<Vec<_>>()
    };
    assert_eq!(of("{verbs: [get], resources: [secrets, jobs.batch]}"), ["core secrets: get", "batch jobs: get"]);
    assert_eq!(
        of("{verbs: [get, create], resources: [v1/Secret], names: [a]}"),
        ["core secrets: create", "core secrets (a): get"]
    );
    assert_eq!(
        of("{verbs: [get], resources: [secrets], namespaces: [n, m]}"),
        ["m: core secrets: get", "n: core secrets: get"]
    );
    assert_eq!(
        of("{verbs: ['*'], groups: [batch, ''], resources: [jobs/status]}"),
        ["core jobs/status: *", "batch jobs/status: *"]
    );
    assert_eq!(of("{verbs: [get, patch], resources: [deployments.apps/scale]}"), ["apps deployments/scale: get,patch"]);
    assert_eq!(of("{verbs: ['*'], resources: ['*']}"), ["* *: *"]);
}

#[test]
fn a_computed_kind_that_is_not_declared_is_an_error_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = written(folder.path(), &handler("event"), "fn f(spec) {\n    k8s::get(spec.kind, \"a\");\n}\n");
    let [found] = &loaded.diagnostics[..] else { panic!("{:?}", loaded.diagnostics) };
    assert!(found.is_error() && found.place.file.ends_with("main.rhai"), "{found:?}");
    assert_eq!((found.place.line, found.place.column, found.length), (2, 10, 3));
    assert!(found.hint.as_deref().unwrap_or_default().contains("allow: {k8s: [{verbs: [get]"), "{found:?}");
    let declared = format!("  allow: {{k8s: [{{verbs: [list], resources: [secrets]}}]}}\n{}", handler("event"));
    assert!(written(folder.path(), &declared, "fn f(spec) { k8s::get(spec.kind, \"a\"); }").has_errors());
    assert!(!written(folder.path(), &declared, "fn f(spec) { k8s::list(spec.kind); }").has_errors());
}

#[test]
fn a_kind_without_a_known_plural_name_is_reported_with_its_position() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = written(folder.path(), &handler("event"), "fn f() { k8s::list(\"example.com/v1/Widget\"); }");
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let found = needs(&loaded.operators[0], &known_kinds::of(&loaded.operators), &Circumstances::default());
    let [unresolved] = &found.unresolved[..] else { panic!("{:?}", found.unresolved) };
    assert!(
        unresolved.message.contains("`example.com/v1/Widget`")
            && (unresolved.place.line, unresolved.place.column) == (1, 15),
        "{unresolved:?}"
    );
}

#[test]
fn settings_of_webhooks_and_peerings_need_rights() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "  settings:
    scanning: {disabled: true}
    peering: {name: mine, mandatory: true}
    admission: {managed: auto.kopfd.dev, server: {kind: server, secret: {name: kept, namespace: webhooks}}}
";
    let resources = handler("event").replace(NO_SCAN, "");
    let loaded = written(folder.path(), &format!("{settings}{resources}"), "fn f() {}");
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    let account = Account { name: "a".into(), namespace: "operators".into() };
    let text = roles::yaml(&account, &derived(&loaded.operators[0], None));
    for rule in [
        "resources: [clusterkopfpeerings]\n    resourceNames: [mine]\n    verbs: [patch]",
        "resources: [secrets]\n    resourceNames: [kept]\n    verbs: [get, update]",
        "resources: [secrets]\n    verbs: [create]",
        "resourceNames: [auto.kopfd.dev]\n    verbs: [get, patch]",
    ] {
        assert!(text.contains(rule), "{rule}\n{text}");
    }
}

#[test]
fn the_roles_of_the_examples_are_as_expected() {
    let mut names: Vec<String> =
        std::fs::read_dir(examples()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| examples().join(name).join("operator.yaml").exists());
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    for name in names {
        let operator = operator(&examples().join(&name).join("operator.yaml"));
        let account = Account { name: operator.name.clone(), namespace: "operators".into() };
        let text = roles::yaml(&account, &derived(&operator, None));
        insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots/rights"}, {
            insta::assert_snapshot!(name, text);
        });
    }
}

#[test]
fn the_role_of_the_database_deployment_is_the_derived_one() {
    let account = Account { name: "database-operator".into(), namespace: "operators".into() };
    let derived = roles::yaml(&account, &derived(&database(), None));
    let file = std::fs::read_to_string(examples().join("database/deploy/rbac.yaml")).unwrap();
    let (_, roles) = file.split_once("---\n").unwrap();
    assert_eq!(roles, derived);
}

/// A server with a user `robot`, and a client of that user.
struct Cluster {
    api: ApiServer,
    client: Client,
}

impl Cluster {
    async fn new() -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let robot = User::new("robot", &["system:authenticated"]);
        let authentication = Authentication::Tokens([("robot".to_owned(), robot)].into());
        let api = ApiServer::new(Settings { authentication, ..Settings::default() }, clock.clone());
        let service = Service::new(api.clone()).map_request(|mut request: http::Request<bytes::Bytes>| {
            request.headers_mut().insert("authorization", "Bearer robot".parse().unwrap());
            request
        });
        let login = Box::new(InProcess::new(service));
        let client = Client::with_login(login, Networking::default(), Watching::default(), clock).await.unwrap();
        Self { api, client }
    }

    /// Grants the user exactly some rights.
    async fn grant(&self, rights: &Rights) {
        let account = Account { name: "robot".into(), namespace: "default".into() };
        let mut objects = roles::objects(&account, rights);
        for object in objects.iter_mut().filter(|object| object["subjects"].is_array()) {
            object["subjects"] = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "robot"}]);
        }
        bootstrap::apply(&self.api, objects).await.unwrap();
    }

    async fn apply(&self, objects: Vec<Value>) {
        bootstrap::apply(&self.api, objects).await.unwrap();
    }
}

fn shown(right: &Right) -> String {
    format!("{right:?}")
}

/// Removes each right of an operator in turn, and expects the check to find it.
async fn each_missing_right_is_found(operator: &Operator, scope: &Scope, all: &Rights) {
    let cluster = Cluster::new().await;
    cluster.apply(vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "production"}})]).await;
    for file in ["kopf.dev.yaml", "zalando.org.yaml"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/peering").join(file);
        cluster.apply(yaml::parse(&std::fs::read_to_string(path).unwrap()).unwrap()).await;
    }
    cluster.grant(all).await;
    let complete = missing(operator, &cluster.client, scope, None).await.unwrap();
    assert!(complete.missing.is_empty() && complete.unchecked == 0, "{complete:?}");
    for (removed, purpose) in all {
        let mut rest = all.clone();
        rest.remove(removed);
        cluster.grant(&rest).await;
        let found = missing(operator, &cluster.client, scope, None).await.unwrap();
        let expected = Rights::from([(removed.clone(), *purpose)]);
        assert_eq!(found.missing, expected, "{}", shown(removed));
        let text = report(&operator.name, &found.missing);
        for word in [&removed.verb, &removed.resource] {
            assert!(text.contains(word.as_str()), "{word}: {text}");
        }
    }
}

#[test]
fn each_single_verb_that_is_missing_is_named_at_the_start() {
    in_virtual_time(async {
        let operator = database();
        let all = derived(&operator, None);
        assert!(all.len() >= 15, "{all:?}");
        each_missing_right_is_found(&operator, &Scope::Cluster, &all).await;
        let served = Scope::Namespaces(vec![Pattern::of_globs("production")]);
        each_missing_right_is_found(&operator, &served, &derived(&operator, Some(&["production"]))).await;
    });
}

#[test]
fn a_pattern_of_namespaces_is_checked_in_the_namespaces_that_match() {
    in_virtual_time(async {
        let operator = database();
        let mut all = derived(&operator, Some(&["production"]));
        let cluster = Cluster::new().await;
        cluster.apply(vec![json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "production"}})]).await;
        let secret = all.keys().find(|right| right.resource == "services" && right.verb == "create").cloned().unwrap();
        all.remove(&secret);
        cluster.grant(&all).await;
        let scope = Scope::Namespaces(vec![Pattern::of_globs("prod*")]);
        let found = missing(&operator, &cluster.client, &scope, None).await.unwrap();
        assert_eq!(found.missing.keys().collect::<Vec<_>>(), [&secret]);
        let text = report(&operator.name, &found.missing);
        let expected =
            "Operator 'database-operator' lacks rights. It goes on with what it may do. Add these rules, or apply what `kopfd rbac` prints:
in a Role of the namespace production:
rules:
  # The requests of scripts. A server-side apply is a `patch`, and a `create` if the object is new.
  - apiGroups: [\"\"]
    resources: [services]
    verbs: [create]";
        assert_eq!(text, expected);
    });
}

#[test]
fn an_administrator_is_asked_about_once() {
    in_virtual_time(async {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = ApiServer::new(Settings { requests: 10, ..Settings::default() }, clock.clone());
        let login = Box::new(InProcess::new(Service::new(api.clone())));
        let client = Client::with_login(login, Networking::default(), Watching::default(), clock).await.unwrap();
        let found = missing(&database(), &client, &Scope::Cluster, None).await.unwrap();
        assert!(found.missing.is_empty());
        assert_eq!(api.requests().len(), 1, "{:?}", api.requests());
    });
}
