//! The credentials of a client: those of the last login, the next ones of it, and new logins.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use tracing::{debug, error, info};

use crate::kit::Clock;

use super::super::error::{Error, LoginError};
use super::super::transport::{Connection, Login};
use super::shared::Shared;

/// Pause after a failed login.
pub(super) const LOGIN_PAUSE: Duration = Duration::from_secs(5);

/// Number of refused credentials of one source that are remembered, so that they are not used again.
const REFUSED: usize = 3;

/// Credentials are renewed this long before they expire.
const RENEWAL: Duration = Duration::from_secs(10);

/// The name of the log.
const LOG: &str = "kopfd::cluster::client";

/// The credentials, and how to get others.
pub(super) struct Credentials {
    login: Box<dyn Login>,
    vault: RwLock<Vault>,
    /// Held during a login, so that concurrent requests wait for it and do not log in themselves.
    renewal: Mutex<Renewal>,
    /// The error of the last login, if it failed.
    failed: watch::Sender<Option<LoginError>>,
}

/// The connection in use.
#[derive(Clone)]
pub(super) struct Session {
    pub connection: Arc<Connection>,
    pub generation: u64,
    /// The number of logins until it.
    pub logins: u64,
}

/// The reason why other credentials are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// There was no login yet.
    Initial,
    /// The current ones expire.
    Expired,
    /// The server refuses the current ones.
    Refused,
}

impl Credentials {
    /// Returns none before the first login.
    pub(super) fn of(login: Box<dyn Login>) -> Self {
        Self { login, vault: RwLock::default(), renewal: Mutex::default(), failed: watch::Sender::new(None) }
    }

    /// Returns the session of the last login, if there was one, without a check of its credentials.
    pub(super) fn last(&self) -> Option<Session> {
        self.vault.read().session()
    }

    /// Waits until a login fails, and returns its error.
    ///
    /// *Cancel safety*: the wait may be dropped and begun again.
    pub(super) async fn login_failed(&self) -> LoginError {
        let mut failed = self.failed.subscribe();
        match failed.wait_for(Option::is_some).await.map(|error| error.clone()) {
            Ok(Some(error)) => error,
            _ => std::future::pending().await,
        }
    }

    /// Returns the current session, or a new one if there is none yet, or if its credentials have expired.
    pub(super) async fn session(&self, shared: &Shared) -> Result<Session, Error> {
        let session = self.vault.read().session();
        match session {
            None => self.renew(0, Need::Initial, shared).await,
            Some(session) if is_expiring(&session.connection, &shared.clock) => {
                self.renew(session.generation, Need::Expired, shared).await
            }
            Some(session) => Ok(session),
        }
    }

    /// Returns a session with other credentials than those of a generation: the next known ones, or those of a new
    /// login.
    ///
    /// If that fails, the current ones are kept: the server may accept them again later.
    pub(super) async fn renew(&self, generation: u64, need: Need, shared: &Shared) -> Result<Session, Error> {
        let mut renewal = self.renewal.lock().await;
        let known: Vec<Arc<Connection>> = {
            let vault = self.vault.read();
            if let Some(session) = vault.session().filter(|_| vault.generation != generation) {
                return Ok(session);
            }
            vault.connections.iter().cloned().collect()
        };
        if let Some(refused) = known.first().filter(|_| need == Need::Refused) {
            renewal.refuse(refused);
        }
        let others: Vec<_> = known.into_iter().skip(1).filter(|one| !is_expiring(one, &shared.clock)).collect();
        if !others.is_empty() {
            debug!(target: LOG, "Other credentials of the last login are used.");
            let mut vault = self.vault.write();
            vault.replace(others);
            return Ok(vault.session().expect("there are other credentials"));
        }
        if let Some((at, error)) = &renewal.failure
            && at.elapsed() < LOGIN_PAUSE
        {
            return Err(error.clone().into());
        }
        let found = self.new_credentials(&renewal, need, shared).await;
        if let Some(metrics) = shared.metrics() {
            metrics.login(found.is_err());
        }
        match found {
            Ok(connections) => {
                let session = {
                    let mut vault = self.vault.write();
                    vault.replace(connections);
                    vault.logins += 1;
                    vault.session().expect("a login returns credentials")
                };
                if need == Need::Initial {
                    debug!(target: LOG, server = session.connection.server, "Connected.");
                } else {
                    info!(target: LOG, server = session.connection.server, "Logged in anew.");
                }
                renewal.failure = None;
                self.failed.send_replace(None);
                Ok(session)
            }
            Err(error) => {
                if need != Need::Initial {
                    error!(target: LOG, %error, "The login failed.");
                }
                renewal.failure = Some((Instant::now(), error.clone()));
                self.failed.send_replace(Some(error.clone()));
                Err(error.into())
            }
        }
    }

    /// Logs in, and returns the credentials that the server has not refused.
    async fn new_credentials(
        &self,
        renewal: &Renewal,
        need: Need,
        shared: &Shared,
    ) -> Result<Vec<Arc<Connection>>, LoginError> {
        let found = self.login.login(shared.settings()).await?;
        // Credentials that were refused long ago may be valid again, unless that is why others are needed.
        let is_usable = |one: &Connection| need != Need::Refused || !renewal.is_refused(one);
        let (usable, refused): (Vec<_>, Vec<_>) = found.into_iter().partition(is_usable);
        match (usable.is_empty(), refused.is_empty()) {
            (true, true) => Err(LoginError::Empty),
            (true, false) => Err(LoginError::Refused),
            (false, _) => Ok(usable.into_iter().map(Arc::new).collect()),
        }
    }
}

/// Tells whether credentials expire soon.
fn is_expiring(connection: &Connection, clock: &Clock) -> bool {
    connection.expires_at.is_some_and(|ends_at| clock.now() + RENEWAL >= ends_at)
}

/// The usable connections, the preferred one first. Before the first login there are none.
#[derive(Default)]
struct Vault {
    connections: VecDeque<Arc<Connection>>,
    /// Grows with each change.
    generation: u64,
    /// The number of logins so far.
    logins: u64,
}

impl Vault {
    fn session(&self) -> Option<Session> {
        let connection = Arc::clone(self.connections.front()?);
        Some(Session { connection, generation: self.generation, logins: self.logins })
    }

    fn replace(&mut self, connections: impl IntoIterator<Item = Arc<Connection>>) {
        self.connections = connections.into_iter().collect();
        self.generation += 1;
    }
}

#[derive(Default)]
struct Renewal {
    /// The fingerprints of refused credentials by source, the last one first.
    refused: BTreeMap<String, VecDeque<u64>>,
    failure: Option<(Instant, LoginError)>,
}

impl Renewal {
    fn refuse(&mut self, connection: &Connection) {
        let refused = self.refused.entry(connection.id.clone()).or_default();
        if !refused.contains(&connection.fingerprint) {
            refused.truncate(REFUSED - 1);
            refused.push_front(connection.fingerprint);
        }
    }

    fn is_refused(&self, connection: &Connection) -> bool {
        self.refused.get(&connection.id).is_some_and(|refused| refused.contains(&connection.fingerprint))
    }
}
