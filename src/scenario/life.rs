//! One life of the operators: from a start to a stop, a kill, or an end of its own.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinHandle;

use crate::kit::Stop;
use crate::reactor::Account;
use crate::reactor::account::Broken;
use crate::reactor::operator::ServeError;

use super::dues::Dues;
use super::wire::Wire;

/// One life of the operators.
pub struct Life {
    /// Their way to the server.
    pub wire: Wire,
    /// What each of them has to do.
    pub accounts: Vec<Arc<Account>>,
    /// What is due, for messages.
    pub dues: Arc<Mutex<Dues>>,
    /// Asks them to stop.
    pub stop: Stop,
    /// The operators.
    pub tasks: Vec<JoinHandle<Result<(), ServeError>>>,
}

impl Life {
    /// Returns the objects whose last cycles have failed.
    pub fn broken(&self) -> Vec<Broken> {
        self.accounts.iter().flat_map(|account| account.broken()).collect()
    }

    /// Tells whether all operators watch, and have listed everything once.
    pub fn is_ready(&self) -> bool {
        self.accounts.iter().all(|account| account.is_ready(1))
    }

    /// Tells whether nothing is being done or waited for at this moment.
    pub fn is_calm(&self) -> bool {
        self.accounts.iter().all(|account| account.is_calm())
    }

    /// Returns what the operators have to do, in words.
    pub fn due(&self) -> String {
        let told: Vec<String> = self.broken().iter().map(ToString::to_string).chain(self.dues.lock().tell()).collect();
        if told.is_empty() { "the operator is at work".to_owned() } else { told.join("; ") }
    }

    /// Sees whether an operator has ended by itself, which none should.
    pub async fn problem(&mut self) -> Option<Death> {
        let index = self.tasks.iter().position(JoinHandle::is_finished)?;
        Some(match self.tasks.swap_remove(index).await {
            Ok(Ok(())) => Death::Broken("the operator has ended by itself".to_owned()),
            Ok(Err(ServeError::Scripts { operator, problems })) => {
                let told = problems.iter().map(|problem| format!("{}:{}: {}", problem.file.display(), problem.line, problem.message));
                let told: Vec<String> = told.collect();
                Death::Broken(format!("the scripts of operator {operator} cannot be installed: {}", told.join("; ")))
            }
            Ok(Err(ServeError::Discovery(error))) => {
                Death::Unreachable(format!("the operator cannot find out the kinds of the cluster: {}", error.chain()))
            }
            Ok(Err(error)) => Death::Broken(format!("the operator cannot run: {error}")),
            Err(error) => Death::Broken(format!("the operator has failed because of a defect of the engine: {error}")),
        })
    }
}

/// Why an operator has ended by itself.
pub enum Death {
    /// It did not get through to the server.
    Unreachable(String),
    /// It cannot run at all.
    Broken(String),
}

/// Waits until something has changed in what any of the operators has to do.
pub async fn changed(accounts: &[Arc<Account>]) {
    if accounts.is_empty() {
        return std::future::pending().await;
    }
    futures::future::select_all(accounts.iter().map(|account| Box::pin(account.changed()))).await;
}
