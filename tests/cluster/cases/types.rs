//! Server-side applies of objects with values of wrong types. A real server answers them as internal errors; kopfd
//! tells them from others by the first words of the message, and does not repeat them.

use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Kind, Launch, TestContext, WriteProxy};

pub(crate) const CASES: &[Case] = cases![applied_objects_with_values_of_wrong_types_are_final_after_one_request];

/// The first words of the message.
const FIRST_WORDS: &str = "failed to create typed patch object";

/// The handlers, each with the object that it applies. `GROUP` is the group of the case.
const APPLIED: [(&str, &str, &str); 4] = [
    (
        "text",
        "configmaps/text",
        r#"#{ apiVersion: "v1", kind: "ConfigMap", metadata: #{ name: "text" }, data: #{ a: 1 } }"#,
    ),
    (
        "number",
        "deployments/number",
        r#"#{ apiVersion: "apps/v1", kind: "Deployment", metadata: #{ name: "number" }, spec: #{
            replicas: "two", selector: #{ matchLabels: #{ a: "b" } },
            template: #{ metadata: #{ labels: #{ a: "b" } }, spec: #{ containers: [#{ name: "c", image: "i" }] } },
        } }"#,
    ),
    (
        "custom",
        "shelves/custom",
        r#"#{ apiVersion: "GROUP/v1", kind: "Shelf", metadata: #{ name: "custom" }, spec: #{ size: "two" } }"#,
    ),
    (
        "right",
        "configmaps/right",
        r#"#{ apiVersion: "v1", kind: "ConfigMap", metadata: #{ name: "right" }, data: #{ a: "1" } }"#,
    ),
];

fn applied_objects_with_values_of_wrong_types_are_final_after_one_request(context: &TestContext<'_>) {
    let kind = context.thing();
    install_shelves(context);
    let proxy = WriteProxy::open(context.client(), usize::MAX);
    let launch = Launch { kubeconfig: proxy.kubeconfig(context.directory()), ..launch(context, &kind) };
    let operator = context.start(&launch);
    context.create(&kind, "one", json!({}));
    // No handler is retried, so it does not take longer than four applies.
    context.handled(&kind, "one");
    let log = operator.log();
    let writes = proxy.writes();
    for (handler, place, _) in APPLIED {
        let applied = writes.iter().filter(|write| write.path.ends_with(&format!("/{place}")));
        let statuses: Vec<u16> = applied.map(|write| write.status).collect();
        let told =
            log.lines().filter(|line| line.contains(&format!("Handler '{handler}' "))).collect::<Vec<_>>().join("\n");
        if handler == "right" {
            assert_eq!(statuses, [201], "{handler}: {told}");
            continue;
        }
        assert_eq!(statuses, [500], "{handler}: {told}");
        assert_eq!(told.matches("failed with an exception and will stop now").count(), 1, "{handler}: {told}");
        assert!(told.contains(FIRST_WORDS), "{handler}: {told}");
    }
    let stored = context.client().get(&format!("/api/v1/namespaces/{}/configmaps/right", context.namespace));
    assert_eq!(stored.map(|object| object["data"].clone()), Some(json!({"a": "1"})));
}

/// Writes an operator with a handler for each object, and returns its start options.
fn launch(context: &TestContext<'_>, kind: &Kind) -> Launch {
    let mut handlers = Vec::new();
    let mut script = String::new();
    for (id, _, object) in APPLIED {
        handlers.push(json!({"on": "create", "id": id, "fn": format!("apply_{id}"), "errors": "permanent"}));
        let _ = writeln!(script, "fn apply_{id}() {{\n    k8s::apply({});\n}}", object.replace("GROUP", &kind.group));
    }
    let manifest = json!({
        "apiVersion": "kopfd.dev/v1", "kind": "Operator", "metadata": {"name": "types"},
        "spec": {"resources": [{"resource": kind.selector(), "script": "types.rhai", "handlers": handlers}]},
    });
    let directory = context.directory().join("types");
    fs::create_dir_all(&directory).expect("the directory of the case is writable");
    for (name, content) in [("operator.yaml", manifest.to_string()), ("types.rhai", script)] {
        fs::write(directory.join(name), content).expect("the directory of the case is writable");
    }
    context.launch_source(&directory)
}

/// Installs a custom kind whose fields have types.
fn install_shelves(context: &TestContext<'_>) {
    let kind = context.own_kind().named("Shelf", "shelves");
    let (path, mut definition) = kind.definition();
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let properties: &mut Value = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    properties["spec"] = spec;
    context.client().ensure(path, &definition);
    // It finds the definition, and waits until it is served.
    context.install(&kind);
}
