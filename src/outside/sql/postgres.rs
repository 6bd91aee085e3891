//! PostgreSQL.

mod numeric;
mod params;
mod tls;
mod types;

use std::net::IpAddr;
use std::pin::pin;

use futures::future::BoxFuture;
use futures::{FutureExt as _, TryStreamExt as _};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};

use self::params::Param;
use self::tls::Tls;
use super::error;
use super::session::{self, Canceller, Login};
use crate::kit::TaskGroup;
use crate::outside::reach::{self, Unreachable};
use crate::script::outside::sql::{Reply, SqlError, SqlProblem, Statement};

/// A connection.
pub(super) struct Session {
    client: Client,
    addresses: Vec<IpAddr>,
    port: u16,
    tls: Option<Tls>,
}

/// Opens a connection. Its input and output is a task of the group.
pub(super) async fn open(login: Login, tasks: &TaskGroup) -> Result<Session, SqlError> {
    let Login { host, addresses, port, database, user, password, tls } = login;
    let mut config = Config::new();
    config.user(user).application_name("kopfd").ssl_mode(if tls.is_some() {
        SslMode::Require
    } else {
        SslMode::Disable
    });
    if let Some(database) = database {
        config.dbname(database);
    }
    if let Some(password) = password {
        config.password(password);
    }
    let tls = tls.map(|settings| Tls::new(&settings, &host)).transpose()?;
    let stream = connect(&addresses, port).await?;
    let name = || "the connection to a PostgreSQL server".to_owned();
    let client = if let Some(tls) = &tls {
        let (client, connection) = config.connect_raw(stream, tls.clone()).await.map_err(|cause| of_connect(&cause))?;
        // Statements return the error of their connection.
        tasks.spawn(name, connection.map(drop));
        client
    } else {
        let (client, connection) = config.connect_raw(stream, NoTls).await.map_err(|cause| of_connect(&cause))?;
        tasks.spawn(name, connection.map(drop));
        client
    };
    Ok(Session { client, addresses, port, tls })
}

async fn connect(addresses: &[IpAddr], port: u16) -> Result<tokio::net::TcpStream, SqlError> {
    reach::connect(addresses, port).await.map_err(|why| match why {
        Unreachable::Failed(message) => SqlError::new(SqlProblem::Connect, message),
        Unreachable::Forbidden(what) => SqlError::new(SqlProblem::Forbidden, what),
    })
}

impl Session {
    async fn perform(&self, statement: &Statement) -> Result<Reply, SqlError> {
        let prepared = self.client.prepare(&statement.text).await.map_err(|cause| of_statement(&cause))?;
        let (wanted, given) = (prepared.params().len(), statement.params.len());
        if wanted != given {
            let message = format!("the statement has {wanted} parameters, and {given} are given");
            return Err(SqlError::new(SqlProblem::Value, message));
        }
        if let Some(column) = prepared.columns().iter().find(|column| !types::is_known(column.type_())) {
            let message = format!(
                "the column {0} has the type {1}, which has no value in scripts: write {0}::text",
                column.name(),
                column.type_()
            );
            return Err(SqlError::new(SqlProblem::Value, message));
        }
        let params = statement.params.iter().map(Param);
        let rows = self.client.query_raw(&prepared, params).await.map_err(|cause| of_statement(&cause))?;
        let mut rows = pin!(rows);
        let mut reply = Reply {
            columns: prepared.columns().iter().map(|column| column.name().to_owned()).collect(),
            ..Reply::default()
        };
        let mut room = session::Room::of(statement);
        while let Some(row) = rows.try_next().await.map_err(|cause| of_statement(&cause))? {
            let values = (0..row.len()).map(|index| types::value(&row, index)).collect::<Result<Vec<_>, _>>()?;
            room.take(&values)?;
            reply.rows.push(values);
        }
        reply.affected = rows.rows_affected().unwrap_or_default();
        Ok(reply)
    }
}

impl session::Session for Session {
    fn run<'a>(&'a mut self, statement: &'a Statement) -> BoxFuture<'a, Result<Reply, SqlError>> {
        self.perform(statement).boxed()
    }

    fn canceller(&self) -> Canceller {
        let (token, tls) = (self.client.cancel_token(), self.tls.clone());
        let (addresses, port) = (self.addresses.clone(), self.port);
        Box::new(move || {
            async move {
                let Ok(stream) = connect(&addresses, port).await else { return };
                // The server does not report whether it has cancelled anything.
                let _ = match tls {
                    Some(tls) => token.cancel_query_raw(stream, tls).await,
                    None => token.cancel_query_raw(stream, NoTls).await,
                };
            }
            .boxed()
        })
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        std::future::ready(!self.client.is_closed()).boxed()
    }

    fn reset(&mut self) -> BoxFuture<'_, bool> {
        // It fails in an open transaction, so that the connection is closed.
        async move { self.client.simple_query("DISCARD ALL").await.is_ok() }.boxed()
    }
}

fn of_connect(cause: &tokio_postgres::Error) -> SqlError {
    let Some(answer) = cause.as_db_error() else {
        let text = cause.to_string();
        // The server wants a password, and there is none.
        let problem = if text.contains("password missing") { SqlProblem::Login } else { SqlProblem::Connect };
        return error::of_connection(problem, "no connection", cause);
    };
    let state = answer.code().code();
    let problem = if state.starts_with("28") { SqlProblem::Login } else { SqlProblem::Connect };
    SqlError { sqlstate: Some(state.to_owned()), ..SqlError::new(problem, answer.message()) }
}

fn of_statement(cause: &tokio_postgres::Error) -> SqlError {
    let Some(answer) = cause.as_db_error() else {
        return error::of_connection(SqlProblem::Broken, "the connection has ended", cause);
    };
    let state = answer.code().code();
    // The administrator, or the end of the server.
    let problem = if state.starts_with("57P") { SqlProblem::Broken } else { SqlProblem::Statement };
    SqlError { sqlstate: Some(state.to_owned()), ..SqlError::new(problem, answer.message()) }
}
