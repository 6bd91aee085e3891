//! `kopfd dev`: an operator at work on the embedded API server, with an account of what it does, and reloaded when its files change.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing::{error, info};

use crate::cluster::{Client, config};
use crate::devserver::access::{Authentication, MASTERS, User};
use crate::devserver::pace::Pace;
use crate::devserver::server::Listening;
use crate::devserver::{Api, Settings, given, ids};
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::{self, Diagnostic, Operator};
use crate::reactor::operator::{self, ServeError, Shared};
use crate::reactor::{Account, Scope};
use crate::telemetry::{self, Format, Verbosity};

use super::apiserver::{Webhooks, read};
use super::run::tell_end;
use super::{DONE, FAILED, complain, diagnostics};

/// Changes of files that come within this time are one change: editors write in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// How long the operators of an old revision may take to end.
const HANDOVER: Duration = Duration::from_secs(5);

/// Tries an operator on the embedded API server.
#[derive(Debug, Args)]
pub struct Options {
    /// A manifest, or a directory with manifests. May be repeated.
    #[arg(long, short = 'c', env = "KOPFD_CONFIG", value_name = "FILE|DIR", required = true, value_delimiter = ',')]
    config: Vec<PathBuf>,
    /// Objects that are there from the beginning: a file, or a directory with files. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    apply: Vec<PathBuf>,
    /// End when everything has settled: 0 if all is well, 1 if a handler has failed for good.
    #[arg(long)]
    once: bool,
    /// The port of the API server; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Where the kubeconfig is written, readable by you only.
    #[arg(long, value_name = "FILE", default_value = "kopfd.kubeconfig")]
    kubeconfig_out: PathBuf,
    /// Let the API server take as long as real ones do: to serve new definitions, collect garbage, and empty namespaces.
    #[arg(long)]
    realistic: bool,
    #[command(flatten)]
    webhooks: Webhooks,
    /// Tell why the engine does what it does, too.
    #[arg(long, short)]
    verbose: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> u8 {
    let Some(operators) = load(&options.config) else { return FAILED };
    let clock = Clock::system();
    let verbosity = if options.verbose { Verbosity::Verbose } else { Verbosity::Normal };
    telemetry::start(telemetry::Options { format: Format::Plain, verbosity, ..telemetry::Options::default() }, clock.clone());
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("kopfd").build() {
        Ok(runtime) => runtime,
        Err(problem) => {
            complain(&format!("cannot start the threads of the engine: {problem}"));
            return FAILED;
        }
    };
    runtime.block_on(serve(operators, options, clock)).unwrap_or_else(|problem| {
        complain(&problem);
        FAILED
    })
}

/// Returns the operators, or nothing after having told what is wrong with their manifests.
fn load(paths: &[PathBuf]) -> Option<Vec<Operator>> {
    let loaded = manifest::load(paths);
    let mut found = loaded.diagnostics;
    if !found.iter().any(Diagnostic::is_error) {
        found.extend(loaded.operators.iter().flat_map(Operator::refuse_unsupported));
    }
    diagnostics::print(&found);
    (!found.iter().any(Diagnostic::is_error)).then_some(loaded.operators)
}

/// Returns the exit code for what was done, and tells of objects that are not done though nothing is due for them.
fn verdict(account: &Account) -> u8 {
    let broken = account.broken();
    for one in &broken {
        complain(&one.to_string());
    }
    if account.failures() == 0 && broken.is_empty() { DONE } else { FAILED }
}

async fn serve(operators: Vec<Operator>, options: &Options, clock: Clock) -> Result<u8, String> {
    let definitions: Vec<PathBuf> = operators.iter().flat_map(|operator| operator.crds.iter().cloned()).collect();
    let objects = read(&definitions)?.into_iter().chain(read(&options.apply)?).collect();
    let stop = Stop::new();
    let mut server = Tasks::default();
    start_server(options, &clock, objects, &mut server, &stop).await?;
    let account = Arc::new(Account::default());
    let shared = Shared { clock: clock.clone(), scope: Scope::Cluster, account: Some(Arc::clone(&account)), seed: None };
    let mut files = Files::watch(&options.config);
    let mut generation = Generation::start(operators, options, &shared).await?;
    let mut signals = Signals::listen()?;
    let code = loop {
        tokio::select! {
            biased;
            () = signals.next() => break DONE,
            () = account.settled(), if options.once => break verdict(&account),
            () = files.changed() => {
                let Some(operators) = load(&options.config) else {
                    error!(target: "kopfd", "The files have mistakes. The revision before them stays in service.");
                    continue;
                };
                info!(target: "kopfd", "The files have changed. The operator starts anew.");
                generation.end().await;
                generation = Generation::start(operators, options, &shared).await?;
            }
        }
    };
    generation.end().await;
    stop.request("done");
    server.finish(HANDOVER).await;
    Ok(code)
}

async fn start_server(
    options: &Options,
    clock: &Clock,
    objects: Vec<serde_json::Value>,
    tasks: &mut Tasks<()>,
    stop: &Stop,
) -> Result<(), String> {
    let token = ids::Ids::random().uid();
    let administrator = User::new("kopfd-admin", &[MASTERS, "system:authenticated"]);
    let authentication = Authentication::Tokens(BTreeMap::from([(token.clone(), administrator)]));
    let pace = if options.realistic { Pace::realistic() } else { Pace::default() };
    let api = Api::new(Settings { authentication, pace, webhooks: options.webhooks.caller(), ..Settings::default() }, clock.clone());
    given::apply(&api, objects).await.map_err(|refused| refused.to_string())?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listening = Listening::open(address).await.map_err(|problem| problem.to_string())?;
    listening.write_kubeconfig(&options.kubeconfig_out, &token).map_err(|problem| problem.to_string())?;
    let path = std::path::absolute(&options.kubeconfig_out).unwrap_or_else(|_| options.kubeconfig_out.clone());
    let mut stdout = anstream::stdout().lock();
    // Who does not read along does not need it.
    drop(writeln!(stdout, "export KUBECONFIG={}", path.display()));
    drop(stdout.flush());
    drop(stdout);
    tasks.spawn("controllers", {
        let (api, stop) = (api.clone(), stop.clone());
        async move { api.attend(stop).await }
    });
    tasks.spawn("server", listening.serve(api, stop.clone()));
    Ok(())
}

/// The operators of one revision of the files.
struct Generation {
    tasks: Tasks<Result<(), ServeError>>,
    stop: Stop,
}

impl Generation {
    async fn start(operators: Vec<Operator>, options: &Options, shared: &Shared) -> Result<Self, String> {
        let (mut tasks, stop) = (Tasks::default(), Stop::new());
        for operator in operators {
            let (networking, watching) = operator::connection(&operator.settings);
            let places = config::Options { kubeconfig: Some(options.kubeconfig_out.clone()), context: None, networking, watching };
            let client = Client::connect(places, shared.clock.clone()).await.map_err(|problem| problem.chain())?;
            tasks.spawn(operator.name.clone(), operator::serve(operator, client, shared.clone(), stop.child()));
        }
        Ok(Self { tasks, stop })
    }

    async fn end(&mut self) {
        self.stop.request("another revision");
        let ends = async {
            while let Some(ended) = self.tasks.next_ended().await {
                tell_end(&ended);
            }
        };
        if tokio::time::timeout(HANDOVER, ends).await.is_err() {
            self.tasks.finish(Duration::ZERO).await;
        }
    }
}

/// The signals that end the command.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|problem| format!("signals cannot be heard: {problem}"));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The files of the manifests and scripts. Only a change of what is in them counts.
struct Files {
    directories: Vec<PathBuf>,
    hash: u64,
    hints: mpsc::Receiver<()>,
    /// Hints come as long as it lives.
    _watcher: Option<RecommendedWatcher>,
}

impl Files {
    fn watch(paths: &[PathBuf]) -> Self {
        let directory = |path: &PathBuf| if path.is_dir() { path.clone() } else { parent(path) };
        let directories: Vec<PathBuf> = paths.iter().map(directory).collect();
        let (sender, hints) = mpsc::channel(1);
        // A hint that finds no room is not lost: the one before it has not been taken yet.
        let watcher = notify::recommended_watcher(move |_| {
            let _ = sender.try_send(());
        });
        let watcher = watcher.and_then(|mut watcher| {
            for directory in &directories {
                watcher.watch(directory, RecursiveMode::Recursive)?;
            }
            Ok(watcher)
        });
        if let Err(problem) = &watcher {
            error!(target: "kopfd", "Changes of files are not noticed: {problem}");
        }
        let hash = hash_of(&directories);
        Self { directories, hash, hints, _watcher: watcher.ok() }
    }

    async fn changed(&mut self) {
        loop {
            if self.hints.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(DEBOUNCE).await;
            let hash = hash_of(&self.directories);
            if hash != self.hash {
                self.hash = hash;
                return;
            }
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// Returns a hash over the names and contents of everything that an operator may be made of.
fn hash_of(directories: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for directory in directories {
        hash_directory(directory, &mut hasher);
    }
    hasher.finish()
}

fn hash_directory(directory: &Path, hasher: &mut DefaultHasher) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_part = path.extension().is_some_and(|extension| ["yaml", "yml", "rhai", "j2"].iter().any(|known| extension == *known));
        if path.is_dir() && !is_hidden {
            hash_directory(&path, hasher);
        } else if is_part && let Ok(content) = std::fs::read(&path) {
            (path, content).hash(hasher);
        }
    }
}
