//! Secrets and hostile names: what is in the log, and what is stored.

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Launch, TestContext, is_handled, last_handled};

pub(crate) const CASES: &[Case] = cases![
    values_of_secrets_are_neither_in_the_log_nor_in_events,
    digests_of_secrets_survive_restarts_and_tell_changes,
    a_name_of_an_object_forges_no_line_of_the_log,
];

/// The values of the cases, as texts and in base64.
const VALUES: [&str; 4] = ["hunter2", "aHVudGVyM", "correct-horse", "Y29ycmVjdC1ob3JzZ"];

const HANDLERS: &str = "
        - {on: create, id: made, run: 'logger.info(\"made\"); return body.data;'}
        - {on: update, id: changed, run: 'for item in diff { logger.info(`${item.op} ${item.path}`); } patch.type = \"other\"; return body.data;'}
        - {on: resume, id: resumed, run: 'logger.info(\"resumed\");'}";

/// Returns the start options of an operator for Secrets at the lowest level of the log.
fn launch(context: &TestContext<'_>, form: &str, resource: &str, handlers: &str) -> Launch {
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: secrets}}\nspec:\n  settings:\n    posting: {{loggers: true, level: debug}}\n    \
         persistence: {{secrets: {form}}}\n  resources:\n    - resource: {resource}\n      labels: {{app: {}}}\n      handlers:{handlers}\n",
        context.namespace
    );
    let write = |name: &str, text: &str| {
        let path = context.directory().join(name);
        std::fs::write(&path, text).expect("the directory of the case can be written");
        path
    };
    let key = write("secrets.key", "a key of these cases with enough characters\n");
    let launch = context.launch_source(&write("operator.yaml", &manifest));
    Launch { options: vec!["--debug".into(), format!("--secrets-key-file={}", key.display())], ..launch }
}

fn collection(context: &TestContext<'_>) -> String {
    format!("/api/v1/namespaces/{}/secrets", context.namespace)
}

fn create(context: &TestContext<'_>, data: &Value) {
    let metadata = json!({"name": "one", "labels": {"app": context.namespace}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
    context.client().create(&collection(context), &secret);
}

/// Waits until the last handled state satisfies a condition, and returns it.
fn handled(context: &TestContext<'_>, condition: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{}/one", collection(context));
    context.eventually("the Secret is handled", || {
        let secret = context.client().get(&path).filter(is_handled)?;
        last_handled(&secret).filter(&condition)
    })
}

fn values_of_secrets_are_neither_in_the_log_nor_in_events(context: &TestContext<'_>) {
    let operator = context.start(&launch(context, "values", "v1/secrets", HANDLERS));
    // hunter2-hunter2
    create(context, &json!({"password": "aHVudGVyMi1odW50ZXIy"}));
    handled(context, |essence| essence["data"]["password"] == "aHVudGVyMi1odW50ZXIy");
    // The type is immutable, and the patch is refused.
    context
        .client()
        .merge(&format!("{}/one", collection(context)), &json!({"data": {"password": "Y29ycmVjdC1ob3JzZQ=="}}));
    context.eventually("the patch was refused", || operator.log().contains("unexpected error").then_some(()));
    let log = operator.log();
    assert!(
        log.contains("is in progress: ") && log.contains("\"password\":\"***\""),
        "the bodies are logged without values: {log}"
    );
    assert!(!VALUES.iter().any(|value| log.contains(value)), "{log}");
    let events = context.eventually("Events tell the bodies", || {
        let events = context.client().list(&format!("/api/v1/namespaces/{}/events", context.namespace));
        let text = json!(events).to_string();
        text.contains("is in progress: ").then_some(text)
    });
    assert!(!VALUES.iter().any(|value| events.contains(value)), "{events}");
}

fn digests_of_secrets_survive_restarts_and_tell_changes(context: &TestContext<'_>) {
    let launch = launch(context, "digests", "v1/secrets", &HANDLERS.replace("patch.type = \"other\"; ", ""));
    let first = context.start(&launch);
    create(context, &json!({"password": "aHVudGVyMi1odW50ZXIy", "same": "YQ=="}));
    let essence = handled(context, |_| true);
    let is_digest = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("hmac-sha256:"));
    assert!(is_digest(&essence["data"]["password"]) && is_digest(&essence["data"]["same"]), "{essence}");
    context.stop(&first);
    let second = context.start(&launch);
    context.eventually("the Secret is resumed", || second.log().contains("] resumed").then_some(()));
    context
        .client()
        .merge(&format!("{}/one", collection(context)), &json!({"data": {"password": "Y29ycmVjdC1ob3JzZQ=="}}));
    let changed = handled(context, |changed| changed["data"]["password"] != essence["data"]["password"]);
    assert_eq!(changed["data"]["same"], essence["data"]["same"]);
    let log = second.log();
    assert_eq!(log.matches("] change data.").count(), 1, "only the changed value is told: {log}");
    assert!(log.contains("] change data.password"), "{log}");
    assert!(!VALUES.iter().any(|value| log.contains(value)), "{log}");
}

fn a_name_of_an_object_forges_no_line_of_the_log(context: &TestContext<'_>) {
    let run = "run: 'logger.info(name); throw name;'";
    let operator = context.start(&launch(
        context,
        "values",
        "clusterroles",
        &format!("\n        - {{on: create, id: told, errors: permanent, {run}}}"),
    ));
    // Names of roles may have any character except `/` and `%`.
    let name = format!("{}\n[2024-02-29 12:34:56,789] forged\r\u{1b}[2J\u{9b}1m\u{202e}\u{2028}", context.namespace);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name, "labels": {"app": context.namespace}}, "rules": [],
    });
    context.client().create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role);
    context.eventually("the handler has failed", || operator.log().contains("Creation is processed").then_some(()));
    let log = operator.log();
    for line in log.lines().filter(|line| line.contains("forged")) {
        let text = line.strip_prefix('\t').unwrap_or(line);
        assert!(!text.contains(kopfd::kit::visible::is_hidden), "{line:?}");
        assert!(text != line || !line.starts_with("[2024-02-29"), "{line:?}");
    }
    assert!(log.contains(r"\x1b[2J\x9b1m\u202e\u2028"), "{log}");
}
