//! A kind with its queues: which objects get a worker, and how workers end.

use std::sync::Arc;
use std::time::Duration;

use kopfd::cluster::{Error, Seen, Sink as _};
use kopfd::kit::Stop;
use kopfd::object::EventKind;
use kopfd::reactor::kind::{Kind, KindSink};
use kopfd::reactor::{ActivityMonitor, WorkerSettings};
use kopfd::wire::PartialMetadata;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::world::log::collect_messages;
use crate::world::scripted::ScriptedWorld;
use crate::world::{Scene, in_virtual_time};

/// A scene with one handler.
pub(super) fn scene(handler: Value) -> Scene {
    Scene::example(&json!({ "handlers": [handler] }))
}

pub(super) fn kind(scene: &Scene) -> Kind<ScriptedWorld> {
    limited_kind(scene, None)
}

fn limited_kind(scene: &Scene, worker_limit: Option<usize>) -> Kind<ScriptedWorld> {
    kind_with(scene, WorkerSettings::default(), worker_limit)
}

fn kind_with(scene: &Scene, settings: WorkerSettings, worker_limit: Option<usize>) -> Kind<ScriptedWorld> {
    Kind::new(Arc::clone(&scene.world), Arc::clone(&scene.served), Arc::new(settings), worker_limit, Arc::from("test"))
}

/// Passes the present state of the object to a watch.
async fn see(scene: &Scene, sink: &mut KindSink<ScriptedWorld>, event_kind: EventKind) {
    see_as(scene, sink, event_kind, "u1").await;
}

/// Passes an object with another unique id to a watch.
pub(super) async fn see_as(scene: &Scene, sink: &mut KindSink<ScriptedWorld>, event_kind: EventKind, uid: &str) {
    let mut object = scene.world.server.object();
    object["metadata"]["uid"] = json!(uid);
    let text = object.to_string();
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
            let flags = kind.memories.notice("u1", false, Arc::default).flags;
            assert_eq!(kind.memories.len(), 1);
            see(&scene, &mut sink, EventKind::Deleted).await;
            assert!(kind.memories.is_empty());
            flags.noticed_by_listing
        })
    };
    assert!(noticed(EventKind::Listed) && !noticed(EventKind::Added));
}

/// Begins a handler that takes five seconds, and acts after the first of them. Returns how many patches were sent in
/// the next minute.
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
    let kind = Arc::new(kind(&scene).with_stop(&lives));
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
        assert!(!monitor.is_quiet());
        for _ in 0..2 {
            sink.listed().await;
            assert!(monitor.is_quiet());
        }
        drop(sink);
        assert!(monitor.is_quiet());
        let unlisted = KindSink::new(kind);
        assert!(!monitor.is_quiet());
        drop(unlisted);
        assert!(monitor.is_quiet());
    });
}

#[test]
fn a_watch_in_trouble_says_so_for_debugging() {
    let scene = scene(json!({"on": "create", "id": "a"}));
    let (messages, _guard) = collect_messages(tracing::Level::DEBUG);
    KindSink::new(Arc::new(kind(&scene))).request_failed(&Error::of_answer(500, None, b""));
    assert!(messages.lock().iter().any(|line| line.contains("A watch is in trouble.")), "{:?}", messages.lock());
}

#[test]
fn workers_that_sleep_until_a_retry_do_not_hold_up_the_end() {
    let scene = scene(json!({"on": "create", "id": "a", "script": [{"temporary": "later", "delay": 300}]}));
    let kind = Arc::new(kind(&scene));
    in_virtual_time(async {
        let mut sink = KindSink::new(Arc::clone(&kind));
        see(&scene, &mut sink, EventKind::Added).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // The event of the own patch: it sleeps in that cycle.
        see(&scene, &mut sink, EventKind::Modified).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        kind.finish(Duration::from_mins(1)).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    });
}

/// Lets many objects come at once, whose handlers take an hour. Returns after what time each handler was called, and
/// how long the watch was held up.
fn called_at(count: usize, worker_limit: Option<usize>) -> (Vec<Duration>, Duration) {
    in_virtual_time(async {
        // The clock of a scene that is created outside of the runtime begins in real time, earlier than the virtual
        // time.
        let scene = scene(json!({"on": "event", "id": "a", "script": [{"takes": 3600}]}));
        let kind = Arc::new(limited_kind(&scene, worker_limit));
        let mut sink = KindSink::new(Arc::clone(&kind));
        let began = Instant::now();
        for number in 0..count {
            see_as(&scene, &mut sink, EventKind::Added, &format!("u{number}")).await;
        }
        let held_up = began.elapsed();
        tokio::time::sleep(Duration::from_hours(24)).await;
        assert!(kind.queues.is_empty());
        (
            scene
                .world
                .timeline
                .with("call")
                .iter()
                .map(|call| Duration::from_millis((call.shown["t"].as_f64().unwrap_or_default() * 1000.0) as u64))
                .collect(),
            held_up,
        )
    })
}

#[test]
fn no_more_workers_run_at_once_than_allowed() {
    assert_eq!(called_at(3, None).0, [Duration::ZERO; 3]);
    assert_eq!(called_at(3, Some(2)).0, [Duration::ZERO, Duration::ZERO, Duration::from_hours(1)]);
}

#[test]
fn a_burst_waits_until_the_objects_before_it_are_taken_up() {
    assert_eq!(called_at(256, None).1, Duration::ZERO);
    let (times, held_up) = called_at(300, None);
    assert_eq!(held_up, Duration::from_millis(200));
    assert_eq!(times.iter().filter(|time| time.is_zero()).count(), 256);
}

#[test]
fn a_worker_waits_for_the_event_of_its_own_patch_for_the_idle_timeout() {
    for idle in [3, 20] {
        let scene = scene(json!({"on": "create", "id": "a"}));
        let (idle_timeout, consistency_timeout) = (Duration::from_secs(idle), Duration::from_secs(1));
        let kind = Arc::new(kind_with(
            &scene,
            WorkerSettings { idle_timeout, consistency_timeout, ..WorkerSettings::default() },
            None,
        ));
        in_virtual_time(async {
            let mut sink = KindSink::new(Arc::clone(&kind));
            see(&scene, &mut sink, EventKind::Added).await;
            tokio::time::sleep(Duration::from_secs(idle - 1)).await;
            assert!(kind.queues.has("u1"), "idle timeout of {idle} s");
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(kind.queues.is_empty(), "idle timeout of {idle} s");
        });
    }
}
