//! The connections to one database.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::open::Opener;
use super::session::Session;
use crate::kit::TaskGroup;
use crate::script::outside::sql::{Database, SqlError, SqlProblem};

/// How long a server may take to clear the state of a connection.
const RESET_TIME: Duration = Duration::from_secs(5);

/// The connections to one database.
pub(super) struct Pool {
    /// The database.
    pub database: Arc<Database>,
    opener: Arc<Opener>,
    tasks: Arc<TaskGroup>,
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The connection that was used last is the last.
    idle: Vec<(Box<dyn Session>, Instant)>,
    /// Whether a task closes idle connections.
    is_swept: bool,
    /// The password that the server has accepted last.
    password: Option<String>,
}

/// A connection in use.
pub(super) struct Lease {
    /// The connection.
    pub session: Box<dyn Session>,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    /// Returns a pool without connections.
    pub(super) fn new(database: Arc<Database>, opener: Arc<Opener>, tasks: Arc<TaskGroup>) -> Self {
        let permits = Arc::new(Semaphore::new(database.limits.connections));
        Self { database, opener, tasks, permits, state: Mutex::default() }
    }

    /// Returns a connection that works, as soon as one is free.
    pub(super) async fn lease(self: Arc<Self>) -> Result<Lease, SqlError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.expect("a pool is never closed");
        loop {
            let Some(mut session) = self.take_idle() else { break };
            if session.check().await {
                return Ok(Lease { session, pool: self, _permit: permit });
            }
        }
        let session = self.open().await?;
        Ok(Lease { session, pool: self, _permit: permit })
    }

    fn take_idle(&self) -> Option<Box<dyn Session>> {
        self.state.lock().idle.pop().map(|(session, _)| session)
    }

    /// Opens a connection. A password of a Secret that the server refuses is read again: it may have been changed.
    async fn open(&self) -> Result<Box<dyn Session>, SqlError> {
        let known = self.state.lock().password.clone();
        let password = self.opener.password(&self.database, known.clone()).await?;
        let opened = self.opener.open(&self.database, password.clone()).await;
        let (opened, password) = match opened {
            Err(refused) if refused.problem == SqlProblem::Login && known.is_some() => {
                let renewed = self.opener.password(&self.database, None).await?;
                if renewed == password {
                    return Err(refused);
                }
                (self.opener.open(&self.database, renewed.clone()).await, renewed)
            }
            opened => (opened, password),
        };
        let session = opened?;
        self.state.lock().password = password;
        Ok(session)
    }

    fn keep(self: &Arc<Self>, session: Box<dyn Session>) {
        let mut state = self.state.lock();
        state.idle.push((session, Instant::now()));
        if std::mem::replace(&mut state.is_swept, true) {
            return;
        }
        let pool = Arc::downgrade(self);
        let idle = self.database.limits.idle;
        self.tasks.spawn(|| "the idle connections of a database".to_owned(), async move {
            loop {
                tokio::time::sleep(idle).await;
                let Some(pool) = pool.upgrade() else { return };
                let mut state = pool.state.lock();
                state.idle.retain(|(_, since)| since.elapsed() < idle);
                if state.idle.is_empty() {
                    state.is_swept = false;
                    return;
                }
            }
        });
    }
}

impl Lease {
    /// Returns the database.
    pub(super) fn database(&self) -> &Database {
        &self.pool.database
    }

    /// Returns the password of the connections, if they have one.
    pub(super) fn password(&self) -> Option<String> {
        self.pool.state.lock().password.clone()
    }

    /// Keeps the connection for others, without the state of its last user.
    pub(super) fn give_back(self) {
        let Self { mut session, pool, _permit: permit } = self;
        let tasks = Arc::clone(&pool.tasks);
        let reset = async move {
            if tokio::time::timeout(RESET_TIME, session.reset()).await == Ok(true) {
                pool.keep(session);
            }
            drop(permit);
        };
        tasks.spawn(|| "the connection of a database".to_owned(), reset);
    }
}
