//! `kopfd run`: serves the operators of some manifests until a signal comes.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{error, info, warn};

use crate::cluster::{self, Client, config};
use crate::kit::errors::chain;
use crate::kit::{Clock, Ended, Stop, Tasks};
use crate::manifest::Operator;
use crate::object::namespace::Pattern;
use crate::reactor::operator::{self, ServeError, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::{EventStream, Scope};
use crate::script::Problem;
use crate::telemetry::{self, Verbosity};

use super::manifests::Manifests;
use super::{DONE, ENDED_AT_ONCE, FAILED, MISUNDERSTOOD, Target, load};

/// How long the last tasks may take after everything was told to stop.
const LAST_TASKS: Duration = Duration::from_secs(5);

/// The most threads of the engine. API servers are slower than these.
const MAX_ENGINE_THREADS: usize = 4;

/// Runs the operators of one or several manifests.
#[derive(Debug, Args)]
pub struct Command {
    #[command(flatten)]
    pub manifests: Manifests,
    #[command(flatten)]
    pub options: Options,
}

/// On which cluster, for which namespaces, and with what in the log.
#[derive(Debug, Args)]
pub struct Options {
    /// Serve all namespaces. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_ALL_NAMESPACES", conflicts_with = "namespaces")]
    pub all_namespaces: bool,
    /// Serve the namespaces of a pattern, such as `prod-*,!prod-test`. May be repeated. [env: KOPFD_NAMESPACES, separated by spaces]
    #[arg(long = "namespace", short = 'n', value_name = "PATTERN")]
    pub namespaces: Vec<String>,
    /// The kubeconfig file.
    #[arg(long, env = "KOPFD_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, env = "KOPFD_CONTEXT", value_name = "NAME")]
    pub context: Option<String>,
    /// How lines are logged.
    #[command(flatten)]
    pub logging: LoggingOptions,
}

/// How lines are logged.
#[derive(Debug, Args)]
pub struct LoggingOptions {
    /// Log why the engine does what it does.
    #[arg(long, short, env = "KOPFD_VERBOSE")]
    pub verbose: bool,
    /// Log everything, of the libraries too.
    #[arg(long, short, env = "KOPFD_DEBUG")]
    pub debug: bool,
    /// Log only warnings and errors.
    #[arg(long, short, env = "KOPFD_QUIET")]
    pub quiet: bool,
    /// The form of log lines.
    #[arg(long, env = "KOPFD_LOG_FORMAT", value_name = "FORMAT", default_value = "full", ignore_case = true)]
    pub log_format: LogFormat,
    /// The key of the object's reference in JSON lines.
    #[arg(long, env = "KOPFD_LOG_REFKEY", value_name = "KEY", default_value = "object")]
    pub log_refkey: String,
    /// Begin lines with the object: `--log-prefix`, or `--log-prefix=false`. By default all forms but JSON do.
    #[arg(long, env = "KOPFD_LOG_PREFIX", value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub log_prefix: Option<bool>,
    /// Do not begin lines with the object.
    #[arg(long, conflicts_with = "log_prefix", action = ArgAction::SetTrue)]
    pub no_log_prefix: bool,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LogFormat {
    /// The message alone.
    Plain,
    /// Time, logger, level, message.
    Full,
    /// One JSON object a line.
    Json,
}

impl LoggingOptions {
    fn telemetry(&self) -> telemetry::Options {
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
        let named = std::env::var("KOPFD_NAMESPACES").unwrap_or_default();
        let mut patterns = self.namespaces.clone();
        if patterns.is_empty() {
            patterns = named.split_whitespace().map(str::to_owned).collect();
        }
        match (self.all_namespaces, patterns.is_empty()) {
            (true, false) => Err("either all namespaces are served, or some: -A and KOPFD_NAMESPACES exclude each other".to_owned()),
            (_, true) => Ok(Scope::Cluster),
            (_, false) => patterns.iter().map(|pattern| sound(pattern)).collect::<Result<_, _>>().map(Scope::Namespaces),
        }
    }
}

fn sound(pattern: &str) -> Result<Pattern, String> {
    Pattern::of_sound_globs(pattern).map_err(|problem| format!("{pattern:?} is no pattern of namespaces: {problem}"))
}

/// Runs the command.
pub fn run(manifests: &Manifests, options: &Options) -> u8 {
    let Some(paths) = super::named(manifests, "run") else { return MISUNDERSTOOD };
    let scope = match options.scope() {
        Ok(scope) => scope,
        Err(problem) => {
            super::complain(&problem);
            return MISUNDERSTOOD;
        }
    };
    let Some(operators) = load(&paths, Target::Cluster) else { return FAILED };
    let clock = Clock::system();
    telemetry::start(options.logging.telemetry(), clock.clone());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = match runtime.worker_threads(engine_threads()).enable_all().thread_name("kopfd").build() {
        Ok(runtime) => runtime,
        Err(problem) => {
            super::complain(&format!("cannot start the threads of the engine: {problem}"));
            return FAILED;
        }
    };
    let code = runtime.block_on(serve(operators, options, scope, clock));
    runtime.shutdown_timeout(LAST_TASKS);
    code
}

/// Half of the processors are for the engine, the others for the scripts. One thread takes in 70,000 events a second,
/// and each more of them costs what the threads spend on waking each other.
fn engine_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 2).clamp(1, MAX_ENGINE_THREADS)
}

async fn serve(operators: Vec<Operator>, options: &Options, scope: Scope, clock: Clock) -> u8 {
    let stop = Stop::new();
    let ultimate = operators.iter().filter_map(|operator| operator.settings.process.ultimate_exiting_timeout).max();
    let mut watchdog = Tasks::default();
    watchdog.spawn("signals", obey_signals(stop.clone(), ultimate));
    let precedence = Precedence::of(&operators);
    let shared = Shared { precedence, clock, scope, account: None, events: EventStream::default(), has_change_log: false, seed: None };
    let mut tasks: Tasks<Result<(), ServeError>> = Tasks::default();
    let mut is_failed = false;
    for operator in operators {
        let name = operator.name.clone();
        info!(target: "kopfd", version = env!("CARGO_PKG_VERSION"), "Operator '{name}' starts.");
        match connect(options, &operator, &shared.clock).await {
            Ok(client) => tasks.spawn(name, operator::serve(operator, client, shared.clone(), stop.child())),
            Err(failure) => {
                error!(target: "kopfd", "Cannot connect to the cluster: {}", failure.chain());
                is_failed = true;
                stop.request("an operator cannot start");
            }
        }
    }
    while let Some(ended) = tasks.next_ended().await {
        is_failed |= tell_end(&ended);
        if is_failed {
            stop.request("an operator cannot go on");
        }
    }
    if is_failed { FAILED } else { DONE }
}

/// Tells how an operator has ended. Returns whether it has failed.
pub(super) fn tell_end(ended: &Ended<Result<(), ServeError>>) -> bool {
    let name = &ended.name;
    match &ended.result {
        Some(Ok(Ok(()))) => info!(target: "kopfd", "Operator '{name}' has stopped."),
        Some(Ok(Err(failure))) => {
            error!(target: "kopfd", "Operator '{name}' cannot go on: {}", chain(failure));
            if let ServeError::Scripts { problems, .. } = failure {
                for problem in problems {
                    error!(target: "kopfd", "{}", told(problem));
                }
            }
        }
        Some(Err(panic)) => error!(target: "kopfd", "Operator '{name}' has failed because of a defect of the engine: {panic}"),
        None => {}
    }
    !matches!(ended.result, Some(Ok(Ok(()))) | None)
}

async fn connect(options: &Options, operator: &Operator, clock: &Clock) -> Result<Client, cluster::Error> {
    let (networking, watching) = operator::connection(&operator.settings);
    let places = config::Options { kubeconfig: options.kubeconfig.clone(), context: options.context.clone(), networking, watching };
    Client::connect(places, clock.clone()).await
}

fn told(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    format!("{}:{}:{}: {}{hint}", problem.file.display(), problem.line, problem.column, problem.message)
}

/// The first signal asks everything to stop; the second one, or too long a wait, ends the process at once.
async fn obey_signals(stop: Stop, ultimate: Option<Duration>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) else {
        warn!(target: "kopfd", "Signals cannot be heard. The process can only be killed.");
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
    let patience = ultimate.unwrap_or(Duration::MAX);
    if let Ok(second) = tokio::time::timeout(patience, next()).await {
        warn!(target: "kopfd", "Signal {second} is received again. The process ends at once.");
    } else {
        error!(target: "kopfd", "The operator does not stop in time. The process ends at once.");
    }
    telemetry::flush(telemetry::AT_ONCE);
    std::process::exit(i32::from(ENDED_AT_ONCE));
}
