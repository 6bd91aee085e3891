//! The real script host, for handlers with sub-handlers: their declarations become scripts, which request each of their
//! steps when they are called.

use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use kopfd::handling::Level;
use kopfd::kit::Clock;
use kopfd::kit::source::SourcePosition;
use kopfd::object::{Resource, Selector};
use kopfd::script::outside::api::{Api, ApiError, ApiRequest, EventRequest, Operation};
use kopfd::script::{
    Binding, BindingKind, Call, Code, Declaration, Host, Installed, Limits, Options, Program, Returned, Threads,
};
use serde_json::{Value, json};

use super::declare::Script;
use super::scripted::Steps;

/// The prelude of every script: it executes a step, up to its final error.
const PRELUDE: &str = r#"
fn overlay(place, changes) {
    for key in changes.keys() {
        if type_of(changes[key]) == "map" && !changes[key].is_empty() { overlay(place[key], changes[key]); } else { place[key] = changes[key]; }
    }
}
fn perform(step, patch) {
    if step.takes != () { sleep(step.takes); }
    if step.patch != () { overlay(patch, step.patch); }
    if "temporary" in step { throw temporary(step.temporary ?? "", if "delay" in step { step.delay } else { 60 }); }
    if "permanent" in step { throw permanent(step.permanent); }
    if "error" in step { throw step.error; }
}
"#;

/// The host, and the scripts of one case.
pub(crate) struct ScriptHost {
    host: Host,
    installed: Installed,
}

impl ScriptHost {
    /// Starts a host on the current thread, which must be running a `LocalSet`.
    pub(crate) async fn start(steps: Arc<Steps>, clock: Clock) -> Self {
        let program = Program::load(declaration(&steps.scripts)).expect("the scripts of vectors are well-formed");
        let options = Options {
            threads: Threads::Current,
            clock,
            seed: Some(1),
            api: Some(Arc::new(StepApi(steps))),
            ..Options::default()
        };
        let host = Host::start(options).expect("a host on the current thread takes nothing");
        let installed = host.install(Arc::new(program)).await.expect("the scripts of vectors can be run");
        Self { host, installed }
    }

    /// Calls a handler.
    pub(crate) async fn call(&self, call: Call) -> Returned {
        self.host.call(&self.installed, call).await
    }
}

/// Returns the declaration: the number of a binding is that of its script; sub-handlers are called only by their
/// parents.
fn declaration(scripts: &[Script]) -> Declaration {
    let bindings = scripts.iter().enumerate().map(|(target, script)| {
        let text = if script.subs.is_empty() { String::new() } else { format!("{PRELUDE}{}", body(scripts, target)) };
        Binding {
            id: script.id.clone(),
            code: Code::Inline { text, place: SourcePosition::default(), file: None },
            kind: BindingKind::Change,
            limits: Limits::default(),
            place: SourcePosition::default(),
            param: Value::Null,
        }
    });
    Declaration { bindings: bindings.collect(), operator: "vectors".to_owned(), ..Declaration::default() }
}

/// Returns the statements of one handler.
fn body(scripts: &[Script], target: usize) -> String {
    let script = &scripts[target];
    assert!(
        script.steps.iter().all(|step| step.get("fns").is_none()),
        "functions over the body are not scripted: {:?}",
        script.steps
    );
    let mut text = format!(
        r#"
let step = k8s::create(#{{apiVersion: "v1", kind: "Call", metadata: #{{name: "call"}}, spec: #{{
    target: {target}, retry: retry, runtime: runtime, started: `${{started}}`, reason: reason, old: old, new: new,
    diff: diff.map(|item| [item.op, item.field, item.old, item.new]),
}}}}).step;
perform(step, patch);
"#
    );
    for sub in &script.subs {
        let sub_script = &scripts[sub.target];
        let (name, options, body) =
            (json!(sub_script.name), literal(&options(&sub_script.options)), body(scripts, sub.target));
        let params = "retry, runtime, started, reason, old, new, diff, patch";
        writeln!(text, "subhandler({name}, {options}, |{params}| {{{body}}});").expect("texts can be written to");
    }
    text + "return step[\"return\"];\n"
}

/// Returns the options of a sub-handler in the form of scripts.
fn options(declared: &Value) -> Value {
    let known = [
        "param",
        "errors",
        "retries",
        "timeout",
        "backoff",
        "labels",
        "annotations",
        "field",
        "value",
        "old",
        "new",
        "when",
    ];
    let entries = declared.as_object().into_iter().flatten().filter(|(key, _)| known.contains(&key.as_str()));
    entries.map(|(key, value)| (key.clone(), pattern(value))).collect()
}

fn pattern(value: &Value) -> Value {
    match value.get("$filter").and_then(Value::as_str) {
        Some("PRESENT") => json!({"present": true}),
        Some("ABSENT") => json!({"present": false}),
        _ => {
            let is_callback = value.get("$fn").is_some() || value.get("$when").is_some();
            assert!(!is_callback, "callbacks of sub-handlers are not scripted: {value}");
            match value {
                Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), pattern(value))).collect(),
                plain => plain.clone(),
            }
        }
    }
}

/// Returns a value as a script literal.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "()".to_owned(),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", json!(key), literal(value)));
            format!("#{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        leaf => leaf.to_string(),
    }
}

/// A cluster whose only kind represents calls of handlers: creating one records the call, and returns its step.
struct StepApi(Arc<Steps>);

impl Api for StepApi {
    fn resolve(&self, _selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>> {
        let calls = Resource {
            version: "v1".into(),
            plural: "calls".into(),
            kind: "Call".into(),
            preferred: true,
            ..Resource::default()
        };
        Box::pin(std::future::ready(Ok(Arc::new(calls))))
    }

    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>> {
        let Operation::Create { mut object } = request.operation else {
            panic!("the scripts of vectors only create calls")
        };
        let mut spec = object["spec"].take();
        let target = spec["target"].as_u64().expect("a call names its script") as usize;
        let started = spec["started"].as_str().and_then(|text| text.parse().ok());
        for key in ["target", "started"] {
            spec.as_object_mut().and_then(|spec| spec.remove(key));
        }
        let step = self.0.call(target, spec, started);
        Box::pin(std::future::ready(Ok(json!({"step": step}))))
    }

    fn post(&self, _event: EventRequest) {
        panic!("the scripts of vectors post no Events");
    }

    fn posts_logs(&self) -> bool {
        false
    }

    fn post_log(&self, _object: &Value, _level: Level, _message: &str) {}
}
