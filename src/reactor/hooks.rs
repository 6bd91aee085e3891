//! The hooks of a running operator: where they are answered.

use std::sync::Arc;

use crate::engines::hooks::server::{HookServerError, HookServers, Serving};
use crate::engines::hooks::{Answerer, Hooks, Listed};
use crate::manifest::Settings;

/// The listener for the hooks of the operators of a process.
#[derive(Debug, Clone)]
pub enum HookReach {
    /// By the listeners of the settings; without one, by that of the endpoints.
    Network {
        /// The listeners of the settings.
        servers: HookServers,
        /// Whether the endpoints listen.
        has_endpoints: bool,
    },
    /// In the process, or by a listener for all, whatever the settings say.
    InProcess,
}

impl HookReach {
    /// Returns the reach of a process whose endpoints listen or not.
    pub fn network(has_endpoints: bool) -> Self {
        Self::Network { servers: HookServers::default(), has_endpoints }
    }
}

/// The reason why the hooks of an operator cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum HooksError {
    /// Nothing listens.
    #[error(
        "there are hooks, but nothing listens for them: set `settings.hooks.server`, or start kopfd with --liveness"
    )]
    NoListener,
    /// The listener of the settings cannot be started.
    #[error(transparent)]
    Server(#[from] HookServerError),
}

/// The registration of an operator's hooks, until it is closed or dropped.
pub(super) enum HookRegistration {
    /// On a listener of the settings.
    Own(Serving),
    /// Among those of the process.
    Shared {
        /// Removes it when it is dropped.
        _listed: Listed,
    },
}

impl HookRegistration {
    /// Ends the registration. The requests that have begun are answered.
    pub(super) async fn close(self) {
        if let Self::Own(serving) = self {
            serving.close().await;
        }
    }
}

impl HookReach {
    /// Tells whether anything listens for the hooks of an operator with these settings.
    pub(super) fn has_listener(&self, settings: &Settings) -> bool {
        !matches!(self, Self::Network { has_endpoints: false, .. }) || settings.hooks.server.is_some()
    }

    /// Serves the hooks of an operator. `shared` are those of the process.
    ///
    /// # Errors
    /// If nothing listens for them.
    pub(super) async fn open(
        &self,
        answerer: Arc<Answerer>,
        settings: &Settings,
        shared: &Hooks,
        has_hooks: bool,
    ) -> Result<HookRegistration, HooksError> {
        match (self, &settings.hooks.server) {
            (Self::Network { servers, .. }, Some(server)) => {
                let operator = Arc::clone(answerer.operator());
                let serving = servers.open(server, answerer).await?;
                shared.settle(&operator);
                Ok(HookRegistration::Own(serving))
            }
            (Self::Network { has_endpoints: false, .. }, None) if has_hooks => Err(HooksError::NoListener),
            _ => Ok(HookRegistration::Shared { _listed: shared.add(answerer) }),
        }
    }
}
