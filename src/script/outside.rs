//! The interfaces of host functions to the cluster and to the world outside of it. The owner of the host implements
//! them; the functions check first what the manifest allows.

pub mod api;
pub(crate) mod clusters;
pub mod files;
mod glob;
mod hosts;
mod http;
pub(crate) mod measures;
pub(crate) mod pods;
pub mod programs;
pub(crate) mod sql;
mod tokens;

use std::sync::Arc;

use clusters::AddressRule;
use files::Files;
pub use hosts::{Grants, is_allowed, is_place_allowed};
pub use http::{HttpAnswer, HttpClient, HttpConnection, HttpError, HttpProblem, HttpRequest, Identity, ProxyChoice};
use measures::Measures;
use pods::Pods;
use programs::Programs;
use sql::Databases;
pub(super) use tokens::Tokens;

/// The world outside of the cluster that scripts can reach. Parts that are `None` are not available.
#[derive(Clone, Default)]
pub struct Outside {
    /// HTTP servers.
    pub http: Option<Arc<dyn HttpClient>>,
    /// The programs of the machine.
    pub programs: Option<Arc<dyn Programs>>,
    /// The files of the machine.
    pub files: Option<Arc<dyn Files>>,
    /// Databases.
    pub databases: Option<Arc<dyn Databases>>,
    /// The metrics of the operator.
    pub measures: Option<Arc<dyn Measures>>,
    /// The addresses that servers of other clusters may have.
    pub addresses: Option<Arc<dyn AddressRule>>,
    /// The containers, if not the cluster answers for them.
    pub pods: Option<Arc<dyn Pods>>,
    /// The tokens of OAuth 2, which the calls of one operator share.
    pub(super) tokens: Arc<Tokens>,
}

impl Outside {
    /// Returns a world with HTTP servers, programs and files.
    pub fn new(http: Arc<dyn HttpClient>, programs: Arc<dyn Programs>, files: Arc<dyn Files>) -> Self {
        Self { http: Some(http), programs: Some(programs), files: Some(files), ..Self::default() }
    }

    /// Returns the same world with databases.
    #[must_use]
    pub fn with_databases(self, databases: Arc<dyn Databases>) -> Self {
        Self { databases: Some(databases), ..self }
    }

    /// Returns the same world with the metrics of an operator.
    #[must_use]
    pub fn measured_by(self, measures: Arc<dyn Measures>) -> Self {
        Self { measures: Some(measures), ..self }
    }

    /// Returns the same world with other clusters.
    #[must_use]
    pub fn with_clusters(self, addresses: Arc<dyn AddressRule>) -> Self {
        Self { addresses: Some(addresses), ..self }
    }

    /// Returns the same world with answers for containers.
    #[must_use]
    pub fn with_pods(self, pods: Arc<dyn Pods>) -> Self {
        Self { pods: Some(pods), ..self }
    }

    /// Returns the same world for an operator that begins anew.
    pub(super) fn without_tokens(self) -> Self {
        Self { tokens: Arc::default(), ..self }
    }

    /// Returns the tokens of OAuth 2.
    pub(super) fn tokens(&self) -> &Tokens {
        &self.tokens
    }
}
