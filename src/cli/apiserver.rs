//! `kopfd apiserver`: the embedded API server alone.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::apiserver::Latency;
use crate::apiserver::admission::Caller;
use crate::apiserver::auth::access::{Authentication, MASTERS, User};
use crate::apiserver::http::identity::{self, Identity};
use crate::apiserver::http::kubeconfig::{self, Kubeconfig, Overwrite};
use crate::apiserver::server::socket::Listening;
use crate::apiserver::storage::journal::{self, Journal};
use crate::apiserver::{ApiServer, Settings, bootstrap};
use crate::kit::errors::chain;
use crate::kit::{Clock, Stop, Tasks};
use crate::object::yaml;
use crate::telemetry::{self, Verbosity};

use super::exit_code::{FAILURE, SUCCESS};
use super::output::{print_error, quoted};
use super::runtime::start_server_threads;

/// Runs the embedded API server until a signal arrives.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The port; 0 chooses a free one.
    #[arg(long, env = "KOPFD_APISERVER_PORT", value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// The address to listen on. On any other than loopback, the server is reachable by everyone who has the token.
    #[arg(long, env = "KOPFD_APISERVER_ADDRESS", value_name = "IP", default_value = "127.0.0.1")]
    pub address: IpAddr,
    /// Where to write the kubeconfig, readable by you only.
    #[arg(long, value_name = "FILE", default_value = "kopfd.kubeconfig")]
    pub kubeconfig_out: PathBuf,
    /// Overwrite that file even if kopfd has not written it.
    #[arg(long)]
    pub force: bool,
    /// CustomResourceDefinitions: a file, or a directory with files. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    pub crds: Vec<PathBuf>,
    /// Initial objects: a file, or a directory with files. May be repeated.
    #[arg(long, value_name = "FILE|DIR")]
    pub apply: Vec<PathBuf>,
    /// A directory that stores the objects, the certificates and the token, so that they survive restarts. By default
    /// they are lost at the end of the process.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Let administrators control the server under `/_dev`: fault injection, a record of requests, restarts.
    #[arg(long)]
    pub control: bool,
    /// Be as slow as a real cluster: in serving new definitions, collecting garbage, and deleting namespaces.
    #[arg(long)]
    pub realistic: bool,
    #[command(flatten)]
    pub webhooks: Webhooks,
}

/// How webhooks are reached from outside of a cluster.
#[derive(Debug, Default, Args)]
pub(super) struct Webhooks {
    /// The address of a webhook's service, such as `default/hook:443=https://localhost:9443`. May be repeated.
    #[arg(long = "service", value_name = "NAMESPACE/NAME[:PORT]=URL", value_parser = service)]
    services: Vec<(String, String)>,
}

impl Webhooks {
    /// Returns the configuration of webhook calls.
    pub(super) fn caller(&self) -> Caller {
        Caller { services: self.services.iter().cloned().collect(), hook: None }
    }
}

fn service(text: &str) -> Result<(String, String), String> {
    let (service, url) = text.split_once('=').ok_or("expected NAMESPACE/NAME[:PORT]=URL")?;
    let is_url = url.starts_with("https://") || url.starts_with("http://");
    if service.split('/').filter(|part| !part.is_empty()).count() != 2 || !is_url {
        return Err("expected NAMESPACE/NAME[:PORT]=URL".to_owned());
    }
    Ok((service.to_owned(), url.trim_end_matches('/').to_owned()))
}

/// Limit of recorded requests with `--control`.
const MAX_RECORDED_REQUESTS: usize = 10_000;

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let clock = Clock::system();
    let logging = telemetry::Options {
        format: telemetry::Format::Full,
        verbosity: Verbosity::Normal,
        ..telemetry::Options::default()
    };
    telemetry::start(logging, clock.clone());
    let Some(runtime) = start_server_threads() else { return FAILURE };
    match runtime.block_on(serve(options, clock)) {
        Ok(()) => SUCCESS,
        Err(problem) => {
            print_error(&problem);
            FAILURE
        }
    }
}

async fn serve(options: &Options, clock: Clock) -> Result<(), String> {
    let objects = read_all(&options.crds)?.into_iter().chain(read_all(&options.apply)?).collect();
    let journal = options.data.as_deref().map(Journal::open).transpose().map_err(|error| store_error(&error))?;
    let identity = match &options.data {
        Some(directory) => Identity::kept(directory, options.address),
        None => Identity::new(options.address),
    };
    let identity = identity.map_err(|error| match error {
        identity::Error::Damaged(..) => {
            format!("{}\nhint: remove the file: clients then need the new kubeconfig", chain(&error))
        }
        error => chain(&error),
    })?;
    let token = identity.token.clone();
    let administrator = User::new("kopfd-admin", &[MASTERS, "system:authenticated"]);
    let authentication = Authentication::Tokens(BTreeMap::from([(token.clone(), administrator)]));
    let api = {
        let requests = if options.control { MAX_RECORDED_REQUESTS } else { 0 };
        let latency = if options.realistic {
            Latency::realistic()
        } else {
            Latency { events: Some(Latency::EVENTS), ..Latency::default() }
        };
        let settings = Settings {
            latency,
            authentication,
            requests,
            has_control: options.control,
            webhooks: options.webhooks.caller(),
            ..Settings::default()
        };
        ApiServer::with_journal(settings, clock, journal)
    };
    bootstrap::apply(&api, objects).await.map_err(|refused| refused.to_string())?;
    let address = SocketAddr::new(options.address, options.port);
    let listening = Listening::open_as(address, &identity).await.map_err(|error| chain(&error))?;
    // The kubeconfig outlives the server: with `--data`, clients find the same server again.
    let _kubeconfig = write_kubeconfig(&listening, &options.kubeconfig_out, &token, options.force)?;
    print_address(&listening, &options.kubeconfig_out);

    let stop = Stop::new();
    let mut tasks = Tasks::default();
    tasks.spawn("controllers", {
        let (api, stop) = (api.clone(), stop.clone());
        async move { api.run_controllers(stop).await }
    });
    tasks.spawn("server", listening.serve(api, stop.clone()));
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return Err("cannot listen for signals".to_owned());
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        ended = tasks.next_ended() => {
            let name = ended.map(|ended| ended.name).unwrap_or_default();
            return Err(format!("the server cannot continue: its task {name:?} has ended"));
        }
    }
    stop.request("a signal");
    tasks.finish(std::time::Duration::from_secs(3)).await;
    Ok(())
}

/// Returns an error of the store with a hint how to continue.
fn store_error(error: &journal::Error) -> String {
    match error {
        journal::Error::Open(..) | journal::Error::Damaged { .. } => {
            format!(
                "{}\nhint: take another directory with `--data`, or remove the file, with all objects in it",
                chain(error)
            )
        }
        journal::Error::InUse(_) => format!("{error}\nhint: take another directory with `--data`"),
        _ => chain(error),
    }
}

/// Writes the kubeconfig, unless the file belongs to a running server or, without force, to someone else.
pub(super) fn write_kubeconfig(
    listening: &Listening,
    path: &Path,
    token: &str,
    is_forced: bool,
) -> Result<Kubeconfig, String> {
    let overwrite = if is_forced { Overwrite::Anything } else { Overwrite::Own };
    Kubeconfig::write(path, &listening.kubeconfig(token), overwrite).map_err(|error| match error {
        kubeconfig::Error::InUse(_) => format!("{error}\nhint: take another file with `--kubeconfig-out`"),
        kubeconfig::Error::Foreign(_) => {
            format!("{error}\nhint: take another file with `--kubeconfig-out`, or overwrite it with `--force`")
        }
        kubeconfig::Error::Write(..) => chain(&error),
    })
}

/// Returns the shell command that selects a kubeconfig.
pub(super) fn export(kubeconfig: &Path) -> String {
    let path = std::path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
    format!("export KUBECONFIG={}", quoted(&path.display().to_string()))
}

fn print_address(listening: &Listening, kubeconfig: &Path) {
    let mut stdout = anstream::stdout().lock();
    // A closed standard output is not an error.
    drop(writeln!(stdout, "The API server listens on https://{}.", listening.address()));
    drop(writeln!(stdout, "{}", export(kubeconfig)));
    drop(stdout.flush());
}

/// Returns the objects of files and directories, and an error for each unreadable file or directory.
pub(super) fn read(paths: &[PathBuf]) -> (Vec<Value>, Vec<String>) {
    let (mut objects, mut problems) = (Vec::new(), Vec::new());
    for path in paths {
        match files(path) {
            Err(error) => problems.push(format!("cannot read {}: {error}", path.display())),
            Ok(files) => {
                for file in files {
                    read_file(&file).map_or_else(|problem| problems.push(problem), |found| objects.extend(found));
                }
            }
        }
    }
    (objects, problems)
}

/// Returns the objects of files, or the first error.
fn read_all(paths: &[PathBuf]) -> Result<Vec<Value>, String> {
    let (objects, problems) = read(paths);
    problems.into_iter().next().map_or(Ok(objects), Err)
}

pub(super) fn read_file(file: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    yaml::parse(&text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns a file, or the YAML and JSON files of a directory.
pub(super) fn files(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_a_namespace_a_name_and_an_address() {
        let wanted = ("default/hook:443".to_owned(), "https://localhost:9443".to_owned());
        assert_eq!(service("default/hook:443=https://localhost:9443/"), Ok(wanted));
        for text in ["hook=https://x", "default/hook", "default/hook=localhost:9443", "/hook=https://x"] {
            assert!(service(text).is_err(), "{text}");
        }
    }
}
