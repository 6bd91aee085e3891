//! SQLite: files that the manifest names, and no others.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rusqlite::limits::Limit;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags, params_from_iter};

use super::session::{self, Canceller, Room};
use crate::script::outside::sql::{Reply, SqlError, SqlProblem, SqlValue, Statement};

/// How long a statement waits for those of other processes.
const BUSY_TIME: Duration = Duration::from_secs(5);

/// The pause between two attempts to interrupt a statement, which may not have begun yet.
const INTERRUPT_PAUSE: Duration = Duration::from_millis(20);

/// An open file.
pub(super) struct Session {
    /// `None` while a statement runs on its thread.
    connection: Option<Connection>,
    interrupt: Arc<InterruptHandle>,
    /// Whether no statement runs.
    is_idle: Arc<AtomicBool>,
}

/// Opens a file. One that may be written is made if it does not exist.
pub(super) async fn open(path: PathBuf, is_writable: bool) -> Result<Session, SqlError> {
    let access = if is_writable {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let opening = move || {
        let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.busy_timeout(BUSY_TIME)?;
        // `ATTACH`, and `VACUUM INTO`, would open other files.
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(connection)
    };
    let opened = tokio::task::spawn_blocking(opening).await.map_err(|_| lost())?;
    let connection = opened.map_err(|cause| of(SqlProblem::Connect, &cause))?;
    let interrupt = Arc::new(connection.get_interrupt_handle());
    Ok(Session { connection: Some(connection), interrupt, is_idle: Arc::new(AtomicBool::new(true)) })
}

fn lost() -> SqlError {
    SqlError::new(SqlProblem::Broken, "the statement has ended early")
}

fn of(problem: SqlProblem, cause: &rusqlite::Error) -> SqlError {
    match cause {
        rusqlite::Error::SqliteFailure(failure, text) => {
            let problem = if failure.code == ErrorCode::CannotOpen { SqlProblem::Connect } else { problem };
            let message = text.clone().unwrap_or_else(|| failure.to_string());
            SqlError { code: Some(failure.extended_code.into()), ..SqlError::new(problem, message) }
        }
        // Its text has the statement, and so its constants.
        rusqlite::Error::SqlInputError { error, msg, .. } => {
            SqlError { code: Some(error.extended_code.into()), ..SqlError::new(problem, msg.clone()) }
        }
        cause => SqlError::new(problem, cause.to_string()),
    }
}

impl Session {
    async fn perform(&mut self, statement: Statement) -> Result<Reply, SqlError> {
        let connection = self.connection.take().ok_or_else(lost)?;
        let running = Running::begin(&self.is_idle);
        let run = move || {
            let _running = running;
            let result = perform(&connection, &statement);
            (connection, result)
        };
        let (connection, result) = tokio::task::spawn_blocking(run).await.map_err(|_| lost())?;
        self.connection = Some(connection);
        result
    }
}

/// A statement that runs on its thread.
struct Running(Arc<AtomicBool>);

impl Running {
    fn begin(is_idle: &Arc<AtomicBool>) -> Self {
        is_idle.store(false, Ordering::SeqCst);
        Self(Arc::clone(is_idle))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn perform(connection: &Connection, statement: &Statement) -> Result<Reply, SqlError> {
    let failed = |cause: rusqlite::Error| of(SqlProblem::Statement, &cause);
    let before = connection.total_changes();
    let mut prepared = connection.prepare(&statement.text).map_err(failed)?;
    let (wanted, given) = (prepared.parameter_count(), statement.params.len());
    if wanted != given {
        let message = format!("the statement has {wanted} parameters, and {given} are given");
        return Err(SqlError::new(SqlProblem::Value, message));
    }
    let columns: Vec<String> = prepared.column_names().map(str::to_owned).collect();
    let is_query = prepared.readonly();
    let mut reply = Reply { columns, ..Reply::default() };
    let mut room = Room::of(statement);
    let mut rows = prepared.query(params_from_iter(statement.params.iter().map(param))).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let value = |index| row.get_ref(index).map(value).map_err(failed);
        let values = (0..reply.columns.len()).map(value).collect::<Result<Vec<_>, _>>()?;
        room.take(&values)?;
        reply.rows.push(values);
    }
    drop(rows);
    reply.affected = if is_query { reply.rows.len() as u64 } else { connection.total_changes() - before };
    Ok(reply)
}

fn param(value: &SqlValue) -> Value {
    match value {
        SqlValue::Null => Value::Null,
        SqlValue::Bool(flag) => Value::Integer((*flag).into()),
        SqlValue::Int(number) => Value::Integer(*number),
        SqlValue::Float(number) => Value::Real(*number),
        SqlValue::Text(text) => Value::Text(text.clone()),
        SqlValue::Bytes(bytes) => Value::Blob(bytes.clone()),
        SqlValue::Time(time) => Value::Text(time.to_string()),
        SqlValue::Json(_) | SqlValue::List(_) => Value::Text(value.to_json().to_string()),
    }
}

fn value(value: ValueRef<'_>) -> SqlValue {
    match value {
        ValueRef::Null => SqlValue::Null,
        ValueRef::Integer(number) => SqlValue::Int(number),
        ValueRef::Real(number) => SqlValue::Float(number),
        ValueRef::Text(text) => SqlValue::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => SqlValue::Bytes(bytes.to_vec()),
    }
}

impl session::Session for Session {
    fn run<'a>(&'a mut self, statement: &'a Statement) -> BoxFuture<'a, Result<Reply, SqlError>> {
        self.perform(statement.clone()).boxed()
    }

    fn canceller(&self) -> Canceller {
        let (interrupt, is_idle) = (Arc::clone(&self.interrupt), Arc::clone(&self.is_idle));
        Box::new(move || {
            async move {
                while !is_idle.load(Ordering::SeqCst) {
                    interrupt.interrupt();
                    tokio::time::sleep(INTERRUPT_PAUSE).await;
                }
            }
            .boxed()
        })
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        std::future::ready(self.connection.is_some()).boxed()
    }

    fn reset(&mut self) -> BoxFuture<'_, bool> {
        // Opening a file costs little, and a new connection has no state.
        std::future::ready(false).boxed()
    }
}
