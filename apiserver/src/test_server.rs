//! The server as a fixture of tests: started and stopped by a test, for clients in the same process and, with a socket,
//! for others.

mod service;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;

use crate::api::Settings;
use crate::api::latency::Latency;
use crate::auth::access::{Authentication, User};
use crate::bootstrap::{self, Refused};
use crate::faults::Rule;
use crate::http::identity::Identity;
use crate::server::ApiServer;
use crate::server::socket::{Error, Listening};
use crate::storage::ids::Ids;
use kopfd_base::kit::{Clock, Stop, Tasks};
use kopfd_base::yaml;

pub use service::ClientService;

/// How long [`TestServer::stop`] waits for connections to end before it aborts them.
const GRACE: Duration = Duration::from_secs(3);

/// A running API server with its controllers. It stops with [`TestServer::stop`], or when it is dropped.
///
/// Its clients are administrators, in the process and with the kubeconfig. They may impersonate other users, and
/// service accounts may log in with tokens that they request, so that tests can check RBAC rules.
pub struct TestServer {
    api: ApiServer,
    token: String,
    socket: Option<Socket>,
    stop: Stop,
    tasks: Tasks<()>,
}

struct Socket {
    address: SocketAddr,
    kubeconfig: String,
}

/// The reason why objects were not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The text is not valid YAML. Nothing was applied.
    #[error("cannot parse the objects")]
    Parse(#[from] yaml::Error),
    /// The server refused an object. Those before it are applied.
    #[error("cannot apply an object")]
    Refused(#[from] Refused),
}

/// Builds a [`TestServer`].
#[derive(Debug, Clone, Default)]
pub struct Builder {
    start_time: Option<Timestamp>,
    latency: Latency,
    seed: Option<u64>,
    recorded_requests: usize,
}

impl Builder {
    /// Sets the time that the server shows at its start; by default the system's time. From then on, it follows the
    /// timer of the tokio runtime: real time, or virtual time if that timer is paused.
    pub fn start_time(self, start_time: Timestamp) -> Self {
        Self { start_time: Some(start_time), ..self }
    }

    /// Sets the delays of controllers and of new definitions; there are none by default.
    pub fn latency(self, latency: Latency) -> Self {
        Self { latency, ..self }
    }

    /// Makes uids, generated names and random faults reproducible.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// Sets how many requests of clients are recorded for [`ApiServer::requests`]; none by default.
    pub fn recorded_requests(self, limit: usize) -> Self {
        Self { recorded_requests: limit, ..self }
    }

    /// Starts a server without a socket.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(self) -> TestServer {
        self.start_with_token(Ids::random().uid())
    }

    /// Starts a server that also listens on a socket, with TLS. Port 0 chooses a free port.
    ///
    /// # Errors
    /// If the address cannot be used, or no certificate can be made for it.
    pub async fn listen(self, address: SocketAddr) -> Result<TestServer, Error> {
        let identity = Identity::new(address.ip())?;
        let listening = Listening::open_as(address, &identity).await?;
        let mut server = self.start_with_token(identity.token.clone());
        server.socket =
            Some(Socket { address: listening.address(), kubeconfig: listening.kubeconfig(&identity.token) });
        server.tasks.spawn("server", listening.serve(server.api.clone(), server.stop.clone()));
        Ok(server)
    }

    fn start_with_token(self, token: String) -> TestServer {
        let clock = Clock::starting_at(self.start_time.unwrap_or_else(|| Clock::system().now()));
        let settings = Settings {
            authentication: Authentication::Tokens(BTreeMap::from([(token.clone(), User::administrator())])),
            seed: self.seed,
            requests: self.recorded_requests,
            latency: self.latency,
            ..Settings::default()
        };
        let (api, stop, mut tasks) = (ApiServer::new(settings, clock), Stop::new(), Tasks::default());
        tasks.spawn("controllers", {
            let (api, stop) = (api.clone(), stop.clone());
            async move { api.run_controllers(stop).await }
        });
        TestServer { api, token, socket: None, stop, tasks }
    }
}

impl TestServer {
    /// Returns a builder with the defaults: no delays, random uids, the time of the system.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns a service for clients in the same process, such as `kube::Client::new(server.service(), "default")`.
    pub fn service(&self) -> ClientService {
        ClientService::new(self.api.clone(), &self.token, self.stop.clone())
    }

    /// Returns the kubeconfig of the administrator, as YAML; none if the server has no socket.
    pub fn kubeconfig(&self) -> Option<&str> {
        self.socket.as_ref().map(|socket| socket.kubeconfig.as_str())
    }

    /// Returns the address of the socket, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.as_ref().map(|socket| socket.address)
    }

    /// Returns the server itself: its stored objects, its recorded requests, and the faults that have fired.
    pub fn api(&self) -> &ApiServer {
        &self.api
    }

    /// Applies the objects of YAML documents, and returns their number. Definitions and namespaces are applied first;
    /// objects without a namespace go into `default`. Faults do not affect this.
    ///
    /// # Errors
    /// If the text cannot be parsed, or the server refuses an object.
    pub async fn apply(&self, yaml: &str) -> Result<usize, ApplyError> {
        Ok(bootstrap::apply(&self.api, yaml::parse(yaml)?).await?)
    }

    /// Adds a fault rule, and returns its id.
    pub fn add_fault(&self, rule: Rule) -> u64 {
        self.api.add_fault(rule)
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) {
        self.api.faults().clear();
    }

    /// Advances virtual time. All timers of the runtime that become due are run in their order, those of the server and
    /// those of the test.
    ///
    /// # Panics
    /// If the time of the runtime is not paused, as by `#[tokio::test(start_paused = true)]`.
    pub async fn advance(&self, duration: Duration) {
        // Panics unless the time is paused: sleeping would otherwise take real time.
        tokio::time::advance(Duration::ZERO).await;
        tokio::time::sleep(duration).await;
        // The controllers may be due at the very same moment: let them run first.
        tokio::task::yield_now().await;
    }

    /// Stops the controllers, closes all connections, and ends open watches. Later requests fail.
    pub async fn stop(mut self) {
        self.stop.request("stopped by the test");
        self.tasks.finish(GRACE).await;
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.request("the server was dropped");
    }
}
