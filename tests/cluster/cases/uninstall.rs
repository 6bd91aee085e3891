//! The way out of a cluster: by a running operator, after its end, and by the Job of an operator that is gone.

use std::path::PathBuf;
use std::process::{Command, Output};

use kopfd::kit::Clock;
use serde_json::{Value, json};

use super::cases;
use super::packaging::Restricted;
use super::peering::Peers;
use crate::harness::child::output as output_of;
use crate::harness::{Case, Engine, Handler, Kind, Launch, TestContext, account_token, has_finalizer};

pub(crate) const CASES: &[Case] = cases![
    an_operator_that_is_taken_out_leaves_no_finalizer,
    what_an_operator_has_made_for_itself_is_taken_away,
    the_traces_of_a_killed_operator_are_named_and_removed_and_the_rest_is_reported,
    the_job_frees_objects_with_its_own_rights,
    a_namespace_that_waits_for_an_operator_that_is_gone_is_freed_by_the_job,
];

const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

pub(crate) fn kopfd(context: &TestContext<'_>, arguments: &[&str]) -> Output {
    let mut command = Command::new(&context.cluster().tools().kopfd);
    output_of(command.args(arguments).env("KUBECONFIG", context.cluster().api_server().kubeconfig()))
}

pub(crate) fn texts(done: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
}

fn an_operator_that_is_taken_out_leaves_no_finalizer(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch = context.launch(
        Engine::Kopfd,
        std::slice::from_ref(&kind),
        &[Handler::on("create", "hello"), Handler::on("delete", "bye")],
    );
    let operator = context.start(&launch);
    for name in ["deleted", "kept"] {
        context.create(&kind, name, json!({}));
        assert!(has_finalizer(&context.handled(&kind, name)));
    }
    context.delete(&kind, "deleted");
    context.gone(&kind, "deleted");
    context.stop(&operator);

    let source = launch.source.to_str().expect("our own paths are UTF-8");
    let options =
        ["uninstall", source, "-n", &context.namespace, "--operator-namespace", &context.namespace, "--timeout", "2s"];
    let done = kopfd(context, &options);
    assert!(done.status.success(), "{}", texts(&done));
    assert!(!has_finalizer(&context.get(&kind, "kept").expect("objects stay")), "{}", texts(&done));

    // An object whose deletion nobody handles any more.
    context.merge(&kind, "kept", json!({"metadata": {"finalizers": [FINALIZER]}}));
    context.delete(&kind, "kept");
    let done = kopfd(context, &options);
    assert_eq!(done.status.code(), Some(1));
    assert!(texts(&done).contains("its deletion was not handled in time"), "{}", texts(&done));
    let selector = kind.selector();
    let done = kopfd(
        context,
        &["uninstall", "--janitor", "--finalizer", FINALIZER, "--kind", &selector, "-n", &context.namespace],
    );
    assert!(done.status.success(), "{}", texts(&done));
    context.gone(&kind, "kept");
}

/// Adds a definition to an operator, and lines to the end of its manifest.
pub(crate) fn extend(launch: &Launch, definition: &Value, lines: &str) {
    let manifest = launch.source.join("operator.yaml");
    let text = std::fs::read_to_string(&manifest).expect("an operator has a manifest");
    let text = text.replacen("\nspec:\n", "\nspec:\n  crds: [crd.json]\n", 1) + lines;
    assert!(text.contains("crds: [crd.json]"), "{text}");
    std::fs::write(&manifest, text).expect("our own manifest can be written");
    std::fs::write(launch.source.join("crd.json"), definition.to_string())
        .expect("the directory of an operator can be written");
}

/// Returns a Deployment whose pods no node runs.
fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let pod = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "operator", "image": "none"}]}});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod},
    })
}

fn what_an_operator_has_made_for_itself_is_taken_away(context: &TestContext<'_>) {
    let (client, namespace) = (context.client(), &context.namespace);
    let peers = Peers::new(context, false);
    let (kind, peering, peer) = (&peers.kind, peers.name(), peers.paths().1);
    let launch = context.launch(
        Engine::Kopfd,
        std::slice::from_ref(kind),
        &[Handler::on("create", "hello"), Handler::on("delete", "bye")],
    );
    extend(&launch, &kind.definition().1, &format!("  settings: {{peering: {{name: {peering}, mandatory: true}}}}\n"));
    let launch = Launch { options: vec![format!("--peering={peering}")], ..launch };
    context.start(&launch);
    for name in ["first", "second"] {
        context.create(kind, name, json!({}));
        assert!(has_finalizer(&context.handled(kind, name)));
    }
    // What replicas leave that are killed: the record of a peer, and a Lease. Another operator's record stays.
    let record = context.eventually("the operator is a peer", || {
        client.get(&peer)?["status"].as_object().and_then(|records| records.values().next()).cloned()
    });
    let record = json!({"priority": -10, "lifetime": 3_600, "lastseen": record["lastseen"]});
    client.merge(&peer, &json!({"status": {format!("{namespace}-0"): record, format!("{namespace}-other-0"): record}}));
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": namespace}, "spec": {"holderIdentity": ""}});
    client.create(&leases, &lease);
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    client.create(&deployments, &deployment(namespace));
    let pods = format!("/api/v1/namespaces/{namespace}/pods?labelSelector=app%3D{namespace}");
    context.eventually("the Deployment has its pods", || (client.list(&pods).len() == 2).then_some(()));

    let source = launch.source.to_str().expect("our own paths are UTF-8");
    let places = ["-n", namespace, "--operator-namespace", namespace, "--peering", &peering];
    let options = [&["uninstall", source][..], &places, &["--delete-objects", "--timeout", "60s"]].concat();
    let done = kopfd(context, &options);
    let account = texts(&done);
    assert!(done.status.success(), "{account}");
    for line in [
        "requested the deletion of 2 ".to_owned(),
        format!("scaled Deployment {namespace}/{namespace} to zero"),
        format!("deleted Lease {namespace}/{namespace}"),
        format!("removed the peer {namespace}-0"),
        format!("kept the definition of {}", kind.selector()),
    ] {
        assert!(account.contains(&line), "{line}: {account}");
    }
    for name in ["first", "second"] {
        context.gone(kind, name);
        context.expect_calls(name, &["hello#0", "bye#0"]);
    }
    assert_eq!(client.get(&format!("{deployments}/{namespace}")).expect("it stays")["spec"]["replicas"], 0);
    assert!(client.list(&pods).is_empty() && client.get(&format!("{leases}/{namespace}")).is_none());
    let left = client.get(&peer).expect("the peering stays");
    assert!(
        left["status"].get(format!("{namespace}-0")).is_none()
            && left["status"].get(format!("{namespace}-other-0")).is_some(),
        "{left}"
    );
}

/// Returns the paths of what an operator makes for itself, with the titles in the account.
fn traces(context: &TestContext<'_>) -> [(String, String); 5] {
    let name = &context.namespace;
    let admission = "/apis/admissionregistration.k8s.io/v1";
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{name}/leases");
    [
        (
            format!("{admission}/validatingwebhookconfigurations/{name}.example.com"),
            format!("ValidatingWebhookConfiguration {name}.example.com"),
        ),
        (
            format!("{admission}/mutatingwebhookconfigurations/{name}.example.com"),
            format!("MutatingWebhookConfiguration {name}.example.com"),
        ),
        (format!("/api/v1/namespaces/{name}/secrets/made"), format!("Secret {name}/made")),
        (format!("{leases}/{name}"), format!("Lease {name}/{name}")),
        (
            format!("/api/v1/namespaces/{name}/configmaps/{name}.schedules.kopfd.dev"),
            format!("ConfigMap {name}/{name}.schedules.kopfd.dev"),
        ),
    ]
}

/// Returns a replica that makes everything that an operator can make, and the account of its pod.
fn leaving_traces(context: &TestContext<'_>, kind: &Kind, peering: &str) -> Launch {
    let namespace = &context.namespace;
    let launch = context.launch(
        Engine::Kopfd,
        std::slice::from_ref(kind),
        &[Handler::on("create", "hello"), Handler::on("delete", "bye")],
    );
    let lines = format!(
        "      webhooks:
        - {{on: validate, id: check, run: 'warnings.push(\"checked\");', operations: [create, update]}}
        - {{on: mutate, id: complete, run: 'patch.spec.owner = \"nobody\";', operations: [create]}}
  schedules: [{{id: hourly, cron: \"0 * * * *\", missed: once, run: 'return 1;'}}]
  settings:
    peering: {{name: {peering}, mandatory: true}}
    admission: {{managed: {namespace}.example.com, server: {{kind: server, addr: 127.0.0.1, secret: {{name: made}}}}}}
"
    );
    extend(&launch, &kind.definition().1, &lines);
    // The records of a pod are in its namespace.
    let kubeconfig = context.directory().join("home.kubeconfig");
    let text = std::fs::read_to_string(&launch.kubeconfig).expect("the cluster has a kubeconfig");
    let own = text.replace("\"namespace\": \"default\"", &format!("\"namespace\": \"{namespace}\""));
    assert_ne!(text, own, "the kubeconfig has a namespace");
    std::fs::write(&kubeconfig, own).expect("the directory of the case can be written");
    let election =
        ["--leader-elect", "--lease-duration=10s", "--renew-deadline=6s", "--retry-period=1s"].map(str::to_owned);
    let options = [vec![format!("--peering={peering}")], election.to_vec()].concat();
    Launch { kubeconfig, options, ..launch }
}

/// A policy of the cluster that keeps the Secrets of a namespace.
struct Protection<'a> {
    context: &'a TestContext<'a>,
    paths: [String; 2],
}

impl<'a> Protection<'a> {
    fn of_secrets(context: &'a TestContext<'a>) -> Self {
        let namespace = &context.namespace;
        let rule =
            json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["secrets"]});
        let place = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let policy = json!({"metadata": {"name": namespace}, "spec": {
            "matchConstraints": {"namespaceSelector": place, "resourceRules": [rule]},
            "validations": [{"expression": "false", "message": "Secrets are kept here"}],
        }});
        let binding =
            json!({"metadata": {"name": namespace}, "spec": {"policyName": namespace, "validationActions": ["Deny"]}});
        let kinds = ["validatingadmissionpolicybindings", "validatingadmissionpolicies"];
        let collections = kinds.map(|kind| format!("/apis/admissionregistration.k8s.io/v1/{kind}"));
        for (collection, object) in collections.iter().zip([binding, policy]) {
            context.client().create(collection, &object);
        }
        let protection = Self { context, paths: collections.map(|collection| format!("{collection}/{namespace}")) };
        protection.wait("Secrets are protected", true);
        protection
    }

    fn end(self) {
        self.paths.iter().for_each(|path| self.context.client().delete(path));
        self.wait("Secrets are not protected any more", false);
    }

    /// Waits until the API server has read the policy.
    fn wait(&self, what: &str, is_refused: bool) {
        let path = format!("/api/v1/namespaces/{}/secrets/made?dryRun=All", self.context.namespace);
        self.context.eventually(what, || {
            let deleted = self.context.client().request("DELETE", &path, "application/json", None);
            (deleted.is_err() == is_refused).then_some(())
        });
    }
}

fn the_traces_of_a_killed_operator_are_named_and_removed_and_the_rest_is_reported(context: &TestContext<'_>) {
    let (client, namespace) = (context.client(), &context.namespace);
    let peers = Peers::new(context, false);
    let (kind, peering, peer) = (&peers.kind, peers.name(), peers.paths().1);
    let launch = leaving_traces(context, kind, &peering);
    let operator = context.start(&launch);
    for (path, _) in &traces(context) {
        context.eventually(&format!("{path} exists"), || client.get(path));
    }
    let own = format!("{namespace}@{namespace}");
    let has_record = || client.get(&peer).is_some_and(|found| found["status"].get(&own).is_some());
    context.eventually("the operator is a peer", || has_record().then_some(()));
    for (path, _) in &traces(context)[..2] {
        context.eventually(&format!("{path} has the webhook"), || client.get(path)?["webhooks"].get(0).cloned());
    }
    for name in ["deleted", "kept"] {
        context.create(kind, name, json!({}));
        assert!(has_finalizer(&context.handled(kind, name)));
    }

    // While the operator runs, it handles deletions, and is not taken out.
    context.delete(kind, "deleted");
    let source = launch.source.to_str().expect("our own paths are UTF-8");
    let options = ["uninstall", source, "-n", namespace, "--operator-namespace", namespace, "--timeout", "30s"];
    let done = kopfd(context, &options);
    let account = texts(&done);
    assert_eq!(done.status.code(), Some(1), "{account}");
    assert!(account.contains(&format!("left:\n  Lease {namespace}/{namespace}, held by ")), "{account}");
    assert!(account.contains(&format!("a replica of operator '{namespace}' still leads: ")), "{account}");
    assert!(!account.contains("deleted "), "{account}");
    context.gone(kind, "deleted");
    context.expect_calls("deleted", &["hello#0", "bye#0"]);
    assert!(has_finalizer(&context.get(kind, "kept").expect("nobody has deleted it")));

    context.kill(&operator);
    let lease = traces(context)[3].0.clone();
    context.eventually("the Lease of the killed operator has expired", || {
        let renewed = client.get(&lease)?["spec"]["renewTime"].as_str()?.parse::<jiff::Timestamp>().ok()?;
        (Clock::system().now().duration_since(renewed).as_secs() > 10).then_some(())
    });
    assert!(has_record(), "the record of a killed operator stays");
    let protection = Protection::of_secrets(context);
    let done = kopfd(context, &options);
    let account = texts(&done);
    assert_eq!(done.status.code(), Some(1), "{account}");
    let secret = format!("Secret {namespace}/made");
    for (path, title) in traces(context) {
        let is_secret = title == secret;
        assert_eq!(client.get(&path).is_some(), is_secret, "{path}: {account}");
        assert_eq!(account.contains(&format!("deleted {title}\n")), !is_secret, "{title}: {account}");
    }
    assert!(
        account.contains(&format!("left:\n  {secret}: ")) && account.contains("Secrets are kept here"),
        "{account}"
    );
    assert!(account.contains(&format!("removed the peer {own}\n")) && !has_record(), "{account}");
    assert!(account.contains(&format!("freed {} {namespace}/kept\n", kind.selector())), "{account}");
    assert!(!has_finalizer(&context.get(kind, "kept").expect("objects stay")), "{account}");

    protection.end();
    let done = kopfd(context, &options);
    let account = texts(&done);
    assert!(
        done.status.success() && account.contains(&format!("deleted {secret}\n")) && !account.contains("left:"),
        "{account}"
    );
    assert!(client.get(&traces(context)[2].0).is_none());
}

/// The Job of a package that frees objects. There are no nodes, so its program runs here, with the token of its
/// account.
struct Janitor<'a> {
    context: &'a TestContext<'a>,
    account: String,
    arguments: Vec<String>,
    kubeconfig: PathBuf,
    directory: PathBuf,
}

impl<'a> Janitor<'a> {
    /// Applies the Job of an operator whose namespace is `home`, and its account.
    fn apply(context: &'a TestContext<'a>, launch: &Launch, home: &str) -> Self {
        let package = context.directory().join("package");
        let [source, output] = [&launch.source, &package].map(|path| path.to_str().expect("our own paths are UTF-8"));
        let done = kopfd(context, &["package", source, "--plain", "--operator-namespace", home, "--output", output]);
        assert!(done.status.success(), "{}", texts(&done));
        let file = package.join("janitor/janitor.yaml");
        let applied = context.cluster().kubectl_ok(&["apply", "-f", &file.display().to_string(), "-o", "json"]);
        let applied: Value = serde_json::from_str(&applied).expect("kubectl prints JSON");
        let of_kind =
            |kind: &str| applied["items"].as_array().and_then(|items| items.iter().find(|item| item["kind"] == kind));
        let job = of_kind("Job").expect("the janitor is a Job");
        let account = of_kind("ServiceAccount")
            .and_then(|account| account["metadata"]["name"].as_str())
            .expect("the Job has an account");
        // The account is in another namespace than the pod of this test.
        let mut elsewhere = job.clone();
        elsewhere["spec"]["template"]["spec"].as_object_mut().expect("a pod has a spec").remove("serviceAccountName");
        Restricted::new(context).create_pod(&elsewhere).expect("the pod has no privileges");
        let token = account_token(context.client(), account);
        let kubeconfig = context.cluster().api_server().kubeconfig_of(context.directory(), &token);
        let arguments = job
            .pointer("/spec/template/spec/containers/0/args")
            .and_then(Value::as_array)
            .expect("the container has arguments");
        let arguments = arguments.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let directory = context.directory().join("pod");
        std::fs::create_dir_all(&directory).expect("the directory of the case can be written");
        Self { context, account: account.to_owned(), arguments, kubeconfig, directory }
    }

    /// Runs the program of the Job in an empty directory until it frees objects, and returns its account.
    fn frees(&self) -> String {
        // The API server reads roles from a watch.
        self.context.eventually("the Job frees the objects", || {
            let mut command = Command::new(&self.context.cluster().tools().kopfd);
            command.args(&self.arguments).env_clear().env("KUBECONFIG", &self.kubeconfig).current_dir(&self.directory);
            let done = output_of(&mut command);
            (done.status.success() && texts(&done).contains("freed")).then(|| texts(&done))
        })
    }

    fn delete(&self) {
        let (cluster, account) = (self.context.cluster(), &self.account);
        let others = ["clusterrole", "clusterrolebinding"].map(|kind| format!("{kind}/{account}"));
        cluster.kubectl_ok(&["delete", &others[0], &others[1]]);
        cluster.kubectl_ok(&[
            "delete",
            "-n",
            "default",
            &format!("job/{account}"),
            &format!("serviceaccount/{account}"),
        ]);
    }
}

fn the_job_frees_objects_with_its_own_rights(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("delete", "bye")]);
    let operator = context.start(&launch);
    context.create(&kind, "held", json!({}));
    context.object(&kind, "held", "has the finalizer", has_finalizer);
    context.kill(&operator);
    context.delete(&kind, "held");
    assert!(context.get(&kind, "held").is_some(), "nobody handles its deletion");
    let janitor = Janitor::apply(context, &launch, &context.namespace);
    janitor.frees();
    context.gone(&kind, "held");
    assert_eq!(context.calls_of("held"), [""; 0], "no handler is called");
    janitor.delete();
}

fn a_namespace_that_waits_for_an_operator_that_is_gone_is_freed_by_the_job(context: &TestContext<'_>) {
    let (client, kind) = (context.client(), context.thing());
    let home = format!("home-of-{}", context.namespace);
    let path = format!("/api/v1/namespaces/{home}");
    context.make_namespace(&home);
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("delete", "bye")]);
    let launch = Launch { namespaces: vec![home.clone()], ..launch };
    let operator = context.start(&launch);
    let names = ["one", "two", "three"];
    for name in names {
        context.create_in(&home, &kind, name, json!({}));
        context.eventually(&format!("{name} has the finalizer"), || {
            client.get(&kind.path(&home, name)).filter(has_finalizer)
        });
    }
    // Another controller's finalizer is not this operator's business.
    let own = json!(["example.com/other", FINALIZER]);
    client.merge(&kind.path(&home, "three"), &json!({"metadata": {"finalizers": own}}));
    context.kill(&operator);

    client.delete(&path);
    context.eventually("the namespace waits for the finalizers", || {
        let namespace = client.get(&path).expect("its objects hold it");
        let conditions = namespace["status"]["conditions"].as_array()?;
        let is_waiting =
            |condition: &Value| condition["type"] == "NamespaceFinalizersRemaining" && condition["status"] == "True";
        (namespace["status"]["phase"] == "Terminating" && conditions.iter().any(is_waiting)).then_some(())
    });
    let held = client.list(&kind.collection(&home));
    assert!(
        held.len() == names.len() && held.iter().all(|object| object["metadata"]["deletionTimestamp"].is_string()),
        "{held:?}"
    );
    // No operator could be started there any more.
    let pod = json!({"metadata": {"name": "late"}, "spec": {"containers": [{"name": "operator", "image": "none"}]}});
    let refused = client.request("POST", &format!("{path}/pods"), "application/json", Some(&pod));
    assert_eq!(refused.expect_err("the namespace takes no pods").status, 403);

    let janitor = Janitor::apply(context, &launch, &home);
    std::fs::remove_dir_all(&launch.source).expect("our own directory can be removed");
    let account = janitor.frees();
    for name in names {
        assert!(account.contains(&format!("freed {} {home}/{name}\n", kind.selector())), "{account}");
    }
    context.eventually("only the object of the other controller is left", || {
        let left = client.list(&kind.collection(&home));
        (left.len() == 1 && left[0]["metadata"]["finalizers"] == json!(["example.com/other"])).then_some(())
    });
    client.merge(&kind.path(&home, "three"), &json!({"metadata": {"finalizers": null}}));
    context.eventually("the namespace is gone", || client.get(&path).is_none().then_some(()));
    assert_eq!(context.calls().len(), 0, "no handler is called");
    janitor.delete();
}
