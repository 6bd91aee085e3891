//! Tests of databases, with the servers of the system. All traffic stays on the loopback interface.

mod mariadb;
mod on_servers;
mod postgres;
mod servers;
mod sqlite;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use self::servers::{PASSWORD, Product, Server};
use super::{LocalDatabases, Options};
use crate::object::SecretKey;
use crate::outside::resolver::SystemResolver;
use crate::script::outside::Grants;
use crate::script::outside::sql::{
    Authorities, Database, DatabasePlace, Databases as _, Driver, Hidden, Password, Reply, Secrets, Server as Place,
    SqlError, SqlLimits, SqlValue, Statement, Tls,
};

/// A test that takes longer has failed.
const LIMIT: Duration = Duration::from_mins(1);

/// The Secrets of a test: one password, which can be replaced, and the number of reads.
#[derive(Default)]
struct Known(Mutex<(String, usize)>);

impl Secrets for Known {
    fn read(&self, key: &SecretKey) -> BoxFuture<'static, Result<String, String>> {
        let mut known = self.0.lock();
        known.1 += 1;
        let value = if key.name == "admin" { Ok(known.0.clone()) } else { Err("there is none".to_owned()) };
        std::future::ready(value).boxed()
    }
}

fn databases() -> LocalDatabases {
    with_secrets(&Arc::default())
}

fn with_secrets(secrets: &Arc<Known>) -> LocalDatabases {
    let secrets: Arc<dyn Secrets> = Arc::<Known>::clone(secrets);
    LocalDatabases::new(Options {
        resolver: Arc::new(SystemResolver),
        api_server: Arc::new(String::new),
        secrets: Some(secrets),
    })
}

/// Returns a database of a server, by its name `localhost` and with TLS.
fn of(server: &Server, change: impl FnOnce(&mut Place)) -> Arc<Database> {
    let driver = if server.product == Product::Postgres { Driver::Postgres } else { Driver::Mysql };
    let mut place = Place {
        host: "localhost".to_owned(),
        port: server.port,
        database: None,
        user: server.admin().to_owned(),
        password: Password::Given(Hidden(PASSWORD.to_owned())),
        tls: Tls::Verified(Authorities::Pem(server.authority.clone())),
        grants: Grants::of(&["localhost".to_owned()]),
    };
    change(&mut place);
    let limits = SqlLimits { timeout: LIMIT, ..SqlLimits::default() };
    Arc::new(Database { title: "orders".to_owned(), driver, place: DatabasePlace::Server(Box::new(place)), limits })
}

fn file(path: &Path, is_writable: bool) -> Arc<Database> {
    let place = DatabasePlace::File { path: path.to_owned(), is_writable };
    Arc::new(Database { title: "cache".to_owned(), driver: Driver::Sqlite, place, limits: SqlLimits::default() })
}

fn limited(database: &Database, change: impl FnOnce(&mut SqlLimits)) -> Arc<Database> {
    let mut limited = database.clone();
    change(&mut limited.limits);
    Arc::new(limited)
}

fn statement(text: &str, params: &[SqlValue]) -> Statement {
    Statement { text: text.to_owned(), params: params.to_vec(), timeout: LIMIT, rows: 1_000, bytes: 1 << 20 }
}

async fn run(
    databases: &LocalDatabases,
    database: &Arc<Database>,
    text: &str,
    params: &[SqlValue],
) -> Result<Reply, SqlError> {
    databases.run(Arc::clone(database), statement(text, params)).await
}

/// Returns the only row of a query.
async fn row(databases: &LocalDatabases, database: &Arc<Database>, text: &str, params: &[SqlValue]) -> Vec<SqlValue> {
    let reply = run(databases, database, text, params).await.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(reply.rows.len(), 1, "{text}");
    reply.rows.into_iter().next().unwrap()
}

/// Returns the only value of a query.
async fn value(databases: &LocalDatabases, database: &Arc<Database>, text: &str) -> SqlValue {
    row(databases, database, text, &[]).await.into_iter().next().unwrap()
}

fn text(text: &str) -> SqlValue {
    SqlValue::Text(text.to_owned())
}
