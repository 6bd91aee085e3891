//! The definitions of converted kinds on the embedded server, in virtual time: written, kept true, left at the end.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use kopfd::apiserver::faults::{Action, Match, Rule};
use kopfd::apiserver::storage::resource::Resource as Stored;
use kopfd::apiserver::{ApiServer, admin_client, bootstrap};
use kopfd::cluster::Networking;
use kopfd::engines::Scripts;
use kopfd::engines::admission::ClientConfig;
use kopfd::engines::admission::client_config::Target;
use kopfd::engines::admission::configurations::{ConfigurationError, Definitions, Upkeep};
use kopfd::engines::admission::reviewer::{ReviewRevision, WebhookKinds};
use kopfd::handling::{Handler, On};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::object::{Resource, Selector};
use kopfd::script::{Call, Evaluation, Returned, Subject};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::world::api_server::{api_server, client};
use super::world::in_virtual_time;
use super::world::log::collect_messages;

const NAME: &str = "things.ex.dev";

/// The functions are never called.
struct NoScripts;

impl Scripts for NoScripts {
    fn call<'a>(&'a self, _: &'a Handler, _: Call) -> BoxFuture<'a, Returned> {
        Box::pin(std::future::pending())
    }

    fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(std::future::pending())
    }
}

fn definition() -> Value {
    let version = |name: &str, is_stored: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": is_stored, "schema": schema})
    };
    let names = json!({"kind": "Thing", "plural": "things"});
    let service = json!({"namespace": "n", "name": "another", "path": "/p"});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}});
    let conversion = json!({"strategy": "Webhook", "webhook": webhook});
    let versions = [version("v1", true), version("v2", false)];
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
        "spec": {"group": "ex.dev", "scope": "Namespaced", "names": names, "versions": versions, "conversion": conversion},
    })
}

fn revision(conversions: &[&str]) -> Arc<ReviewRevision> {
    let selectors = || vec![Selector::parse(NAME).unwrap()];
    let conversions = conversions
        .iter()
        .map(|id| Handler { selectors: selectors(), ..Handler::simple(id, On::Conversion) })
        .collect();
    Arc::new(ReviewRevision { scripts: Arc::new(NoScripts), webhooks: Vec::new(), conversions })
}

#[expect(clippy::unnecessary_wraps, reason = "the kinds of an operator that has discovered them")]
fn known() -> WebhookKinds {
    let (group, version) = ("ex.dev".into(), "v1".into());
    let kind = Resource {
        group,
        version,
        plural: "things".into(),
        kind: "Thing".into(),
        preferred: true,
        ..Resource::default()
    };
    Some(Arc::new(BTreeSet::from([Arc::new(kind)])))
}

fn at(url: &str) -> ClientConfig {
    ClientConfig { target: Target::Url(url.to_owned()), authorities: Some("CA".to_owned()) }
}

/// An operator that only manages its definitions.
struct Operator {
    api: ApiServer,
    revisions: watch::Sender<Arc<ReviewRevision>>,
    kinds: watch::Sender<WebhookKinds>,
    address: watch::Sender<ClientConfig>,
    unwritten: Weak<()>,
    stop: Stop,
    tasks: Tasks<Result<(), ConfigurationError>>,
}

impl Operator {
    async fn new(conversions: &[&str]) -> Self {
        let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
        let api = api_server(&clock);
        bootstrap::apply(&api, vec![definition()]).await.unwrap();
        let networking = Networking { error_backoffs: Vec::new(), ..Networking::default() };
        let revisions = watch::Sender::new(revision(conversions));
        let (kinds, address) = (watch::Sender::new(None), watch::Sender::new(at("https://a")));
        let unwritten = Arc::new(());
        let upkeep = Upkeep {
            client: client(&api, networking, &clock).await,
            operator: "demo".into(),
            revisions: revisions.subscribe(),
            kinds: kinds.subscribe(),
            address: address.subscribe(),
            error_delays: [1, 10].map(Duration::from_secs).into(),
        };
        let definitions = Definitions { upkeep, unwritten: Arc::clone(&unwritten) as Arc<dyn Any + Send + Sync> };
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        let own = stop.clone();
        tasks.spawn("definitions", async move { Box::pin(definitions.run(own)).await });
        pause(1).await;
        Self { api, revisions, kinds, address, unwritten: Arc::downgrade(&unwritten), stop, tasks }
    }

    async fn discovered(conversions: &[&str]) -> Self {
        let operator = Self::new(conversions).await;
        operator.kinds.send_replace(known());
        pause(1).await;
        operator
    }

    fn conversion(&self) -> Option<Value> {
        conversion(&self.api)
    }

    fn url(&self) -> Option<String> {
        self.conversion()?.pointer("/webhook/clientConfig/url")?.as_str().map(str::to_owned)
    }

    async fn send(&self, method: Method, body: Value) {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{NAME}");
        admin_client::send(&self.api, method, &path, Some(content_type), body.to_string()).await.unwrap();
    }

    async fn ended(&mut self) -> Result<(), String> {
        let ended = tokio::time::timeout(Duration::from_mins(1), self.tasks.next_ended()).await.unwrap().unwrap();
        ended.result.unwrap().unwrap().map_err(|error| kopfd::kit::errors::chain(&error))
    }

    async fn end(mut self) -> ApiServer {
        self.stop.request("the end");
        self.ended().await.unwrap();
        self.api
    }
}

fn conversion(api: &ApiServer) -> Option<Value> {
    let resource = Stored { group: "apiextensions.k8s.io".into(), plural: "customresourcedefinitions".into() };
    api.read(&resource, &(String::new(), NAME.into())).map(|stored| stored.value["spec"]["conversion"].clone())
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn the_address_replaces_another_one_and_stays_at_the_end() {
    in_virtual_time(async {
        let operator = Operator::new(&["convert"]).await;
        assert_eq!((operator.url(), operator.unwritten.strong_count()), (None, 1));
        operator.kinds.send_replace(known());
        pause(1).await;
        assert_eq!(operator.unwritten.strong_count(), 0);
        let config = json!({"url": "https://a/convert", "caBundle": "Q0E="});
        let written =
            json!({"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}});
        assert_eq!(operator.conversion().unwrap(), written);
        operator.address.send_replace(at("https://b"));
        pause(1).await;
        assert_eq!(operator.url().unwrap(), "https://b/convert");
        let api = operator.end().await;
        assert_eq!(conversion(&api).unwrap()["webhook"]["clientConfig"]["url"], "https://b/convert");
    });
}

#[test]
fn edits_by_others_are_undone_and_a_definition_that_is_created_again_is_written() {
    in_virtual_time(async {
        let operator = Operator::discovered(&["convert"]).await;
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        operator.send(Method::PATCH, json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}})).await;
        pause(1).await;
        assert_eq!(operator.url().unwrap(), "https://a/convert");
        let title = format!("The CustomResourceDefinition '{NAME}'");
        assert_eq!(*messages.lock(), [format!("{title} was changed by another client, and is restored.")]);
        operator.send(Method::PATCH, json!({"metadata": {"labels": {"a": "b"}}})).await;
        pause(600).await;
        assert_eq!(messages.lock().len(), 1, "the rest belongs to others");
        operator.send(Method::DELETE, json!({})).await;
        operator.api.settle();
        operator.kinds.send_replace(Some(Arc::default()));
        pause(600).await;
        assert_eq!((operator.conversion(), messages.lock().len()), (None, 1), "it is not created");
        bootstrap::apply(&operator.api, vec![definition()]).await.unwrap();
        operator.kinds.send_replace(known());
        pause(1).await;
        assert_eq!(operator.url().unwrap(), "https://a/convert");
        operator.end().await;
    });
}

#[test]
fn a_removed_function_leaves_the_definition_with_a_warning_and_a_renamed_one_is_followed() {
    in_virtual_time(async {
        let operator = Operator::discovered(&["convert"]).await;
        operator.revisions.send_replace(revision(&["renamed"]));
        pause(1).await;
        assert_eq!(operator.url().unwrap(), "https://a/renamed");
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        operator.revisions.send_replace(revision(&[]));
        pause(1).await;
        assert_eq!(operator.url().unwrap(), "https://a/renamed");
        let warning = "still names the removed conversion 'renamed': change its `spec.conversion`.";
        assert!(messages.lock().len() == 1 && messages.lock()[0].ends_with(warning), "{messages:?}");
        operator.revisions.send_replace(revision(&["first", "second"]));
        pause(1).await;
        assert_eq!(operator.url().unwrap(), "https://a/first");
        assert!(messages.lock().last().unwrap().starts_with("The conversion 'second' is not used"), "{messages:?}");
        operator.end().await;
    });
}

#[test]
fn a_missing_permission_ends_the_operator_and_an_outage_only_delays_the_patch() {
    in_virtual_time(async {
        let matching =
            || Match { verb: "patch".into(), resource: Some("customresourcedefinitions".into()), ..Match::default() };
        let operator = Operator::new(&["convert"]).await;
        operator.api.add_fault(Rule { times: Some(2), ..Rule::new(matching(), Action::status(500)) });
        operator.kinds.send_replace(known());
        pause(30).await;
        assert_eq!(operator.url().unwrap(), "https://a/convert");
        operator.end().await;
        let mut refused = Operator::new(&["convert"]).await;
        refused.api.add_fault(Rule::new(matching(), Action::status(403)));
        refused.kinds.send_replace(known());
        let error = refused.ended().await.unwrap_err();
        let expected = "no permission to patch customresourcedefinitions.apiextensions.k8s.io: the verbs patch, list and watch are needed \
            for \"things.ex.dev\"";
        assert!(error.starts_with(expected), "{error}");
    });
}
