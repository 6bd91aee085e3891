//! The interface of drivers: a connection to a database.

use std::net::IpAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

use crate::script::outside::sql::{Reply, SqlError, SqlProblem, SqlValue, Statement};

/// A connection, on which one statement runs at a time.
pub(super) trait Session: Send {
    /// Runs a statement. A connection whose future was dropped is not used again.
    fn run<'a>(&'a mut self, statement: &'a Statement) -> BoxFuture<'a, Result<Reply, SqlError>>;

    /// Returns what cancels the running statement on the server.
    fn canceller(&self) -> Canceller;

    /// Tells whether the connection still works.
    fn check(&mut self) -> BoxFuture<'_, bool>;

    /// Makes the connection one without any state of its last user. Tells whether it can be used again.
    fn reset(&mut self) -> BoxFuture<'_, bool>;
}

/// Cancels a statement on the server.
pub(super) type Canceller = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// The parameters of a connection to a server.
#[derive(Clone)]
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql")),
    expect(dead_code, reason = "the drivers of servers read it")
)]
pub(super) struct Login {
    /// The name of the host.
    pub host: String,
    /// Its checked addresses.
    pub addresses: Vec<IpAddr>,
    /// The port.
    pub port: u16,
    /// The database.
    pub database: Option<String>,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Option<String>,
    /// The settings of TLS; `None` for none.
    pub tls: Option<TlsSettings>,
}

/// The settings of TLS, in both forms that drivers take.
#[derive(Clone)]
#[cfg_attr(
    not(any(feature = "postgres", feature = "mysql")),
    expect(dead_code, reason = "the drivers of servers read it")
)]
pub(super) struct TlsSettings {
    /// The settings of rustls.
    pub config: Arc<ClientConfig>,
    /// The authorities.
    pub authorities: Vec<CertificateDer<'static>>,
}

/// The room that a result may still take.
pub(super) struct Room {
    max_rows: usize,
    rows: usize,
    bytes: usize,
}

impl Room {
    /// Returns the room of a statement.
    pub(super) fn of(statement: &Statement) -> Self {
        Self { max_rows: statement.rows, rows: 0, bytes: statement.bytes }
    }

    /// Takes the room of a row.
    pub(super) fn take(&mut self, row: &[SqlValue]) -> Result<(), SqlError> {
        self.rows += 1;
        if self.rows > self.max_rows {
            let message =
                format!("the result has more than {} rows: add a LIMIT to the query, or raise `rows`", self.max_rows);
            return Err(SqlError::new(SqlProblem::TooLarge, message));
        }
        let size = row.iter().map(SqlValue::size).sum();
        self.bytes = self
            .bytes
            .checked_sub(size)
            .ok_or_else(|| SqlError::new(SqlProblem::TooLarge, "the result has more bytes than the call may hold"))?;
        Ok(())
    }
}
