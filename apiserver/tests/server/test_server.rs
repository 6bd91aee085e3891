//! The server as a fixture, with unmodified clients of kube-rs.

use std::time::Duration;

use futures::{Stream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kopfd_apiserver::faults::{Action, Expiry, Match, Phase, Rule};
use kopfd_apiserver::test_server::ApplyError;
use kopfd_apiserver::{Latency, TestServer};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::watcher;
use kube::{Client, Config, Error};
use serde_json::json;

/// Real connections end long before; only a defect exceeds this.
const LIMIT: Duration = Duration::from_secs(20);

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.ex.dev}
spec:
  group: ex.dev
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec: {type: object, properties: {size: {type: integer, minimum: 1}}}
";

fn kind() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("ex.dev", "v1", "Widget"))
}

fn widgets(client: Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client, &kind())
}

fn widget(name: &str, size: i64) -> DynamicObject {
    DynamicObject::new(name, &kind()).data(json!({"spec": {"size": size}}))
}

async fn started() -> (TestServer, Api<DynamicObject>) {
    let server = TestServer::builder().start_time("2030-01-01T00:00:00Z".parse().expect("a time")).seed(7).start();
    server.apply(DEFINITION).await.expect("the definition is valid");
    let widgets = widgets(Client::new(server.service(), "default"));
    (server, widgets)
}

async fn next_added(events: &mut (impl Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Unpin)) -> String {
    match events.try_next().await.expect("the watch is open") {
        Some(WatchEvent::Added(object)) => object.metadata.name.expect("stored objects have names"),
        other => panic!("expected an added object, got {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn objects_of_a_definition_are_created_and_watched() {
    let (server, widgets) = started().await;
    let mut events = widgets.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let created = widgets.create(&PostParams::default(), &widget("one", 3)).await.unwrap();
    assert_eq!(created.metadata.creation_timestamp.unwrap().0.to_string(), "2030-01-01T00:00:00Z");
    assert_eq!(next_added(&mut events).await, "one");
    let refused = widgets.create(&PostParams::default(), &widget("two", 0)).await.unwrap_err();
    assert!(matches!(refused, Error::Api(status) if status.code == 422), "the schema holds");
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn faults_affect_clients_until_they_are_cleared() {
    let (server, widgets) = started().await;
    let rule = Rule::new(Match { verb: "create".into(), ..Match::default() }, Action::status(500));
    server.add_fault(Rule { times: Some(1), ..rule.clone() });
    let create = async |name| widgets.create(&PostParams::default(), &widget(name, 1)).await;
    assert!(matches!(create("one").await, Err(Error::Api(status)) if status.code == 500));
    create("one").await.unwrap();
    server.add_fault(rule);
    assert!(create("two").await.is_err() && create("two").await.is_err());
    assert_eq!(server.api().firings().len(), 3);
    server.clear_faults();
    create("two").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_an_error_of_the_client() {
    let (server, widgets) = started().await;
    server.add_fault(Rule::new(Match::default(), Action::Reset { phase: Phase::Before }));
    assert!(matches!(widgets.get("one").await, Err(Error::Service(_))));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_resumes_after_its_watch_has_expired() {
    let (server, widgets) = started().await;
    widgets.create(&PostParams::default(), &widget("one", 1)).await.unwrap();
    let expiry = Action::WatchExpire { how: Expiry::Event };
    server.add_fault(Rule { times: Some(1), ..Rule::new(Match { verb: "watch".into(), ..Match::default() }, expiry) });
    let mut events = watcher(widgets.clone(), watcher::Config::default()).boxed();
    let mut lists = 0;
    while lists < 2 {
        match events.next().await.unwrap() {
            Ok(watcher::Event::InitDone) => lists += 1,
            Ok(_) | Err(watcher::Error::WatchError(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(server.api().firings().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn controllers_work_as_virtual_time_advances() {
    let latency = Latency { namespaces: Duration::from_secs(5), ..Latency::default() };
    let server = TestServer::builder().latency(latency).start();
    server.apply("{apiVersion: v1, kind: Namespace, metadata: {name: team}}").await.unwrap();
    let namespaces: Api<Namespace> = Api::all(Client::new(server.service(), "default"));
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    server.advance(Duration::from_secs(4)).await;
    assert_eq!(namespaces.get("team").await.unwrap().status.unwrap().phase.as_deref(), Some("Terminating"));
    server.advance(Duration::from_secs(1)).await;
    assert!(namespaces.get_opt("team").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_uids() {
    let uid = async || {
        let (_server, widgets) = started().await;
        widgets.create(&PostParams::default(), &widget("one", 1)).await.unwrap().metadata.uid
    };
    assert_eq!(uid().await, uid().await);
}

#[tokio::test(start_paused = true)]
async fn objects_that_cannot_be_applied_are_errors() {
    let (server, _) = started().await;
    assert!(matches!(server.apply("a: [").await, Err(ApplyError::Parse(_))));
    let refused = server.apply("{apiVersion: ex.dev/v1, kind: Widget, metadata: {name: w}, spec: {size: 0}}").await;
    assert!(matches!(refused, Err(ApplyError::Refused(refused)) if refused.object == "Widget \"w\""));
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_watches_and_fails_requests() {
    let (server, widgets) = started().await;
    let mut events = widgets.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    server.stop().await;
    assert!(events.try_next().await.unwrap().is_none());
    assert!(matches!(widgets.get("one").await, Err(Error::Service(_))));
}

#[tokio::test(start_paused = true)]
async fn dropping_stops_too() {
    let (server, widgets) = started().await;
    drop(server);
    assert!(matches!(widgets.get("one").await, Err(Error::Service(_))));
}

#[tokio::test]
async fn clients_connect_with_the_kubeconfig() {
    let scene = async {
        let server = TestServer::builder().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        server.apply(DEFINITION).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig().unwrap()).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let widgets = widgets(Client::try_from(config).unwrap());
        let mut events = widgets.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        widgets.create(&PostParams::default(), &widget("one", 1)).await.unwrap();
        assert_eq!(next_added(&mut events).await, "one");
        let address = server.address().unwrap();
        server.stop().await;
        assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the socket is closed");
        assert!(widgets.get("one").await.is_err());
    };
    tokio::time::timeout(LIMIT, scene).await.unwrap();
}

#[tokio::test]
async fn an_address_in_use_is_an_error() {
    let server = TestServer::builder().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    assert!(TestServer::builder().listen(server.address().unwrap()).await.is_err());
}
