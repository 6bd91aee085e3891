//! The life of the operators: how they start, stop, and are killed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::MutexGuard;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::engines::EventStream;
use crate::engines::peering::ProcessPeering;
use crate::kit::Stop;
use crate::persistence::Keys;
use crate::reactor::operator::{self, Access, ExitTimeouts, ServerChoice, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::{ActivityMonitor, HookReach, Scope, reload};
use crate::script::{Fibers, Threads};

use super::super::credentials::ScenarioCredentials;
use super::super::invariants::Process;
use super::super::model::OPERATOR_USER;
use super::super::operator_run::{self, Exit, OperatorRun};
use super::super::pending::PendingCalls;
use super::super::recorder::TimelineRecorder;
use super::super::transport::{ScenarioTransport, TransportOptions};
use super::super::verify::Exited;
use super::Environment;
use super::settling::{POLL_INTERVAL, TICK};

/// Time limit for the operators' first lists.
const READY_TIMEOUT: Duration = Duration::from_mins(1);

/// Time limit for a graceful stop of the operators.
const STOP_TIMEOUT: Duration = Duration::from_mins(10);

/// The identity of the operators among their peers.
const OWN_IDENTITY: &str = "kopfd-test";

impl Environment {
    /// Starts the operators for the first time.
    ///
    /// # Errors
    /// If an operator cannot run.
    pub(crate) async fn start_first(&self) -> Result<(), String> {
        let _guard = self.lock_transition().await;
        self.start().await
    }

    /// Waits until no other task stops or starts the operators, and keeps others from doing so while the guard is held.
    pub(crate) async fn lock_transition(&self) -> MutexGuard<'_, ()> {
        self.transition_lock.lock().await
    }

    /// Starts the operators, and waits until they have listed everything.
    ///
    /// # Errors
    /// If an operator cannot run.
    pub(crate) async fn start(&self) -> Result<(), String> {
        let mut current = self.run.lock().await;
        let number = self.run_count.fetch_add(1, Ordering::SeqCst) + 1;
        self.record(if number == 1 {
            "the operator starts".to_owned()
        } else {
            format!("the operator starts again (run {number})")
        });
        self.invariants.run_started(number);
        let pending_calls: Arc<Mutex<PendingCalls>> = Arc::default();
        let running_tasks = self.renew_running_tasks();
        let operators = self.operators();
        self.grant(&operators).await?;
        let prefixes =
            operators.iter().map(|operator| operator.settings.persistence.storages.prefix().to_owned()).collect();
        let transport = ScenarioTransport::new(TransportOptions {
            api: self.api.clone(),
            timeline: Arc::clone(&self.timeline),
            invariants: Arc::clone(&self.invariants),
            chaos: self.chaos.clone(),
            prefixes,
            token: OPERATOR_USER.to_owned(),
            run: number,
        });
        let namespaces = self.scenario.namespaces.clone();
        let scope = if namespaces.is_empty() { Scope::Cluster } else { Scope::Namespaces(namespaces) };
        let precedence = Precedence::of(&operators);
        let shared = Shared {
            clock: self.clock.clone(),
            scope,
            precedence,
            monitor: None,
            events: EventStream::default(),
            has_change_log: false,
            script_threads: Threads::Current,
            seed: Some(self.seed),
            exit_timeouts: ExitTimeouts::default(),
            fibers: Fibers::default(),
            endpoints: self.renew_endpoints(),
            digest_keys: Keys::of_embedded_server(),
            has_trials: true,
            pod: None,
            admission: self.admission.clone(),
            hooks: HookReach::InProcess,
            peering: ProcessPeering::of(OWN_IDENTITY),
            leading: None,
            checks_rights: false,
        };
        let stop = Stop::new();
        let (mut tasks, mut monitors, mut reloaders) = (Vec::new(), Vec::new(), Vec::new());
        for (index, operator) in operators.iter().cloned().enumerate() {
            let login = Box::new(transport.of_operator(index));
            let access = Access {
                login,
                server: ServerChoice::Default,
                credentials: Arc::new(ScenarioCredentials),
                outside: Some(self.outside.as_operators_see_it()),
            };
            let process = Process { run: number, operator: index };
            let recorder = TimelineRecorder {
                timeline: Arc::clone(&self.timeline),
                invariants: Arc::clone(&self.invariants),
                process,
                operator: operator.name.clone(),
                pending_calls: Arc::clone(&pending_calls),
                running_tasks: Arc::clone(&running_tasks),
            };
            let events = EventStream::default().with(Arc::new(recorder));
            let monitor = Arc::new(ActivityMonitor::default());
            let shared = Shared { monitor: Some(Arc::clone(&monitor)), events, ..shared.clone() };
            monitors.push(monitor);
            let (reloader, reloads) = reload::channel();
            reloaders.push((operator.name.clone(), reloader));
            tasks.push(tokio::task::spawn_local(operator::serve(operator, access, shared, reloads, stop.clone())));
        }
        *current = Some(OperatorRun { transport, monitors, pending_calls, reloaders, stop, tasks });
        drop(current);
        self.until_ready().await
    }

    /// Disturbances can delay an operator beyond the time limit; the scenario then continues without waiting for it.
    async fn until_ready(&self) -> Result<(), String> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let mut current = self.run.lock().await;
            let Some(run) = current.as_mut() else { return Ok(()) };
            if run.is_ready() || Instant::now() >= deadline {
                return Ok(());
            }
            if let Some(exit) = run.exit().await {
                return self.handle_exit(exit, &mut current).await;
            }
            let monitors = run.monitors.clone();
            drop(current);
            // The timeout covers a change between the check and the wait.
            let _ = tokio::time::timeout(POLL_INTERVAL, operator_run::changed(&monitors)).await;
        }
    }

    /// In a cluster, an operator that cannot reach the server is restarted. Any other exit is a failure, unless the
    /// scenario expects it.
    pub(super) async fn handle_exit(&self, exit: Exit, current: &mut Option<OperatorRun>) -> Result<(), String> {
        match (exit, &self.chaos) {
            (Exit::Unreachable(text), Some(chaos)) => {
                chaos.record_exit(&text);
                Ok(())
            }
            (Exit::Unreachable(text) | Exit::Broken(text), _) => {
                // As in a process, all operators end with the first one.
                if let Some(run) = current.take() {
                    self.end(run).await;
                }
                self.exited(1, text)
            }
        }
    }

    /// Records an end of the operators.
    ///
    /// # Errors
    /// Its error, if the scenario does not expect it.
    fn exited(&self, code: u8, message: String) -> Result<(), String> {
        if code != 0 {
            self.record(format!("the operator exits with code {code}: {message}"));
        }
        *self.exit.lock() = Some(Exited { code, message: message.clone() });
        if code == 0 || self.scenario.expects_exit() { Ok(()) } else { Err(message) }
    }

    /// Stops the operators gracefully, as a signal does.
    ///
    /// # Errors
    /// The error of an operator that cannot end without one.
    pub(crate) async fn stop(&self) -> Result<(), String> {
        let Some(run) = self.run.lock().await.take() else { return Ok(()) };
        self.record("the operator stops".to_owned());
        let failed = self.end(run).await;
        tokio::time::sleep(TICK).await;
        match failed {
            None => self.exited(0, String::new()),
            Some(message) => self.exited(1, message),
        }
    }

    /// Stops operators. Returns the first error.
    pub(super) async fn end(&self, run: OperatorRun) -> Option<String> {
        run.stop.request("the scenario");
        let deadline = Instant::now() + STOP_TIMEOUT;
        let mut failed = None;
        for task in run.tasks {
            let abort = task.abort_handle();
            if let Ok(ended) = tokio::time::timeout_at(deadline, task).await {
                // In a cluster, an operator that cannot reach the server is restarted.
                failed = failed.or(operator_run::exit_of(ended).and_then(|exit| match exit {
                    Exit::Broken(text) => Some(text),
                    Exit::Unreachable(_) => None,
                }));
            } else {
                self.record("the operator does not stop in time, and is killed".to_owned());
                run.transport.disconnect();
                abort.abort();
            }
        }
        failed
    }

    /// Ends the operators without notice.
    pub(crate) async fn kill(&self) {
        let Some(run) = self.run.lock().await.take() else { return };
        self.record("the operator is killed".to_owned());
        self.invariants.run_killed();
        self.renew_running_tasks();
        run.transport.disconnect();
        run.tasks.iter().for_each(JoinHandle::abort);
        for task in run.tasks {
            // The task was aborted; its unfinished work is dropped with it.
            let _ = task.await;
        }
        tokio::time::sleep(TICK).await;
    }

    /// Kills and restarts the operators whenever a disturbance asks for it; never returns otherwise.
    ///
    /// # Errors
    /// If an operator cannot run.
    pub(crate) async fn restart_after_crashes(&self) -> Result<(), String> {
        let Some(chaos) = &self.chaos else { return std::future::pending().await };
        loop {
            chaos.crashed().await;
            let _guard = self.lock_transition().await;
            self.kill().await;
            tokio::time::sleep(chaos.downtime()).await;
            self.start().await?;
        }
    }
}
