//! Tests of host functions, called by scripts.

mod cryptography;
mod k8s;

use std::rc::Rc;
use std::sync::{Arc, Mutex};

use rhai::{Dynamic, EvalAltResult};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt, ready};
use futures::stream::{self, BoxStream, StreamExt as _};
use serde_json::{Value, json};

use crate::handling::Level;
use crate::kit::{Clock, Stop};
use crate::object::{Body, EventKind, Resource, Selector};
use crate::script::interface::declaration::Allow;
use crate::script::interface::subject::{Object, Subject};
use crate::script::language::convert;
use crate::script::limits::Limits;
use crate::script::outside::api::{
    Api, ApiError, ApiRequest, Change, EventRequest, ExecError, ExecRequest, Operation, RawRequest, WatchRequest,
};
use crate::script::outside::clusters::{AddressRule, AllowedClusters, ServerRule};
use crate::script::outside::programs::Finished;
use crate::script::outside::{Grants, Outside};
use crate::script::runtime::budget::{Budget, Ending};
use crate::script::runtime::context::testing::{environment, run, run_as, run_in};
use crate::script::runtime::context::{Context, Environment, Mode};
use crate::script::values::memo::ObjectMemo;

/// Returns the JSON of a script's value, or the text of its error with the position.
fn plain(result: Result<Dynamic, Box<EvalAltResult>>) -> Result<Value, String> {
    result.map(|value| convert::to_json(&value).unwrap()).map_err(|error| match error.unwrap_inner() {
        EvalAltResult::ErrorRuntime(value, position) => format!("{} ({position})", convert::text_of(value)),
        other => other.to_string(),
    })
}

async fn result(script: &str) -> Result<Value, String> {
    plain(run(script).await)
}

/// Checks that a script gives a value.
async fn gives(script: &str, expected: Value) {
    assert_eq!(result(script).await, Ok(expected), "{script}");
}

/// Checks that a script fails with a text that contains another.
async fn fails(script: &str, expected: &str) {
    let error = result(script).await.expect_err(script);
    assert!(error.contains(expected), "{script}: {error}");
}

#[tokio::test]
async fn texts_are_read_and_written() {
    gives("yaml::parse(\"a: [1, yes]\\n\")", json!({"a": [1, "yes"]})).await;
    gives("yaml::parse(\"\")", json!(null)).await;
    gives("yaml::parse_all(\"a: 1\\n---\\n---\\nb: 2\")", json!([{"a": 1}, {"b": 2}])).await;
    gives("yaml::parse(yaml::dump(#{a: [1.5, ()], b: \"yes\"}))", json!({"a": [1.5, null], "b": "yes"})).await;
    gives("json::parse(\"[1, 1.0, null]\")", json!([1, 1.0, null])).await;
    gives("json::dump(#{a: [1, \"x\"]})", json!("{\"a\":[1,\"x\"]}")).await;
    gives("base64::decode(base64::encode(\"Grüße\"))", json!("Grüße")).await;
    gives("sha256(\"abc\")", json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")).await;
    fails("yaml::parse(\"a: 1\\na: 2\")", "duplicate mapping key: a (line 2, column 1)").await;
    fails("yaml::parse(\"a\\n---\\nb\")", "there are 2 documents, use `yaml::parse_all`").await;
    fails("yaml::parse(1)", "the YAML must be a text, not 1").await;
    fails("json::parse(\"[1,\")", "line 1 column 3").await;
    fails("json::dump(|| 1)", "a function has no JSON form").await;
    fails("base64::decode(\"a\")", "`base64::decode`").await;
    fails("base64::decode(\"/w==\")", "not UTF-8").await;
}

#[tokio::test]
async fn quantities_and_durations_are_numbers() {
    gives("[quantity(\"500Mi\"), quantity(\"100m\"), quantity(2)]", json!([524_288_000, 0.1, 2])).await;
    gives("[duration(\"1h30m\"), duration(5), duration(\"500ms\")]", json!([5400.0, 5.0, 0.5])).await;
    fails("quantity(\"5Xi\")", "there is no suffix \"Xi\"").await;
    fails("duration(\"5\")", "no duration").await;
}

#[tokio::test]
async fn regular_expressions_take_linear_time_and_bounded_memory() {
    gives("regex::is_match(\"^a+b$\", \"aab\")", json!(true)).await;
    gives("[regex::find(\"[0-9]+\", \"a12b3\"), regex::find(\"x\", \"a\")]", json!(["12", null])).await;
    gives("regex::find_all(\"[0-9]+\", \"a12b3\")", json!(["12", "3"])).await;
    gives("regex::replace(\"([a-z])([0-9])\", \"a1 b2\", \"$2$1\")", json!("1a 2b")).await;
    gives("let s = \"\"; s.pad(20000, 'a'); regex::is_match(\"(a*)*$b\", s)", json!(false)).await;
    fails("regex::find(\"(\", \"\")", "\"(\" is no regular expression: unclosed group").await;
    fails("regex::find(\"((a{1000}){1000}){1000}\", \"\")", "is no regular expression").await;
}

#[tokio::test(start_paused = true)]
async fn times_can_be_compared_and_shifted() {
    gives("now()", json!("2020-01-01T00:00:00Z")).await;
    gives("time(\"2020-01-01T02:00:00+01:00\")", json!("2020-01-01T01:00:00Z")).await;
    gives("time(\"2020-01-01T00:01:00Z\") - now()", json!(60.0)).await;
    gives("now() + duration(\"1h\") > now() && `${time(now())}` == \"2020-01-01T00:00:00Z\"", json!(true)).await;
    gives("json::dump(#{at: now() + 1})", json!("{\"at\":\"2020-01-01T00:00:01Z\"}")).await;
    fails("time(\"yesterday\")", "\"yesterday\" is no time").await;
}

#[tokio::test(start_paused = true)]
async fn the_current_time_has_whole_microseconds() {
    let clock = Clock::starting_at("2020-01-01T00:00:00.123456789Z".parse().unwrap());
    let now = run_as(Mode::Function, Environment { clock, ..environment() }, "now()").await;
    assert_eq!(plain(now), Ok(json!("2020-01-01T00:00:00.123456Z")));
}

#[tokio::test]
async fn chance_is_seeded_and_bounded() {
    let script = "[random(), random(1, 6), random(0.5, 1), uuid()]";
    assert_eq!(result(script).await, result(script).await);
    gives("let n = random(3, 3); let f = random(); n == 3 && f >= 0.0 && f < 1.0 && uuid().len() == 36", json!(true))
        .await;
    fails("random(2, 1)", "2 is more than 1").await;
    fails("random(\"a\", 1)", "`random` takes two numbers").await;
    for script in ["random()", "uuid()", "now()", "random(1, 2)"] {
        assert!(run_as(Mode::Expression, environment(), script).await.is_err(), "{script}");
    }
}

#[tokio::test]
async fn only_listed_variables_of_the_environment_are_read() {
    let allow = Allow { env: vec!["PATH".into(), "KOPFD_SURELY_UNSET".into()], ..Allow::default() };
    let allowed =
        |script: &'static str| run_as(Mode::TopLevel, Environment { allow: allow.clone(), ..environment() }, script);
    assert!(allowed("env(\"PATH\")").await.unwrap().is_string());
    assert!(allowed("env(\"KOPFD_SURELY_UNSET\")").await.unwrap().is_unit());
    assert!(plain(allowed("env(\"HOME\")").await).unwrap_err().contains("not listed under `allow.env`"));
}

#[tokio::test]
async fn templates_give_objects() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("scripts");
    std::fs::create_dir_all(root.join("parts")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(root.join(name), text).unwrap();
    write("one.yaml", "name: {{ name }}-db\nspec: {{ spec | tojson }}\n{% include \"parts/labels.yaml\" %}");
    write("parts/labels.yaml", "labels: {app: \"{{ name }}\"}");
    write("two.yaml", "{% for i in range(2) %}---\nn: {{ i }}\n{% endfor %}---\n");
    write("none.yaml", "# nothing\n");
    write("bad.yaml", "\na: {{ nmae }}");
    write("loop.yaml", "{% for i in range(9999) %}{% for j in range(9999) %}x{% endfor %}{% endfor %}");
    write("syntax.yaml", "{% if %}");
    write("broken.yaml", "a: [{{ name }}\n");
    write("unit.yaml", "a: {{ name }}");
    write("nested.yaml", "a: {{ spec.name }}");
    write(
        "default.yaml",
        "a: {{ name | default('x') }}\nb: {{ spec.list[0] | default(1) }}\nc: {{ spec | tojson }}\nd: {{ name is defined }}",
    );
    std::fs::write(folder.path().join("out.yaml"), "a: 1").unwrap();
    std::os::unix::fs::symlink(folder.path().join("out.yaml"), root.join("link.yaml")).unwrap();
    let render = async |script: &str| {
        let value = run_as(Mode::Function, Environment { root: root.clone(), ..environment() }, script).await;
        plain(value)
    };
    let one = render("template(\"one.yaml\", #{name: \"foo\", spec: #{x: [1, \"<&>\"]}})").await.unwrap();
    assert_eq!(one, json!({"name": "foo-db", "spec": {"x": [1, "<&>"]}, "labels": {"app": "foo"}}));
    assert_eq!(render("template(\"two.yaml\", #{})").await.unwrap(), json!([{"n": 0}, {"n": 1}]));
    assert_eq!(render("template(\"none.yaml\")").await.unwrap(), json!(null));
    let absent = render("template(\"default.yaml\", #{name: (), spec: #{list: [()], none: ()}})").await.unwrap();
    assert_eq!(absent, json!({"a": "x", "b": 1, "c": {"list": [null], "none": null}, "d": false}));
    for (script, expected) in [
        ("template(\"bad.yaml\", #{name: 1})", "bad.yaml:2: "),
        ("template(\"unit.yaml\", #{name: ()})", "unit.yaml:1: undefined value"),
        ("template(\"nested.yaml\", #{spec: #{name: ()}})", "nested.yaml:1: undefined value"),
        ("template(\"syntax.yaml\", #{})", "syntax.yaml:1: "),
        ("template(\"broken.yaml\", #{name: 1})", "the text that broken.yaml was rendered to is not YAML"),
        ("template(\"loop.yaml\", #{})", "too many steps"),
        ("template(\"gone.yaml\", #{})", "there is no template gone.yaml"),
        ("template(\"../out.yaml\", #{})", "the template ../out.yaml lies outside of the scripts"),
        ("template(\"link.yaml\", #{})", "the template link.yaml lies outside of the scripts"),
        ("template(\"one.yaml\", 1)", "the values must be a map"),
    ] {
        let error = render(script).await.unwrap_err();
        assert!(error.contains(expected), "{script}: {error}");
    }
}

/// A cluster that records the requests, and answers from a list.
#[derive(Default)]
struct Cluster {
    requests: Mutex<Vec<String>>,
    posted: Mutex<Vec<EventRequest>>,
    answers: Mutex<Vec<Result<Value, ApiError>>>,
    /// The changes that watches see, one after another, with the seconds before each.
    changes: Mutex<Vec<(u64, Result<Change, ApiError>)>>,
    /// The results of commands in containers.
    ended: Mutex<Option<Result<Finished, ExecError>>>,
}

/// Has no special addresses.
struct Anywhere;

impl AddressRule for Anywhere {
    fn refusal(&self, _: &str, _: std::net::IpAddr, _: &Grants) -> Option<&'static str> {
        None
    }
}

fn refused(status: u16, reason: &str) -> Result<Value, ApiError> {
    Err(ApiError {
        message: "no".into(),
        status: Some(status),
        reason: Some(reason.into()),
        details: Some(json!({"causes": [1]})),
    })
}

impl Api for Cluster {
    fn resolve(&self, selector: Selector) -> BoxFuture<'_, Result<Arc<Resource>, ApiError>> {
        let kind = |group: &str, kind: &str, plural: &str, namespaced, subresources: &[&str]| Resource {
            group: group.into(),
            version: "v1".into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: kind.to_lowercase(),
            subresources: subresources.iter().map(|name| (*name).to_owned()).collect(),
            namespaced,
            preferred: true,
            ..Resource::default()
        };
        let known = [
            kind("", "Pod", "pods", true, &["status"]),
            kind("apps", "Deployment", "deployments", true, &["scale"]),
            kind("", "Node", "nodes", false, &[]),
            kind("", "Secret", "secrets", true, &[]),
            kind("", "ServiceAccount", "serviceaccounts", true, &[]),
        ];
        let found = selector.select(&known).first().map(|resource| Arc::new((*resource).clone()));
        let missing =
            || ApiError { message: "there is no such kind".into(), status: Some(404), reason: None, details: None };
        ready(found.ok_or_else(missing)).boxed()
    }

    fn send(&self, request: ApiRequest) -> BoxFuture<'_, Result<Value, ApiError>> {
        let ApiRequest { resource, namespace, operation } = request;
        let shown = format!("{resource} {} {operation:?}", namespace.unwrap_or_else(|| "-".into()));
        self.requests.lock().unwrap().push(shown);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() { Ok(default_answer(&operation)) } else { answers.remove(0) };
        async move {
            tokio::task::yield_now().await;
            answer
        }
        .boxed()
    }

    fn watch(&self, request: WatchRequest) -> BoxStream<'static, Result<Change, ApiError>> {
        let WatchRequest { resource, namespace, labels, fields } = request;
        let namespace = namespace.unwrap_or_else(|| "-".into());
        self.requests.lock().unwrap().push(format!("{resource} {namespace} Watch {labels:?} {fields:?}"));
        let changes = std::mem::take(&mut *self.changes.lock().unwrap());
        let seen = stream::iter(changes).then(|(seconds, change)| async move {
            tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
            change
        });
        seen.chain(stream::pending()).boxed()
    }

    fn exec(&self, request: ExecRequest) -> BoxFuture<'_, Result<Finished, ExecError>> {
        let ExecRequest { namespace, name, container, arguments, stdin, time, output, .. } = request;
        let namespace = namespace.unwrap_or_else(|| "-".into());
        self.requests
            .lock()
            .unwrap()
            .push(format!("exec {namespace}/{name} {container:?} {arguments:?} {stdin:?} {time:?} {output}"));
        ready(
            self.ended
                .lock()
                .unwrap()
                .clone()
                .unwrap_or_else(|| Ok(Finished { stdout: b"out".to_vec(), ..Finished::default() })),
        )
        .boxed()
    }

    fn raw(&self, request: RawRequest) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        let RawRequest { method, path, content_type, body } = request;
        self.requests.lock().unwrap().push(format!("{method} {path} {content_type} {}", body.unwrap_or_default()));
        ready(self.answers.lock().unwrap().pop().unwrap_or(Ok(json!({}))).map(|answer| Bytes::from(answer.to_string())))
            .boxed()
    }

    fn other_cluster(&self, kubeconfig: &str, rule: ServerRule) -> BoxFuture<'_, Result<Arc<dyn Api>, ApiError>> {
        self.requests.lock().unwrap().push(format!("cluster {kubeconfig} {:?}", rule.allowed()));
        let other: Arc<dyn Api> =
            Arc::new(Self { answers: Mutex::new(vec![Ok(json!({"kind": "Other"}))]), ..Self::default() });
        ready(Ok(other)).boxed()
    }

    fn post(&self, event: EventRequest) {
        self.posted.lock().unwrap().push(event);
    }

    fn posts_logs(&self) -> bool {
        false
    }

    fn post_log(&self, _object: &Value, _level: Level, _message: &str) {}
}

fn default_answer(operation: &Operation) -> Value {
    match operation {
        Operation::List { .. } => json!([{"kind": "Pod"}]),
        Operation::Create { object } | Operation::Update { object, .. } | Operation::Apply { object, .. } => {
            object.clone()
        }
        Operation::Delete { .. } => json!(true),
        _ => json!({"kind": "Something"}),
    }
}

/// Runs a script about an object in the namespace `here`. Returns its value or the text of its error, and the requests.
async fn on_cluster(script: &str, answers: Vec<Result<Value, ApiError>>) -> (Result<Value, String>, Vec<String>) {
    let cluster = Arc::new(Cluster { answers: Mutex::new(answers), ..Cluster::default() });
    let value = run_on(&cluster, script).await;
    let requests = cluster.requests.lock().unwrap().clone();
    (value, requests)
}

async fn run_on(cluster: &Arc<Cluster>, script: &str) -> Result<Value, String> {
    let budget = Rc::new(Budget::new(&Limits { api_calls: 5, ..Limits::default() }, Stop::new()));
    run_with(cluster, budget, script).await
}

async fn run_with(cluster: &Arc<Cluster>, budget: Rc<Budget>, script: &str) -> Result<Value, String> {
    let allow = Allow { clusters: AllowedClusters::Ordinary, ..Allow::default() };
    let outside = Outside::default().with_clusters(Arc::new(Anywhere));
    let environment =
        Rc::new(Environment { api: Some(Arc::clone(cluster) as Arc<dyn Api>), allow, outside, ..environment() });
    let body = json!({"apiVersion": "example.com/v1", "kind": "Example", "metadata":
        {"name": "ex", "namespace": "here", "uid": "u", "labels": {"app": "x"}}, "spec": {"child": {"kind": "Pod"}}});
    let object = Object { resource: Arc::default(), body: Body::from(body), memo: ObjectMemo::empty("u") };
    let subject = Subject::Event { object, event_kind: EventKind::Added };
    let context = Context::new(environment, budget, Mode::Function).about(subject, tracing::Span::none());
    plain(run_in(context, script).await)
}

/// Returns the Events that a script posts, as type, reason, message, level, and names of the objects.
async fn posted(script: &str) -> Vec<String> {
    let cluster = Arc::default();
    run_on(&cluster, script).await.unwrap();
    let posted = cluster.posted.lock().unwrap();
    let shown = |event: &EventRequest| {
        let names: Vec<_> =
            event.objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap_or("-")).collect();
        format!("{} {} {:?} {:?} {}", event.event_type, event.reason, event.message, event.level, names.join(","))
    };
    posted.iter().map(shown).collect()
}

#[tokio::test(start_paused = true)]
async fn writes_to_the_handled_object_are_noted_with_their_fields() {
    let stored = |uid: &str, version: &str| Ok(json!({"metadata": {"uid": uid, "resourceVersion": version}}));
    let answers = vec![stored("u", "2"), stored("u", "2"), stored("other", "3"), stored("u", "4"), stored("u", "5")];
    let cluster = Arc::new(Cluster { answers: Mutex::new(answers), ..Cluster::default() });
    let budget = Rc::new(Budget::new(&Limits::default(), Stop::new()));
    let script = r#"
        k8s::patch("pods", "ex", #{ spec: #{ a: 1, b: () } });
        k8s::patch("pods", "ex", #{ spec: #{ a: 1 } });
        k8s::patch("pods", "another", #{ spec: #{ a: 1 } });
        k8s::patch_status("pods", "ex", #{ seen: 1 });
        k8s::get("pods", "ex");
    "#;
    run_with(&cluster, Rc::clone(&budget), script).await.unwrap();
    let noted: Vec<String> =
        budget.take_self_writes().iter().map(|write| format!("{} {}", write.version, write.fields.join(" "))).collect();
    assert_eq!(noted, ["2 spec.a spec.b", "4 status.seen"]);
}

#[tokio::test(start_paused = true)]
async fn calls_of_one_function_share_their_requests_within_a_minute() {
    let rate: Arc<crate::script::limits::call_rate::CallRate> = Arc::default();
    let cluster = Arc::default();
    let call = async |script: &str| {
        let limits = Limits { api_calls_per_minute: 3, ..Limits::default() };
        let budget = Rc::new(Budget::new(&limits, Stop::new()).sharing(Arc::clone(&rate)));
        drop(run_with(&cluster, Rc::clone(&budget), script).await);
        match budget.ending() {
            Some(Ending::Overrun(overrun)) => Err(overrun.text),
            ending => {
                assert_eq!(ending, None);
                Ok(())
            }
        }
    };
    let two = r#"k8s::exists("pods", "a"); k8s::exists("pods", "b")"#;
    call(two).await.unwrap();
    tokio::time::advance(std::time::Duration::from_secs(30)).await;
    let error = call(two).await.unwrap_err();
    assert!(
        error.contains("3 calls of the API within a minute, by all calls of this function (limits.apiCallsPerMinute"),
        "{error}"
    );
    tokio::time::advance(std::time::Duration::from_secs(30)).await;
    call(two).await.unwrap();
}

async fn requests(script: &str) -> Vec<String> {
    let (value, requests) = on_cluster(script, Vec::new()).await;
    value.unwrap();
    requests
}

#[tokio::test]
async fn objects_are_found_by_kind_namespace_and_name() {
    assert_eq!(requests("k8s::get(\"pods\", \"a\")").await, ["pods.v1 here Get { name: \"a\" }"]);
    assert_eq!(requests("k8s::exists(\"v1/pods\", \"there\", \"a\")").await, ["pods.v1 there Get { name: \"a\" }"]);
    assert_eq!(requests("k8s::get(\"Node\", \"a\")").await, ["nodes.v1 - Get { name: \"a\" }"]);
    assert_eq!(requests("k8s::list(\"pods\")").await, ["pods.v1 - List { labels: None, fields: None }"]);
    assert_eq!(
        requests("k8s::list(\"pods\", \"there\", #{labels: #{app: \"x\", n: 1}, fields: \"status.phase!=Running\"})")
            .await,
        ["pods.v1 there List { labels: Some(\"app=x,n=1\"), fields: Some(\"status.phase!=Running\") }"]
    );
    let script = "[k8s::get(\"pods\", \"a\"), k8s::exists(\"pods\", \"a\"), k8s::exists(\"pods\", \"a\")]";
    let (found, _) = on_cluster(script, vec![Ok(json!(null)), Ok(json!(null)), Ok(json!({"kind": "Pod"}))]).await;
    assert_eq!(found, Ok(json!([null, false, true])));
}

#[tokio::test]
async fn objects_are_written_into_their_namespaces() {
    let pod = "#{apiVersion: \"v1\", kind: \"Pod\", metadata: #{name: \"a\"}}";
    assert!(requests(&format!("k8s::create({pod})")).await[0].starts_with("pods.v1 here Create { object: Object {"));
    assert!(requests(&format!("k8s::update({pod})")).await[0].starts_with("pods.v1 here Update { name: \"a\", object"));
    let applied = requests(&format!("k8s::apply([{pod}, [{pod}]], #{{force: false}})")).await;
    assert_eq!(applied.len(), 2);
    assert!(applied[1].starts_with("pods.v1 here Apply { name: \"a\"") && applied[1].ends_with("force: false }"));
    assert!(requests(&format!("k8s::apply({pod})")).await[0].ends_with("force: true }"));
    let patched = requests("k8s::patch(\"pods\", \"a\", #{x: ()}); k8s::patch_status(\"pods\", \"a\", #{x: 1}); k8s::scale(\"deployments.apps\", \"b\", \"a\", 3)").await;
    assert_eq!(patched[0], "pods.v1 here Patch { name: \"a\", subresource: None, patch: Object {\"x\": Null} }");
    assert!(
        patched[1].contains("subresource: Some(\"status\"), patch: Object {\"status\": Object {\"x\": Number(1)}}")
    );
    assert!(patched[2].starts_with("deployments.v1.apps b Patch { name: \"a\", subresource: Some(\"scale\")"));
    let deleted = requests(&format!(
        "k8s::delete({pod}); k8s::delete(\"pods\", \"a\", #{{propagation: \"foreground\", grace: \"1m\"}})"
    ))
    .await;
    assert_eq!(deleted[0], "pods.v1 here Delete { name: \"a\", propagation: None, grace: None }");
    assert_eq!(deleted[1], "pods.v1 here Delete { name: \"a\", propagation: Some(\"Foreground\"), grace: Some(60) }");
    let (found, _) = on_cluster("k8s::delete(\"pods\", \"a\")", vec![Ok(json!(false))]).await;
    assert_eq!(found, Ok(json!(false)));
}

#[tokio::test]
async fn objects_without_a_namespace_are_written_into_that_of_the_handled_object() {
    for metadata in ["#{name: \"a\"}", "#{name: \"a\", namespace: ()}", "#{name: \"a\", namespace: \"\"}"] {
        for function in ["create", "update", "apply"] {
            let script = format!(
                "k8s::{function}(#{{apiVersion: \"v1\", kind: \"Pod\", metadata: {metadata}}}).metadata.namespace"
            );
            let (found, _) = on_cluster(&script, Vec::new()).await;
            assert_eq!(found, Ok(json!("here")), "{script}");
        }
    }
    let (found, _) = on_cluster("k8s::create(#{apiVersion: \"v1\", kind: \"Pod\"}).metadata", Vec::new()).await;
    assert_eq!(found, Ok(json!({"namespace": "here"})));
    let own = "k8s::apply(#{apiVersion: \"v1\", kind: \"Pod\", metadata: #{name: \"a\", namespace: \"own\"}}).metadata.namespace";
    assert_eq!(on_cluster(own, Vec::new()).await.0, Ok(json!("own")));
    let node = "k8s::apply(#{apiVersion: \"v1\", kind: \"Node\", metadata: #{name: \"a\"}}).metadata";
    assert_eq!(on_cluster(node, Vec::new()).await.0, Ok(json!({"name": "a"})));
}

#[tokio::test]
async fn refusals_can_be_caught_and_name_the_call_otherwise() {
    let apply = "k8s::apply(#{apiVersion: \"v1\", kind: \"Pod\", metadata: #{name: \"a\"}}, #{force: false})";
    let caught = format!(
        "let c; try {{ {apply} }} catch (e) {{ c = [e.kind, e.status, e.reason, e.details.causes, e.nothing]; }} c"
    );
    let (found, _) = on_cluster(&caught, vec![refused(409, "Conflict")]).await;
    assert_eq!(found, Ok(json!(["api", 409, "Conflict", [1], null])));
    let (found, _) = on_cluster(&format!("let x = 1;\n{apply}"), vec![refused(409, "Conflict")]).await;
    assert_eq!(found, Err("k8s::apply pods.v1 here/a: no (line 2, position 6)".into()));
}

#[tokio::test]
async fn wrong_calls_of_the_cluster_are_reported() {
    for (script, expected) in [
        ("k8s::get(1, \"a\")", "the kind must be a text"),
        ("k8s::get(\"pods\", \"\")", "the name is empty"),
        ("k8s::get(\"v2/x\", \"a\")", "\"v2/x\" is no kind"),
        ("k8s::get(\"everything\", \"a\")", "means more than one kind"),
        ("k8s::get(\"cows\", \"a\")", "k8s::get cows: there is no such kind"),
        ("k8s::get(\"nodes\", \"here\", \"a\")", "objects of the kind Node have no namespace"),
        ("k8s::apply(#{kind: \"Pod\"})", "the object has no apiVersion"),
        ("k8s::apply(#{apiVersion: \"v1\", kind: \"Pod\"})", "the Pod has no metadata.name"),
        (
            "k8s::apply(#{apiVersion: \"v1\", kind: \"Pod\"}, #{forced: true})",
            "has no option `forced`: there are force",
        ),
        ("k8s::patch(\"pods\", \"a\", 1)", "the patch must be a map"),
        ("k8s::scale(\"pods\", \"a\", -1)", "the number of replicas"),
        ("k8s::delete(\"pods\", \"a\", #{propagation: \"x\"})", "must be Background, Foreground, or Orphan"),
        ("for i in 0..9 { k8s::get(\"pods\", \"a\"); }", "::Ending ("),
    ] {
        let (found, _) = on_cluster(script, Vec::new()).await;
        let error = found.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
    fails("k8s::get(\"pods\", \"a\")", "`k8s::get` needs a cluster, and there is none").await;
}

#[tokio::test]
async fn events_are_about_the_handled_object_or_others() {
    assert_eq!(posted("k8s::event(\"R\", \"m\")").await, ["Normal R \"m\" None ex"]);
    assert_eq!(posted("k8s::info(\"R\", 5)").await, ["Normal R \"5\" Some(Info) ex"]);
    assert_eq!(posted("k8s::warn(\"R\", \"m\")").await, ["Warning R \"m\" Some(Warning) ex"]);
    let caught = "try { throw \"boo\" } catch (e) { k8s::exception(\"R\", e) }";
    assert_eq!(posted(caught).await, ["Error R \"boo\" Some(Error) ex"]);
    let pod = "#{metadata: #{name: \"a\"}}";
    assert_eq!(posted(&format!("k8s::event([{pod}, [{pod}]], \"T\", \"R\", \"m\")")).await, ["T R \"m\" None a,a"]);
    assert_eq!(posted(&format!("k8s::info({pod}, \"R\", \"m\")")).await, ["Normal R \"m\" Some(Info) a"]);
    for (script, expected) in [
        ("k8s::event(1, \"m\")", "`k8s::event`: the reason must be a text, not 1 (line 1, position 6)"),
        (
            "k8s::info(\"x\", \"R\", \"m\")",
            "`k8s::info`: an Event is about an object or an array of objects, not \"x\"",
        ),
        ("for i in 0..9 { k8s::event(\"R\", \"m\"); }", "::Ending ("),
    ] {
        let error = run_on(&Arc::default(), script).await.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[tokio::test]
async fn children_are_adopted_by_the_handled_object() {
    let (found, _) =
        on_cluster("let o = #{kind: \"Pod\"}; let a = adopt([o], #{strict: true}); [o, a]", Vec::new()).await;
    let found = found.unwrap();
    assert_eq!(found[0], json!({"kind": "Pod"}));
    assert_eq!(found[1][0]["metadata"]["name"], "ex");
    assert_eq!(found[1][0]["metadata"]["ownerReferences"][0]["uid"], "u");
    let family = "let o = #{kind: \"Pod\"};
        [append_owner(o, #{controller: ()}), remove_owner(o), label(o), label(o, #{labels: #{a: \"b\"}}), harmonize_naming(o, #{name: \"n\"}), adjust_namespace(o, #{namespace: ()})]";
    let (found, _) = on_cluster(family, Vec::new()).await;
    let metadata = |index: usize| found.as_ref().unwrap()[index]["metadata"].clone();
    assert_eq!(metadata(0)["ownerReferences"][0].get("controller"), None);
    assert_eq!(metadata(1), json!({"ownerReferences": []}));
    assert_eq!((metadata(2), metadata(3)), (json!({"labels": {"app": "x"}}), json!({"labels": {"a": "b"}})));
    assert_eq!((metadata(4), metadata(5)), (json!({"generateName": "n-"}), json!({"namespace": null})));
    for (script, expected) in [
        ("adopt(1)", "an object must be a mapping, not a number"),
        (
            "adopt(#{kind: \"x\"}, #{force: true})",
            "`adopt` has no option `force`: there are forced, nested, owner, strict",
        ),
        ("adopt(#{kind: \"x\"}, #{owner: 1})", "the option `owner` of `adopt` must be an object"),
        ("label(#{kind: \"x\"}, #{labels: ()})", "must be a map"),
        ("harmonize_naming(#{kind: \"x\"}, #{name: ()})", "no name"),
    ] {
        let (found, _) = on_cluster(script, Vec::new()).await;
        let error = found.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
    fails("adopt(#{kind: \"x\"})", "no owner is given, and no object is being handled").await;
}
