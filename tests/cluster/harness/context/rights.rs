//! Service accounts with the rights that `kopfd rbac` derives, and the check that these suffice.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::super::child::output;
use super::super::client::Client;
use super::super::operator::Launch;
use super::super::wait::{TIMEOUT, eventually};
use super::TestContext;

/// The namespace of the service accounts, which is also that of the kubeconfigs.
const HOME: &str = "default";

/// What an operator logs about a right that it lacks: the check at its start, and its own errors.
const COMPLAINTS: [&str; 2] = ["lacks rights", "no permission"];

/// Options of `run` that `rbac` has, too.
const SHARED_OPTIONS: [&str; 4] = ["--peering=", "--leader-elect", "--lease=", "--apply-crds"];

impl TestContext<'_> {
    /// Returns the start options with an account that has exactly the rights that `kopfd rbac` derives. At the end of
    /// the case, no operator that was started with them may have told that one is missing.
    pub(crate) fn with_derived_rights(&self, launch: Launch) -> Launch {
        let options = rbac_options(&launch);
        let (account, token) =
            self.derived_account(&launch.source, &options.iter().map(String::as_str).collect::<Vec<_>>());
        let kubeconfig = self.cluster.api_server().kubeconfig_of(&self.directory.join(account), &token);
        Launch { kubeconfig, has_derived_rights: true, ..launch }
    }

    /// Makes an account with exactly the rights that `kopfd rbac` derives from a manifest, and returns its name and a
    /// token of it.
    pub(crate) fn derived_account(&self, manifest: &Path, options: &[&str]) -> (String, String) {
        let number = self.launched.replace(self.launched.get() + 1);
        let account = format!("{}-{number}", self.namespace);
        let printed = self.rbac(manifest, &account, options);
        let directory = self.directory.join(&account);
        fs::create_dir_all(&directory).expect("the directory of an account can be made");
        let roles = directory.join("roles.yaml");
        fs::write(&roles, &printed).expect("the roles can be written");
        self.cluster.kubectl_ok(&["apply", "-f", &roles.display().to_string()]);
        self.await_rights(&account, &kopfd::object::yaml::parse(&printed).expect("roles are YAML"));
        let token = account_token(self.client(), &account);
        (account, token)
    }

    /// Returns what `kopfd rbac` prints for an account.
    pub(crate) fn rbac(&self, manifest: &Path, account: &str, options: &[&str]) -> String {
        let mut command = Command::new(&self.cluster.tools().kopfd);
        let printed = output(command.arg("rbac").arg(manifest).args(["--service-account", account]).args(options));
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        String::from_utf8(printed.stdout).expect("the roles are text")
    }

    /// Waits until the API server has read the roles of an account, and their bindings.
    pub(crate) fn await_rights(&self, account: &str, objects: &[Value]) {
        let is_role = |object: &&Value| object["rules"].as_array().is_some_and(|rules| !rules.is_empty());
        for role in objects.iter().filter(is_role) {
            let rule = &role["rules"][0];
            let full_name = rule["resources"][0].as_str().expect("a rule has resources");
            let (resource, subresource) = full_name.split_once('/').unwrap_or((full_name, ""));
            let wanted = json!({
                "namespace": role["metadata"]["namespace"], "group": rule["apiGroups"][0], "resource": resource,
                "subresource": subresource, "verb": rule["verbs"][0], "name": rule["resourceNames"][0],
            });
            eventually(&format!("{account} has its rights: {wanted}"), TIMEOUT, || {
                self.is_allowed(account, &wanted).then_some(())
            });
        }
    }

    /// Tells whether an account may send a request with these attributes.
    pub(crate) fn is_allowed(&self, account: &str, attributes: &Value) -> bool {
        let review = json!({"spec": {"user": format!("system:serviceaccount:{HOME}:{account}"), "resourceAttributes": attributes}});
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = self.client().request("POST", path, "application/json", Some(&review));
        answer.is_ok_and(|answer| answer["status"]["allowed"] == true)
    }

    /// Fails if an operator with derived rights has told that it lacks one, or that a request was refused.
    pub(crate) fn check_derived_rights(&self) {
        for log in self.derived_logs.borrow().iter() {
            let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
            let complaint =
                text.lines().find(|line| is_refusal(line) || COMPLAINTS.iter().any(|words| line.contains(words)));
            assert!(complaint.is_none(), "the derived rights do not suffice: {}", complaint.unwrap_or_default());
        }
    }
}

/// Creates a service account with its roles and bindings.
pub(crate) fn create_account(client: &Client, objects: &[Value]) {
    for object in objects {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (version, namespace) = (text("/apiVersion"), text("/metadata/namespace"));
        let root = if version == "v1" { "/api" } else { "/apis" };
        let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        client.create(&format!("{root}/{version}{place}/{}s", text("/kind").to_lowercase()), object);
    }
}

/// Returns a token of a service account.
pub(crate) fn account_token(client: &Client, account: &str) -> String {
    let path = format!("/api/v1/namespaces/{HOME}/serviceaccounts/{account}/token");
    let answer =
        client.create(&path, &json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}));
    answer["status"]["token"].as_str().expect("there is a token").to_owned()
}

/// Tells whether the API server has refused a request of a service account. Users of other clusters have other names.
fn is_refusal(line: &str) -> bool {
    line.contains("orbidden") && line.contains("system:serviceaccount:")
}

/// Returns the options of `rbac` for an operator that is started with these options.
pub(crate) fn rbac_options(launch: &Launch) -> Vec<String> {
    let namespaces = launch.namespaces.iter().map(|namespace| format!("--namespace={namespace}"));
    let is_shared = |option: &&String| SHARED_OPTIONS.iter().any(|shared| option.starts_with(shared));
    let shared = launch.options.iter().filter(is_shared).cloned();
    let alone = (!launch.has_peers()).then(|| "--standalone".to_owned());
    namespaces.chain(shared).chain(alone).collect()
}
