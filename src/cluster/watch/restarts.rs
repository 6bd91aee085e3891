//! Restarts a watch after panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;

use super::super::error::Error;
use super::{Sink, Watcher};
use crate::kit::{Backoff, Stop, tasks};

/// The pauses before a watch restarts after panics.
const RESTART_DELAYS: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(20), Duration::from_mins(1)];

impl Watcher {
    /// Lists and watches until the stop is requested, also after panics: without its watch, a kind would get no more
    /// events.
    ///
    /// A panic is logged with the name of the task, and reported to the sink as a failure. After a pause, everything is
    /// listed anew.
    pub async fn keep_running(&mut self, task: &str, sink: &mut impl Sink, stop: &Stop) {
        let mut pauses = Backoff::new(RESTART_DELAYS);
        while let Err(panic) = AssertUnwindSafe(self.run(sink, stop)).catch_unwind().await {
            tasks::report_panic(task, &tasks::panic_text(&*panic));
            let failure = Error::Connection("the watch has failed because of a defect of the engine".into());
            // The sink may panic again. That is the same failure, which is logged already.
            let _ = catch_unwind(AssertUnwindSafe(|| sink.request_failed(&failure)));
            tokio::select! {
                () = stop.requested() => return,
                () = tokio::time::sleep(pauses.next_or_last().unwrap_or_default()) => {}
            }
        }
    }
}
