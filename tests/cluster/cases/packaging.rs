//! What `kopfd package` writes: accepted by the API server under the security level `restricted`, by kubectl, kustomize
//! and Helm.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::cases;
use crate::harness::child::output;
use crate::harness::{Case, TestContext};

pub(crate) const CASES: &[Case] = cases![
    plain_documents_are_accepted_without_privileges,
    a_base_for_kustomize_is_built_and_accepted,
    a_chart_passes_the_lint_and_is_accepted,
    a_pod_with_privileges_is_not_accepted,
    the_generic_base_is_accepted,
    the_generic_chart_is_accepted,
];

/// The fields of a service monitor that are used: unknown ones are refused.
const SERVICE_MONITORS: &str = include_str!("service-monitors.yaml");

/// A namespace that admits only pods without privileges.
pub(crate) struct Restricted<'a> {
    context: &'a TestContext<'a>,
    namespace: String,
}

fn guard() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/packaging/guard/operator.yaml")
}

/// Returns a program that `tests/cluster/tools` has built.
fn tool(name: &str) -> Command {
    let directory = std::env::var_os("KOPFD_CLUSTER_TOOLS")
        .expect("KOPFD_CLUSTER_TOOLS is not set; start the suite by tests/cluster/run");
    Command::new(PathBuf::from(directory).join(name))
}

fn printed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = output(command);
    assert!(status.success(), "{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("programs print UTF-8")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("our own paths are UTF-8")
}

impl<'a> Restricted<'a> {
    pub(crate) fn new(context: &'a TestContext<'a>) -> Self {
        let namespace = format!("restricted-{}", context.namespace);
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        context.client().ensure("/api/v1/namespaces", &json!({"metadata": {"name": namespace, "labels": labels}}));
        Self { context, namespace }
    }

    /// Also applies the definitions that packages need.
    fn with_definitions(context: &'a TestContext<'a>) -> Self {
        let monitors = context.directory().join("service-monitors.yaml");
        std::fs::write(&monitors, SERVICE_MONITORS).expect("the directory of the case can be written");
        let peerings = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests/peering/kopf.dev.yaml");
        for file in [monitors, peerings] {
            context.cluster().kubectl_ok(&["apply", "--server-side", "--force-conflicts", "-f", path(&file)]);
            context.cluster().kubectl_ok(&["wait", "--for=condition=Established", "--timeout=60s", "-f", path(&file)]);
        }
        Self::new(context)
    }

    /// Writes a package with everything that packages can have, and returns its directory.
    fn package(&self, form: &str, options: &[&str]) -> PathBuf {
        let directory = self.context.directory().join("package");
        let mut command = Command::new(&self.context.cluster().tools().kopfd);
        let files = ["--peering", "default", "--service-monitor", "--output", path(&directory)];
        printed(command.arg("package").arg(guard()).arg(form).args(files).args(options));
        directory
    }

    /// Has the API server check objects as if it stored them, and returns those that it would have stored.
    fn accepted(&self, documents: &str) -> Vec<Value> {
        let file = self.context.directory().join("documents.yaml");
        std::fs::write(&file, documents).expect("the directory of the case can be written");
        let options = ["--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "--output=json"];
        let arguments = [&["apply", "--namespace", &self.namespace, "--filename", path(&file)], &options[..]].concat();
        let answer = self.context.cluster().kubectl_ok(&arguments);
        // One object is printed as it is, several as a list.
        let mut answer: Value = serde_json::from_str(&answer).expect("kubectl prints JSON");
        match answer["items"].take() {
            Value::Array(items) => items,
            _ => vec![answer],
        }
    }

    /// Checks that the pods of the Deployment are admitted, and returns the kinds of the objects.
    fn check(&self, objects: &[Value]) -> Vec<String> {
        let deployment =
            objects.iter().find(|object| object["kind"] == "Deployment").expect("a package has a Deployment");
        self.create_pod(deployment).expect("the pods are admitted");
        let mut kinds: Vec<String> =
            objects.iter().map(|object| object["kind"].as_str().unwrap_or_default().to_owned()).collect();
        kinds.sort();
        kinds
    }

    /// Creates a pod of a Deployment or a Job, without storing it.
    pub(crate) fn create_pod(&self, workload: &Value) -> Result<Value, String> {
        let mut pod = workload["spec"]["template"].clone();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["generateName"] = json!("guard-");
        let path = format!("/api/v1/namespaces/{}/pods?dryRun=All&fieldValidation=Strict", self.namespace);
        self.context
            .client()
            .request("POST", &path, "application/json", Some(&pod))
            .map_err(|failure| failure.to_string())
    }
}

/// The kinds of a package with everything, in the namespace that exists already.
const KINDS: [&str; 16] = [
    "ClusterKopfPeering",
    "ClusterRole",
    "ClusterRoleBinding",
    "ConfigMap",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "CustomResourceDefinition",
    "Deployment",
    "Namespace",
    "PodDisruptionBudget",
    "Role",
    "RoleBinding",
    "Service",
    "Service",
    "ServiceAccount",
    "ServiceMonitor",
];

fn plain_documents_are_accepted_without_privileges(context: &TestContext<'_>) {
    let restricted = Restricted::with_definitions(context);
    let namespace = ["--operator-namespace", &restricted.namespace];
    let directory = restricted.package("--plain", &namespace);
    // As kubectl reads a directory.
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in [directory.join("crds"), directory.clone()] {
        let entries =
            std::fs::read_dir(folder).expect("a directory of the package").map(|entry| entry.expect("an entry").path());
        let mut found: Vec<PathBuf> =
            entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")).collect();
        found.sort();
        files.extend(found);
    }
    let texts: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).expect("a file of the package")).collect();
    assert_eq!(restricted.check(&restricted.accepted(&texts.join("---\n"))), KINDS);
    let mut command = Command::new(&context.cluster().tools().kopfd);
    let stream =
        printed(command.arg("package").arg(guard()).args(["-P", "default", "--service-monitor"]).args(namespace));
    assert_eq!(restricted.check(&restricted.accepted(&stream)), KINDS, "the printed documents are the same");
}

fn a_base_for_kustomize_is_built_and_accepted(context: &TestContext<'_>) {
    let restricted = Restricted::with_definitions(context);
    let directory = restricted.package("--kustomize", &["--operator-namespace", &restricted.namespace]);
    let built = printed(tool("kustomize").arg("build").arg(&directory));
    let objects = restricted.accepted(&built);
    assert_eq!(restricted.check(&objects), KINDS);
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").expect("there is a ConfigMap");
    let source =
        std::fs::read_to_string(guard().with_file_name("lib").join("limits.rhai")).expect("a file of the operator");
    assert_eq!((&map["metadata"]["name"], &map["data"]["lib__limits.rhai"]), (&json!("guard-files"), &json!(source)));
}

fn a_chart_passes_the_lint_and_is_accepted(context: &TestContext<'_>) {
    let restricted = Restricted::with_definitions(context);
    let directory = restricted.package("--helm", &[]);
    let linted = printed(tool("helm").args(["lint", "--strict"]).arg(&directory));
    assert!(linted.contains("0 chart(s) failed"), "{linted}");
    let render = |options: &[&str]| {
        let mut command = tool("helm");
        command.args(["template", "guard"]).arg(&directory).args([
            "--namespace",
            &restricted.namespace,
            "--include-crds",
        ]);
        printed(command.args(["--kube-version", "1.36.0"]).args(options))
    };
    let objects = restricted.accepted(&render(&[]));
    let expected: Vec<&str> = KINDS.into_iter().filter(|kind| *kind != "Namespace").collect();
    assert_eq!(restricted.check(&objects), expected);
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").expect("there is a ConfigMap");
    let source = std::fs::read_to_string(guard().with_file_name("guard.rhai")).expect("a file of the operator");
    assert_eq!(map["data"]["guard.rhai"], source, "templates in files are not evaluated");

    let changed = render(&["--set", "replicas=1,image=other:2,serviceMonitor.enabled=false,nodeSelector.disk=ssd"]);
    let objects = restricted.accepted(&changed);
    let kinds = restricted.check(&objects);
    assert!(!kinds.iter().any(|kind| kind == "PodDisruptionBudget" || kind == "ServiceMonitor"), "{kinds:?}");
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("there is a Deployment");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(
        (&deployment["spec"]["replicas"], &pod["containers"][0]["image"], &pod["nodeSelector"]["disk"]),
        (&json!(1), &json!("other:2"), &json!("ssd"))
    );
}

fn manifests(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("manifests").join(name)
}

fn the_generic_base_is_accepted(context: &TestContext<'_>) {
    let restricted = Restricted::with_definitions(context);
    let overlay = context.directory().join("overlay");
    std::fs::create_dir_all(&overlay).expect("the directory of the case can be written");
    // kustomize reads what is below and beside the overlay.
    let copied = |from: &str, to: &Path| {
        std::fs::create_dir_all(to).expect("the directory of the case can be written");
        for entry in std::fs::read_dir(manifests(from))
            .expect("the manifests are there")
            .map(|entry| entry.expect("an entry").path())
        {
            let text =
                std::fs::read_to_string(&entry).expect("a file of text").replace("greetings", &restricted.namespace);
            std::fs::write(to.join(entry.file_name().expect("a file has a name")), text)
                .expect("the directory can be written");
        }
    };
    copied("kustomize/base", &overlay.join("base"));
    copied("kustomize/example", &overlay.join("example"));
    let objects = restricted.accepted(&printed(tool("kustomize").arg("build").arg(overlay.join("example"))));
    let kinds = restricted.check(&objects);
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "Namespace",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ];
    assert_eq!(kinds, expected);
}

/// Values for the generic chart.
const VALUES: &str = "files:
  operator.yaml: |
    apiVersion: kopfd.dev/v1
    kind: Operator
    metadata: {name: greetings}
    spec: {resources: [{resource: v1/configmaps, script: lib/greeting.rhai, handlers: [{on: create, fn: greet}]}]}
  lib/greeting.rhai: |
    fn greet(name) { return `{{ name }}`; }
clusterRules:
  - {apiGroups: [''], resources: [configmaps], verbs: [list, watch, patch]}
";

fn the_generic_chart_is_accepted(context: &TestContext<'_>) {
    let restricted = Restricted::with_definitions(context);
    let (chart, values) = (manifests("chart"), context.directory().join("values.yaml"));
    std::fs::write(&values, VALUES).expect("the directory of the case can be written");
    let linted = printed(tool("helm").args(["lint", "--strict"]).arg(&chart).arg("--values").arg(&values));
    assert!(linted.contains("0 chart(s) failed"), "{linted}");
    let render = |options: &[&str]| {
        let mut command = tool("helm");
        command.args(["template", "greetings"]).arg(&chart).args(["--namespace", &restricted.namespace]);
        printed(command.args(["--kube-version", "1.36.0"]).arg("--values").arg(&values).args(options))
    };
    let objects = restricted.accepted(&render(&[]));
    let expected = [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    ];
    assert_eq!(restricted.check(&objects), expected);
    let map = objects.iter().find(|object| object["kind"] == "ConfigMap").expect("there is a ConfigMap");
    assert_eq!(
        map["data"]["lib__greeting.rhai"], "fn greet(name) { return `{{ name }}`; }\n",
        "templates in files are not evaluated"
    );
    let one = restricted.accepted(&render(&["--set", "replicas=1,clusterRules=null,namespaces={a,b}"]));
    assert_eq!(restricted.check(&one), ["ConfigMap", "Deployment", "ServiceAccount"]);
}

fn a_pod_with_privileges_is_not_accepted(context: &TestContext<'_>) {
    let restricted = Restricted::with_definitions(context);
    let directory = restricted.package("--plain", &["--operator-namespace", &restricted.namespace]);
    let text = std::fs::read_to_string(directory.join("30-deployment.yaml")).expect("a package has a Deployment");
    let mut deployment = restricted.accepted(&text).remove(0);
    assert!(restricted.create_pod(&deployment).is_ok());
    deployment["spec"]["template"]["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] =
        json!(true);
    let refused = restricted.create_pod(&deployment).expect_err("the level is enforced");
    assert!(refused.contains("violates PodSecurity"), "{refused}");
}
