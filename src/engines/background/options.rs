//! The options of daemons and timers, from their declarations and the settings.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::handling::spawning::Cancellation;
use crate::handling::timer::Schedule;
use crate::kit::Stop;
use crate::manifest::fingerprint::{self, Fingerprint};
use crate::manifest::operator::{Daemon, Delay, Timer};
use crate::manifest::settings::Settings;
use crate::script::Program;
use crate::telemetry::OperatorMetrics;
use crate::telemetry::metrics::TaskMetrics;

/// Time in which a stopped task may end at once, besides the turns of the scheduler: scripts run on other threads.
const GRACE: Duration = Duration::from_millis(10);

/// How often this time begins anew because other tasks have ended meanwhile: thousands of tasks stop together when the
/// operator exits.
const MAX_GRACES: usize = 200;

/// The options of all daemons and timers of an operator.
#[derive(Debug, Clone)]
pub struct BackgroundOptions {
    /// The options of each declaration, by the number of its binding.
    pub tasks: HashMap<usize, Arc<TaskOptions>>,
    /// The wait for stopped tasks that end at once.
    pub instant_exit: InstantExit,
    /// The digest of the operator's files, for log lines.
    pub revision: Arc<str>,
    /// The pause between attempts after arbitrary errors.
    pub default_backoff: Duration,
    /// The pauses after the first, second, … patch in a row that failed.
    pub error_delays: Arc<[Duration]>,
}

/// The options of one daemon or timer.
#[derive(Debug, Clone)]
pub struct TaskOptions {
    /// The delay before the first call.
    pub initial_delay: Option<Delay>,
    /// When a timer is called; `None` for a daemon.
    pub schedule: Option<Schedule>,
    /// The time limits of a stop.
    pub cancellation: Cancellation,
    /// Its metrics.
    pub metrics: Arc<TaskMetrics>,
    /// The digest of its declaration and code.
    pub fingerprint: Fingerprint,
}

/// The wait for a stopped task that ends at once, so that its object needs no further cycle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InstantExit {
    /// The time limit. Without it, the turns and the grace are waited for.
    pub timeout: Option<Duration>,
    /// The number of turns of the scheduler.
    pub turns: u64,
    /// The time after the turns. It begins anew as long as other tasks end.
    pub grace: Duration,
}

impl BackgroundOptions {
    /// Returns the options of an operator's declarations.
    pub fn of(
        timers: &[Timer],
        daemons: &[Daemon],
        program: &Program,
        settings: &Settings,
        metrics: &OperatorMetrics,
    ) -> Self {
        let background = &settings.background;
        let polling = background.cancellation_polling;
        let of_timer = |timer: &Timer| TaskOptions {
            initial_delay: timer.initial_delay,
            schedule: Some(Schedule { rhythm: timer.rhythm.clone(), idle: timer.idle }),
            cancellation: Cancellation { backoff: None, timeout: None, polling },
            metrics: Arc::new(metrics.timer(&timer.handler.id)),
            fingerprint: fingerprint::of_timer(timer, program),
        };
        let of_daemon = |daemon: &Daemon| TaskOptions {
            initial_delay: daemon.initial_delay,
            schedule: None,
            cancellation: Cancellation {
                backoff: daemon.cancellation_backoff,
                timeout: daemon.cancellation_timeout,
                polling: daemon.cancellation_polling.unwrap_or(polling),
            },
            metrics: Arc::new(metrics.daemon(&daemon.handler.id)),
            fingerprint: fingerprint::of_daemon(daemon, program),
        };
        let timers = timers.iter().map(|timer| (timer.handler.target, Arc::new(of_timer(timer))));
        let daemons = daemons.iter().map(|daemon| (daemon.handler.target, Arc::new(of_daemon(daemon))));
        let turns = background.instant_exit_zero_time_cycles;
        Self {
            tasks: timers.chain(daemons).collect(),
            instant_exit: InstantExit {
                timeout: background.instant_exit_timeout,
                turns: turns.unwrap_or_default(),
                grace: turns.map_or(Duration::ZERO, |_| GRACE),
            },
            revision: Arc::default(),
            default_backoff: settings.execution.default_backoff,
            error_delays: settings.queueing.error_delays.clone().into(),
        }
    }
}

impl BackgroundOptions {
    /// Returns the number of the binding of a declaration; `None` if it has changed or is gone.
    pub(super) fn target_of(&self, fingerprint: &Fingerprint) -> Option<usize> {
        self.tasks.iter().filter(|(_, task)| task.fingerprint == *fingerprint).map(|(target, _)| *target).min()
    }
}

impl InstantExit {
    /// Waits for the end of a task. `ends` counts the ends of all tasks.
    pub(super) async fn wait(&self, ended: &Stop, ends: &AtomicU64) {
        if let Some(limit) = self.timeout {
            // Whether it has ended is checked by the caller.
            let _ = tokio::time::timeout(limit, ended.requested()).await;
            return;
        }
        for _ in 0..self.turns {
            if ended.is_requested() {
                return;
            }
            tokio::task::yield_now().await;
        }
        for _ in 0..MAX_GRACES {
            let before = ends.load(Ordering::Relaxed);
            let has_ended = self.grace.is_zero() || tokio::time::timeout(self.grace, ended.requested()).await.is_ok();
            if has_ended || ends.load(Ordering::Relaxed) == before {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    /// Returns the milliseconds of a wait for a task that ends after a time, while others end every six milliseconds.
    async fn waited(ends_after: u64, others: u32) -> u128 {
        waited_with(&Settings::default(), ends_after, others).await
    }

    async fn waited_with(settings: &Settings, ends_after: u64, others: u32) -> u128 {
        let exit =
            BackgroundOptions::of(&[], &[], &Program::default(), settings, &OperatorMetrics::default()).instant_exit;
        let (ended, ends, began) = (Stop::new(), AtomicU64::new(0), Instant::now());
        let others = async {
            for _ in 0..others {
                tokio::time::sleep(Duration::from_millis(6)).await;
                ends.fetch_add(1, Ordering::Relaxed);
            }
        };
        let end = async {
            tokio::time::sleep(Duration::from_millis(ends_after)).await;
            ended.request("done");
        };
        let wait = async {
            exit.wait(&ended, &ends).await;
            began.elapsed().as_millis()
        };
        tokio::join!(wait, others, end).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_may_end_at_once_and_later_only_while_others_end() {
        assert_eq!(waited(4, 0).await, 4);
        assert_eq!(waited(60, 0).await, 10);
        assert_eq!(waited(60, 20).await, 60);
        assert_eq!(waited(60, 3).await, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn settings_limit_the_wait_for_a_task_that_ends_at_once() {
        let mut settings = Settings::default();
        settings.background.instant_exit_timeout = Some(Duration::from_millis(50));
        assert_eq!(waited_with(&settings, 40, 0).await, 40);
        assert_eq!(waited_with(&settings, 60, 20).await, 50);
        settings.background.instant_exit_timeout = None;
        settings.background.instant_exit_zero_time_cycles = None;
        assert_eq!(waited_with(&settings, 4, 0).await, 0);
    }
}
