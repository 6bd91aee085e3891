//! Kubernetes Events on the embedded API server, in virtual time.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::time::Duration;

use kopfd::apiserver::ApiServer;
use kopfd::apiserver::storage::resource::Resource;
use kopfd::cluster::Networking;
use kopfd::engines::posting::{self, KubernetesEvent, Poster};
use kopfd::handling::Level;
use kopfd::kit::{Clock, Stop, Tasks};
use kopfd::manifest::settings::Posting;
use serde_json::{Value, json};

use super::world::api_server::{api_server, client};
use super::world::log::collect_messages;

/// A queue with its task, and the server.
struct World {
    api: ApiServer,
    poster: Poster,
    stop: Stop,
    tasks: Tasks<()>,
}

async fn world(posting: Posting) -> World {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let api = api_server(&clock);
    let networking = Networking { error_backoffs: Vec::new(), ..Networking::default() };
    let client = client(&api, networking, &clock).await;
    let (poster, queue) = posting::queue(posting);
    let stop = Stop::new();
    let mut tasks = Tasks::default();
    tasks.spawn("posting", queue.run(client, clock, "demo".to_owned(), stop.clone()));
    World { api, poster, stop, tasks }
}

impl World {
    fn post(&self, namespace: &str, reason: &str) {
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "namespace": namespace});
        let text = |text: &str| text.to_owned();
        let event = KubernetesEvent { reference, event_type: text("Normal"), reason: text(reason), message: text("m") };
        self.poster.post(event, Some(Level::Info));
    }

    /// Returns the posted Events in the namespace `default`, by reason.
    async fn events(&self) -> Vec<Value> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let events = Resource { group: String::new(), plural: "events".into() };
        let mut found: Vec<Value> =
            self.api.list(&events, None).into_iter().map(|(_, object)| (*object.value).clone()).collect();
        found.sort_by_key(|event| event["reason"].to_string());
        found
    }
}

#[tokio::test(start_paused = true)]
async fn events_have_no_credentials() {
    let world = world(Posting::default()).await;
    let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "namespace": "default"});
    let message = "cannot reach https://user:s3cr3t@example.com with Authorization: Bearer s3cr3t".to_owned();
    let event = KubernetesEvent { reference, event_type: "Warning".to_owned(), reason: "A".to_owned(), message };
    world.poster.post(event, Some(Level::Info));
    assert_eq!(
        world.events().await[0]["message"],
        "cannot reach https://***@example.com with Authorization: Bearer ***"
    );
}

#[tokio::test(start_paused = true)]
async fn events_are_posted_one_after_another_and_refused_ones_are_told() {
    let (messages, _guard) = collect_messages(tracing::Level::WARN);
    let mut world = world(Posting::default()).await;
    world.post("default", "A");
    world.post("missing", "Lost");
    world.post("default", "B");
    let events = world.events().await;
    let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["A", "B"]);
    assert_eq!(events[0]["source"]["component"], "demo", "the operator's name is the default component");
    assert!(events[0]["metadata"]["name"].as_str().unwrap().starts_with("kopf-event-"));
    assert_eq!(messages.lock().join("\n"), "Failed to post an Event. It is lost.");
    world.stop.request("the end");
    assert!(world.tasks.finish(Duration::from_secs(1)).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_counted_on_one_event_if_the_settings_say_so() {
    for (aggregated, expected) in [(false, json!([null, null, null])), (true, json!([3]))] {
        let world = world(Posting { aggregated, ..Posting::default() }).await;
        (0..3).for_each(|_| world.post("default", "A"));
        let counts: Vec<Value> = world.events().await.iter().map(|event| event["count"].clone()).collect();
        assert_eq!(json!(counts), expected);
    }
    let world = world(Posting { aggregated: true, ..Posting::default() }).await;
    world.post("default", "A");
    world.post("default", "A");
    let events = world.events().await;
    assert_eq!(events[0]["series"]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_queue_are_lost_and_counted() {
    let (messages, _guard) = collect_messages(tracing::Level::WARN);
    let world = world(Posting::default()).await;
    (0..1_005).for_each(|_| world.post("default", "A"));
    assert_eq!(world.events().await.len(), 1_000);
    assert_eq!(messages.lock().join("\n"), "Events were not posted: their queue was full.");
}

#[tokio::test(start_paused = true)]
async fn log_messages_are_posted_only_if_the_settings_say_so() {
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}});
    for (posting, expected) in [
        (Posting::default(), json!([])),
        (Posting { loggers: true, ..Posting::default() }, json!([["Logging", "Normal", "told"]])),
        (Posting { loggers: true, enabled: false, ..Posting::default() }, json!([])),
    ] {
        let world = world(posting).await;
        world.poster.post_log(&object, Level::Debug, "a detail");
        world.poster.post_log(&object, Level::Info, "told");
        let shown = |event: Value| json!([event["reason"], event["type"], event["message"]]);
        let events: Vec<Value> = world.events().await.into_iter().map(shown).collect();
        assert_eq!(json!(events), expected);
    }
}
