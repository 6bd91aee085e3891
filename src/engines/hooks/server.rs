//! Listeners of hooks alone, on threads of their own, since senders of hooks are not trusted. Operators with equal
//! settings share one.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use tokio::sync::{Mutex, oneshot};
use tracing::info;

use super::answerer::Answerer;
use super::service::Service;
use super::{Hooks, Listed};
use crate::http::{Certificate, CertificateError, Clients, Limits, Listener, ServerTls};
use crate::kit::Stop;
use crate::manifest::hook_server::HookServer;

/// The limits of clients: senders of events are not trusted, so slow ones are cut off soon.
const LIMITS: Limits = Limits {
    connections: 1_000,
    head_timeout: Duration::from_secs(10),
    idle_timeout: Duration::from_secs(30),
    // A request that has begun is answered.
    grace: Duration::from_secs(10),
};

/// The reason why a listener cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum HookServerError {
    /// The address cannot be used.
    #[error("cannot listen for hooks at {address}")]
    Bind {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot use the certificate of the hooks")]
    Certificate(#[from] CertificateError),
    /// The authorities of clients cannot be read.
    #[error("cannot read the authorities of clients in {0}")]
    Authorities(String, #[source] io::Error),
    /// The system cannot create the thread.
    #[error("cannot start the thread of the hooks")]
    Thread(#[source] io::Error),
}

/// The listeners of a process. Cheap to clone.
#[derive(Clone, Default)]
pub struct HookServers(Arc<Mutex<Vec<Entry>>>);

/// The settings of a listener, and the listener as long as it runs.
type Entry = (HookServer, Weak<Running>);

impl std::fmt::Debug for HookServers {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HookServers").finish_non_exhaustive()
    }
}

/// The place of an operator on a listener, until it is closed.
pub struct Serving {
    running: Arc<Running>,
    listed: Listed,
}

struct Running {
    server: Server,
    hooks: Hooks,
}

impl HookServers {
    /// Serves the hooks of an operator by a listener with these settings, which is started if it is not running.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn open(&self, settings: &HookServer, answerer: Arc<Answerer>) -> Result<Serving, HookServerError> {
        let mut entries = self.0.lock().await;
        entries.retain(|(_, running)| running.strong_count() > 0);
        let known = entries.iter().find(|(known, _)| known == settings).and_then(|(_, running)| running.upgrade());
        let running = if let Some(running) = known {
            running
        } else {
            let hooks = Hooks::default();
            let running = Arc::new(Running { server: Server::start(settings, hooks.clone()).await?, hooks });
            entries.push((settings.clone(), Arc::downgrade(&running)));
            running
        };
        let listed = running.hooks.add(answerer);
        Ok(Serving { running, listed })
    }
}

impl Serving {
    /// Leaves the listener. The last operator ends it, and the requests that have begun are answered.
    pub async fn close(self) {
        let Self { running, listed } = self;
        drop(listed);
        if let Some(running) = Arc::into_inner(running) {
            running.server.close().await;
        }
    }
}

/// A running listener. It ends when it is dropped.
pub(crate) struct Server {
    stop: Stop,
    ended: oneshot::Receiver<()>,
}

impl Server {
    /// Listens with the certificate of the settings.
    ///
    /// # Errors
    /// If the address or the certificate cannot be used.
    pub(crate) async fn start(settings: &HookServer, hooks: Hooks) -> Result<Self, HookServerError> {
        let tls = tls(settings)?;
        let files = settings.certfile.clone().zip(settings.pkeyfile.clone());
        let files = files.map(|(chain, key)| (PathBuf::from(chain), PathBuf::from(key)));
        let (addr, port) = (settings.addr.clone(), settings.port);
        let service = Service::new(hooks, settings.path.as_deref().unwrap_or_default());
        Self::listen((addr, port), (tls, files), service).await
    }

    /// Listens for plain HTTP on this machine only: for development.
    ///
    /// # Errors
    /// If the port cannot be used.
    pub(crate) async fn start_local(port: u16, hooks: Hooks) -> Result<Self, HookServerError> {
        let addr = Some(Ipv4Addr::LOCALHOST.to_string());
        Self::listen((addr, port), (None, None), Service::new(hooks, "")).await
    }

    async fn listen(
        (addr, port): (Option<String>, u16),
        (tls, files): (Option<ServerTls>, Option<(PathBuf, PathBuf)>),
        service: Service,
    ) -> Result<Self, HookServerError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(HookServerError::Thread)?;
        let stop = Stop::new();
        let (started, starting) = oneshot::channel();
        let (ending, ended) = oneshot::channel::<()>();
        let serving = stop.clone();
        let run = move || {
            runtime.block_on(async move {
                match Listener::bind_host(addr.as_deref(), port, tls.as_ref()).await {
                    Err(source) => {
                        let address = format!("{}, port {port}", addr.as_deref().unwrap_or("all interfaces"));
                        drop(started.send(Err(HookServerError::Bind { address, source })));
                    }
                    Ok(listener) => {
                        drop(started.send(Ok(listener.address())));
                        let followed = async {
                            if let Some((tls, (chain, key))) = tls.zip(files) {
                                tls.follow(chain, key, serving.clone()).await;
                            }
                        };
                        tokio::join!(serve(listener.with_limits(LIMITS), service, serving.clone()), followed);
                    }
                }
            });
            drop(ending);
        };
        std::thread::Builder::new().name("hooks".to_owned()).spawn(run).map_err(HookServerError::Thread)?;
        let gone = || HookServerError::Thread(io::Error::other("the thread has ended"));
        let address = starting.await.map_err(|_| gone())??;
        info!(target: "kopfd::hooks", "Hooks are answered at {address}.");
        Ok(Self { stop, ended })
    }

    /// Answers the requests that have begun, and ends.
    pub(crate) async fn close(mut self) {
        self.stop.request("the operators have ended");
        // The sender is dropped at the end.
        drop((&mut self.ended).await);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request("the listener is not needed any more");
    }
}

async fn serve(listener: Listener, service: Service, stop: Stop) {
    let service = tower::service_fn(move |request: Request<Incoming>| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.respond(request).await.unwrap_or_else(|_| Service::not_found())) }
    });
    listener.serve(service, stop).await;
}

/// Returns the certificate of a listener, and the authorities of its clients. Clients may have no certificate: each
/// hook decides.
fn tls(settings: &HookServer) -> Result<Option<ServerTls>, HookServerError> {
    let (Some(chain), Some(key)) = (&settings.certfile, &settings.pkeyfile) else { return Ok(None) };
    let certificate = Certificate::read(Path::new(chain), Path::new(key))?;
    let mut authorities = settings.verify_cadata.clone().unwrap_or_default();
    if let Some(file) = &settings.verify_cafile {
        let text = std::fs::read_to_string(file).map_err(|error| HookServerError::Authorities(file.clone(), error))?;
        authorities = format!("{authorities}\n{text}");
    }
    let clients = if settings.verifies_clients() { Clients::Verified(&authorities) } else { Clients::Anyone };
    Ok(Some(ServerTls::for_clients(&certificate, clients)?))
}
