//! `kopfd run`: runs operators on a cluster until a signal arrives.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use crate::cluster::config;
use crate::engines::endpoints::server::Server;
use crate::engines::leading::LeadingOptions;
use crate::engines::{Endpoints, EventStream, LivenessUrl};
use crate::kit::{Clock, Stop, Tasks};
use crate::manifest::Operator;
use crate::object::namespace::Pattern;
use crate::outside;
use crate::persistence::{Keys, SecretForm};
use crate::reactor::operator::{Access, ExitTimeouts, ServerChoice, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::{Admission, HookReach, Scope};
use crate::script::{Fibers, Threads};
use crate::telemetry::{self, Verbosity};

use super::definitions::{self, DefinitionOptions};
use super::exit_code::{FAILURE, INTERRUPTED, SUCCESS, USAGE_ERROR};
use super::files::Files;
use super::fleet::{Fleet, Step, Trigger};
use super::manifests::{Manifests, Target, load};
use super::output::{print_error, print_error_with_hint};
use super::peering::PeeringOptions;
use super::replicas::ReplicaOptions;
use super::runtime::EngineRuntime;

/// Time limit for the last tasks after the stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Command {
    #[command(flatten)]
    pub manifests: Manifests,
    #[command(flatten)]
    pub options: Options,
}

/// The cluster, the namespaces and the logging.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Serve all namespaces. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_ALL_NAMESPACES", conflicts_with = "namespaces")]
    pub all_namespaces: bool,
    /// Serve the namespaces of a pattern, such as `prod-*,!prod-test`. May be repeated. [env: KOPFD_NAMESPACES,
    /// separated by spaces]
    #[arg(long = "namespace", short = 'n', value_name = "PATTERN")]
    pub namespaces: Vec<String>,
    /// The kubeconfig file.
    #[arg(long, env = "KOPFD_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, env = "KOPFD_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// Answer at this URL with the results of the probes, and on the same port at /readyz and /livez, such as
    /// http://0.0.0.0:8080/healthz.
    #[arg(long, short = 'L', env = "KOPFD_LIVENESS", value_name = "URL", value_parser = LivenessUrl::parse)]
    pub liveness: Option<LivenessUrl>,
    /// A file with the key of the digests of Secrets, for the setting `persistence.secrets: digests`: at least 32
    /// characters in its first line. Keys in further lines verify older digests.
    #[arg(long, env = "KOPFD_SECRETS_KEY_FILE", value_name = "FILE")]
    pub secrets_key_file: Option<PathBuf>,
    /// Options of peering.
    #[command(flatten)]
    pub peering: PeeringOptions,
    /// Options of replicas.
    #[command(flatten)]
    pub replicas: ReplicaOptions,
    /// Options of definitions.
    #[command(flatten)]
    pub definitions: DefinitionOptions,
    /// Options of logging.
    #[command(flatten)]
    pub logging: LoggingOptions,
}

/// Options of logging.
#[derive(Debug, Args)]
pub(super) struct LoggingOptions {
    /// Also log why the engine does what it does.
    #[arg(long, short, env = "KOPFD_VERBOSE")]
    pub verbose: bool,
    /// Log everything, including libraries.
    #[arg(long, short, env = "KOPFD_DEBUG")]
    pub debug: bool,
    /// Log only warnings and errors.
    #[arg(long, short, env = "KOPFD_QUIET")]
    pub quiet: bool,
    /// The form of log lines.
    #[arg(long, env = "KOPFD_LOG_FORMAT", value_name = "FORMAT", default_value = "full", ignore_case = true)]
    pub log_format: LogFormat,
    /// The key of the object reference in JSON lines.
    #[arg(long, env = "KOPFD_LOG_REFKEY", value_name = "KEY", default_value = "object")]
    pub log_refkey: String,
    /// Prefix lines with the object: `--log-prefix`, or `--log-prefix=false`. By default all forms except JSON do.
    #[arg(long, env = "KOPFD_LOG_PREFIX", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub log_prefix: Option<bool>,
    /// Do not prefix lines with the object.
    #[arg(long, conflicts_with = "log_prefix", action = ArgAction::SetTrue)]
    pub no_log_prefix: bool,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum LogFormat {
    /// The message alone.
    Plain,
    /// Time, logger, level and message.
    Full,
    /// One JSON object per line.
    Json,
}

impl LoggingOptions {
    pub(super) fn telemetry(&self) -> telemetry::Options {
        telemetry::Options {
            format: match self.log_format {
                LogFormat::Plain => telemetry::Format::Plain,
                LogFormat::Full => telemetry::Format::Full,
                LogFormat::Json => telemetry::Format::Json,
            },
            verbosity: match (self.debug, self.verbose, self.quiet) {
                (true, _, _) => Verbosity::Debug,
                (_, true, _) => Verbosity::Verbose,
                (_, _, true) => Verbosity::Quiet,
                _ => Verbosity::Normal,
            },
            reference_key: self.log_refkey.clone(),
            prefix: if self.no_log_prefix { Some(false) } else { self.log_prefix },
            has_colours: false,
        }
    }
}

impl Options {
    fn scope(&self) -> Result<Scope, String> {
        scope_of(self.all_namespaces, &self.namespaces)
    }
}

/// Returns the served namespaces of the options, else of the environment.
///
/// # Errors
/// A problem with the options.
pub(super) fn scope_of(is_everywhere: bool, namespaces: &[String]) -> Result<Scope, String> {
    let named = std::env::var("KOPFD_NAMESPACES").unwrap_or_default();
    let mut patterns = namespaces.to_vec();
    if patterns.is_empty() {
        patterns = named.split_whitespace().map(str::to_owned).collect();
    }
    match (is_everywhere, patterns.is_empty()) {
        (true, false) => {
            Err("-A and KOPFD_NAMESPACES exclude each other: serve either all namespaces or some".to_owned())
        }
        (_, true) => Ok(Scope::Cluster),
        (_, false) => {
            patterns.iter().map(|pattern| parse_pattern(pattern)).collect::<Result<_, _>>().map(Scope::Namespaces)
        }
    }
}

/// The hint that shows how to create a key.
const KEY_HINT: &str = "`head -c 32 /dev/urandom | base64 > FILE` makes a key; name the file by `--secrets-key-file` or KOPFD_SECRETS_KEY_FILE";

impl Options {
    /// Reads the keys of digests.
    ///
    /// # Errors
    /// A problem and a hint, if the file has no usable keys, or an operator needs one and there is no file.
    fn digest_keys(&self, operators: &[Operator]) -> Result<Keys, (String, &'static str)> {
        let Some(file) = &self.secrets_key_file else {
            let needs_key =
                |operator: &&Operator| operator.settings.persistence.storages.secrets.form == SecretForm::Digests;
            return match operators.iter().find(needs_key) {
                Some(Operator { name, .. }) => Err((
                    format!("the setting persistence.secrets of operator '{name}' is `digests`, and needs a key"),
                    KEY_HINT,
                )),
                None => Ok(Keys::default()),
            };
        };
        let problem = |problem: &dyn std::fmt::Display| {
            (format!("the keys of digests in {} cannot be used: {problem}", file.display()), KEY_HINT)
        };
        let text = std::fs::read_to_string(file).map_err(|error| problem(&error))?;
        Keys::parse(&text).map_err(|error| problem(&error))
    }
}

pub(super) fn parse_pattern(pattern: &str) -> Result<Pattern, String> {
    Pattern::of_sound_globs(pattern).map_err(|problem| format!("{pattern:?} is not a pattern of namespaces: {problem}"))
}

/// Runs the command.
pub(super) fn run(manifests: &Manifests, options: &Options) -> u8 {
    let Some(paths) = manifests.required("run") else { return USAGE_ERROR };
    let scope = match options.scope() {
        Ok(scope) => scope,
        Err(problem) => {
            print_error(&problem);
            return USAGE_ERROR;
        }
    };
    let Some(operators) = load(&paths, Target::Cluster) else { return FAILURE };
    let leading = match options.replicas.leading(&operators, pod().as_deref()) {
        Ok(leading) => leading,
        Err((problem, hint)) => {
            print_error_with_hint(&problem, hint);
            return USAGE_ERROR;
        }
    };
    let keys = match options.digest_keys(&operators) {
        Ok(keys) => keys,
        Err((problem, hint)) => {
            print_error_with_hint(&problem, hint);
            return FAILURE;
        }
    };
    let clock = Clock::system();
    telemetry::start(options.logging.telemetry(), clock.clone());
    let Some(runtime) = EngineRuntime::start() else { return FAILURE };
    let script_threads = runtime.script_threads();
    runtime.run(serve((operators, paths), options, (scope, keys, leading), clock, script_threads), SHUTDOWN_TIMEOUT)
}

async fn serve(
    (operators, paths): (Vec<Operator>, Vec<PathBuf>),
    options: &Options,
    (scope, digest_keys, leading): (Scope, Keys, Option<LeadingOptions>),
    clock: Clock,
    script_threads: Threads,
) -> u8 {
    let mut files = Files::watch(&paths, &operators, &[]);
    if definitions::apply(&options.definitions, &operators, config_of(options), clock.clone()).await.is_err() {
        return FAILURE;
    }
    let stop = Stop::new();
    let exit_timeouts = ExitTimeouts::default();
    for operator in &operators {
        exit_timeouts.set(&operator.name, operator.settings.process.ultimate_exiting_timeout);
    }
    let mut watchdog = Tasks::default();
    watchdog.spawn("signals", handle_signals(stop.clone(), exit_timeouts.clone()));
    let endpoints = Endpoints::default();
    operators
        .iter()
        .filter(|operator| !operator.hooks.is_empty())
        .for_each(|operator| endpoints.hooks.expect(&operator.name));
    let fibers = Fibers::default();
    let measured = fibers.clone();
    endpoints.metrics.measure_scripts(move || measured.memory());
    let peering = options.peering.process(clock.now());
    let events = EventStream::default();
    let shared = Shared {
        precedence: Precedence::default(),
        clock,
        scope,
        monitor: None,
        events,
        has_change_log: false,
        script_threads,
        seed: None,
        exit_timeouts,
        fibers,
        endpoints: endpoints.clone(),
        digest_keys,
        has_trials: true,
        pod: pod(),
        admission: Admission::default(),
        hooks: HookReach::network(options.liveness.is_some()),
        peering,
        leading,
        checks_rights: true,
    };
    let mut is_failed = false;
    let mut hangup = signal(SignalKind::hangup())
        .inspect_err(|error| warn!(target: "kopfd", "Cannot listen for SIGHUP: {error}"))
        .ok();
    let mut fleet = Fleet::start(operators, (paths, Target::Cluster), &shared, || access(options), &stop);
    if options.liveness.is_some() {
        let health = endpoints.health.clone();
        watchdog.spawn("heartbeat", async move { health.beat().await });
    }
    let mut server = None;
    loop {
        let first = fleet.first().clone();
        let trigger = tokio::select! {
            step = fleet.next() => match step {
                Step::Over => break,
                Step::Retry => Some(Trigger::Change),
                Step::Ended { is_fatal, .. } => {
                    is_failed |= is_fatal;
                    None
                }
                Step::Followed => None,
            },
            trigger = wanted_reload(&mut files, hangup.as_mut()), if !stop.is_requested() => Some(trigger),
            () = endpoints.started(&first), if server.is_none() && !is_failed => {
                match listen(options, &endpoints).await {
                    Ok(listening) => server = Some(listening),
                    Err(()) => is_failed = true,
                }
                None
            }
        };
        if let Some(trigger) = trigger.filter(|_| !stop.is_requested()) {
            match fleet.reload(trigger).await {
                Some(operators) => files.follow(&operators),
                None => files.set_broken(),
            }
        }
        if is_failed {
            stop.request("an operator cannot continue");
        }
    }
    drop(server);
    if is_failed { FAILURE } else { SUCCESS }
}

/// Returns the name of the pod that this process runs in; its host name is that of the pod, unless the pod has another
/// one.
fn pod() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    variable("KUBERNETES_SERVICE_HOST")?;
    variable("KOPFD_POD").or_else(|| variable("HOSTNAME"))
}

/// Waits until the files change, or a signal asks to read them again.
async fn wanted_reload(files: &mut Files, hangup: Option<&mut Signal>) -> Trigger {
    let hung_up = async {
        match hangup {
            Some(hangup) => drop(hangup.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = hung_up => Trigger::Signal,
        _ = files.changed() => Trigger::Change,
    }
}

/// Starts the endpoints, if they are wanted. As in kopf, they exist only after the startup of all operators. Logs a
/// failure.
async fn listen(options: &Options, endpoints: &Endpoints) -> Result<Option<Server>, ()> {
    let Some(url) = &options.liveness else { return Ok(None) };
    match Server::start(url, endpoints.clone()).await {
        Ok(server) => {
            info!(target: "kopfd", "Probes are answered at {} ({}).", url, server.address());
            Ok(Some(server))
        }
        Err(failure) => {
            error!(target: "kopfd", "Cannot listen for probes at {url}: {failure}");
            Err(())
        }
    }
}

fn access(options: &Options) -> Access {
    Access::of_process(config_of(options), ServerChoice::Declared)
}

fn config_of(options: &Options) -> config::Options {
    let Options { kubeconfig, context, .. } = options;
    config::Options { kubeconfig: kubeconfig.clone(), context: context.clone(), ..config::Options::default() }
}

/// Stops everything at the first signal; ends the process at the second one, or when the exit timeout is over.
async fn handle_signals(stop: Stop, exit_timeouts: ExitTimeouts) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        warn!(target: "kopfd", "Cannot listen for signals. The process can only be killed.");
        return;
    };
    let mut next = async || {
        tokio::select! {
            _ = interrupt.recv() => "SIGINT",
            _ = terminate.recv() => "SIGTERM",
        }
    };
    let first = next().await;
    info!(target: "kopfd", "Signal {first} is received. The operator is stopping.");
    stop.request(first);
    let limit = exit_timeouts.longest().unwrap_or(Duration::MAX);
    if let Ok(second) = tokio::time::timeout(limit, next()).await {
        let again = if second == first { "again".to_owned() } else { format!("after {first}") };
        warn!(target: "kopfd", "Signal {second} is received {again}. The process ends at once.");
    } else {
        error!(target: "kopfd", "The operator does not stop in time. The process ends at once.");
    }
    outside::end_all();
    telemetry::flush(telemetry::AT_ONCE);
    std::process::exit(i32::from(INTERRUPTED));
}
