//! MySQL and MariaDB.

mod values;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Params, SslOpts};

use self::values::{param, value};
use super::error;
use super::session::{self, Canceller, Login, Room};
use crate::script::outside::sql::{Reply, SqlError, SqlProblem, Statement};

/// The statement that sets up a new connection: `sql::literal` needs backslashes as escapes, and moments are in UTC.
const SETUP: &str = "SET time_zone = '+00:00', sql_mode = REPLACE(@@sql_mode, 'NO_BACKSLASH_ESCAPES', '')";

/// A connection.
pub(super) struct Session {
    connection: Conn,
    opts: Opts,
}

/// Opens a connection.
pub(super) async fn open(login: Login) -> Result<Session, SqlError> {
    let Login { host, addresses, port, database, user, password, tls } = login;
    let tls = tls.map(|settings| {
        let roots = settings.authorities.into_iter().map(|certificate| certificate.to_vec().into()).collect();
        SslOpts::default().with_root_certs(roots).with_disable_built_in_roots(true)
    });
    let opts: Opts = OptsBuilder::default()
        .ip_or_hostname(host)
        // The checked ones.
        .resolved_ips(Some(addresses))
        .tcp_port(port)
        .user(Some(user))
        .pass(password)
        .db_name(database)
        .ssl_opts(tls)
        // The server would choose a file for the connection.
        .prefer_socket(false)
        .stmt_cache_size(0)
        .into();
    let mut connection = Conn::new(opts.clone()).await.map_err(|cause| of_connect(&cause))?;
    connection.query_drop(SETUP).await.map_err(|cause| of_connect(&cause))?;
    Ok(Session { connection, opts })
}

impl Session {
    /// Runs a prepared statement: the server accepts several statements in one text otherwise.
    async fn perform(&mut self, statement: &Statement) -> Result<Reply, SqlError> {
        let failed = |cause: Error| of_statement(&cause);
        let prepared = self.connection.prep(&statement.text).await.map_err(failed)?;
        let (wanted, given) = (usize::from(prepared.num_params()), statement.params.len());
        if wanted != given {
            self.connection.close(prepared).await.map_err(failed)?;
            let message = format!("the statement has {wanted} parameters, and {given} are given");
            return Err(SqlError::new(SqlProblem::Value, message));
        }
        let params =
            if given == 0 { Params::Empty } else { Params::Positional(statement.params.iter().map(param).collect()) };
        let mut result = self.connection.exec_iter(&prepared, params).await.map_err(failed)?;
        let columns = result.columns().unwrap_or_default();
        let mut reply = Reply {
            columns: columns.iter().map(|column| column.name_str().into_owned()).collect(),
            ..Reply::default()
        };
        let mut room = Room::of(statement);
        while let Some(row) = result.next().await.map_err(failed)? {
            let values: Vec<_> =
                row.unwrap().into_iter().zip(columns.iter()).map(|(found, column)| value(found, column)).collect();
            room.take(&values)?;
            reply.rows.push(values);
        }
        reply.affected = if columns.is_empty() { result.affected_rows() } else { reply.rows.len() as u64 };
        // Procedures may have further results.
        result.drop_result().await.map_err(failed)?;
        self.connection.close(prepared).await.map_err(failed)?;
        Ok(reply)
    }
}

impl session::Session for Session {
    fn run<'a>(&'a mut self, statement: &'a Statement) -> BoxFuture<'a, Result<Reply, SqlError>> {
        self.perform(statement).boxed()
    }

    fn canceller(&self) -> Canceller {
        let (opts, id) = (self.opts.clone(), self.connection.id());
        Box::new(move || {
            async move {
                let Ok(mut other) = Conn::new(opts).await else { return };
                // The statement may have ended meanwhile.
                let _ = other.query_drop(format!("KILL QUERY {id}")).await;
                let _ = other.disconnect().await;
            }
            .boxed()
        })
    }

    fn check(&mut self) -> BoxFuture<'_, bool> {
        async move { self.connection.ping().await.is_ok() }.boxed()
    }

    fn reset(&mut self) -> BoxFuture<'_, bool> {
        async move {
            self.connection.reset().await.is_ok_and(|is_reset| is_reset)
                && self.connection.query_drop(SETUP).await.is_ok()
        }
        .boxed()
    }
}

fn of_connect(cause: &Error) -> SqlError {
    let Error::Server(answer) = cause else { return error::of_connection(SqlProblem::Connect, "no connection", cause) };
    // Access denied, by the password, by the plugin, and to the database.
    let problem = if matches!(answer.code, 1045 | 1698 | 1044) { SqlProblem::Login } else { SqlProblem::Connect };
    SqlError {
        sqlstate: Some(answer.state.clone()),
        code: Some(answer.code.into()),
        ..SqlError::new(problem, answer.message.clone())
    }
}

fn of_statement(cause: &Error) -> SqlError {
    let Error::Server(answer) = cause else {
        return error::of_connection(SqlProblem::Broken, "the connection has ended", cause);
    };
    SqlError {
        sqlstate: Some(answer.state.clone()),
        code: Some(answer.code.into()),
        ..SqlError::new(SqlProblem::Statement, answer.message.clone())
    }
}
