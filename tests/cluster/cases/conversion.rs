//! The conversion example on a real API server: a kind in three versions, read and written in all of them by kubectl.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::cases;
use super::examples::example;
use crate::harness::child::output;
use crate::harness::{Case, Launch, TestContext};

pub(crate) const CASES: &[Case] = cases![
    objects_are_written_and_read_in_all_versions,
    errors_of_conversions_are_shown_by_kubectl,
    requests_for_other_versions_fail_while_the_operator_is_away,
    an_edited_definition_is_restored_and_stays_at_the_exit,
];

/// The example with a group of its own, since its definition belongs to the whole cluster.
struct Archives<'a, 'c> {
    context: &'a TestContext<'c>,
    group: String,
    directory: PathBuf,
}

impl<'a, 'c> Archives<'a, 'c> {
    fn install(context: &'a TestContext<'c>) -> Self {
        let group = format!("{}.example.com", context.namespace);
        let directory = context.directory().join("archives");
        std::fs::create_dir_all(&directory).expect("the directory of an operator can be made");
        for name in ["crd.yaml", "operator.yaml", "archives.rhai", "obj.yaml"] {
            let text = std::fs::read_to_string(example("18-conversion").join(name)).expect("the example has the file");
            let text = text.replace("example.com", &group).replace("port: 9443, host: localhost", "addr: 127.0.0.1");
            std::fs::write(directory.join(name), text).expect("a file of the operator can be written");
        }
        let archives = Self { context, group, directory };
        let crd = archives.file("crd.yaml");
        context.cluster().kubectl_ok(&["apply", "--server-side", "-f", &crd]);
        context.cluster().kubectl_ok(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &crd]);
        archives
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    fn launch(&self) -> Launch {
        let launch = self.context.launch_source(&self.directory.join("operator.yaml"));
        self.context.with_derived_rights(launch)
    }

    /// Runs kubectl in the namespace of the case; the error is what it prints.
    fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.context.cluster().kubectl(&[&["-n", &self.context.namespace], arguments].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    fn resource(&self, version: &str) -> String {
        format!("archives.{version}.{}", self.group)
    }

    fn get(&self, version: &str, name: &str) -> Result<Value, String> {
        let printed = self.kubectl(&["get", &self.resource(version), name, "-o", "json"])?;
        Ok(serde_json::from_str(&printed).expect("kubectl prints JSON"))
    }

    fn apply(&self, version: &str, name: &str, annotations: &Value, spec: &Value) -> Result<String, String> {
        let metadata = json!({"name": name, "annotations": annotations});
        let object = json!({"apiVersion": format!("{}/{version}", self.group), "kind": "Archive", "metadata": metadata, "spec": spec});
        let file = self.file(&format!("{name}.json"));
        std::fs::write(&file, object.to_string()).expect("an object can be written");
        self.kubectl(&["apply", "-f", &file])
    }

    fn definition_path(&self) -> String {
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/archives.{}", self.group)
    }

    /// Returns the conversion of the definition.
    fn conversion(&self) -> Value {
        self.context.client().get(&self.definition_path()).expect("the definition exists")["spec"]["conversion"].clone()
    }

    /// Waits until the API server converts: it reads changed definitions a moment later.
    fn wait_until_converting(&self) {
        self.context.eventually("the API server converts", || {
            self.apply("v1beta1", "probe", &json!({}), &json!({"storage": {"size": 1}})).ok()
        });
        self.kubectl(&["delete", &self.resource("v1"), "probe"]).expect("the probe can be deleted");
    }
}

fn objects_are_written_and_read_in_all_versions(context: &TestContext<'_>) {
    let archives = Archives::install(context);
    let operator = context.start(&archives.launch());
    archives.wait_until_converting();
    archives
        .kubectl(&["apply", "-f", &archives.file("obj.yaml")])
        .expect("an object of the oldest version is accepted");
    let newest = context.eventually("the object is handled", || {
        archives.get("v1", "mails").ok().filter(|object| object["status"]["total"] == 20)
    });
    assert_eq!(newest["spec"], json!({"volumes": [{"name": "data", "size": 20, "class": "cheap"}]}));
    assert_eq!(
        archives.get("v1beta1", "mails").expect("it is read")["spec"],
        json!({"storage": {"size": 20, "class": "cheap"}})
    );
    let oldest = archives.get("v1alpha1", "mails").expect("it is read");
    assert_eq!(
        (&oldest["spec"], &oldest["status"]),
        (&json!({"size": "20Gi", "class": "cheap"}), &json!({"total": 20}))
    );
    assert_eq!(oldest["metadata"]["uid"], newest["metadata"]["uid"]);
    // What the old version has no place for survives a change in it.
    let volumes = json!({"volumes": [{"name": "first", "size": 5}, {"name": "second", "size": 7, "class": "fast"}]});
    archives.apply("v1", "pictures", &json!({}), &volumes).expect("an object of the newest version is accepted");
    archives
        .kubectl(&[
            "patch",
            &archives.resource("v1alpha1"),
            "pictures",
            "--type=merge",
            "-p",
            r#"{"spec": {"size": "9Gi"}}"#,
        ])
        .expect("patched");
    let changed = context.eventually("the change is handled", || {
        archives.get("v1", "pictures").ok().filter(|object| object["status"]["total"] == 16)
    });
    assert_eq!(
        changed["spec"]["volumes"],
        json!([{"name": "first", "size": 9}, {"name": "second", "size": 7, "class": "fast"}])
    );
    // A list has several objects in one review.
    let listed: Value = serde_json::from_str(
        &archives.kubectl(&["get", &archives.resource("v1alpha1"), "-o", "json"]).expect("listed"),
    )
    .expect("JSON");
    let sizes: Vec<&Value> =
        listed["items"].as_array().expect("a list").iter().map(|item| &item["spec"]["size"]).collect();
    assert_eq!(sizes, ["20Gi", "9Gi"]);
    assert!(!operator.log().contains("ERROR"), "{}", operator.log());
    context.stop(&operator);
}

fn errors_of_conversions_are_shown_by_kubectl(context: &TestContext<'_>) {
    let archives = Archives::install(context);
    let operator = context.start(&archives.launch());
    archives.wait_until_converting();
    let key = format!("{}/volumes", archives.group);
    let refused = archives
        .apply("v1beta1", "broken", &json!({key: "{"}), &json!({"storage": {"size": 1}}))
        .expect_err("it cannot be converted");
    let expected = format!("conversion webhook for {}/v1beta1, Kind=Archive failed: ", archives.group);
    assert!(
        refused.contains(&expected) && refused.contains("cannot be converted to") && refused.contains("json::parse"),
        "{refused}"
    );
    let log = operator.log();
    assert!(log.contains("Webhook 'convert' failed") && log.contains("archives.rhai"), "the log has the place: {log}");
    // Another object is converted all the same.
    archives.apply("v1beta1", "whole", &json!({}), &json!({"storage": {"size": 1}})).expect("it can be converted");
    context.stop(&operator);
}

fn requests_for_other_versions_fail_while_the_operator_is_away(context: &TestContext<'_>) {
    let archives = Archives::install(context);
    let launch = archives.launch();
    let early = archives
        .apply("v1beta1", "early", &json!({}), &json!({"storage": {"size": 1}}))
        .expect_err("nobody converts yet");
    assert!(early.contains("conversion webhook for"), "{early}");
    let operator = context.start(&launch);
    archives.wait_until_converting();
    archives.apply("v1beta1", "a", &json!({}), &json!({"storage": {"size": 3}})).expect("it is converted");
    context.kill(&operator);
    let refused = archives.get("v1beta1", "a").expect_err("nobody converts");
    assert!(refused.contains("conversion webhook for") && refused.contains("connection refused"), "{refused}");
    assert_eq!(
        archives.get("v1", "a").expect("the stored version needs no conversion")["spec"]["volumes"][0]["size"],
        3
    );
    // The next run has another port, which the API server is told.
    let operator = context.start(&launch);
    let again = context.eventually("conversions work again", || archives.get("v1beta1", "a").ok());
    assert_eq!(again["spec"], json!({"storage": {"size": 3}}));
    context.stop(&operator);
}

fn an_edited_definition_is_restored_and_stays_at_the_exit(context: &TestContext<'_>) {
    let archives = Archives::install(context);
    let operator = context.start(&archives.launch());
    archives.wait_until_converting();
    let written = archives.conversion();
    assert!(written["webhook"]["clientConfig"]["caBundle"].is_string(), "{written}");
    let path = archives.definition_path();
    let none =
        json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}, "metadata": {"labels": {"mine": "yes"}}});
    context.client().merge(&path, &none);
    context.eventually("the edited definition is restored", || (archives.conversion() == written).then_some(()));
    let restored = context.client().get(&path).expect("it is there");
    assert_eq!(restored["metadata"]["labels"]["mine"], "yes", "the rest stays as others have written it");
    assert_eq!(operator.log().matches("by another client").count(), 1, "{}", operator.log());
    context.stop(&operator);
    assert_eq!(archives.conversion(), written, "the definition stays");
    let mut command = Command::new(&context.cluster().tools().kopfd);
    let places = ["-n", &context.namespace, "--operator-namespace", &context.namespace];
    command.arg("uninstall").arg(archives.directory.join("operator.yaml")).args(places);
    let done = output(command.env("KUBECONFIG", context.cluster().api_server().kubeconfig()));
    let account = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = format!("kept the conversion of definition archives.{}: ", archives.group);
    assert!(done.status.success() && account.contains(&told), "{account}");
    assert_eq!(archives.conversion(), written, "it is only told");
}
