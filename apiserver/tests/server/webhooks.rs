//! Admission and conversion webhooks, answered in the same process, and over TLS.
#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests, too")]
#![expect(clippy::unnecessary_wraps, reason = "the answers of webhooks may be failures")]

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::StreamExt as _;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kopfd_apiserver::admission::{Caller, HookError};
use kopfd_apiserver::{ApiServer, Settings};
use kopfd_base::kit::{Clock, Stop, Tasks};
use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const WIDGETS: &str = "/apis/ex.dev/v1/namespaces/default/widgets";
const CONVERTED: &str = "/apis/ex.dev/v2/namespaces/default/widgets";

/// The answers of webhooks: the `response` to a `request`, by the called URL.
type Answers = Arc<dyn Fn(&str, &Value) -> Result<Value, String> + Send + Sync>;

/// A server whose webhooks are answered by a function, with the recorded reviews.
struct World {
    api: ApiServer,
    questions: Arc<Mutex<Vec<Value>>>,
}

/// An answer.
struct Answer {
    status: u16,
    value: Value,
    warnings: Vec<String>,
}

impl World {
    async fn new(answers: impl Fn(&str, &Value) -> Result<Value, String> + Send + Sync + 'static) -> Self {
        let questions: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (answers, asked): (Answers, _) = (Arc::new(answers), Arc::clone(&questions));
        let hook = move |url: &str, question: &Value| {
            let request = &question["request"];
            asked.lock().push(request.clone());
            let answer = answers(url, request).map(|mut response| {
                response["uid"] = request["uid"].clone();
                json!({"apiVersion": question["apiVersion"], "kind": question["kind"], "response": response})
            });
            Some(async move { answer.map_err(HookError::Unreachable) }.boxed())
        };
        let webhooks = Caller { services: BTreeMap::new(), hook: Some(Arc::new(hook)) };
        Self::with_definition(Self { api: api(webhooks), questions }).await
    }

    async fn with_definition(world: Self) -> Self {
        world
            .send(
                "POST",
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                definition(&json!({"strategy": "None"})),
            )
            .await;
        world
    }

    async fn send(&self, method: &str, uri: &str, body: Value) -> Answer {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        self.send_as(method, uri, media, body).await
    }

    async fn send_as(&self, method: &str, uri: &str, media: &str, body: Value) -> Answer {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request =
            Request::builder().method(method).uri(uri).header(header::CONTENT_TYPE, media).body(body).unwrap();
        let response = self.api.respond(request).await.unwrap();
        let warnings = response
            .headers()
            .get_all(header::WARNING)
            .iter()
            .map(|value| value.to_str().unwrap().to_owned())
            .collect();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { status, value: serde_json::from_slice(&body).unwrap_or_default(), warnings }
    }

    async fn create(&self, name: &str) -> Answer {
        self.send("POST", WIDGETS, widget(name)).await
    }

    async fn get(&self, uri: &str) -> Answer {
        self.send("GET", uri, Value::Null).await
    }

    /// Adds a configuration with one webhook, whose URL has its name. Returns the warnings.
    async fn guard(&self, kind: &str, name: &str, more: Value) -> Vec<String> {
        let mut webhook = json!({"name": name, "clientConfig": {"url": format!("https://{name}/")}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"operations": ["*"], "apiGroups": ["ex.dev"], "apiVersions": ["*"], "resources": ["*/*"]}]});
        for (key, value) in more.as_object().into_iter().flatten() {
            webhook[key] = value.clone();
        }
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}webhookconfigurations", kind.to_lowercase());
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": name}, "webhooks": [webhook]});
        let answer = self.send("POST", &path, configuration).await;
        assert_eq!(answer.status, 201, "{}", answer.value);
        answer.warnings
    }

    /// Returns the operations of the reviews, with the subresources, and forgets them.
    fn asked(&self) -> Vec<String> {
        let word = |request: &Value| {
            let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("operation"), text("name"), text("subResource")).trim_end().to_owned()
        };
        self.questions.lock().drain(..).map(|request| word(&request)).collect()
    }
}

fn api(webhooks: Caller) -> ApiServer {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    ApiServer::new(Settings { seed: Some(1), webhooks, ..Settings::default() }, clock)
}

fn definition(conversion: &Value) -> Value {
    let version = |name: &str, fields: Value| {
        let mut properties = json!({"spec": {"type": "object", "properties": fields}, "status": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true}});
        properties["spec"]["properties"]["replicas"] = json!({"type": "integer"});
        json!({"name": name, "served": true, "storage": name == "v1", "subresources": {"status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}})
    };
    let text = json!({"type": "string"});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.dev"}, "spec": {
        "group": "ex.dev", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "conversion": conversion,
        "versions": [version("v1", json!({"size": {"type": "integer", "minimum": 1}, "color": text, "mode": {"type": "string", "default": "slow"}})),
            version("v2", json!({"size": {"type": "integer"}, "hue": text}))]}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1, "replicas": 1}})
}

/// Starts the controllers, and creates a child whose owner is deleted.
async fn orphan(world: &World) -> (Stop, Tasks<()>) {
    let (stop, mut tasks) = (Stop::new(), Tasks::default());
    tasks.spawn("controllers", {
        let (api, stop) = (world.api.clone(), stop.clone());
        async move { api.run_controllers(stop).await }
    });
    let owner = world.create("owner").await.value;
    let mut child = widget("child");
    child["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "ex.dev/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    world.send("POST", WIDGETS, child).await;
    world.send("DELETE", &format!("{WIDGETS}/owner"), Value::Null).await;
    (stop, tasks)
}

fn allowed() -> Result<Value, String> {
    Ok(json!({"allowed": true}))
}

fn patched(operations: Value) -> Result<Value, String> {
    Ok(json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(operations.to_string())}))
}

#[tokio::test(start_paused = true)]
async fn every_write_passes_the_webhooks() {
    let world = World::new(|_, _| allowed()).await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    let a = format!("{WIDGETS}/a");
    world.create("a").await;
    world.send("PATCH", &a, json!({"spec": {"size": 2}, "metadata": {"finalizers": ["ex.dev/f"]}})).await;
    world.send("PATCH", &format!("{a}/status"), json!({"status": {"x": 1}})).await;
    world.send("PATCH", &format!("{a}/scale"), json!({"spec": {"replicas": 3}})).await;
    let scale = world.questions.lock().last().unwrap().clone();
    assert_eq!(
        (&scale["kind"]["kind"], &scale["resource"]["resource"], &scale["object"]["spec"]["replicas"]),
        (&json!("Scale"), &json!("widgets"), &json!(3))
    );
    let applied = json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "b"}, "spec": {"size": 4}});
    let apply = format!("{WIDGETS}/b?fieldManager=m");
    world.send_as("PATCH", &apply, "application/apply-patch+yaml", applied.clone()).await;
    world.send_as("PATCH", &apply, "application/apply-patch+yaml", applied).await;
    world.send("DELETE", &a, Value::Null).await;
    world.send("PATCH", &a, json!({"metadata": {"finalizers": null}})).await;
    world.send("DELETE", &format!("{WIDGETS}?dryRun=All"), Value::Null).await;
    assert_eq!(
        world.asked(),
        [
            "CREATE a",
            "UPDATE a",
            "UPDATE a status",
            "UPDATE a scale",
            "CREATE b",
            "UPDATE b",
            "DELETE a",
            "UPDATE a",
            "DELETE"
        ]
    );
    assert_eq!(world.get(&a).await.status, 404);
    assert_eq!(world.get(&format!("{WIDGETS}/b")).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_mutating_webhook_sees_the_object_before_it_has_an_id_and_a_validating_one_after() {
    let world = World::new(|_, _| allowed()).await;
    world.guard("Mutating", "m.ex.dev", Value::Null).await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    let mut nameless = widget("");
    nameless["metadata"] = json!({"generateName": "w-"});
    world.send("POST", &format!("{WIDGETS}?fieldManager=me"), nameless).await;
    let questions = world.questions.lock().clone();
    let (mutating, validating) = (&questions[0], &questions[1]);
    assert_eq!((mutating.get("name"), &mutating["object"]["spec"]["mode"]), (None, &json!("slow")));
    let metadata = &mutating["object"]["metadata"];
    assert!(
        metadata["managedFields"].is_array() && metadata.get("uid").is_none() && metadata.get("generation").is_none(),
        "{metadata}"
    );
    let metadata = &validating["object"]["metadata"];
    assert!(
        metadata["uid"].is_string() && metadata["generation"] == 1 && metadata.get("resourceVersion").is_none(),
        "{metadata}"
    );
    assert_eq!(validating["name"], metadata["name"]);
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"});
    assert_eq!((&mutating["options"], &mutating["userInfo"]["username"]), (&options, &json!("dev-admin")));
    assert_eq!((&mutating["oldObject"], &mutating["dryRun"]), (&Value::Null, &json!(false)));
}

#[tokio::test(start_paused = true)]
async fn patches_are_applied_in_order_and_go_through_the_schema() {
    let world = World::new(|url, request| match url {
        "https://a.m.dev/" => {
            patched(json!([{"op": "add", "path": "/spec/color", "value": "red"}, {"op": "add", "path": "/spec/bogus", "value": 1},
            {"op": "remove", "path": "/spec/mode"}]))
        }
        "https://b.m.dev/" => {
            assert_eq!(request["object"]["spec"]["color"], "red");
            patched(json!([{"op": "replace", "path": "/spec/size", "value": 7}]))
        }
        _ => allowed(),
    })
    .await;
    world.guard("Mutating", "b.m.dev", Value::Null).await;
    world.guard("Mutating", "a.m.dev", Value::Null).await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    let created = world.create("a").await;
    assert_eq!(created.value["spec"], json!({"size": 7, "color": "red", "mode": "slow", "replicas": 1}));
    assert_eq!(created.value["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].get("f:color"), None);
    let changed = world.send("PATCH", &format!("{WIDGETS}/a"), json!({"spec": {"size": 2, "color": "blue"}})).await;
    assert_eq!(changed.value["spec"], json!({"size": 7, "color": "red", "mode": "slow", "replicas": 1}));
    assert_eq!(changed.value["metadata"]["generation"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_mutating_webhook_can_mend_an_object_and_an_invalid_one_is_not_validated_by_others() {
    let world = World::new(|url, request| {
        let is_small = request["object"]["spec"]["size"] == 0;
        if url.contains("m.ex.dev") && is_small {
            patched(json!([{"op": "replace", "path": "/spec/size", "value": 5}]))
        } else {
            allowed()
        }
    })
    .await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    let mut bad = widget("a");
    bad["spec"]["size"] = json!(0);
    assert_eq!(world.send("POST", WIDGETS, bad.clone()).await.status, 422);
    assert_eq!(world.asked(), [""; 0]);
    world.guard("Mutating", "m.ex.dev", Value::Null).await;
    let created = world.send("POST", WIDGETS, bad).await;
    assert_eq!((created.status, &created.value["spec"]["size"]), (201, &json!(5)));
}

#[tokio::test(start_paused = true)]
async fn denials_and_failures_end_requests_unless_failures_are_ignored() {
    let world = World::new(|url, request| match (url, request["operation"].as_str()) {
        ("https://no.ex.dev/", Some("DELETE")) => {
            Ok(json!({"allowed": false, "status": {"message": "nope", "code": 418, "reason": "Teapot"}}))
        }
        ("https://no.ex.dev/", _) => Ok(json!({"allowed": true, "warnings": ["mind the gap"]})),
        _ => Err("dial tcp: connect: connection refused".to_owned()),
    })
    .await;
    world.guard("Validating", "no.ex.dev", Value::Null).await;
    world.guard("Validating", "lax.ex.dev", json!({"failurePolicy": "Ignore"})).await;
    let created = world.create("a").await;
    assert_eq!((created.status, created.warnings), (201, vec!["299 - \"mind the gap\"".to_owned()]));
    let refused = world.send("DELETE", &format!("{WIDGETS}/a"), Value::Null).await;
    assert_eq!((refused.status, &refused.value["reason"]), (418, &json!("Teapot")));
    world.guard("Mutating", "strict.ex.dev", Value::Null).await;
    let failed = world.create("b").await;
    let text = "Internal error occurred: failed calling webhook \"strict.ex.dev\": failed to call webhook: Post \"https://strict.ex.dev/?timeout=10s\": \
                dial tcp: connect: connection refused";
    assert_eq!((failed.status, &failed.value["message"]), (500, &json!(text)));
}

#[tokio::test(start_paused = true)]
async fn rules_selectors_and_conditions_choose_the_requests() {
    let world = World::new(|_, _| allowed()).await;
    let only = |more: Value| more;
    world.guard("Validating", "l.ex.dev", only(json!({"objectSelector": {"matchLabels": {"a": "b"}}}))).await;
    world.create("a").await;
    assert_eq!(world.asked(), [""; 0]);
    world.send("PATCH", &format!("{WIDGETS}/a"), json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(world.asked(), ["UPDATE a"]);
    let by_namespace = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}});
    world
        .send("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/l.ex.dev", Value::Null)
        .await;
    world.guard("Validating", "n.ex.dev", by_namespace).await;
    world.create("b").await;
    assert_eq!(world.asked(), [""; 0]);
    world.send("POST", "/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    world.send("POST", "/apis/ex.dev/v1/namespaces/other/widgets", widget("c")).await;
    assert_eq!(world.asked(), ["CREATE c"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_passes_only_webhooks_without_side_effects() {
    let world = World::new(|_, _| allowed()).await;
    world.guard("Validating", "v.ex.dev", json!({"sideEffects": "NoneOnDryRun"})).await;
    assert_eq!(world.send("POST", &format!("{WIDGETS}?dryRun=All"), widget("a")).await.status, 201);
    let question = world.questions.lock()[0].clone();
    assert_eq!((&question["dryRun"], &question["options"]["dryRun"]), (&json!(true), &json!(["All"])));
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_fault_lets_the_call_of_a_webhook_fail() {
    let world = World::new(|_, _| allowed()).await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    for (kind, text) in
        [("timeout", "context deadline exceeded"), ("refused", "connection refused"), ("500", "an error on the server")]
    {
        world.api.replace_faults(vec![
            serde_json::from_value(json!({"action": {"webhookFail": {"name": "v.ex.dev", "kind": kind}}})).unwrap(),
        ]);
        let failed = world.create("a").await;
        assert!(failed.status == 500 && failed.value["message"].as_str().unwrap().contains(text), "{}", failed.value);
    }
    world.api.replace_faults(vec![
        serde_json::from_value(json!({"action": {"webhookFail": {"name": "other", "kind": "500"}}})).unwrap(),
    ]);
    assert_eq!(world.create("a").await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_webhook_at_most_until_its_timeout() {
    let world = World::new(|_, _| allowed()).await;
    world.guard("Validating", "v.ex.dev", json!({"timeoutSeconds": 30})).await;
    let hanging = json!({"action": {"webhookFail": {"kind": "timeout"}}});
    world.api.replace_faults(vec![serde_json::from_value(hanging).unwrap()]);
    let begun_at = tokio::time::Instant::now();
    assert_eq!(world.send("POST", &format!("{WIDGETS}?timeout=3s"), widget("a")).await.status, 504);
    assert_eq!(begun_at.elapsed().as_secs(), 3);
    world.api.replace_faults(Vec::new());
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn the_controllers_pass_the_webhooks_and_try_again() {
    let is_open = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let gate = Arc::clone(&is_open);
    let world = World::new(move |_, request| {
        let is_collected =
            request["operation"] == "DELETE" && request["userInfo"]["username"] == "system:kube-controller-manager";
        Ok(json!({"allowed": !is_collected || gate.load(std::sync::atomic::Ordering::Relaxed)}))
    })
    .await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    let (stop, mut tasks) = orphan(&world).await;
    let child = format!("{WIDGETS}/child");
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(world.get(&child).await.status, 200);
    is_open.store(true, std::sync::atomic::Ordering::Relaxed);
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(world.get(&child).await.status, 404);
    stop.request("the end");
    assert!(tasks.finish(std::time::Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn webhooks_get_the_options_of_deletions_and_evictions() {
    let world = World::new(|_, _| allowed()).await;
    let everything = json!({"rules": [{"operations": ["*"], "apiGroups": ["", "ex.dev"], "apiVersions": ["*"], "resources": ["pods", "pods/*", "widgets"]}]});
    world.guard("Validating", "v.ex.dev", everything).await;
    let uid = world.create("a").await.value["metadata"]["uid"].clone();
    world
        .send(
            "DELETE",
            // With a body, the query is ignored.
            &format!("{WIDGETS}/a?propagationPolicy=Orphan"),
            json!({"gracePeriodSeconds": 7, "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}),
        )
        .await;
    let options = world.questions.lock().last().unwrap()["options"].clone();
    let told = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "gracePeriodSeconds": 7, "propagationPolicy": "Foreground",
        "preconditions": {"uid": uid}});
    assert_eq!(options, told);
    let pods = "/api/v1/namespaces/default/pods";
    world
        .send("POST", pods, json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
        .await;
    world.questions.lock().clear();
    let evicted = world.send("POST", &format!("{pods}/p/eviction"), json!({"metadata": {"name": "p"}})).await;
    assert_eq!((evicted.status, world.asked()), (201, vec!["CREATE p eviction".to_owned()]));
    assert_eq!(world.get(&format!("{pods}/p")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_mutating_webhook_may_not_make_another_object_of_one_that_is_there() {
    let world = World::new(|_, request| {
        let path = request["object"]["metadata"]["annotations"]["change"].as_str().unwrap_or_default();
        if path.is_empty() { allowed() } else { patched(json!([{"op": "replace", "path": path, "value": "other"}])) }
    })
    .await;
    world.guard("Mutating", "m.ex.dev", Value::Null).await;
    world.create("a").await;
    let change = async |path: &str| {
        let answer =
            world.send("PATCH", &format!("{WIDGETS}/a"), json!({"metadata": {"annotations": {"change": path}}})).await;
        (answer.status, answer.value["details"]["causes"][0]["field"].clone())
    };
    assert_eq!(change("/metadata/namespace").await, (400, Value::Null));
    assert_eq!(change("/metadata/name").await, (422, json!("metadata.name")));
    let mut moved = widget("b");
    moved["metadata"]["annotations"] = json!({"change": "/metadata/namespace"});
    moved["metadata"]["namespace"] = json!("default");
    assert_eq!(world.send("POST", WIDGETS, moved).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_settled_while_a_controller_waits_for_a_webhook() {
    let hook = |_: &str, question: &Value| {
        let uid = question["request"]["uid"].clone();
        let answer = json!({"apiVersion": question["apiVersion"], "kind": question["kind"], "response": {"uid": uid, "allowed": true}});
        let answer = async move {
            tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            Ok(answer)
        };
        Some(answer.boxed())
    };
    let webhooks = Caller { services: BTreeMap::new(), hook: Some(Arc::new(hook)) };
    let world = World::with_definition(World { api: api(webhooks), questions: Arc::default() }).await;
    world.guard("Validating", "v.ex.dev", Value::Null).await;
    let (stop, mut tasks) = orphan(&world).await;
    while !world.api.is_settled() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(world.get(&format!("{WIDGETS}/child")).await.status, 404);
    stop.request("the end");
    assert!(tasks.finish(std::time::Duration::from_secs(1)).await.is_empty());
}

#[cfg(feature = "cel")]
#[tokio::test(start_paused = true)]
async fn conditions_may_ask_who_may_do_what() {
    let world = World::new(|_, _| allowed()).await;
    for (name, expression) in [
        (
            "yes.ex.dev",
            "authorizer.group('').resource('secrets').namespace('default').name('x').check('get').allowed()",
        ),
        (
            "own.ex.dev",
            "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()",
        ),
        (
            "no.ex.dev",
            "authorizer.serviceAccount('default', 'nobody').group('').resource('secrets').check('get').allowed()",
        ),
    ] {
        world.guard("Validating", name, json!({"matchConditions": [{"name": "c", "expression": expression}]})).await;
    }
    assert_eq!(world.create("a").await.status, 201);
    assert_eq!(world.asked(), ["CREATE a"; 2]);
}

#[cfg(not(feature = "cel"))]
#[tokio::test(start_paused = true)]
async fn a_server_without_expressions_warns_of_conditions_and_calls_the_webhook_in_any_case() {
    let world = World::new(|_, _| allowed()).await;
    let warnings =
        world.guard("Validating", "v.ex.dev", json!({"matchConditions": [{"name": "c", "expression": "false"}]})).await;
    let text = "webhooks[0].matchConditions: not evaluated, and the webhook is called in any case: \
                this server was built without the feature cel";
    assert_eq!(warnings, [format!("299 - \"{text}\"")]);
    assert_eq!(world.guard("Mutating", "m.ex.dev", Value::Null).await, [""; 0]);
    assert_eq!(world.create("a").await.status, 201);
    assert_eq!(world.asked(), ["CREATE a"; 2]);
}

/// A server whose widgets are converted by a webhook: `color` in one version is `hue` in the other.
async fn converting(fail: impl Fn(&Value) -> bool + Send + Sync + 'static) -> World {
    let world = World::new(move |_, request| {
        let wanted = request["desiredAPIVersion"].as_str().unwrap();
        let convert = |object: &Value| {
            let mut object = object.clone();
            object["apiVersion"] = json!(wanted);
            let (from, to) = if wanted.ends_with("v2") { ("color", "hue") } else { ("hue", "color") };
            if let Some(value) = object["spec"].as_object_mut().unwrap().remove(from) {
                object["spec"][to] = value;
            }
            object
        };
        let objects = request["objects"].as_array().unwrap();
        if objects.iter().any(&fail) {
            return Ok(json!({"result": {"status": "Failure", "message": "conv boom"}}));
        }
        let converted: Vec<Value> = objects.iter().map(convert).collect();
        Ok(json!({"result": {"status": "Success"}, "convertedObjects": converted}))
    })
    .await;
    let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://conv/"}}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.dev";
    let changed = world.send("PATCH", path, json!({"spec": {"conversion": conversion}})).await;
    assert_eq!(changed.status, 200, "{}", changed.value);
    world
}

fn colored(name: &str, version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("ex.dev/{version}"), "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(start_paused = true)]
async fn a_conversion_webhook_converts_between_versions() {
    let world = converting(|_| false).await;
    world.send("POST", WIDGETS, colored("a", "v1", json!({"color": "red"}))).await;
    assert_eq!(world.questions.lock().len(), 0);
    let seen = world.get(&format!("{CONVERTED}/a")).await.value;
    assert_eq!((&seen["apiVersion"], &seen["spec"]), (&json!("ex.dev/v2"), &json!({"hue": "red"})));
    let created = world.send("POST", CONVERTED, colored("b", "v2", json!({"hue": "blue"}))).await;
    assert_eq!((created.status, &created.value["spec"]["hue"]), (201, &json!("blue")));
    assert_eq!(world.get(&format!("{WIDGETS}/b")).await.value["spec"]["color"], "blue");
    world.send("PATCH", &format!("{CONVERTED}/b"), json!({"spec": {"hue": "green"}})).await;
    assert_eq!(world.get(&format!("{WIDGETS}/b")).await.value["spec"]["color"], "green");
    world.questions.lock().clear();
    let list = world.get(CONVERTED).await.value;
    let hues: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["spec"]["hue"]).collect();
    assert_eq!(hues, [&json!("red"), &json!("green")]);
    assert_eq!(world.questions.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn watches_send_converted_objects() {
    let world = converting(|object| object["metadata"]["name"] == "bad").await;
    world.send("POST", WIDGETS, colored("a", "v1", json!({"color": "red"}))).await;
    let request = Request::get(format!("{CONVERTED}?watch=true&timeoutSeconds=60")).body(Bytes::new()).unwrap();
    let mut lines = world.api.respond(request).await.unwrap().into_body().into_data_stream();
    world.send("PATCH", &format!("{WIDGETS}/a"), json!({"spec": {"color": "blue"}})).await;
    world.send("DELETE", &format!("{WIDGETS}/a"), Value::Null).await;
    world.send("POST", WIDGETS, colored("bad", "v1", json!({"color": "red"}))).await;
    let mut text = String::new();
    while let Some(piece) = lines.next().await {
        text.push_str(std::str::from_utf8(&piece.unwrap()).unwrap());
    }
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&str, &Value)> =
        events.iter().map(|event| (event["type"].as_str().unwrap(), &event["object"]["spec"]["hue"])).collect();
    let (red, blue) = (json!("red"), json!("blue"));
    assert_eq!(told, [("ADDED", &red), ("MODIFIED", &blue), ("DELETED", &blue), ("ERROR", &Value::Null)]);
    assert_eq!(events[3]["object"]["code"], 500);
}

#[tokio::test(start_paused = true)]
async fn a_conversion_that_fails_fails_the_request() {
    let world = converting(|object| object["metadata"]["name"] == "bad").await;
    for name in ["bad", "good"] {
        world.send("POST", WIDGETS, colored(name, "v1", json!({"color": "red"}))).await;
    }
    let failed = world.get(&format!("{CONVERTED}/bad")).await;
    let text = "conversion webhook for ex.dev/v1, Kind=Widget failed: conv boom";
    assert_eq!((failed.status, &failed.value["message"]), (500, &json!(text)));
    assert_eq!(world.get(CONVERTED).await.status, 500);
    assert_eq!(world.get(&format!("{CONVERTED}/good")).await.status, 200);
    assert_eq!(world.send("PATCH", &format!("{CONVERTED}/bad"), json!({"spec": {"hue": "blue"}})).await.status, 500);
    assert_eq!(world.send("DELETE", &format!("{CONVERTED}/bad"), Value::Null).await.status, 500);
    assert_eq!(world.get(&format!("{WIDGETS}/bad")).await.value["metadata"].get("deletionTimestamp"), None);
    assert_eq!(world.get(WIDGETS).await.value["items"].as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_fault_lets_the_call_of_a_conversion_webhook_fail() {
    let world = converting(|_| false).await;
    world.send("POST", WIDGETS, colored("a", "v1", json!({"color": "red"}))).await;
    let fail = |action: Value, times: u64| {
        let rule = json!({"action": {"webhookFail": action}, "times": times});
        world.api.replace_faults(vec![serde_json::from_value(rule).unwrap()]);
    };
    for (kind, text) in
        [("timeout", "context deadline exceeded"), ("refused", "connection refused"), ("500", "an error on the server")]
    {
        fail(json!({"name": "widgets.ex.dev", "kind": kind}), 1);
        // Writes in the stored version call no webhook, and do not count.
        assert_eq!(world.send("PATCH", &format!("{WIDGETS}/a"), json!({"spec": {"color": kind}})).await.status, 200);
        let failed = world.get(&format!("{CONVERTED}/a")).await;
        let message = failed.value["message"].as_str().unwrap();
        assert!(
            failed.status == 500 && message.starts_with("conversion webhook for ex.dev/v1, Kind=Widget failed: "),
            "{message}"
        );
        assert!(message.contains(text), "{message}");
        assert_eq!(world.get(&format!("{CONVERTED}/a")).await.value["spec"]["hue"], kind);
    }
    fail(json!({"name": "other.ex.dev", "kind": "500"}), 1);
    assert_eq!(world.get(&format!("{CONVERTED}/a")).await.status, 200);
    fail(json!({"kind": "refused"}), 1);
    assert_eq!(world.get(&format!("{CONVERTED}/a")).await.status, 500);
}

#[tokio::test(start_paused = true)]
async fn terminating_objects_are_returned_in_the_requested_version() {
    let world = converting(|_| false).await;
    let mut held = colored("a", "v1", json!({"color": "red"}));
    held["metadata"]["finalizers"] = json!(["ex.dev/f"]);
    world.send("POST", WIDGETS, held).await;
    let marked = world.send("DELETE", &format!("{CONVERTED}/a"), Value::Null).await.value;
    assert_eq!((&marked["apiVersion"], &marked["spec"]["hue"]), (&json!("ex.dev/v2"), &json!("red")));
    assert_eq!(marked["metadata"], world.get(&format!("{WIDGETS}/a")).await.value["metadata"]);
}

#[tokio::test(start_paused = true)]
async fn a_conversion_webhook_sees_the_defaults_of_the_stored_version() {
    let world = converting(|_| false).await;
    world.send("POST", CONVERTED, colored("a", "v2", json!({"hue": "red"}))).await;
    let stored = world.get(&format!("{WIDGETS}/a")).await.value;
    assert_eq!(stored["spec"], json!({"color": "red", "mode": "slow"}));
    // A later default is applied, too, although no object has stored it.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.dev";
    let default = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/size/default", "value": 7}]);
    let changed = world.send_as("PATCH", path, "application/json-patch+json", default).await;
    assert_eq!(changed.status, 200, "{}", changed.value);
    for _ in 0..2 {
        assert_eq!(world.get(&format!("{CONVERTED}/a")).await.value["spec"], json!({"hue": "red", "size": 7}));
    }
    assert_eq!(world.get(CONVERTED).await.value["items"][0]["spec"]["size"], 7);
}

#[tokio::test]
async fn a_webhook_is_called_over_tls() {
    // Only the first test installs it.
    kopfd_base::http::install_crypto_provider();
    let made = rcgen::generate_simple_self_signed(vec!["hook.default.svc".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let local = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
    let (stop, mut tasks) = (Stop::new(), Tasks::default());
    tasks.spawn("webhook", {
        let stop = stop.clone();
        async move {
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
            let serve = async {
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let stream = acceptor.accept(stream).await.unwrap();
                    let served = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(review));
                    served.await.unwrap();
                }
            };
            tokio::select! { () = stop.requested() => {}, () = serve => {} }
        }
    });
    let services = BTreeMap::from([("default/hook".to_owned(), local)]);
    let webhooks = Caller { services, hook: None };
    let world = World::with_definition(World { api: api(webhooks), questions: Arc::default() }).await;
    let client = json!({"service": {"namespace": "default", "name": "hook", "path": "/x"}, "caBundle": STANDARD.encode(made.cert.pem())});
    world.guard("Mutating", "m.ex.dev", json!({"clientConfig": client})).await;
    let created = world.create("a").await;
    assert_eq!(
        (created.status, &created.value["spec"]["color"]),
        (201, &json!("from /x?timeout=10s")),
        "{}",
        created.value
    );
    stop.request("the end");
    tasks.finish(std::time::Duration::from_secs(1)).await;
}

async fn review(request: Request<hyper::body::Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().to_string();
    let question: Value = serde_json::from_slice(&request.into_body().collect().await?.to_bytes()).unwrap();
    let mut response = patched(json!([{"op": "add", "path": "/spec/color", "value": format!("from {path}")}])).unwrap();
    response["uid"] = question["request"]["uid"].clone();
    let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::new(Bytes::from(answer.to_string()))))
}
