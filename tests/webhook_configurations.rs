//! The webhook configurations of an operator on the embedded server, in virtual time: written, kept true, narrowed; and
//! their match conditions, as the server evaluates them.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use http::Method;
use kopfd::apiserver::admission::Hook;
use kopfd::apiserver::faults::{Action, Match, Rule};
use kopfd::apiserver::storage::resource::Resource as Stored;
use kopfd::apiserver::{ApiServer, Settings, admin_client};
use kopfd::cluster::Networking;
use kopfd::engines::Scripts;
use kopfd::engines::admission::ClientConfig;
use kopfd::engines::admission::client_config::Target;
use kopfd::engines::admission::configurations::{ConfigurationError, Configurations, Upkeep};
use kopfd::engines::admission::reviewer::{ReviewRevision, WebhookKinds};
use kopfd::handling::admission::Webhook;
use kopfd::handling::admission::configuration::Naming;
use kopfd::handling::{Filters, Handler, Matcher, On};
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::object::{FieldPath, Resource, Selector};
use kopfd::script::{Call, Evaluation, Returned, Subject};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::world::api_server::client;
use super::world::in_virtual_time;
use super::world::log::collect_messages;

const MANAGED: &str = "demo.example.com";

/// An operator that only manages its configurations.
struct Operator {
    api: ApiServer,
    revisions: watch::Sender<Arc<ReviewRevision>>,
    kinds: watch::Sender<WebhookKinds>,
    address: watch::Sender<ClientConfig>,
    unwritten: Weak<()>,
    stop: Stop,
    tasks: Tasks<Result<(), ConfigurationError>>,
}

fn webhook(id: &str) -> Webhook {
    let selectors = vec![Selector::parse("v1/configmaps").unwrap()];
    Webhook::simple(Handler { selectors, ..Handler::simple(id, On::Review) }, false)
}

fn revision(webhooks: Vec<Webhook>) -> Arc<ReviewRevision> {
    Arc::new(ReviewRevision { scripts: Arc::new(NoScripts), webhooks, conversions: Vec::new() })
}

/// The webhooks are never called.
struct NoScripts;

impl Scripts for NoScripts {
    fn call<'a>(&'a self, _: &'a Handler, _: Call) -> BoxFuture<'a, Returned> {
        Box::pin(std::future::pending())
    }

    fn evaluate<'a>(&'a self, _: &'a Subject, _: Evaluation) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(std::future::pending())
    }

    fn forget(&self, _: &Arc<str>) {}
}

fn kinds(group: &str, plural: &str) -> Arc<BTreeSet<Arc<Resource>>> {
    let kind = Resource {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        preferred: true,
        ..Resource::default()
    };
    Arc::new(BTreeSet::from([Arc::new(kind)]))
}

fn at(url: &str) -> ClientConfig {
    ClientConfig { target: Target::Url(url.to_owned()), authorities: None }
}

fn api_server(hook: Option<Hook>) -> (ApiServer, Clock) {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let mut settings = Settings { seed: Some(1), requests: 100, ..Settings::default() };
    settings.webhooks.hook = hook;
    (ApiServer::new(settings, clock.clone()), clock)
}

impl Operator {
    async fn of(webhooks: Vec<Webhook>) -> Self {
        let (api, clock) = api_server(None);
        Self::on(&api, &clock, webhooks, Naming::Kopf).await
    }

    async fn on(api: &ApiServer, clock: &Clock, webhooks: Vec<Webhook>, naming: Naming) -> Self {
        let networking = Networking { error_backoffs: Vec::new(), ..Networking::default() };
        let revisions = watch::Sender::new(revision(webhooks));
        let (kinds, address) = (watch::Sender::new(None), watch::Sender::new(at("https://a")));
        let unwritten = Arc::new(());
        let configurations = Configurations {
            upkeep: Upkeep {
                client: client(api, networking, clock).await,
                operator: "demo".into(),
                revisions: revisions.subscribe(),
                kinds: kinds.subscribe(),
                address: address.subscribe(),
                error_delays: [1, 10].map(Duration::from_secs).into(),
            },
            managed: MANAGED.into(),
            naming,
            derives_conditions: true,
            unwritten: Arc::clone(&unwritten) as Arc<dyn Any + Send + Sync>,
        };
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        let own = stop.clone();
        tasks.spawn("configurations", async move { Box::pin(configurations.run(own)).await });
        let operator =
            Self { api: api.clone(), revisions, kinds, address, unwritten: Arc::downgrade(&unwritten), stop, tasks };
        pause(1).await;
        operator
    }

    async fn discovered(webhooks: Vec<Webhook>) -> Self {
        let operator = Self::of(webhooks).await;
        operator.discover().await;
        operator
    }

    async fn discover(&self) {
        self.kinds.send_replace(Some(kinds("", "configmaps")));
        pause(1).await;
    }

    async fn address(&self, url: &str) {
        self.address.send_replace(at(url));
        pause(1).await;
    }

    fn configuration(&self, plural: &str) -> Option<Value> {
        configuration(&self.api, plural)
    }

    /// Returns the addresses of the validating webhooks.
    fn urls(&self) -> Option<Vec<String>> {
        let webhooks =
            self.configuration("validatingwebhookconfigurations")?["webhooks"].as_array().cloned().unwrap_or_default();
        Some(webhooks.iter().map(|webhook| webhook["clientConfig"]["url"].as_str().unwrap().to_owned()).collect())
    }

    async fn send(&self, method: Method, body: Value) {
        let content_type = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{MANAGED}");
        admin_client::send(&self.api, method, &path, Some(content_type), body.to_string()).await.unwrap();
    }

    fn fail(&self, verb: &str, status: u16, times: Option<u64>) {
        let matching =
            Match { verb: verb.into(), resource: Some("validatingwebhookconfigurations".into()), ..Match::default() };
        self.api.add_fault(Rule { times, ..Rule::new(matching, Action::status(status)) });
    }

    /// Returns the verbs of the requests that changed the validating configuration.
    fn writes(&self) -> Vec<String> {
        let requests = self.api.requests();
        let own = requests.iter().filter(|request| {
            request.resource.starts_with("validating") && !["list", "watch"].contains(&&*request.verb)
        });
        own.map(|request| request.verb.clone()).collect()
    }

    /// Stops it, and returns how it has ended.
    async fn end(mut self) -> Result<(), String> {
        self.stop.request("the end");
        self.ended().await
    }

    async fn ended(&mut self) -> Result<(), String> {
        let ended = tokio::time::timeout(Duration::from_mins(1), self.tasks.next_ended()).await.unwrap().unwrap();
        ended.result.unwrap().unwrap().map_err(|error| kopfd::kit::errors::chain(&error))
    }
}

fn configuration(api: &ApiServer, plural: &str) -> Option<Value> {
    let resource = Stored { group: "admissionregistration.k8s.io".into(), plural: plural.into() };
    api.read(&resource, &(String::new(), MANAGED.into())).map(|stored| (*stored.value).clone())
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn both_configurations_are_created_by_name_and_filled_once_the_kinds_are_known() {
    in_virtual_time(async {
        let operator = Operator::of(vec![webhook("a"), Webhook { is_mutating: true, ..webhook("b") }]).await;
        assert_eq!(operator.writes(), [""; 0]);
        assert_eq!(operator.unwritten.strong_count(), 2, "one for each configuration");
        operator.discover().await;
        assert_eq!(operator.unwritten.strong_count(), 0);
        assert_eq!(operator.urls().unwrap(), ["https://a/a"]);
        let mutating = operator.configuration("mutatingwebhookconfigurations").unwrap();
        assert_eq!(mutating["webhooks"][0]["name"], format!("b.{MANAGED}"));
        assert_eq!(operator.writes(), ["create", "patch"]);
        operator.end().await.unwrap();
    });
}

#[test]
fn a_new_address_and_changed_webhooks_or_kinds_are_written() {
    in_virtual_time(async {
        let operator = Operator::discovered(vec![webhook("a")]).await;
        operator.address("https://b").await;
        assert_eq!(operator.urls().unwrap(), ["https://b/a"]);
        operator.revisions.send_replace(revision(vec![webhook("c")]));
        pause(1).await;
        assert_eq!(operator.urls().unwrap(), ["https://b/c"]);
        operator.kinds.send_replace(Some(Arc::default()));
        pause(1).await;
        let empty = operator.configuration("validatingwebhookconfigurations").unwrap();
        assert_eq!(empty["webhooks"][0].get("rules"), None);
        let before = operator.writes().len();
        operator.revisions.send_modify(|_| {});
        pause(1).await;
        assert_eq!(operator.writes().len(), before, "nothing has changed");
        operator.end().await.unwrap();
    });
}

#[test]
fn only_persistent_webhooks_stay_at_the_end_and_an_unwritten_configuration_is_left_alone() {
    in_virtual_time(async {
        let operator = Operator::discovered(vec![webhook("a"), Webhook { is_persistent: true, ..webhook("b") }]).await;
        let api = operator.api.clone();
        operator.end().await.unwrap();
        let left = configuration(&api, "validatingwebhookconfigurations").unwrap();
        assert_eq!(left["webhooks"].as_array().unwrap().len(), 1);
        assert_eq!(left["webhooks"][0]["name"], format!("b.{MANAGED}"));
        let unwritten = Operator::of(vec![webhook("a")]).await;
        let api = unwritten.api.clone();
        unwritten.end().await.unwrap();
        assert!(api.requests().iter().all(|request| request.verb != "patch"));
    });
}

#[test]
fn edits_and_deletions_by_others_are_undone() {
    in_virtual_time(async {
        let operator = Operator::discovered(vec![webhook("a")]).await;
        pause(600).await;
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        operator.send(Method::PATCH, json!({"webhooks": []})).await;
        pause(1).await;
        assert_eq!(operator.urls().unwrap(), ["https://a/a"]);
        let title = format!("The ValidatingWebhookConfiguration '{MANAGED}'");
        assert_eq!(*messages.lock(), [format!("{title} was changed by another client, and is restored.")]);
        operator.send(Method::PATCH, json!({"metadata": {"labels": {"a": "b"}}})).await;
        pause(600).await;
        assert_eq!(messages.lock().len(), 1, "labels may be added");
        operator.send(Method::DELETE, json!({})).await;
        pause(1).await;
        assert_eq!(operator.urls().unwrap(), ["https://a/a"]);
        assert_eq!(messages.lock()[1], format!("{title} was deleted by another client, and is restored."));
        pause(600).await;
        assert_eq!(messages.lock().len(), 2, "own writes are not mistaken for those of others");
        operator.end().await.unwrap();
    });
}

#[test]
fn a_client_that_does_not_give_up_is_answered_more_and_more_slowly() {
    in_virtual_time(async {
        let operator = Operator::discovered(vec![webhook("a")]).await;
        let before = operator.writes().len();
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        for _ in 0..600 {
            if operator.urls().unwrap() == ["https://a/a"] {
                operator.send(Method::PATCH, json!({"webhooks": []})).await;
            }
            pause(1).await;
        }
        let repairs = operator.writes().len() - before;
        assert!((10..20).contains(&repairs), "{repairs}");
        assert!(messages.lock().last().unwrap().ends_with("again, and is restored in 60 seconds."), "{messages:?}");
        operator.end().await.unwrap();
    });
}

#[test]
fn a_configuration_of_another_operator_is_taken_over() {
    in_virtual_time(async {
        let (api, clock) = api_server(None);
        let operator = Operator::on(&api, &clock, vec![webhook("a")], Naming::Kopf).await;
        operator.discover().await;
        operator.end().await.unwrap();
        let operator = Operator::on(&api, &clock, vec![webhook("b")], Naming::Kopf).await;
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        operator.discover().await;
        assert_eq!(operator.urls().unwrap(), ["https://a/b"]);
        assert!(messages.lock().is_empty(), "{messages:?}");
        operator.end().await.unwrap();
    });
}

#[test]
fn missing_permissions_end_the_operator_with_a_readable_error() {
    in_virtual_time(async {
        let (api, clock) = api_server(None);
        let matching =
            Match { verb: "create".into(), resource: Some("mutatingwebhookconfigurations".into()), ..Match::default() };
        api.add_fault(Rule::new(matching, Action::status(403)));
        let mut operator = Operator::on(&api, &clock, vec![webhook("a")], Naming::Kopf).await;
        operator.discover().await;
        let error = operator.ended().await.unwrap_err();
        let expected = "no permission to create mutatingwebhookconfigurations.admissionregistration.k8s.io: the verbs create, patch, list \
            and watch are needed for \"demo.example.com\"";
        assert!(error.starts_with(expected), "{error}");
    });
}

#[test]
fn a_refused_name_ends_the_operator_and_an_automatic_one_is_never_refused() {
    in_virtual_time(async {
        let mut operator = Operator::discovered(vec![webhook("Fn")]).await;
        let error = operator.ended().await.unwrap_err();
        assert!(
            error.starts_with("failed to patch the ValidatingWebhookConfiguration \"demo.example.com\": HTTP 422"),
            "{error}"
        );
        let (api, clock) = api_server(None);
        let operator = Operator::on(&api, &clock, vec![webhook("Fn"), webhook("fn")], Naming::Valid).await;
        operator.discover().await;
        assert_eq!(operator.urls().unwrap(), ["https://a/Fn", "https://a/fn"]);
        operator.end().await.unwrap();
    });
}

#[test]
fn temporary_failures_delay_the_configuration() {
    in_virtual_time(async {
        let operator = Operator::of(vec![webhook("a")]).await;
        operator.fail("patch", 503, Some(2));
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        operator.discover().await;
        operator.address("https://b").await;
        pause(9).await;
        assert_eq!(operator.urls().unwrap(), [""; 0]);
        pause(2).await;
        assert_eq!(operator.urls().unwrap(), ["https://b/a"]);
        // The client tells each failed request besides.
        let told: Vec<String> = messages.lock().clone();
        assert_eq!(
            told.iter().filter(|line| line.starts_with("Failed to patch the Validating")).count(),
            2,
            "{told:?}"
        );
        operator.end().await.unwrap();
    });
}

#[test]
fn without_the_permission_to_watch_changes_by_others_are_not_noticed_and_that_is_told() {
    in_virtual_time(async {
        let (api, clock) = api_server(None);
        for verb in ["list", "watch"] {
            let matching = Match { verb: verb.into(), ..Match::default() };
            api.add_fault(Rule::new(matching, Action::status(403)));
        }
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        let operator = Operator::on(&api, &clock, vec![webhook("a")], Naming::Kopf).await;
        operator.discover().await;
        operator.send(Method::PATCH, json!({"webhooks": []})).await;
        pause(100).await;
        assert_eq!(operator.urls().unwrap(), [""; 0]);
        let told = "Not enough permissions to watch the ValidatingWebhookConfiguration 'demo.example.com'. Changes by others are not noticed.";
        assert_eq!(messages.lock().iter().filter(|line| *line == told).count(), 1, "{messages:?}");
        operator.end().await.unwrap();
    });
}

#[test]
fn a_deletion_of_a_missing_configuration_at_the_end_is_no_failure() {
    in_virtual_time(async {
        let operator = Operator::discovered(vec![webhook("a")]).await;
        operator.fail("patch", 404, None);
        operator.end().await.unwrap();
        let operator = Operator::discovered(vec![webhook("a")]).await;
        operator.fail("patch", 403, None);
        assert!(
            operator.end().await.unwrap_err().starts_with("no permission to patch validatingwebhookconfigurations")
        );
    });
}

/// Returns the names of the config maps for which a webhook with these filters is called.
async fn reviewed(field: Option<FieldPath>, filters: Filters, objects: &[Value]) -> Vec<String> {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let noted = Arc::clone(&seen);
    let hook: Hook = Arc::new(move |_, review| {
        let request = &review["request"];
        let allowed = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": request["uid"], "allowed": true}});
        noted.lock().push(format!("{} {}", request["operation"].as_str()?, request["name"].as_str()?));
        Some(Box::pin(async move { Ok(allowed) }))
    });
    let (api, clock) = api_server(Some(hook));
    let mut filtered = webhook("fn");
    (filtered.handler.field, filtered.handler.filters) = (field, filters);
    filtered.operations = vec!["CREATE".into(), "DELETE".into()];
    filtered.handler.selectors = vec![Selector::parse("example.com/v1/things").unwrap()];
    define_things(&api).await;
    let operator = Operator::on(&api, &clock, vec![filtered], Naming::Kopf).await;
    operator.kinds.send_replace(Some(kinds("example.com", "things")));
    pause(1).await;
    for object in objects {
        let path = "/apis/example.com/v1/namespaces/default/things";
        admin_client::send(&api, Method::POST, path, Some("application/json"), object.to_string()).await.unwrap();
        let path = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        admin_client::send(&api, Method::DELETE, &path, None, String::new()).await.unwrap();
    }
    operator.end().await.unwrap();
    let seen = std::mem::take(&mut *seen.lock());
    let created: Vec<String> = seen.iter().filter_map(|line| line.strip_prefix("CREATE ").map(str::to_owned)).collect();
    let deleted: Vec<String> = seen.iter().filter_map(|line| line.strip_prefix("DELETE ").map(str::to_owned)).collect();
    assert_eq!(created, deleted, "a deletion is judged by the old object");
    created
}

async fn define_things(api: &ApiServer) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    kopfd::apiserver::bootstrap::apply(api, vec![definition]).await.unwrap();
}

/// Things with all values of `spec.x` that matter, named after them.
fn things() -> Vec<Value> {
    let values = [
        ("text", json!("a")),
        ("digits", json!("1")),
        ("one", json!(1)),
        ("float", json!(1.0)),
        ("half", json!(1.5)),
        ("zero", json!(0)),
        ("true", json!(true)),
        ("false", json!(false)),
        ("list", json!(["a"])),
        ("map", json!({"a": 1})),
        ("null", json!(null)),
    ];
    let thing = |name: &str, spec: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec});
    let mut things: Vec<Value> = values.iter().map(|(name, value)| thing(name, json!({"x": value}))).collect();
    things.extend([thing("absent", json!({})), thing("scalar", json!(5)), thing("array", json!(["x"]))]);
    let mut bare = thing("bare", json!({}));
    bare.as_object_mut().unwrap().remove("spec");
    things.push(bare);
    things
}

#[test]
fn conditions_of_fields_call_the_webhook_exactly_for_the_objects_that_pass_the_filter() {
    let matchers = [
        None,
        Some(Matcher::Present),
        Some(Matcher::Absent),
        Some(Matcher::Equals(json!("a"))),
        Some(Matcher::Equals(json!(1))),
        Some(Matcher::Equals(json!(0))),
        Some(Matcher::Equals(json!(true))),
        Some(Matcher::Equals(json!(false))),
        Some(Matcher::Equals(json!(7))),
        Some(Matcher::In(vec![json!("a"), json!(1)])),
        Some(Matcher::NotIn(vec![json!("a"), json!(0)])),
        Some(Matcher::All(vec![Matcher::Present, Matcher::NotIn(vec![json!(1)])])),
    ];
    for matcher in matchers {
        let field = FieldPath::dotted("spec.x");
        let filters = Filters { value: matcher, ..Filters::default() };
        let handler =
            Handler { field: Some(field.clone()), filters: filters.clone(), ..Handler::simple("fn", On::Review) };
        let passes = |thing: &Value| {
            let body = kopfd::object::Body::from(thing.clone());
            let view = kopfd::handling::filter::View { body: &body, change: None };
            kopfd::handling::filter::matches(&handler, view, &kopfd::handling::Answers::default()).unwrap()
        };
        let name = |thing: &Value| thing["metadata"]["name"].as_str().unwrap().to_owned();
        let expected: Vec<String> = things().iter().filter(|thing| passes(thing)).map(name).collect();
        let seen = in_virtual_time(reviewed(Some(field), filters.clone(), &things()));
        assert_eq!(seen, expected, "{filters:?}");
    }
}

#[test]
fn conditions_of_annotations_call_the_webhook_exactly_for_the_objects_that_pass_the_filter() {
    let thing = |name: &str, annotations: Value| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name, "annotations": annotations}});
    let mut things = vec![
        thing("a", json!({"x.io/\"k": "1"})),
        thing("b", json!({"k": "1"})),
        thing("c", json!({"k": "2", "l": ""})),
        thing("d", json!({})),
    ];
    things[0] = thing("a", json!({"x.io/k": "1"}));
    things.push(json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "e"}}));
    let table: [(&str, Matcher, &[&str]); 5] = [
        ("k", Matcher::Equals(json!("1")), &["b"]),
        ("x.io/k", Matcher::Present, &["a"]),
        ("k", Matcher::Absent, &["a", "d", "e"]),
        ("k", Matcher::NotIn(vec![json!("2")]), &["a", "b", "d", "e"]),
        ("l", Matcher::In(vec![json!(""), json!("x")]), &["c"]),
    ];
    for (key, matcher, expected) in table {
        let filters = Filters { annotations: vec![(key.to_owned(), matcher)], ..Filters::default() };
        assert_eq!(in_virtual_time(reviewed(None, filters, &things)), expected);
    }
}
