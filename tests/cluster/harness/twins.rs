//! One declaration of handlers, written twice: as a manifest with a script for kopfd, and as a Python file for kopf.
//!
//! Both do the same: each call creates a ConfigMap, whose revision orders the call among the versions of the object.
//! The object controls the behaviour of calls: `spec.steps.<handler id>` is a list with one step per attempt,
//! and `spec.quiet` disables the ConfigMaps.

use serde_json::Value;

use super::kind::Kind;

/// A handler with the same id in both engines.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    id: String,
    on: String,
    options: Vec<(String, Value)>,
}

impl Handler {
    /// Returns a handler of one cause: `create`, `update`, `delete`, `resume`, `field` or `event`.
    pub(crate) fn on(on: &str, id: &str) -> Self {
        Self { id: id.to_owned(), on: on.to_owned(), options: Vec::new() }
    }

    /// Returns the handler with an option that has the same name and meaning in both engines, such as `retries`,
    /// `field` or `labels`.
    pub(crate) fn with(mut self, option: &str, value: impl Into<Value>) -> Self {
        self.options.push((option.to_owned(), value.into()));
        self
    }
}

/// The destination of the calls' ConfigMaps.
pub(crate) struct Notes<'a> {
    /// The namespace of the ConfigMaps.
    pub(crate) namespace: &'a str,
    /// The address of the API server, for Python.
    pub(crate) url: &'a str,
    /// The token, for Python.
    pub(crate) token: &'a str,
}

/// Returns the manifest of handlers for some kinds.
pub(crate) fn manifest(name: &str, kinds: &[Kind], handlers: &[Handler]) -> String {
    let bindings: Vec<String> = handlers.iter().map(|handler| format!("        - {}", handler.in_yaml())).collect();
    let bindings = bindings.join("\n");
    let block = |kind: &Kind| {
        let selector = if kind.group.is_empty() { format!("v1/{}", kind.plural) } else { kind.selector() };
        format!("    - resource: {selector}\n      script: twin.rhai\n      handlers:\n{bindings}")
    };
    let blocks = kinds.iter().map(block).collect::<Vec<_>>().join("\n");
    format!("apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: {name}}}\nspec:\n  resources:\n{blocks}\n")
}

/// Returns the script of the manifest.
pub(crate) fn script(notes: &Notes<'_>) -> String {
    SCRIPT.replace("NOTES_NAMESPACE", notes.namespace)
}

/// Returns the Python twin of manifest and script.
pub(crate) fn python(kinds: &[Kind], handlers: &[Handler], notes: &Notes<'_>) -> String {
    let functions = PYTHON
        .replace("NOTES_NAMESPACE", notes.namespace)
        .replace("NOTES_URL", notes.url)
        .replace("NOTES_TOKEN", notes.token);
    let all = kinds.iter().flat_map(|kind| handlers.iter().map(|handler| handler.in_python(kind)));
    all.fold(functions, |text, line| text + &line + "\n")
}

impl Handler {
    fn in_yaml(&self) -> String {
        let options = self.written_options(|option, value| format!(", {option}: {value}"));
        format!("{{on: {}, id: {}, fn: {}, param: {}{options}}}", self.on, self.id, self.function(), self.id)
    }

    fn in_python(&self, kind: &Kind) -> String {
        let options = self.written_options(|option, value| format!(", {option}={}", python_option(option, value)));
        let (on, id, function) = (&self.on, &self.id, self.function());
        format!(
            "kopf.on.{on}({:?}, {:?}, {:?}, id={id:?}, param={id:?}{options})({function})",
            kind.group, kind.version, kind.plural
        )
    }

    fn written_options(&self, write: impl Fn(&str, &Value) -> String) -> String {
        self.options.iter().map(|(option, value)| write(option, value)).collect::<Vec<_>>().concat()
    }

    fn function(&self) -> &'static str {
        if self.on == "event" { "watch" } else { "act" }
    }
}

fn python_option(option: &str, value: &Value) -> String {
    match (option, value) {
        ("errors", Value::String(mode)) => format!("kopf.ErrorsMode.{}", mode.to_uppercase()),
        (_, Value::Bool(yes)) => if *yes { "True" } else { "False" }.into(),
        _ => value.to_string(),
    }
}

const SCRIPT: &str = r#"// One function for all change handlers and one for events: the object decides what they do.

fn note(handler, body, data) {
    if body.spec?.quiet == true { return; }
    data.engine = "kopfd";
    data.handler = handler;
    data.object = body.metadata.name;
    data.namespace = body.metadata.namespace ?? "";
    data.at = now().to_string();
    k8s::create(#{
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: #{ generateName: "call-", namespace: "NOTES_NAMESPACE" },
        data: data,
    });
}

fn act(param, body, spec, retry, reason, old, new, diff) {
    let seen = [];
    for item in diff { seen.push([item.op, item.field, item.old, item.new]); }
    note(param, body, #{
        retry: retry.to_string(), reason: reason,
        old: json::dump(old), new: json::dump(new), diff: json::dump(seen),
    });
    let steps = spec.steps?[param] ?? [];
    let step = if retry < steps.len() { steps[retry] } else { #{} };
    if step.sleep != () { sleep(step.sleep); }
    if step.temporary != () { throw temporary("not yet", step.temporary); }
    if step.permanent != () { throw permanent(step.permanent); }
    if step.error != () { throw step.error; }
    return #{ retry: retry, size: spec.size ?? 0 };
}

fn watch(param, body, type) {
    note(param, body, #{ type: type ?? "LISTED" });
}
"#;

const PYTHON: &str = r#"# One function for all change handlers and one for events: the object decides what they do.
import datetime
import json
import ssl
import time
import urllib.request

import kopf

UNVERIFIED = ssl._create_unverified_context()


def note(handler, body, **data):
    if body.get("spec", {}).get("quiet"):
        return
    data["engine"] = "kopf"
    data["handler"] = handler
    data["object"] = body["metadata"]["name"]
    data["namespace"] = body["metadata"].get("namespace") or ""
    data["at"] = datetime.datetime.now(datetime.timezone.utc).isoformat()
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"generateName": "call-", "namespace": "NOTES_NAMESPACE"},
        "data": data,
    }
    request = urllib.request.Request(
        "NOTES_URL/api/v1/namespaces/NOTES_NAMESPACE/configmaps",
        data=json.dumps(config_map).encode(),
        headers={"content-type": "application/json", "authorization": "Bearer NOTES_TOKEN"},
    )
    urllib.request.urlopen(request, context=UNVERIFIED).read()


def act(param, body, spec, retry, reason, old, new, diff, **_):
    seen = [[op, list(field), before, after] for op, field, before, after in diff]
    note(param, body, retry=str(retry), reason=str(reason),
         old=json.dumps(old), new=json.dumps(new), diff=json.dumps(seen))
    steps = spec.get("steps", {}).get(param, [])
    step = steps[retry] if retry < len(steps) else {}
    if "sleep" in step:
        time.sleep(step["sleep"])
    if "temporary" in step:
        raise kopf.TemporaryError("not yet", delay=step["temporary"])
    if "permanent" in step:
        raise kopf.PermanentError(step["permanent"])
    if "error" in step:
        raise Exception(step["error"])
    return {"retry": retry, "size": spec.get("size", 0)}


def watch(param, body, type, **_):
    note(param, body, type=type or "LISTED")


@kopf.on.startup()
def configure(settings, **_):
    settings.posting.enabled = False


"#;
