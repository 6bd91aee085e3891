//! The engine's own client over the server in the same process, in virtual time.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::sync::Arc;
use std::time::Duration;

use kopfd::apiserver::{ApiServer, bootstrap};
use kopfd::cluster::{Networking, ObjectClient, Request, ResourceResolver};
use kopfd::engines::posting;
use kopfd::engines::{Environment as _, Scripts as _};
use kopfd::handling::{Handler, On, Verdict};
use kopfd::kit::source::SourcePosition;
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::manifest::settings::Posting;
use kopfd::object::{Body, EventKind, Patch, Selector};
use kopfd::reactor::change_log::ChangeLog;
use kopfd::reactor::script_api::ScriptApi;
use kopfd::reactor::{HostScripts, LiveEffects};
use kopfd::script::outside::api::{Api as _, ApiRequest, Operation};
use kopfd::script::{
    Binding, BindingKind, Call, Code, Declaration, Host, Limits, Object, ObjectMemo, Options, Program, Subject, Threads,
};
use kopfd::telemetry::OperatorMetrics;
use serde_json::{Value, json};

use super::world::api_server::{api_server, client, spawn_controllers};
use super::world::in_virtual_time;
use super::world::log::collect_messages;

#[tokio::test(start_paused = true)]
async fn a_client_in_the_same_process_needs_no_socket_and_no_real_time() {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let api = api_server(&clock);
    let stop = Stop::new();
    let mut tasks = Tasks::default();
    spawn_controllers(&api, &mut tasks, &stop);
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    bootstrap::apply(&api, vec![owner]).await.unwrap();
    let configmaps =
        kopfd::apiserver::storage::resource::Resource { group: String::new(), plural: "configmaps".into() };
    let key = |name: &str| ("default".to_owned(), name.to_owned());
    let uid = api.read(&configmaps, &key("owner")).unwrap().value["metadata"]["uid"].clone();
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let child =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": reference}});
    bootstrap::apply(&api, vec![child]).await.unwrap();

    let client = client(&api, Networking::default(), &clock).await;
    client.request(&Request::new(http::Method::DELETE, "/api/v1/namespaces/default/configmaps/owner")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(api.read(&configmaps, &key("owner")).is_none() && api.read(&configmaps, &key("child")).is_none());
    stop.request("the end");
    assert!(tasks.finish(Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_scripts_write_is_told_by_the_whole_object() {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let api = api_server(&clock);
    let client = client(&api, Networking::default(), &clock).await;
    let kinds = Arc::new(ResourceResolver::new(client.clone()));
    let log = Arc::new(ChangeLog::new("kopf.zalando.org"));
    let (poster, _queue) = posting::queue(Posting::default());
    let scripts = ScriptApi::new(ObjectClient::new(client, "demo"), kinds, poster).logged_by(Some(log));
    let resource = scripts.resolve(Selector::parse("apps/v1/deployments").unwrap()).await.unwrap();
    let (messages, _guard) = collect_messages(tracing::Level::INFO);
    let told = async |operation| {
        let request = ApiRequest { resource: Arc::clone(&resource), namespace: Some("default".to_owned()), operation };
        scripts.send(request).await.unwrap();
        std::mem::take(&mut *messages.lock())
    };
    let name = || "web".to_owned();
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default", "finalizers": ["a.dev/b"]},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let mut free = object.clone();
    free["metadata"]["finalizers"] = json!([]);
    assert_eq!(told(Operation::Create { object }).await, ["│ + Deployment default/web created"]);
    let patch = |subresource: Option<&str>, patch: Value| Operation::Patch {
        name: name(),
        subresource: subresource.map(str::to_owned),
        patch,
    };
    let changed = |line: &str| ["│ ~ Deployment default/web changed".to_owned(), format!("│   {line}")];
    assert_eq!(told(patch(None, json!({"spec": {"replicas": 2}}))).await, changed("~ spec.replicas: 1 -> 2"));
    // The answer to a patch of the scale is no deployment.
    assert_eq!(told(patch(Some("scale"), json!({"spec": {"replicas": 3}}))).await, changed("~ spec.replicas: 2 -> 3"));
    assert_eq!(told(patch(Some("status"), json!({"status": {"replicas": 3}}))).await, changed("+ status.replicas: 3"));
    let delete = || Operation::Delete { name: name(), propagation: None, grace: None };
    assert_eq!(told(delete()).await, ["│ - Deployment default/web is to be deleted"]);
    told(patch(None, json!({"metadata": {"finalizers": null}}))).await;
    assert_eq!(told(delete()).await, ["│ = Deployment default/web was not there"]);
    told(Operation::Create { object: free }).await;
    assert_eq!(told(delete()).await, ["│ - Deployment default/web deleted"]);
    assert!(told(Operation::Get { name: name() }).await.is_empty());
}

/// Returns the effects of an operator with these bindings.
async fn effects(api: &ApiServer, clock: &Clock, bindings: Vec<Binding>) -> LiveEffects {
    let client = client(api, Networking::default(), clock).await;
    let host = Host::start(Options { threads: Threads::Current, ..Options::default() }).unwrap();
    let installed = host
        .install(Arc::new(Program::load(Declaration { bindings, ..Declaration::default() }).unwrap()))
        .await
        .unwrap();
    LiveEffects::new(Arc::new(HostScripts::new(host, installed, &OperatorMetrics::default())), client, clock.clone())
}

#[test]
fn the_memory_of_a_forgotten_object_begins_anew_and_other_memories_are_kept() {
    in_virtual_time(async {
        let clock = Clock::system();
        let api = api_server(&clock);
        let text = "memo.calls = (memo.calls ?? 0) + 1; return memo.calls;";
        let counting = Binding {
            id: "count".into(),
            code: Code::Inline { text: text.into(), place: SourcePosition::default(), file: None },
            kind: BindingKind::Event,
            limits: Limits::default(),
            place: SourcePosition::default(),
            param: Value::Null,
        };
        let effects = effects(&api, &clock, vec![counting]).await;
        let handler = Handler::simple("count", On::Event);
        let count = async |memo: &str| {
            let object = Object {
                resource: Arc::default(),
                body: Body::from(json!({"metadata": {"name": "x"}})),
                memo: ObjectMemo::empty(memo),
            };
            let call = Call {
                target: 0,
                subject: Subject::Event { object, event_kind: EventKind::Modified },
                patch: Patch::default(),
                retry: 0,
                started: clock.now(),
                param: Value::Null,
                subhandling: None,
                stop: Stop::new(),
                span: tracing::Span::none(),
            };
            match effects.call(&handler, call).await.verdict {
                Verdict::Returned(Some(count)) => count,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((count("a").await, count("a").await, count("b").await), (json!(1), json!(2), json!(1)));
        effects.forget(&Arc::from("a"));
        assert_eq!((count("a").await, count("b").await), (json!(1), json!(2)));
    });
}

#[test]
fn chance_depends_on_the_seed_alone_if_there_is_one() {
    in_virtual_time(async {
        let clock = Clock::system();
        let api = api_server(&clock);
        let draws = async |seed| {
            let effects = effects(&api, &clock, Vec::new()).await.with_seed(seed);
            (0..100).map(|_| effects.random_below(3)).collect::<Vec<_>>()
        };
        let (first, other) = (draws(Some(7)).await, draws(Some(8)).await);
        assert_eq!(first, draws(Some(7)).await);
        assert_ne!(first, other);
        for draws in [first, draws(None).await] {
            assert!((0..3).all(|number| draws.contains(&number)) && draws.iter().all(|draw| *draw < 3), "{draws:?}");
        }
    });
}
