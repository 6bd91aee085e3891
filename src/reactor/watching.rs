//! Runs watches, which are closed while the operator is paused.

use std::time::Duration;

use tracing::debug;

use super::kind::{Kind, KindSink};
use crate::cluster::{Client, Watcher};
use crate::engines::effects::Effects;
use crate::engines::pause::Pause;
use crate::kit::Stop;

/// Watches until the stop is requested, except during pauses.
pub(super) async fn watch_unless_paused<W: Effects + 'static>(
    name: String,
    (pause, client): (&Pause, &Client),
    (watcher, sink, kind): (&mut Watcher, &mut KindSink<W>, &Kind<W>),
    stop: &Stop,
) {
    while !stop.is_requested() {
        if is_paused(pause) {
            kind.queues.halt(true);
            let has_lasted = tokio::select! {
                biased;
                () = stop.requested() => return,
                has_lasted = sit_out(pause, sink) => has_lasted,
            };
            kind.queues.halt(false);
            // As in kopf, the server gets some time before all kinds are listed.
            let delay = if has_lasted { client.settings().watching.reconnect_backoff } else { Duration::ZERO };
            tokio::select! {
                biased;
                () = stop.requested() => return,
                () = began(pause) => continue,
                () = tokio::time::sleep(delay) => debug!(target: "kopfd::reactor", "The {name} begins after a pause."),
            }
        }
        tokio::select! {
            biased;
            () = began(pause) => {}
            () = watcher.keep_running(&name, sink, stop) => return,
        }
    }
}

fn is_paused(pause: &Pause) -> bool {
    #[cfg(test)]
    if super::defects::is_on(super::defects::Defect::IgnoresPauses) {
        return false;
    }
    pause.is_paused()
}

/// Waits for the beginning of a pause.
async fn began(pause: &Pause) {
    loop {
        pause.paused().await;
        if is_paused(pause) {
            return;
        }
        pause.resumed().await;
    }
}

/// Waits for the end of a pause. Only a pause that lasts is reported: after a short one, the first list is still
/// awaited. Returns whether it has lasted.
async fn sit_out<W: Effects + 'static>(pause: &Pause, sink: &mut KindSink<W>) -> bool {
    let (mut changes, mut is_told) = (pause.changes(), false);
    while pause.is_paused() {
        if !is_told && pause.is_standing_by() {
            is_told = true;
            sink.paused();
        }
        changes.changed().await;
    }
    if is_told {
        sink.resumed();
    }
    is_told
}
