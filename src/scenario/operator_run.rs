//! One run of the operators: from a start until they stop, are killed, or exit.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{JoinError, JoinHandle};

use crate::kit::Stop;
use crate::kit::errors::chain;
use crate::reactor::ActivityMonitor;
use crate::reactor::activity::Broken;
use crate::reactor::operator::ServeError;
use crate::reactor::reload::Reloader;
use crate::script::Indexes;

use super::pending::PendingCalls;
use super::transport::ScenarioTransport;

/// One run of the operators.
pub(super) struct OperatorRun {
    /// Their connection to the server.
    pub transport: ScenarioTransport,
    /// The activity of each operator.
    pub monitors: Vec<Arc<ActivityMonitor>>,
    /// Running and scheduled calls, for messages.
    pub pending_calls: Arc<Mutex<PendingCalls>>,
    /// Reloads each operator.
    pub reloaders: Vec<(String, Reloader)>,
    pub stop: Stop,
    pub tasks: Vec<JoinHandle<Result<(), ServeError>>>,
}

impl OperatorRun {
    /// Returns the objects whose last cycles failed.
    pub(super) fn broken(&self) -> Vec<Broken> {
        self.monitors.iter().flat_map(|monitor| monitor.broken()).collect()
    }

    /// Returns the indexes of each operator; none for an operator that has not loaded its scripts.
    pub(super) fn indexes(&self) -> Vec<Arc<Indexes>> {
        self.monitors.iter().map(|monitor| monitor.indexes().into_values().next().unwrap_or_default()).collect()
    }

    /// Tells whether all operators watch, and have listed everything once.
    pub(super) fn is_ready(&self) -> bool {
        self.monitors.iter().all(|monitor| monitor.is_ready(1))
    }

    /// Tells whether no operator is working or waiting for something.
    pub(super) fn is_quiet(&self) -> bool {
        self.monitors.iter().all(|monitor| monitor.is_quiet())
    }

    /// Describes the operators' pending work.
    pub(super) fn pending(&self) -> String {
        let lines: Vec<String> =
            self.broken().iter().map(ToString::to_string).chain(self.pending_calls.lock().describe()).collect();
        if lines.is_empty() { "the operator is working".to_owned() } else { lines.join("; ") }
    }

    /// Returns the exit of an operator that has ended by itself, which none should do.
    pub(super) async fn exit(&mut self) -> Option<Exit> {
        let index = self.tasks.iter().position(JoinHandle::is_finished)?;
        let ended = self.tasks.swap_remove(index).await;
        Some(exit_of(ended).unwrap_or_else(|| Exit::Broken("the operator has exited by itself".to_owned())))
    }
}

/// Returns why an operator has failed; `None` if it has not.
pub(super) fn exit_of(ended: Result<Result<(), ServeError>, JoinError>) -> Option<Exit> {
    Some(match ended {
        Ok(Ok(())) => return None,
        Ok(Err(ServeError::Scripts { operator, problems })) => {
            let lines = problems.iter().map(|problem| format!("{}: {}", problem.place, problem.message));
            let lines: Vec<String> = lines.collect();
            Exit::Broken(format!("the scripts of operator {operator} cannot be installed: {}", lines.join("; ")))
        }
        Ok(Err(ServeError::Discovery(error))) => {
            Exit::Unreachable(format!("the operator cannot discover the kinds of the cluster: {}", error.chain()))
        }
        Ok(Err(error)) => Exit::Broken(format!("the operator cannot continue: {}", chain(&error))),
        Err(error) => Exit::Broken(format!("the operator has failed because of an internal error: {error}")),
    })
}

/// The reason why an operator has ended by itself.
pub(super) enum Exit {
    /// It could not reach the server.
    Unreachable(String),
    /// It cannot run at all.
    Broken(String),
}

/// Waits until the activity of any operator changes.
pub(super) async fn changed(monitors: &[Arc<ActivityMonitor>]) {
    if monitors.is_empty() {
        return std::future::pending().await;
    }
    futures::future::select_all(monitors.iter().map(|monitor| Box::pin(monitor.changed()))).await;
}
