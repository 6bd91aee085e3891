//! A kind with its queues: which objects get a worker, and how workers end.

use std::sync::Arc;
use std::time::Duration;

use kopfd::cluster::{Error, PartialMetadata, Seen, Sink as _};
use kopfd::kit::{Clock, Stop};
use kopfd::object::EventKind;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::reactor::{ActivityMonitor, Pace};
use kopfd::telemetry;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::scripted::ScriptedWorld;
use crate::world::{Scene, in_virtual_time};

/// A scene with one handler.
fn scene(handler: Value) -> Scene {
    let object = json!({
        "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
        "metadata": {"name": "o", "namespace": "ns", "uid": "u1", "resourceVersion": "1"}, "spec": {"x": 0},
    });
    Scene::of(&json!({ "handlers": [handler] }), object).expect("the handler makes sense")
}

fn kind(scene: &Scene) -> Kind<ScriptedWorld> {
    Kind::new(Arc::clone(&scene.world), Arc::clone(&scene.served), Arc::new(Pace::default()), None, Arc::from("test"))
}

/// Passes the present state of the object to a watch.
async fn see(scene: &Scene, sink: &mut KindSink<ScriptedWorld>, event_kind: EventKind) {
    let text = scene.world.server.object().to_string();
    let head = PartialMetadata::of(&text).expect("the server has an object");
    sink.seen(Seen { event_kind, head: &head, text: &text, resource: &scene.served.resource }).await;
}

#[test]
fn an_object_without_a_handler_is_remembered_until_it_is_gone_and_gets_no_worker() {
    let noticed = |event_kind| {
        let scene = scene(json!({"on": "create", "id": "a", "options": {"labels": {"on": {"$filter": "PRESENT"}}}}));
        let kind = Arc::new(kind(&scene));
        in_virtual_time(async {
            let mut sink = KindSink::new(Arc::clone(&kind));
            see(&scene, &mut sink, event_kind).await;
            assert!(kind.queues.is_empty(), "nothing is to be done");
            let flags = kind.memories.flags("u1");
            let renewed = self::kind(&scene).with_memories(Arc::clone(&kind.memories));
            assert_eq!(renewed.memories.flags("u1"), flags, "a kind that is served anew remembers its objects");
            assert_eq!(kind.memories.len(), 1);
            see(&scene, &mut sink, EventKind::Deleted).await;
            assert!(kind.memories.is_empty());
            flags.noticed_by_listing
        })
    };
    assert!(noticed(EventKind::Listed) && !noticed(EventKind::Added));
}

/// Begins a handler that takes five seconds, and acts after the first of them. Returns how many patches were sent in the next minute.
async fn patches_after(scene: &Scene, kind: &Arc<Kind<ScriptedWorld>>, act: impl AsyncFnOnce()) -> usize {
    let mut sink = KindSink::new(Arc::clone(kind));
    see(scene, &mut sink, EventKind::Added).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(kind.queues.has("u1"));
    act().await;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(kind.queues.is_empty(), "no worker is left");
    scene.world.timeline.with("response").len()
}

#[test]
fn workers_finish_within_their_grace_and_are_ended_after_it() {
    let finished = |grace| {
        let scene = scene(json!({"on": "create", "id": "a", "script": [{"takes": 5}]}));
        let kind = Arc::new(kind(&scene));
        in_virtual_time(async {
            let mut took = Duration::ZERO;
            let finish = async || {
                let began = Instant::now();
                kind.finish(grace).await;
                took = began.elapsed();
                assert!(kind.queues.is_empty(), "the kind is finished");
            };
            let patches = patches_after(&scene, &kind, finish).await;
            (took.as_secs(), patches)
        })
    };
    assert_eq!(finished(Duration::from_secs(10)), (4, 1));
    // A cancelled call has another second to end.
    assert_eq!(finished(Duration::from_secs(2)), (3, 0));
}

#[test]
fn workers_are_cancelled_with_the_operator_that_has_started_them() {
    let scene = scene(json!({"on": "create", "id": "a", "script": [{"takes": 5}]}));
    let lives = Stop::new();
    let kind = Arc::new(kind(&scene).with_lives(&lives));
    let patches = in_virtual_time(patches_after(&scene, &kind, async || lives.request("the operator is gone")));
    assert_eq!(patches, 0);
}

#[test]
fn a_watch_is_waited_for_until_its_first_list_or_its_end() {
    let scene = scene(json!({"on": "create", "id": "a"}));
    let monitor = Arc::new(ActivityMonitor::default());
    let kind = Arc::new(kind(&scene).with_monitor(Some(Arc::clone(&monitor))));
    in_virtual_time(async {
        let mut sink = KindSink::new(Arc::clone(&kind));
        assert!(!monitor.is_calm());
        for _ in 0..2 {
            sink.listed().await;
            assert!(monitor.is_calm());
        }
        drop(sink);
        assert!(monitor.is_calm());
        let unlisted = KindSink::new(kind);
        assert!(!monitor.is_calm());
        drop(unlisted);
        assert!(monitor.is_calm());
    });
}

#[test]
fn a_watch_in_trouble_says_so_for_debugging() {
    let scene = scene(json!({"on": "create", "id": "a"}));
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let _guard = telemetry::listen(tracing::Level::DEBUG, Clock::system(), move |line| ear.lock().push(line.message));
    KindSink::new(Arc::new(kind(&scene))).troubled(&Error::of_answer(500, None, b""));
    assert!(heard.lock().iter().any(|line| line.contains("A watch is in trouble.")), "{:?}", heard.lock());
}
