//! Schedules: functions of the operator that are called by cron expressions. One task for each.
//!
//! `handling::schedule` decides which tick is run, and `store` remembers it over restarts.

mod context;
pub(crate) mod store;
mod task;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::engines::leading::{Duty, Lead};
use crate::kit::{Stop, Tasks};
use crate::manifest::operator::Schedule;

pub(crate) use context::ScheduleContext;
use task::{Ends, Revision, Task};

/// Time limit for the tasks after a stop, beyond the time that a running call has: the call ends, and its tick is
/// stored.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The running schedules of one operator.
pub struct Schedules {
    running: Vec<Running>,
    tasks: Tasks<()>,
    timeout: Duration,
    stop: Stop,
    origin: Instant,
}

/// A running schedule, or one that ends after its call.
struct Running {
    id: String,
    /// When it is called, as text to compare.
    ticks: String,
    revisions: watch::Sender<Revision>,
    /// Requested when it is removed from the manifest.
    retired: Stop,
    ended: Stop,
}

impl Schedules {
    /// Starts the schedules. They end when the stop is requested.
    pub fn start(schedules: Vec<Schedule>, context: &ScheduleContext, stop: &Stop) -> Self {
        let timeout = context.exit_timeout.saturating_mul(2).saturating_add(END_TIMEOUT);
        let mut all =
            Self { running: Vec::new(), tasks: Tasks::default(), timeout, stop: stop.clone(), origin: Instant::now() };
        for schedule in schedules {
            all.spawn(schedule, context, None);
        }
        all
    }

    /// Follows another revision of the operator. A schedule with the same id and the same ticks goes on, and calls the
    /// new code from its next attempt on. Others end after a running call; changed ones begin after that.
    pub fn revise(&mut self, schedules: Vec<Schedule>, context: &ScheduleContext) {
        let mut before = std::mem::take(&mut self.running);
        for schedule in schedules {
            let known =
                before.iter().position(|running| running.id == schedule.handler.id && !running.retired.is_requested());
            match known.map(|index| before.swap_remove(index)) {
                Some(running) if running.ticks == shown(&schedule) => {
                    running
                        .revisions
                        .send_replace(Revision { handler: Arc::new(schedule.handler), context: context.clone() });
                    self.running.push(running);
                }
                Some(running) => {
                    running.retired.request("the schedule has changed");
                    self.spawn(schedule, context, Some(running.ended));
                }
                None => self.spawn(schedule, context, None),
            }
        }
        for running in before {
            running.retired.request("the schedule is not declared any more");
        }
    }

    fn spawn(&mut self, schedule: Schedule, context: &ScheduleContext, predecessor: Option<Stop>) {
        let (name, id, ticks) = (schedule.handler.title(), schedule.handler.id.clone(), shown(&schedule));
        let schedule_ticks = schedule.schedule;
        let revision = Revision { handler: Arc::new(schedule.handler), context: context.clone() };
        let (revisions, newest) = watch::channel(revision);
        let (retired, ended) = (Stop::new(), Stop::new());
        self.running.push(Running { id, ticks, revisions, retired: retired.clone(), ended: ended.clone() });
        let (stop, origin, lead) = (self.stop.clone(), self.origin, context.lead.clone());
        self.tasks.spawn(name, async move {
            if let Some(predecessor) = predecessor {
                tokio::select! {
                    biased;
                    () = stop.requested() => {}
                    () = predecessor.requested() => {}
                }
            }
            // Each term begins as after a start of the process: the store has the ticks that the former leader has
            // done.
            while let Some((term, _duty)) = awaited_term(&lead, &stop, &retired).await {
                let ends = Ends { stop: stop.clone(), retired: retired.clone(), lead: lead.clone(), term };
                Task::new(schedule_ticks.clone(), newest.clone(), ends, origin).run().await;
                if !lead.is_elected() {
                    break;
                }
                // It may have no further ticks.
                tokio::select! {
                    biased;
                    () = stop.requested() => break,
                    () = retired.requested() => break,
                    () = lead.ended(term) => {}
                }
            }
            ended.request("the schedule has ended");
        });
    }

    /// Waits for the end of the schedules, after the stop was requested.
    pub async fn finish(mut self) {
        for name in self.tasks.finish(self.timeout).await {
            tracing::warn!(target: "kopfd::schedules", "{name} has not ended in time, and is abandoned.");
        }
    }
}

/// Waits until this replica leads; returns `None` if the schedule ends before.
async fn awaited_term(lead: &Lead, stop: &Stop, retired: &Stop) -> Option<(u64, Duty)> {
    loop {
        let term = tokio::select! {
            biased;
            () = stop.requested() => return None,
            () = retired.requested() => return None,
            term = lead.led() => term,
        };
        if let Some(duty) = lead.enter(Some(term)) {
            return Some((term, duty));
        }
    }
}

fn shown(schedule: &Schedule) -> String {
    format!("{:?}", schedule.schedule)
}
