//! The declaration of a database, before a connection is made.

use std::path::PathBuf;
use std::time::Duration;

use crate::object::SecretKey;
use crate::script::outside::Grants;

/// The most rows of a query, if the manifest has no number.
pub(super) const DEFAULT_ROWS: usize = 10_000;

/// The highest limit of rows: a list of scripts has no more items.
pub(crate) const MAX_ROWS: usize = 100_000;

/// The time limit of a statement, if the manifest has none.
pub(super) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The connections of a pool, if the manifest has no number.
pub(super) const DEFAULT_CONNECTIONS: usize = 5;

/// The highest number of connections of a pool.
pub(crate) const MAX_CONNECTIONS: usize = 100;

/// How long a connection stays open without a statement, if the manifest has no time.
pub(super) const DEFAULT_IDLE: Duration = Duration::from_mins(1);

/// A database. Equal ones share connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    /// Its name in the manifest, or its address: for messages.
    pub title: String,
    /// The kind of its server.
    pub driver: Driver,
    /// The server or the file.
    pub place: DatabasePlace,
    /// The limits of its statements and connections.
    pub limits: SqlLimits,
}

impl Database {
    /// Returns the values of Secrets that connections need.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretKey> {
        let server = if let DatabasePlace::Server(server) = &self.place { Some(server) } else { None };
        let password =
            server.and_then(|server| if let Password::Secret(key) = &server.password { Some(key) } else { None });
        let authorities =
            server.and_then(
                |server| if let Tls::Verified(Authorities::Secret(key)) = &server.tls { Some(key) } else { None },
            );
        password.into_iter().chain(authorities)
    }
}

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Driver {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
    /// SQLite, in the process.
    Sqlite,
}

impl Driver {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Postgres, Self::Mysql, Self::Sqlite];

    /// Returns the name in manifests, which is also that of the cargo feature.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }

    /// Returns the driver of a name; names of products are names, too.
    pub fn of(name: &str) -> Option<Self> {
        match name {
            "postgres" | "postgresql" => Some(Self::Postgres),
            "mysql" | "mariadb" => Some(Self::Mysql),
            "sqlite" => Some(Self::Sqlite),
            _ => None,
        }
    }

    /// Tells whether this binary has the driver.
    pub fn is_built(self) -> bool {
        match self {
            Self::Postgres => cfg!(feature = "postgres"),
            Self::Mysql => cfg!(feature = "mysql"),
            Self::Sqlite => cfg!(feature = "sqlite"),
        }
    }

    /// Returns the port of servers without one.
    pub fn default_port(self) -> u16 {
        if self == Self::Mysql { 3306 } else { 5432 }
    }

    /// Returns the user of addresses without one: the administrator of a new server.
    pub fn default_user(self) -> &'static str {
        if self == Self::Mysql { "root" } else { "postgres" }
    }
}

/// The place of a database: a server or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabasePlace {
    /// On a server.
    Server(Box<Server>),
    /// In a file.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether statements may write, and the file is made if it does not exist.
        is_writable: bool,
    },
}

/// A database on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The name or the network address of the host, in small letters.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The database; `None` for that of the user, or none.
    pub database: Option<String>,
    /// The user.
    pub user: String,
    /// The password of the user.
    pub password: Password,
    /// The encryption of the connection.
    pub tls: Tls,
    /// The hosts and addresses that are allowed by their names.
    pub grants: Grants,
}

/// A password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Password {
    /// None is sent.
    None,
    /// That of a Secret, which is read for the first connection, and again if the server refuses it.
    Secret(SecretKey),
    /// This one.
    Given(Hidden),
}

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("…")
    }
}

/// The encryption of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tls {
    /// Not at all.
    Off,
    /// By TLS, with a certificate of the server for its host, by these authorities.
    Verified(Authorities),
}

/// The authorities that a server must be certified by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorities {
    /// Those of the system.
    System,
    /// These, as PEM.
    Pem(String),
    /// Those in a Secret, as PEM.
    Secret(SecretKey),
}

/// The limits of a database. Calls may have lower ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlLimits {
    /// The most rows of a query.
    pub rows: usize,
    /// The time limit of a statement, with the wait for a connection.
    pub timeout: Duration,
    /// The most connections at the same time.
    pub connections: usize,
    /// How long a connection stays open without a statement.
    pub idle: Duration,
}

impl Default for SqlLimits {
    fn default() -> Self {
        Self { rows: DEFAULT_ROWS, timeout: DEFAULT_TIMEOUT, connections: DEFAULT_CONNECTIONS, idle: DEFAULT_IDLE }
    }
}
