//! The HTTPS server of webhooks, on the threads of the engine: with up to two processors the scripts run there too, so
//! that a review wakes no other thread.
//!
//! Its certificate may be replaced at any time: new connections get the new one, and open ones continue.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{error, info};

use super::certificates::ServerCertificate;
use super::client_config::{ClientConfig, Target, url};
use super::reviewers::Reviewers;
use super::service::Service;
use crate::http::{CertificateError, Clients, Limits, Listener, ServerTls};
use crate::kit::{Stop, Tasks, errors};

/// The limits of clients: API servers keep their connections.
const LIMITS: Limits = Limits {
    connections: 1_000,
    head_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(90),
    // A review that has begun is answered.
    grace: Duration::from_secs(30),
};

/// The time limit for the end of a server: its clients have their grace period.
const CLOSING_TIMEOUT: Duration = LIMITS.grace.saturating_add(Duration::from_secs(1));

/// The address that a server listens at, and the way in which the API server reaches it.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The address; `None` stands for all interfaces.
    pub addr: Option<String>,
    /// The port; `None` stands for a free one.
    pub port: Option<u16>,
    /// The prefix of the paths.
    pub path: String,
    /// The way in which the API server reaches it.
    pub route: Route,
    /// The file that the current authorities are written to.
    pub dump: Option<PathBuf>,
    /// The clients' certificates.
    pub verification: ClientVerification,
}

/// The way in which the API server reaches a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// At the port that it listens on, of this host.
    Host(String),
    /// Through a Service.
    Service {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port; `None` for 443.
        port: Option<u16>,
    },
}

impl Route {
    /// Returns the host that the server's certificate must name.
    pub fn host(&self) -> String {
        match self {
            Self::Host(host) => host.clone(),
            Self::Service { namespace, name, .. } => format!("{name}.{namespace}.svc"),
        }
    }

    fn target(&self, is_insecure: bool, listening: u16, path: &str) -> Target {
        match self {
            Self::Host(host) => Target::Url(url(is_insecure, host, listening, path)),
            Self::Service { namespace, name, port } => Target::Service {
                namespace: namespace.clone(),
                name: name.clone(),
                port: *port,
                path: path.trim_end_matches('/').to_owned(),
            },
        }
    }
}

/// Which certificates clients must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientVerification {
    /// None.
    None,
    /// None, or one of these authorities (PEM).
    Optional(String),
    /// One of these authorities (PEM).
    Required(String),
}

impl ClientVerification {
    fn clients(&self) -> Clients<'_> {
        match self {
            Self::None => Clients::Anyone,
            Self::Optional(authorities) => Clients::Verified(authorities),
            Self::Required(authorities) => Clients::Certified(authorities),
        }
    }
}

/// The reason why a server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be used.
    #[error("cannot listen for webhooks at {address}")]
    Bind {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot use the certificate of the webhooks")]
    Certificate(#[from] CertificateError),
    /// The authorities cannot be written to their file.
    #[error("cannot write the authorities to {file}")]
    Dump {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// A running server.
pub struct Server {
    address: SocketAddr,
    config: watch::Receiver<ClientConfig>,
    stop: Stop,
    tasks: Mutex<Tasks<()>>,
}

impl Server {
    /// Listens with a certificate that may be replaced; without one for plain HTTP.
    ///
    /// # Errors
    /// If the address or the certificate cannot be used.
    pub async fn start(
        options: ServerOptions,
        certificates: Option<watch::Receiver<ServerCertificate>>,
        reviewers: Reviewers,
    ) -> Result<Self, ServerError> {
        let opened = Opened::open(options, certificates).await?;
        let (address, config, stop) = (opened.listener.address(), opened.config.subscribe(), Stop::new());
        let mut tasks = Tasks::default();
        tasks.spawn("server of the webhooks", opened.serve(reviewers, stop.clone()));
        Ok(Self { address, config, stop, tasks: Mutex::new(tasks) })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a channel with the current client configuration. It closes when the server ends.
    pub fn client_config(&self) -> watch::Receiver<ClientConfig> {
        self.config.clone()
    }

    /// Answers the reviews that have begun, and ends.
    pub async fn close(&self) {
        self.stop.request("the operators have ended");
        let mut tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.finish(CLOSING_TIMEOUT).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request("the server is not needed any more");
    }
}

/// A server with an open socket.
struct Opened {
    options: ServerOptions,
    listener: Listener,
    tls: Option<(ServerTls, watch::Receiver<ServerCertificate>)>,
    config: watch::Sender<ClientConfig>,
}

impl Opened {
    async fn open(
        options: ServerOptions,
        certificates: Option<watch::Receiver<ServerCertificate>>,
    ) -> Result<Self, ServerError> {
        let (tls, authorities) = match certificates {
            None => (None, None),
            Some(mut certificates) => {
                let ServerCertificate { certificate, authorities } = certificates.borrow_and_update().clone();
                (
                    Some((ServerTls::for_clients(&certificate, options.verification.clients())?, certificates)),
                    authorities,
                )
            }
        };
        let address = options.addr.as_deref().unwrap_or("all interfaces");
        let port = options.port.unwrap_or_default();
        let bound = Listener::bind_host(options.addr.as_deref(), port, tls.as_ref().map(|(tls, _)| tls)).await;
        let listener = bound
            .map_err(|source| ServerError::Bind { address: format!("{address}, port {port}"), source })?
            .with_limits(LIMITS);
        let target = options.route.target(tls.is_none(), listener.address().port(), &options.path);
        write_authorities(options.dump.as_deref(), authorities.as_deref())?;
        Ok(Self { config: watch::Sender::new(ClientConfig { target, authorities }), options, listener, tls })
    }

    async fn serve(self, reviewers: Reviewers, stop: Stop) {
        let Self { options, listener, tls, config } = self;
        let service = Arc::new(Service::new(options.path.trim_end_matches('/'), reviewers));
        let service = tower::service_fn(move |request: Request<Incoming>| {
            let service = Arc::clone(&service);
            async move { Ok::<_, Infallible>(service.respond(request).await) }
        });
        // The channel of the configuration is open as long as the server listens.
        tokio::join!(listener.serve(service, stop.clone()), follow(tls, &config, options.dump.as_deref(), &stop));
    }
}

/// Replaces the certificate whenever another one is sent, until the stop.
async fn follow(
    tls: Option<(ServerTls, watch::Receiver<ServerCertificate>)>,
    config: &watch::Sender<ClientConfig>,
    dump: Option<&Path>,
    stop: &Stop,
) {
    let Some((tls, mut certificates)) = tls else { return };
    loop {
        tokio::select! {
            () = stop.requested() => return,
            changed = certificates.changed() => if changed.is_err() { return },
        }
        let ServerCertificate { certificate, authorities } = certificates.borrow_and_update().clone();
        if let Err(error) = tls.replace(&certificate) {
            let error = errors::chain(&error);
            error!(target: "kopfd::admission", "The new certificate of the webhooks cannot be used, and the old one stays: {error}");
            continue;
        }
        info!(target: "kopfd::admission", "The certificate of the webhooks was replaced.");
        config
            .send_if_modified(|config| std::mem::replace(&mut config.authorities, authorities.clone()) != authorities);
        if let Err(error) = write_authorities(dump, authorities.as_deref()) {
            error!(target: "kopfd::admission", "{}.", errors::chain(&error));
        }
    }
}

fn write_authorities(file: Option<&Path>, authorities: Option<&str>) -> Result<(), ServerError> {
    let (Some(file), Some(authorities)) = (file, authorities) else { return Ok(()) };
    std::fs::write(file, authorities).map_err(|source| ServerError::Dump { file: file.display().to_string(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_the_name_by_which_the_api_server_verifies_the_certificate() {
        let service = |port| Route::Service { namespace: "ops".to_owned(), name: "hooks".to_owned(), port };
        assert_eq!(service(None).host(), "hooks.ops.svc");
        let target = |port, path: &str| {
            let config = ClientConfig { target: service(port).target(false, 9443, path), authorities: None };
            config.of_webhook("fn")["service"].to_string()
        };
        assert_eq!(target(None, ""), r#"{"name":"hooks","namespace":"ops","path":"/fn"}"#);
        assert_eq!(target(Some(8443), "/a/"), r#"{"name":"hooks","namespace":"ops","path":"/a/fn","port":8443}"#);
    }
}
