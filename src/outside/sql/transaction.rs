//! A transaction: one connection, from `BEGIN` to `COMMIT` or `ROLLBACK`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::pool::Lease;
use super::task;
use crate::kit::TaskGroup;
use crate::script::outside::sql::{Driver, Reply, SqlError, SqlProblem, Statement, Transaction, TransactionEnd};

/// An open transaction. If it is dropped, its connection is closed, and the server rolls it back.
pub(super) struct Open {
    tasks: Arc<TaskGroup>,
    /// `None` after the connection was closed.
    lease: Option<Lease>,
    driver: Driver,
    /// Whether a statement has failed: PostgreSQL then refuses all others, and takes a commit as a rollback.
    has_failed: bool,
}

/// Begins a transaction on a connection.
pub(super) async fn begin(tasks: Arc<TaskGroup>, lease: Lease, time: Duration) -> Result<Open, SqlError> {
    let driver = lease.database().driver;
    let mut open = Open { tasks, lease: Some(lease), driver, has_failed: false };
    // SQLite takes the lock at once: a later one could fail after statements that have succeeded.
    let text = if driver == Driver::Sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
    open.step(text, time).await?;
    Ok(open)
}

impl Open {
    async fn perform(&mut self, statement: Statement) -> Result<Reply, SqlError> {
        let lease = self.lease.take();
        let lease =
            lease.ok_or_else(|| SqlError::new(SqlProblem::Ended, "the transaction has ended with an earlier error"))?;
        let time = statement.timeout;
        let (lease, result) = task::run(&self.tasks, lease, statement, time).await;
        self.lease = lease;
        self.has_failed |= result.is_err();
        result
    }

    async fn step(&mut self, text: &str, time: Duration) -> Result<(), SqlError> {
        let statement =
            Statement { text: text.to_owned(), timeout: time, rows: 1, bytes: 1_000, ..Statement::default() };
        self.perform(statement).await.map(drop)
    }

    async fn finish(mut self, how: TransactionEnd, time: Duration) -> Result<(), SqlError> {
        let result = self.conclude(how, time).await;
        if let (Ok(()), Some(lease)) = (&result, self.lease.take()) {
            lease.give_back();
        }
        result
    }

    async fn conclude(&mut self, how: TransactionEnd, time: Duration) -> Result<(), SqlError> {
        match how {
            // The server has rolled back a transaction whose connection was closed.
            TransactionEnd::Rollback if self.lease.is_none() => Ok(()),
            TransactionEnd::Rollback => self.step("ROLLBACK", time).await,
            TransactionEnd::Commit => {
                if self.driver == Driver::Postgres && self.has_failed && self.step("SELECT 1", time).await.is_err() {
                    // Closing the connection does it, too.
                    let _ = self.step("ROLLBACK", time).await;
                    let message = "the transaction was rolled back, since a statement in it has failed";
                    return Err(SqlError::new(SqlProblem::Ended, message));
                }
                self.step("COMMIT", time).await
            }
        }
    }
}

impl Transaction for Open {
    fn run(&mut self, statement: Statement) -> BoxFuture<'_, Result<Reply, SqlError>> {
        self.perform(statement).boxed()
    }

    fn end(self: Box<Self>, how: TransactionEnd, time: Duration) -> BoxFuture<'static, Result<(), SqlError>> {
        self.finish(how, time).boxed()
    }
}
