//! Databases of scripts: pools of connections, and the drivers.
//!
//! Each statement runs in a task of its own. If its caller no longer waits, or its time is over, the task cancels the
//! statement on the server and closes the connection.

mod error;
#[cfg(feature = "mysql")]
mod mysql;
mod open;
mod options;
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
mod redact;
mod session;
#[cfg(feature = "sqlite")]
mod sqlite;
mod task;
#[cfg(test)]
mod tests;
mod transaction;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::open::Opener;
pub(crate) use self::options::Options;
use self::pool::{Lease, Pool};
use super::roots::Roots;
use crate::kit::TaskGroup;
use crate::script::outside::sql::{Database, Databases, Reply, SqlError, SqlProblem, Statement, Transaction};

/// Databases with connections. More are unusual: the one that was not used for the longest time is forgotten, and its
/// idle connections end.
const MAX_POOLS: usize = 64;

/// The databases of one operator.
pub(super) struct LocalDatabases {
    opener: Arc<Opener>,
    tasks: Arc<TaskGroup>,
    /// The one that was used last is the last.
    pools: Mutex<Vec<Arc<Pool>>>,
}

impl LocalDatabases {
    /// Returns databases without connections.
    pub(super) fn new(options: Options) -> Self {
        let tasks = Arc::new(TaskGroup::default());
        let opener = Opener { options, roots: Roots::default(), tasks: Arc::clone(&tasks) };
        Self { opener: Arc::new(opener), tasks, pools: Mutex::default() }
    }

    fn pool(&self, database: Arc<Database>) -> Arc<Pool> {
        let mut pools = self.pools.lock();
        let known = pools.iter().position(|pool| pool.database == database);
        let pool = if let Some(index) = known {
            pools.remove(index)
        } else {
            if pools.len() >= MAX_POOLS {
                pools.remove(0);
            }
            Arc::new(Pool::new(database, Arc::clone(&self.opener), Arc::clone(&self.tasks)))
        };
        pools.push(Arc::clone(&pool));
        pool
    }

    /// Returns a connection, and how much of the time is left.
    async fn lease(&self, database: Arc<Database>, time: Duration) -> Result<(Lease, Duration), SqlError> {
        let begun = Instant::now();
        let pool = self.pool(database);
        let lease = tokio::time::timeout(time, Arc::clone(&pool).lease()).await;
        let late =
            |_| SqlError::new(SqlProblem::Timeout, format!("no connection within {} seconds", time.as_secs_f64()));
        Ok((lease.map_err(late)??, time.saturating_sub(begun.elapsed())))
    }
}

impl Databases for LocalDatabases {
    fn run(&self, database: Arc<Database>, statement: Statement) -> BoxFuture<'_, Result<Reply, SqlError>> {
        async move {
            let (lease, left) = self.lease(database, statement.timeout).await?;
            let (lease, result) = task::run(&self.tasks, lease, statement, left).await;
            if let Some(lease) = lease {
                lease.give_back();
            }
            result
        }
        .boxed()
    }

    fn begin(&self, database: Arc<Database>, time: Duration) -> BoxFuture<'_, Result<Box<dyn Transaction>, SqlError>> {
        async move {
            let (lease, left) = self.lease(database, time).await?;
            let begun = transaction::begin(Arc::clone(&self.tasks), lease, left).await?;
            Ok(Box::new(begun) as Box<dyn Transaction>)
        }
        .boxed()
    }
}
