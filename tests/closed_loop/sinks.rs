//! The engine is as fast with sinks whose readers take nothing: no reader of the log, and no API server that takes
//! Events.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use kopfd::engines::events::LogSink;
use kopfd::engines::metrics::MetricsSink;
use kopfd::engines::posting::{self, KubernetesEvent, LogPoster};
use kopfd::engines::{EngineEvent, EventSink, EventStream};
use kopfd::kit::Clock;
use kopfd::manifest::settings::Posting;
use kopfd::object::EventKind;
use kopfd::reactor::change_log::ChangeLog;
use kopfd::telemetry::writer::Writer;
use kopfd::telemetry::{self, FlushLimits, OperatorMetrics};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use tracing::Level;

use super::kinds::{kind, scene, see_as};
use crate::world::in_virtual_time;
use kopfd::reactor::kind::KindSink;

/// With a line of `LINE` bytes for each message, more than the writer keeps.
const OBJECTS: usize = 600;

/// As many Events as their queue takes.
const EVENTS: usize = 1_000;

/// The length of log lines.
const LINE: usize = 20_000;

/// A stream that blocks its writer until it is released.
struct Held {
    released: mpsc::Receiver<()>,
    is_blocked: bool,
    taken: Arc<Mutex<Vec<u8>>>,
}

impl Write for Held {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        if self.is_blocked {
            let _ = self.released.recv();
            self.is_blocked = false;
        }
        self.taken.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Counts the messages that are posted as Events.
#[derive(Default)]
struct Posted(AtomicUsize);

impl EventSink for Posted {
    fn accept(&self, event: &EngineEvent<'_>) {
        if let EngineEvent::HandlingReported { .. } = event {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Handles many objects with these sinks. Returns the virtual time until all workers have ended.
fn handled(sinks: EventStream) -> Duration {
    let scene =
        scene(json!({"on": "create", "id": "a", "script": [{"temporary": "not yet", "delay": 3, "takes": 1}, {}]}));
    assert!(scene.world.further_sinks.set(sinks).is_ok(), "the world is new");
    in_virtual_time(async {
        let kind = Arc::new(kind(&scene));
        let mut sink = KindSink::new(Arc::clone(&kind));
        let began = Instant::now();
        for number in 0..OBJECTS {
            see_as(&scene, &mut sink, EventKind::Listed, &format!("u{number}")).await;
        }
        while !kind.queues.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        began.elapsed()
    })
}

#[test]
fn the_engine_waits_for_no_reader_of_its_log_and_for_no_event_to_be_posted() {
    let undisturbed = handled(EventStream::default());

    let (release, released) = mpsc::channel();
    let taken: Arc<Mutex<Vec<u8>>> = Arc::default();
    let held = Held { released, is_blocked: true, taken: Arc::clone(&taken) };
    let writer = Writer::start(held, None, |dropped| format!("{dropped} lines are lost\n")).expect("a thread");
    let log = writer.clone();
    let _guard =
        telemetry::listen(Level::DEBUG, Clock::system(), move |line| log.write(&format!("{:<LINE$}\n", line.message)));
    // The queue is full, and has no reader.
    let (poster, _queue) = posting::queue(Posting { enabled: true, loggers: true, level: 0, ..Posting::default() });
    for _ in 0..EVENTS {
        let text = |text: &str| text.to_owned();
        let reference = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "namespace": "default"});
        let event =
            KubernetesEvent { reference, event_type: text("Normal"), reason: text("Earlier"), message: text("m") };
        poster.post(event, None);
    }
    let posted = Arc::new(Posted::default());
    let sinks = EventStream::default()
        .with(Arc::new(LogSink))
        .with(Arc::new(LogPoster(poster)))
        .with(Arc::clone(&posted) as Arc<dyn EventSink>)
        .with(Arc::new(MetricsSink::new(OperatorMetrics::default())))
        .with(Arc::new(ChangeLog::new("kopf.zalando.org")));

    assert_eq!(handled(sinks), undisturbed);
    assert!(undisturbed > Duration::from_secs(4), "the handlers have run: {undisturbed:?}");
    assert!(posted.0.load(Ordering::Relaxed) >= OBJECTS, "each object has a message that is posted: {:?}", posted.0);
    assert!(
        !writer.flush(FlushLimits { stall: Duration::from_millis(1), total: Duration::from_millis(1) }),
        "the log was read"
    );

    release.send(()).expect("the writer waits");
    assert!(
        writer.flush(FlushLimits { stall: Duration::from_secs(10), total: Duration::from_mins(1) }),
        "the log is written"
    );
    assert!(String::from_utf8_lossy(&taken.lock()).contains(" lines are lost"), "the log had room for everything");
}
