//! One life of the operators: from a start to a stop, a kill, or an end of its own.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::kit::Stop;
use crate::reactor::Account;
use crate::reactor::operator::ServeError;

use super::wire::Wire;

/// One life of the operators.
pub struct Life {
    /// Their way to the server.
    pub wire: Wire,
    /// What they have to do.
    pub account: Arc<Account>,
    /// Asks them to stop.
    pub stop: Stop,
    /// The operators.
    pub tasks: Vec<JoinHandle<Result<(), ServeError>>>,
}

impl Life {
    /// Sees whether an operator has ended by itself, which none should.
    pub async fn problem(&mut self) -> Option<Problem> {
        let index = self.tasks.iter().position(JoinHandle::is_finished)?;
        Some(match self.tasks.swap_remove(index).await {
            Ok(Ok(())) => Problem::Broken("the operator has ended by itself".to_owned()),
            Ok(Err(ServeError::Scripts { operator, problems })) => {
                let told = problems.iter().map(|problem| format!("{}:{}: {}", problem.file.display(), problem.line, problem.message));
                let told: Vec<String> = told.collect();
                Problem::Broken(format!("the scripts of operator {operator} cannot be installed: {}", told.join("; ")))
            }
            Ok(Err(ServeError::Discovery(error))) => {
                Problem::Unreachable(format!("the operator cannot find out the kinds of the cluster: {}", error.chain()))
            }
            Ok(Err(error)) => Problem::Broken(format!("the operator cannot run: {error}")),
            Err(error) => Problem::Broken(format!("the operator has failed because of a defect of the engine: {error}")),
        })
    }
}

/// Why an operator has ended by itself.
pub enum Problem {
    /// It did not get through to the server.
    Unreachable(String),
    /// It cannot run at all.
    Broken(String),
}
