//! The log of `kopfd run` with hostile texts and with Secrets, in every form and at the lowest level.

use std::io::Read as _;

use kopfd::cluster::Request;
use kopfd::kit::visible;
use serde_json::{Value, json};

use super::Cluster;
use crate::child::{LIMIT, Process};

const FORMS: [&str; 3] = ["plain", "full", "json"];

/// A running operator.
struct Run(Process);

impl Run {
    fn start(cluster: &Cluster, form: &str) -> Self {
        let arguments = ["run", "operator.yaml", "--kubeconfig", "kubeconfig", "--debug", "--log-format", form];
        Self(Process::start(cluster.kopfd().args(arguments)))
    }

    /// Stops it, and returns its log.
    fn end(mut self) -> String {
        let mut pipe = self.0.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut log = Vec::new();
            pipe.read_to_end(&mut log).map(|_| String::from_utf8(log).unwrap())
        });
        self.0.signal("TERM");
        let log = reader.join().unwrap().unwrap();
        assert_eq!(self.0.wait(LIMIT).code(), Some(0), "{log}");
        log
    }
}

const HOSTILE: &str = "one\n[2024-02-29 12:34:56,789] kopfd.objects        [ERROR   ] forged\r\u{1b}[2J\u{9b}1m\u{7}\u{85}\u{202e}\u{2028}\t\"}\n{\"message\": \"forged\"";

/// Tells whether a line is the first one of an entry, or marked as a further one.
fn is_entry(form: &str, line: &str) -> bool {
    match form {
        "full" => regex::Regex::new(r"^(\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [\w.:]+ *\[[A-Z]+ *\] |\t)")
            .unwrap()
            .is_match(line),
        "json" => serde_json::from_str::<Value>(line)
            .is_ok_and(|entry| entry["message"].is_string() && entry["timestamp"].is_string()),
        _ => !line.starts_with("forged") && !line.starts_with("[2024-02-29") && !line.starts_with('{'),
    }
}

#[test]
fn no_text_of_an_object_or_a_script_forges_lines_or_controls_terminals() {
    let cluster = Cluster::start();
    let api = cluster.client();
    cluster.write(
        "operator.yaml",
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: tested}\nspec:\n  resources:\n    - resource: clusterroles\n      labels: {app: tested}\n      \
         handlers:\n        - on: create\n          id: logs\n          run: 'logger.info(name + annotations.text); return annotations.text;'\n        \
         - {on: create, id: throws, errors: permanent, run: 'throw annotations.text;'}\n        \
         - {on: create, id: fails, errors: permanent, run: 'throw temporary(annotations.text, 0);', retries: 1}\n",
    );
    for (number, form) in FORMS.into_iter().enumerate() {
        // Names of roles may have any character except `/` and `%`.
        let name = format!("{number}{HOSTILE}");
        let metadata = json!({"name": name, "labels": {"app": "tested"}, "annotations": {"text": HOSTILE}});
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []});
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let run = Run::start(&cluster, form);
        api.send(&Request::post(path).with_json("application/json", &role)).unwrap();
        let is_handled = |list: &Value| {
            let handled = |role: &Value| {
                role["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"].is_string()
            };
            list["items"].as_array().unwrap().iter().filter(|role| role["metadata"]["name"] == *name).all(handled)
        };
        api.wait(&format!("{path}?labelSelector=app%3Dtested"), is_handled);
        let log = run.end();
        assert!(log.contains("Handler 'throws' failed with an exception") && log.contains("forged"), "{log}");
        for line in log.lines() {
            assert!(is_entry(form, line), "{form}: {line:?}\n{log}");
            assert!(!line.strip_prefix('\t').unwrap_or(line).contains(visible::is_hidden), "{form}: {line:?}");
        }
        if form == "json" {
            let has_all =
                |line: &str| serde_json::from_str::<Value>(line).unwrap()["message"] == *format!("{name}{HOSTILE}");
            assert!(log.lines().any(has_all), "the text itself is kept:\n{log}");
        }
    }
}

#[test]
fn values_of_secrets_are_in_no_log() {
    let cluster = Cluster::start();
    let api = cluster.client();
    let manifest = "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: tested}\nspec:\n  \
         settings: {posting: {loggers: true, level: debug}, queueing: {errorDelays: [10ms]}, networking: {errorBackoffs: []}, persistence: {secrets: FORM}}\n  \
         resources:\n    - resource: v1/secrets\n      labels: {app: tested}\n      handlers:\n        \
         - {on: create, id: made, run: 'patch.metadata.annotations.seen = body.data.len().to_string(); return body.data;'}\n        \
         - {on: update, id: changed, run: 'patch.stringData.made = \"correct\" + \"-horse\"; throw permanent(\"no\");'}\n        \
         - {on: field, id: rotated, field: data.password, run: 'return #{old: old, new: new};'}\n        \
         - {on: update, id: refused, errors: permanent, run: 'k8s::patch(\"v1/secrets\", name, #{data: #{bad: \"hunt\" + \"er2-in-clear\"}});'}\n        \
         - {on: delete, id: gone, run: 'return body.data;'}\n";
    cluster.write("secrets.key", &"0123456789abcdef".repeat(2));
    for form in FORMS {
        for stored in ["values", "digests"] {
            cluster.write("operator.yaml", &manifest.replace("FORM", stored));
            let mut command = cluster.kopfd();
            command.args(["run", "operator.yaml", "--kubeconfig", "kubeconfig", "--debug", "--log-format", form]);
            let run = Run(Process::start(match form {
                "plain" => command.args(["--secrets-key-file", "secrets.key"]),
                _ => command.env("KOPFD_SECRETS_KEY_FILE", "secrets.key"),
            }));
            let path = "/api/v1/namespaces/default/secrets";
            let applied = json!({"stringData": {"password": "hunter2-applied"}}).to_string();
            let metadata = json!({
                "name": "one", "namespace": "default", "labels": {"app": "tested"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": applied},
            });
            // hunter2-hunter2
            let data = json!({"password": "aHVudGVyMi1odW50ZXIy"});
            let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
            api.send(&Request::post(path).with_json("application/json", &secret)).unwrap();
            let handled = |text: &str| {
                let text = text.to_owned();
                move |found: &Value| {
                    let essence =
                        found["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"].as_str();
                    essence.is_some_and(|essence| essence.contains(&text))
                }
            };
            api.wait(&format!("{path}/one"), handled("password"));
            // correct-horse
            let patch = json!({"data": {"password": "Y29ycmVjdC1ob3JzZQ==", "second": "Y29ycmVjdC1ob3JzZQ=="}});
            api.send(&Request::patch(format!("{path}/one")).with_json("application/merge-patch+json", &patch)).unwrap();
            api.wait(&format!("{path}/one"), handled("second"));
            api.send(&Request::new(http::Method::DELETE, format!("{path}/one"))).unwrap();
            api.wait(path, |list| list["items"].as_array().unwrap().is_empty());
            let log = run.end();
            for told in ["is in progress", "diff: ", "***", "Handler 'refused' failed"] {
                assert!(log.contains(told), "{form}: {told:?} is missing in\n{log}");
            }
            let values = ["hunter2", "aHVudGVyM", "correct-horse", "Y29ycmVjdC1ob3JzZ"];
            for line in log.lines() {
                assert!(!values.iter().any(|value| line.contains(value)), "{form}, {stored}: {line}");
            }
            let events =
                api.runtime.block_on(api.client.request(&Request::get("/api/v1/namespaces/default/events"))).unwrap();
            let events = String::from_utf8(events.body.to_vec()).unwrap();
            assert!(
                events.contains("is in progress") && !values.iter().any(|value| events.contains(value)),
                "{events}"
            );
        }
    }
}

#[test]
fn digests_need_a_usable_key() {
    let cluster = Cluster::start();
    let manifest =
        super::operator("create", "return 1;").replace("settings: {", "settings: {persistence: {secrets: digests}, ");
    cluster.write("operator.yaml", &manifest);
    let printed = |arguments: &[&str]| {
        let run =
            super::output(cluster.kopfd().args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]).args(arguments));
        assert_eq!(run.status.code(), Some(1));
        String::from_utf8(run.stderr).unwrap()
    };
    let hint = "hint: `head -c 32 /dev/urandom | base64 > FILE` makes a key; name the file by `--secrets-key-file` or KOPFD_SECRETS_KEY_FILE\n";
    assert_eq!(
        printed(&[]),
        format!("error: the setting persistence.secrets of operator 'tested' is `digests`, and needs a key\n{hint}")
    );
    cluster.write("short.key", "a-secret-key");
    let refused = printed(&["--secrets-key-file", "short.key"]);
    let reason = "the key in line 1 has fewer than 32 characters";
    assert_eq!(refused, format!("error: the keys of digests in short.key cannot be used: {reason}\n{hint}"));
    assert!(
        printed(&["--secrets-key-file", "none.key"])
            .starts_with("error: the keys of digests in none.key cannot be used: ")
    );
    let mut command = cluster.kopfd();
    command.args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"]).env("KOPFD_SECRETS_KEY_FILE", "short.key");
    assert_eq!(
        String::from_utf8(super::output(&mut command).stderr).unwrap(),
        refused,
        "the variable names the file, too"
    );
}
