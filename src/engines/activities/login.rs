//! The login of an operator that declares login functions: their results are the credentials, those with the highest
//! priority first.

use std::cmp::Reverse;
use std::sync::{Arc, OnceLock, Weak};

use futures::future::BoxFuture;
use rand::seq::SliceRandom as _;
use tracing::warn;

use crate::cluster::transport::{Connection, Login};
use crate::cluster::{ConnectionInfo, ConnectionSettings, LoginError};
use crate::kit::Stop;
use crate::kit::errors::chain;
use crate::manifest::operator::Moment;

use super::{Activities, Attempts};

/// The server that the credentials are for.
pub(crate) enum Server {
    /// The one that the login functions name.
    Declared,
    /// A certain one: the results of the login functions are checked, but the connections are those of this login.
    Fixed(Box<dyn Login>),
}

/// A login by the login functions of an operator.
pub(crate) struct ActivityLogin {
    server: Server,
    /// The owner of the activities owns the client, and so this login.
    activities: Arc<OnceLock<Weak<Activities>>>,
    stop: Stop,
}

impl ActivityLogin {
    /// Returns a login whose activities are given later, but before its first use.
    pub(crate) fn new(server: Server, activities: Arc<OnceLock<Weak<Activities>>>, stop: Stop) -> Self {
        Self { server, activities, stop }
    }

    async fn connections(&self, settings: Arc<ConnectionSettings>) -> Result<Vec<Connection>, LoginError> {
        let activities = self.activities.get().and_then(Weak::upgrade);
        let activities = activities.ok_or_else(|| LoginError::Activity("the operator has ended".to_owned()))?;
        let run = activities.run(Moment::Login, Attempts::Repeated, &self.stop).await;
        let (mut infos, mut problems) = (Vec::new(), Vec::new());
        for (id, result) in run.map_err(|error| LoginError::Activity(error.to_string()))? {
            match ConnectionInfo::read(&result) {
                Ok(info) => infos.push((info, id)),
                Err(problem) => problems.push(LoginError::Activity(format!("login function '{id}': {problem}"))),
            }
        }
        order(&mut infos);
        let mut connections = Vec::new();
        for (info, id) in infos {
            match self.connect(info, id, &settings).await {
                Ok(connection) => connections.push(connection),
                Err(problem) => problems.push(problem),
            }
        }
        // Unusable credentials matter only if there are no others.
        if connections.is_empty() && !problems.is_empty() {
            return Err(problems.remove(0));
        }
        for problem in problems {
            warn!(target: "kopfd::activities", "These credentials are not used: {}", chain(&problem));
        }
        Ok(connections)
    }

    async fn connect(
        &self,
        info: ConnectionInfo,
        id: String,
        settings: &Arc<ConnectionSettings>,
    ) -> Result<Connection, LoginError> {
        let Server::Fixed(login) = &self.server else { return info.connect(id, Arc::clone(settings)).await };
        let expires_at = info.expires_at().map_err(LoginError::Activity)?;
        let connection = login.login(Arc::clone(settings)).await?.into_iter().next().ok_or(LoginError::Empty)?;
        Ok(Connection { id, expires_at, fingerprint: info.fingerprint(), ..connection })
    }
}

/// Sorts by priority, the highest first, and randomly among equals.
fn order(infos: &mut [(ConnectionInfo, String)]) {
    infos.shuffle(&mut rand::rng());
    infos.sort_by_key(|(info, _)| Reverse(info.priority.unwrap_or_default()));
}

impl Login for ActivityLogin {
    fn login(&self, settings: Arc<ConnectionSettings>) -> BoxFuture<'_, Result<Vec<Connection>, LoginError>> {
        Box::pin(self.connections(settings))
    }
}
