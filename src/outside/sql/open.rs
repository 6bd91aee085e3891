//! Opens connections: to checked addresses, with the password and the authorities of a Secret.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::options::Options;
use super::session::{Login, Session, TlsSettings};
use crate::http::{Trust, install_crypto_provider};
use crate::kit::TaskGroup;
use crate::object::SecretKey;
use crate::outside::reach::{self, Unreachable};
use crate::outside::roots::Roots;
use crate::script::outside::sql::{
    Authorities, Database, DatabasePlace, Driver, Password, Server, SqlError, SqlProblem, Tls,
};

/// Opens the connections of all pools.
pub(super) struct Opener {
    /// The options of connections.
    pub options: Options,
    /// The authorities of the system.
    pub roots: Roots,
    /// The tasks of drivers.
    pub tasks: Arc<TaskGroup>,
}

impl Opener {
    /// Returns the password of a database: a known one, or that of its Secret.
    pub(super) async fn password(
        &self,
        database: &Database,
        known: Option<String>,
    ) -> Result<Option<String>, SqlError> {
        let DatabasePlace::Server(server) = &database.place else { return Ok(None) };
        match &server.password {
            Password::None => Ok(None),
            Password::Given(password) => Ok(Some(password.0.clone())),
            Password::Secret(_) if known.is_some() => Ok(known),
            Password::Secret(key) => self.secret(key, "the password").await.map(Some),
        }
    }

    /// Opens a connection.
    pub(super) async fn open(
        &self,
        database: &Database,
        password: Option<String>,
    ) -> Result<Box<dyn Session>, SqlError> {
        match (&database.place, database.driver) {
            #[cfg(feature = "sqlite")]
            (DatabasePlace::File { path, is_writable }, Driver::Sqlite) => {
                let opened = super::sqlite::open(path.clone(), *is_writable).await?;
                Ok(Box::new(opened))
            }
            #[cfg(feature = "postgres")]
            (DatabasePlace::Server(server), Driver::Postgres) => {
                let login = self.login(server, password).await?;
                Ok(Box::new(super::postgres::open(login, &self.tasks).await?))
            }
            #[cfg(feature = "mysql")]
            (DatabasePlace::Server(server), Driver::Mysql) => {
                let login = self.login(server, password).await?;
                Ok(Box::new(super::mysql::open(login).await?))
            }
            (_, driver) => {
                drop(password);
                let message = format!("this binary was built without the driver {}", driver.as_str());
                Err(SqlError::new(SqlProblem::Connect, message))
            }
        }
    }

    #[cfg_attr(
        not(any(feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "the drivers of servers use it")
    )]
    async fn login(&self, server: &Server, password: Option<String>) -> Result<Login, SqlError> {
        let Server { host, port, database, user, tls, grants, .. } = server;
        let Options { resolver, api_server, .. } = &self.options;
        let addresses = reach::allowed(host, grants, &**resolver, api_server).await.map_err(|why| match why {
            Unreachable::Forbidden(what) => SqlError::new(
                SqlProblem::Forbidden,
                format!(
                    "{host} stands for {what}, which must be named by its address under `allow.sql` or in `connections`"
                ),
            ),
            Unreachable::Failed(message) => SqlError::new(SqlProblem::Connect, message),
        })?;
        let tls = self.tls(tls).await?;
        let (host, database, user) = (host.clone(), database.clone(), user.clone());
        Ok(Login { host, addresses, port: *port, database, user, password, tls })
    }

    async fn tls(&self, tls: &Tls) -> Result<Option<TlsSettings>, SqlError> {
        let authorities = match tls {
            Tls::Off => return Ok(None),
            Tls::Verified(Authorities::System) => self.roots.get().await,
            Tls::Verified(Authorities::Pem(pem)) => certificates(pem)?,
            Tls::Verified(Authorities::Secret(key)) => certificates(&self.secret(key, "the authorities").await?)?,
        };
        install_crypto_provider();
        let config = Arc::new(Trust::new(authorities.clone()).client_config());
        Ok(Some(TlsSettings { config, authorities }))
    }

    async fn secret(&self, key: &SecretKey, what: &str) -> Result<String, SqlError> {
        let read = match &self.options.secrets {
            Some(secrets) => secrets.read(key).await,
            None => Err("there is no cluster".to_owned()),
        };
        read.map_err(|error| {
            SqlError::new(SqlProblem::Login, format!("{what} cannot be read from the Secret {}: {error}", key.name))
        })
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, SqlError> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes()).filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err(SqlError::new(SqlProblem::Tls, "the authorities have no certificate in PEM"));
    }
    Ok(found)
}
