//! Databases: the declarations of the manifest, and the interface that sends statements.

mod database;
mod error;
mod place;
mod quote;
mod statement;

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

use crate::object::SecretKey;

pub(crate) use database::{
    Authorities, Database, DatabasePlace, Driver, Hidden, MAX_CONNECTIONS, MAX_ROWS, Password, Server, SqlLimits, Tls,
};
pub(crate) use error::{SqlError, SqlProblem};
pub(crate) use place::{PlaceProblem, ServerAddress, host as host_of};
pub(crate) use quote::{ident, literal};
pub(crate) use statement::{Reply, SqlValue, Statement};

/// Sends the statements of the `sql::` functions. The caller has checked that the manifest allows the database.
pub trait Databases: Send + Sync {
    /// Runs a statement by itself, on any connection.
    ///
    /// *Cancel safety*: if the future is dropped, the statement is cancelled on the server. It may or may not have had
    /// its effect.
    fn run(&self, database: Arc<Database>, statement: Statement) -> BoxFuture<'_, Result<Reply, SqlError>>;

    /// Begins a transaction within a time.
    ///
    /// *Cancel safety*: if the future is dropped, there is no transaction.
    fn begin(&self, database: Arc<Database>, time: Duration) -> BoxFuture<'_, Result<Box<dyn Transaction>, SqlError>>;
}

/// Reads the Secrets of databases. Errors are texts without values of Secrets.
pub trait Secrets: Send + Sync {
    /// Returns a value of a Secret, decoded.
    fn read(&self, key: &SecretKey) -> BoxFuture<'static, Result<String, String>>;
}

/// A transaction, which is rolled back if it is dropped.
pub trait Transaction: Send {
    /// Runs a statement in the transaction.
    ///
    /// *Cancel safety*: if the future is dropped, the statement is cancelled on the server, and the transaction is
    /// rolled back.
    fn run(&mut self, statement: Statement) -> BoxFuture<'_, Result<Reply, SqlError>>;

    /// Ends the transaction within a time.
    fn end(self: Box<Self>, how: TransactionEnd, time: Duration) -> BoxFuture<'static, Result<(), SqlError>>;
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEnd {
    /// Its effects stay.
    Commit,
    /// It has no effects.
    Rollback,
}
