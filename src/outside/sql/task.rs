//! A statement in a task of its own, which cancels it on the server.

use std::time::Duration;

use tokio::sync::oneshot;

use super::pool::Lease;
use super::redact;
use crate::kit::TaskGroup;
use crate::script::outside::sql::{Reply, SqlError, SqlProblem, Statement};

/// Time limit of the request that cancels a statement on the server.
const CANCEL_TIME: Duration = Duration::from_secs(5);

/// Runs a statement within a time. Returns the connection, too, if it can still be used.
///
/// *Cancel safety*: if the future is dropped, the statement is cancelled on the server, and the connection is closed.
pub(super) async fn run(
    tasks: &TaskGroup,
    lease: Lease,
    statement: Statement,
    time: Duration,
) -> (Option<Lease>, Result<Reply, SqlError>) {
    let (sender, receiver) = oneshot::channel();
    tasks.spawn(|| "a statement of a database".to_owned(), watched(lease, statement, time, sender));
    let ended = || (None, Err(SqlError::new(SqlProblem::Broken, "the connection has ended")));
    receiver.await.unwrap_or_else(|_| ended())
}

type Outcome = (Option<Lease>, Result<Reply, SqlError>);

async fn watched(mut lease: Lease, statement: Statement, time: Duration, mut caller: oneshot::Sender<Outcome>) {
    let cancel = lease.session.canceller();
    let result = tokio::select! {
        biased;
        () = caller.closed() => None,
        result = lease.session.run(&statement) => Some(result),
        () = tokio::time::sleep(time) => {
            let message = format!("the statement has not ended within {} seconds, and is cancelled", statement.timeout.as_secs_f64());
            Some(Err(SqlError::new(SqlProblem::Timeout, message)))
        }
    };
    let result = result.map(|result| result.map_err(|error| redact::hidden(error, &statement, &lease)));
    match result {
        // After its answer is read, the connection is as good as before.
        Some(result) if result.as_ref().map_or_else(|error| is_answer(error.problem), |_| true) => {
            // If the caller is gone, the connection is closed, and an open transaction with it.
            drop(caller.send((Some(lease), result)));
        }
        broken => {
            let is_ended = matches!(&broken, Some(Err(error)) if error.problem == SqlProblem::Broken);
            if !is_ended {
                // A server that does not answer cancels nothing.
                let _ = tokio::time::timeout(CANCEL_TIME, cancel()).await;
            }
            drop(lease);
            if let Some(result) = broken {
                drop(caller.send((None, result)));
            }
        }
    }
}

fn is_answer(problem: SqlProblem) -> bool {
    matches!(problem, SqlProblem::Statement | SqlProblem::Value)
}
