//! The servers of a process: operators whose settings have equal servers share one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tracing::info;

use super::certificates::{CertificateProblem, Keeper, hosts, names};
use super::client_config::{ClientConfig, accessible};
use super::detection;
use super::reviewer::Reviewer;
use super::reviewers::{Listed, Reviewers};
use super::server::{ClientVerification, Route, Server, ServerError, ServerOptions};
use super::tunnel::{Tunnel, TunnelError, TunnelOptions};
use crate::cluster::Client;
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::admission::{AdmissionServer, ServiceName, Verification};

/// The address of servers behind tunnels: only the tunnel connects to them.
const TUNNELLED: &str = "127.0.0.1";

/// The time limit for the end of the task that keeps a certificate.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(1);

/// The servers of the operators of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct Servers(Arc<Mutex<Vec<Entry>>>);

impl std::fmt::Debug for Servers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Servers").finish_non_exhaustive()
    }
}

struct Entry {
    settings: AdmissionServer,
    running: Weak<Running>,
}

/// A server, with the resources that it needs while it runs.
struct Running {
    server: Server,
    /// The tunnel through which the API server reaches it.
    tunnel: Option<Tunnel>,
    reviewers: Reviewers,
    /// Stops the task that keeps the certificate.
    stop: Stop,
    tasks: Tasks<()>,
}

/// The place of an operator on a server, until it is closed.
pub struct Serving {
    running: Arc<Running>,
    listed: Listed,
}

/// The reason why an operator has no server.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// The server cannot listen.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// It has no certificate.
    #[error("the server of the webhooks has no certificate")]
    Certificate(#[from] CertificateProblem),
    /// It has no tunnel.
    #[error(transparent)]
    Tunnel(#[from] TunnelError),
    /// The authorities of its clients cannot be read.
    #[error("cannot read the authorities of clients in {0}")]
    Authorities(String, #[source] std::io::Error),
    /// Clients must have certificates, but no authority is named.
    #[error(
        "clients need certificates, but the settings name no authority: set `verifyCafile`, `verifyCapath` or `verifyCadata`"
    )]
    NoAuthorities,
}

impl Servers {
    /// Serves reviews by a server with these settings, which is started if it is not running.
    ///
    /// # Errors
    /// If the server cannot be started.
    pub async fn open(
        &self,
        settings: &AdmissionServer,
        reviewer: Arc<Reviewer>,
        client: &Client,
        clock: &Clock,
    ) -> Result<Serving, ServersError> {
        let mut entries = self.0.lock().await;
        entries.retain(|entry| entry.running.strong_count() > 0);
        let known = entries.iter().find(|entry| entry.settings == *settings).and_then(|entry| entry.running.upgrade());
        let running = if let Some(running) = known {
            running
        } else {
            let started = match detection::detect(settings.kind, client).await {
                detection::Route::Direct(host) => {
                    Running::start(settings, host, (client, reviewer.operator()), clock).await?
                }
                detection::Route::Tunnel => Running::start_tunnelled(settings).await?,
            };
            let running = Arc::new(started);
            entries.push(Entry { settings: settings.clone(), running: Arc::downgrade(&running) });
            running
        };
        let listed = running.reviewers.add(reviewer);
        Ok(Serving { running, listed })
    }
}

impl Running {
    /// Starts a server with a certificate that is kept valid. `host` is the one of the kind of server.
    async fn start(
        settings: &AdmissionServer,
        host: Option<&str>,
        (client, operator): (&Client, &str),
        clock: &Clock,
    ) -> Result<Self, ServersError> {
        let route = match &settings.service {
            Some(ServiceName { name, namespace, port }) => Route::Service {
                namespace: namespace.clone().unwrap_or_else(|| client.default_namespace()),
                name: name.clone(),
                port: *port,
            },
            None => Route::Host(
                settings
                    .host
                    .clone()
                    .or_else(|| host.map(str::to_owned))
                    .unwrap_or_else(|| accessible(settings.addr.as_deref())),
            ),
        };
        let verification = verification(&settings.verification)?;
        let keeper = if settings.insecure {
            None
        } else {
            let names = names(&hosts(settings, &route.host()));
            Some(Keeper::open(settings, names, (client, operator), clock.clone()).await?)
        };
        let options = ServerOptions {
            addr: settings.addr.clone(),
            port: settings.port,
            path: settings.path.clone().unwrap_or_default(),
            route,
            dump: settings.certificate.cadump.as_ref().map(PathBuf::from),
            verification,
        };
        let reviewers = Reviewers::default();
        let server = Server::start(options, keeper.as_ref().map(Keeper::certificates), reviewers.clone()).await?;
        info!(target: "kopfd::admission", "Webhooks are answered at {}.", server.address());
        let (stop, mut tasks) = (Stop::new(), Tasks::default());
        if let Some(keeper) = keeper {
            tasks.spawn("certificate of the webhooks", keeper.run(stop.clone()));
        }
        Ok(Self { server, tunnel: None, reviewers, stop, tasks })
    }

    /// Starts a server without a certificate, and a tunnel that has one.
    async fn start_tunnelled(settings: &AdmissionServer) -> Result<Self, ServersError> {
        let addr = settings.addr.clone().unwrap_or_else(|| TUNNELLED.to_owned());
        let path = settings.path.clone().unwrap_or_default();
        let options = ServerOptions {
            route: Route::Host(accessible(Some(&addr))),
            addr: Some(addr),
            port: settings.port,
            path: path.clone(),
            dump: None,
            verification: ClientVerification::None,
        };
        let reviewers = Reviewers::default();
        let server = Server::start(options, None, reviewers.clone()).await?;
        let tunnel =
            Tunnel::open(TunnelOptions { settings: settings.tunnel.clone(), port: server.address().port(), path })
                .await?;
        Ok(Self { server, tunnel: Some(tunnel), reviewers, stop: Stop::new(), tasks: Tasks::default() })
    }

    async fn close(mut self) {
        self.stop.request("the operators have ended");
        self.tasks.finish(KEEPER_TIMEOUT).await;
        if let Some(tunnel) = self.tunnel {
            tunnel.close().await;
        }
        self.server.close().await;
    }
}

impl Serving {
    /// Returns a channel with the current client configuration.
    pub fn client_config(&self) -> watch::Receiver<ClientConfig> {
        let Running { server, tunnel, .. } = &*self.running;
        tunnel.as_ref().map_or_else(|| server.client_config(), Tunnel::client_config)
    }

    /// Leaves the server. The last operator ends it, and the reviews that have begun are answered.
    pub async fn close(self) {
        let Self { running, listed } = self;
        drop(listed);
        if let Some(running) = Arc::into_inner(running) {
            running.close().await;
        }
    }
}

/// Reads how the certificates of clients are verified. As in kopf, a named authority means that certificates are
/// verified if there are any.
fn verification(settings: &Verification) -> Result<ClientVerification, ServersError> {
    let mut authorities = String::new();
    if let Some(data) = &settings.cadata {
        authorities.push_str(data);
        authorities.push('\n');
    }
    for file in settings.cafile.iter().map(PathBuf::from).chain(files_of(settings.capath.as_deref())?) {
        authorities.push_str(&read(&file)?);
        authorities.push('\n');
    }
    match (settings.mode.as_deref(), authorities.is_empty()) {
        (Some("required"), true) => Err(ServersError::NoAuthorities),
        (Some("required"), false) => Ok(ClientVerification::Required(authorities)),
        (_, true) => Ok(ClientVerification::None),
        (_, false) => Ok(ClientVerification::Optional(authorities)),
    }
}

fn read(file: &Path) -> Result<String, ServersError> {
    std::fs::read_to_string(file).map_err(|error| ServersError::Authorities(file.display().to_string(), error))
}

/// Returns the files of a directory, by name.
fn files_of(directory: Option<&str>) -> Result<Vec<PathBuf>, ServersError> {
    let Some(directory) = directory else { return Ok(Vec::new()) };
    let failed = |error| ServersError::Authorities(directory.to_owned(), error);
    let entries = std::fs::read_dir(directory).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut files: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_authority_means_that_certificates_are_verified() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b.pem", "B"), ("a.pem", "A")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let capath = Some(folder.path().display().to_string());
        let with = |mode: Option<&str>, capath: Option<String>| {
            let settings = Verification {
                mode: mode.map(str::to_owned),
                capath,
                cadata: Some("D".to_owned()),
                ..Verification::default()
            };
            verification(&settings).unwrap()
        };
        assert_eq!(with(None, capath.clone()), ClientVerification::Optional("D\nA\nB\n".to_owned()));
        assert_eq!(with(Some("none"), None), ClientVerification::Optional("D\n".to_owned()));
        assert_eq!(with(Some("required"), capath), ClientVerification::Required("D\nA\nB\n".to_owned()));
        assert_eq!(verification(&Verification::default()).unwrap(), ClientVerification::None);
        let none = Verification { mode: Some("required".to_owned()), ..Verification::default() };
        assert!(matches!(verification(&none), Err(ServersError::NoAuthorities)));
        let missing = Verification { cafile: Some("/nonexistent/ca.pem".to_owned()), ..Verification::default() };
        assert!(
            matches!(verification(&missing), Err(ServersError::Authorities(file, _)) if file == "/nonexistent/ca.pem")
        );
    }
}
