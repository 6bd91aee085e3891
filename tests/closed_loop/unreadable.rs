//! Objects that cannot be parsed: they are reported once, and their deletion is not blocked.

use std::sync::Arc;
use std::time::Duration;

use kopfd::cluster::{Seen, Sink as _};
use kopfd::kit::Clock;
use kopfd::object::EventKind;
use kopfd::reactor::WorkerSettings;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::telemetry;
use kopfd::wire::PartialMetadata;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::Level;

use crate::world::scripted::TOLD;
use crate::world::{Scene, in_virtual_time};

/// Deeper than the limit of 128.
const LEVELS: usize = 200;

fn nested() -> Value {
    (0..LEVELS).fold(json!(1), |inner, _| json!({ "a": inner }))
}

fn scene() -> Scene {
    let input = json!({"handlers": [
        {"on": "create", "id": "created", "script": [{}]},
        {"on": "delete", "id": "deleted", "script": [{}]},
    ]});
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {
            "name": "o", "namespace": "ns", "uid": "u1", "resourceVersion": "1",
            "finalizers": ["others.dev/one", "kopf.zalando.org/KopfFinalizerMarker"],
        },
        "spec": nested(),
    });
    Scene::of(&input, object).expect("the handlers make sense")
}

#[test]
fn the_report_of_an_object_that_is_nested_too_deeply_names_the_object() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let collected = Arc::clone(&lines);
    let _guard = telemetry::listen(Level::TRACE, Clock::system(), move |line| {
        if line.logger == TOLD {
            collected.lock().push(line);
        }
    });
    in_virtual_time(async {
        let scene = scene();
        let (world, served) = (Arc::clone(&scene.world), Arc::clone(&scene.served));
        let kind = Arc::new(Kind::new(world, served, Arc::new(WorkerSettings::default()), None, Arc::from("test")));
        let text = scene.world.server.object().to_string();
        let head = PartialMetadata::of(&text).expect("its metadata can be read");
        let seen = Seen { event_kind: EventKind::Added, head: &head, text: &text, resource: &scene.served.resource };
        KindSink::new(Arc::clone(&kind)).seen(seen).await;
        tokio::time::sleep(Duration::from_mins(1)).await;
    });
    let lines = lines.lock();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(
        line.message.starts_with("The object cannot be read and is not handled: recursion limit exceeded"),
        "{line:?}"
    );
    let object = line.object.as_ref().expect("the line is about an object");
    assert_eq!(
        (object.prefix().as_str(), object.kind.as_str(), object.uid.as_deref()),
        ("[ns/o] ", "KopfExample", Some("u1"))
    );
}

#[test]
fn an_object_that_is_nested_too_deeply_is_reported_once_and_can_be_deleted() {
    let scene = in_virtual_time(async {
        let scene = scene();
        let apply_entry = async {
            let server = &scene.world.server;
            server.announce(EventKind::Listed);
            for number in 0..5 {
                server.merge(&json!({"status": {"number": number}})).await;
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            server.delete().await;
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert_eq!(server.object()["metadata"]["finalizers"], json!(["others.dev/one"]));
            let noticed = scene.memories.notice("u1", false, Arc::default);
            assert!(noticed.flags.noticed_by_listing, "handlers of resumptions are called once it can be read");
            server.merge(&json!({"metadata": {"finalizers": null}})).await;
            tokio::time::sleep(Duration::from_mins(1)).await;
        };
        tokio::select! {
            () = apply_entry => {}
            () = scene.live() => unreachable!("the scene goes on for ever"),
        }
        scene
    });
    assert!(scene.world.server.is_gone() && scene.memories.is_empty());
    assert!(scene.world.timeline.with("call").is_empty(), "no handler gets an object that cannot be read");
    let logs = scene.world.timeline.logs();
    let messages: Vec<&str> = logs.iter().filter_map(|line| line[1].as_str()).collect();
    let expected = [
        "The object cannot be read and is not handled: recursion limit exceeded at line 1 column ",
        "Removing the finalizer without calling any handlers, since the object cannot be read.",
    ];
    assert_eq!(messages.len(), expected.len(), "{messages:?}");
    assert!(messages.iter().zip(expected).all(|(line, expected)| line.starts_with(expected)), "{messages:?}");
}
