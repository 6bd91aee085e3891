//! `kopfd dev`: runs operators on the embedded API server, and shows what they do. They and their objects follow their
//! files.

mod objects;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;

use crate::apiserver::Latency;
use crate::apiserver::admission::Caller;
use crate::apiserver::auth::access::{Authentication, MASTERS, User};
use crate::apiserver::http::kubeconfig::Kubeconfig;
use crate::apiserver::server::socket::Listening;
use crate::apiserver::storage::ids;
use crate::apiserver::{ApiServer, Settings};
use crate::cluster::config;
use crate::engines::peering::ProcessPeering;
use crate::engines::{Endpoints, EventStream, hooks};
use crate::kit::errors::chain;
use crate::kit::{Clock, Stop, Tasks, counted, duration, surplus};
use crate::manifest::Operator;
use crate::persistence::Keys;
use crate::reactor::operator::{Access, ExitTimeouts, ServerChoice, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::{ActivityMonitor, Admission, HookReach, Scope};
use crate::scenario::{peers, webhooks};
use crate::script::{Fibers, Threads};
use crate::telemetry::{self, Format, Verbosity};

use super::apiserver::{Webhooks, export, write_kubeconfig};
use super::exit_code::{FAILURE, INTERRUPTED, SUCCESS, TERMINATED, USAGE_ERROR};
use super::files::Files;
use super::fleet::{Fleet, Step, Trigger};
use super::manifests::{Manifests, Target, load};
use super::output::{enumerated, print_error, print_error_with_hint};
use super::runtime::start_development_threads;
use objects::AppliedObjects;

/// Time limit for the operators of the previous revision to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Failures listed in the last line.
const MAX_FAILURES: usize = 3;

/// Pending handlers listed when the timeout is over.
const MAX_PENDING: usize = 5;

/// The deadline when the timeout is beyond the range of the clock.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// Initial objects, applied again when their files change: a file, or a directory. May be repeated. Manifests and
    /// scenarios in them are skipped; missing namespaces are created.
    #[arg(long, value_name = "FILE|DIR")]
    apply: Vec<PathBuf>,
    /// Exit when everything has settled: with 0 on success; with 1 if a handler has failed permanently, a named kind is
    /// not served, or the timeout is over.
    #[arg(long)]
    once: bool,
    /// How long `--once` waits for everything to settle, such as 30s or 1h.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Timeout,
    /// The port of the API server; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// The port where hooks are answered, on this machine only; without it a free one, if there are hooks.
    #[arg(long, value_name = "PORT")]
    hooks_port: Option<u16>,
    /// Where to write the kubeconfig, readable by you only.
    #[arg(long, value_name = "FILE", default_value = "kopfd.kubeconfig")]
    kubeconfig_out: PathBuf,
    /// Overwrite that file even if kopfd has not written it.
    #[arg(long)]
    force: bool,
    /// Let the API server be as slow as a real cluster: in serving new definitions, collecting garbage, and deleting
    /// namespaces.
    #[arg(long)]
    realistic: bool,
    #[command(flatten)]
    webhooks: Webhooks,
    /// Also log why the engine does what it does.
    #[arg(long, short)]
    verbose: bool,
}

/// A time limit, with its text for messages.
#[derive(Debug, Clone)]
struct Timeout {
    text: String,
    limit: Duration,
}

fn timeout(text: &str) -> Result<Timeout, String> {
    let limit = duration::parse(text).map_err(|_| "expected a number with a unit, such as 30s, 5m or 1h")?;
    Ok(Timeout { text: text.to_owned(), limit })
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let Some(paths) = options.manifests.required("dev") else { return USAGE_ERROR };
    let Some(operators) = load(&paths, Target::Embedded) else { return FAILURE };
    let clock = Clock::system();
    let verbosity = if options.verbose { Verbosity::Verbose } else { Verbosity::Normal };
    let has_colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    telemetry::start(
        telemetry::Options { format: Format::ChangeLog, verbosity, has_colours, ..telemetry::Options::default() },
        clock.clone(),
    );
    let Some(runtime) = start_development_threads() else { return FAILURE };
    runtime.block_on(serve(operators, options, paths, clock)).unwrap_or_else(|problem| {
        print_error(&problem);
        FAILURE
    })
}

async fn serve(operators: Vec<Operator>, options: &Options, paths: Vec<PathBuf>, clock: Clock) -> Result<u8, String> {
    let mut signals = Signals::listen()?;
    let mut files = Files::watch(&paths, &operators, &options.apply);
    let stop = Stop::new();
    let mut server = Tasks::default();
    let admission = Admission::in_process();
    let webhooks = Caller { hook: Some(webhooks::hook(&admission)), ..options.webhooks.caller() };
    let (objects, kubeconfig) = start_server(options, webhooks, &clock, &files, &mut server, &stop).await?;
    if peers::is_mandatory(&operators) {
        objects.apply_further(peers::needed(&operators, &[])).await?;
    }
    let monitor = Arc::new(ActivityMonitor::default());
    let shared = Shared {
        clock,
        scope: Scope::Cluster,
        precedence: Precedence::default(),
        monitor: Some(monitor),
        events: EventStream::default(),
        has_change_log: true,
        script_threads: Threads::default(),
        seed: None,
        exit_timeouts: ExitTimeouts::default(),
        fibers: Fibers::default(),
        endpoints: Endpoints::default(),
        digest_keys: Keys::of_embedded_server(),
        has_trials: false,
        pod: None,
        admission,
        hooks: HookReach::InProcess,
        peering: ProcessPeering::of("kopfd-dev"),
        leading: None,
        checks_rights: false,
    };
    let hooks = start_hooks(&operators, options, &shared.endpoints).await?;
    let operators_stop = stop.child();
    let fleet = Fleet::start(
        operators,
        (paths, Target::Embedded),
        &shared,
        || access(&options.kubeconfig_out),
        &operators_stop,
    );
    let mut session = Session { options, shared, objects, fleet };
    let end = session.run(&mut files, &mut signals).await;
    session.fleet.end(STOP_TIMEOUT).await;
    if let Some(hooks) = hooks {
        hooks.close().await;
    }
    stop.request("done");
    server.finish(STOP_TIMEOUT).await;
    if let Err(problem) = kubeconfig.remove() {
        print_error(&format!("cannot remove {}: {problem}", options.kubeconfig_out.display()));
    }
    match (&end.why, end.hint) {
        (Some(why), Some(hint)) => print_error_with_hint(why, hint),
        (Some(why), None) => print_error(why),
        (None, _) => {}
    }
    Ok(end.code)
}

async fn start_server(
    options: &Options,
    webhooks: Caller,
    clock: &Clock,
    files: &Files,
    tasks: &mut Tasks<()>,
    stop: &Stop,
) -> Result<(AppliedObjects, Kubeconfig), String> {
    let token = ids::Ids::random().uid();
    let administrator = User::new("kopfd-admin", &[MASTERS, "system:authenticated"]);
    let authentication = Authentication::Tokens(BTreeMap::from([(token.clone(), administrator)]));
    let latency = if options.realistic { Latency::realistic() } else { Latency::default() };
    let api = ApiServer::new(Settings { authentication, latency, webhooks, ..Settings::default() }, clock.clone());
    let objects = AppliedObjects::apply_initial(api.clone(), files.object_paths()).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listening = Listening::open(address).await.map_err(|problem| chain(&problem))?;
    let kubeconfig = write_kubeconfig(&listening, &options.kubeconfig_out, &token, options.force)?;
    let mut stdout = anstream::stdout().lock();
    // A closed standard output is not an error.
    drop(writeln!(stdout, "{}", export(&options.kubeconfig_out)));
    drop(stdout.flush());
    drop(stdout);
    tasks.spawn("controllers", {
        let (api, stop) = (api.clone(), stop.clone());
        async move { api.run_controllers(stop).await }
    });
    tasks.spawn("server", listening.serve(api, stop.clone()));
    Ok((objects, kubeconfig))
}

/// Listens for hooks on this machine, if there are any or the port is given. Whatever their listener in the settings,
/// it is plain HTTP.
async fn start_hooks(
    operators: &[Operator],
    options: &Options,
    endpoints: &Endpoints,
) -> Result<Option<hooks::server::Server>, String> {
    if options.hooks_port.is_none() && operators.iter().all(|operator| operator.hooks.is_empty()) {
        return Ok(None);
    }
    let started =
        hooks::server::Server::start_local(options.hooks_port.unwrap_or_default(), endpoints.hooks.clone()).await;
    started.map(Some).map_err(|problem| chain(&problem))
}

/// The running session: the operators, their objects and their files.
struct Session<'a> {
    options: &'a Options,
    shared: Shared,
    objects: AppliedObjects,
    fleet: Fleet<'a>,
}

/// The end of the command.
struct End {
    code: u8,
    why: Option<String>,
    hint: Option<&'static str>,
}

impl End {
    fn new(code: u8, why: Option<String>) -> Self {
        Self { code, why, hint: None }
    }
}

impl Session<'_> {
    /// Runs until a signal arrives or, with `--once`, everything has settled.
    async fn run(&mut self, files: &mut Files, signals: &mut Signals) -> End {
        let is_once = self.options.once;
        let Timeout { text, limit } = &self.options.timeout;
        let deadline = Instant::now().checked_add(*limit).unwrap_or_else(|| Instant::now() + FOREVER);
        loop {
            let monitor = self.monitor();
            let operators = self.fleet.len();
            let settled = async {
                monitor.ready(operators).await;
                monitor.settled().await;
            };
            tokio::select! {
                biased;
                signal = signals.next() => match signal {
                    Received::End(code) => return self.ended_by(code),
                    Received::Reload => {
                        if let Some(end) = self.reload(files, signals, Trigger::Signal).await {
                            return end;
                        }
                    }
                },
                step = self.fleet.next(), if !self.fleet.is_over() => match step {
                    Step::Ended { operator, has_failed: true, .. } if is_once => {
                        return End::new(FAILURE, Some(format!("the operator '{operator}' cannot run")));
                    }
                    Step::Ended { .. } | Step::Followed | Step::Over => {}
                    Step::Retry => {
                        if let Some(end) = self.reload(files, signals, Trigger::Change).await {
                            return end;
                        }
                    }
                },
                () = settled, if is_once && !self.fleet.is_following() => return settled_end(&monitor),
                () = tokio::time::sleep_until(deadline), if is_once => return timed_out_end(&monitor, operators, text),
                changed = files.changed() => {
                    self.objects.apply_changes(files.object_paths()).await;
                    if changed.of_operators && let Some(end) = self.reload(files, signals, Trigger::Change).await {
                        return end;
                    }
                }
            }
        }
    }

    fn ended_by(&self, code: u8) -> End {
        if self.options.once { interrupted_end(code) } else { End::new(SUCCESS, None) }
    }

    fn monitor(&self) -> Arc<ActivityMonitor> {
        Arc::clone(self.shared.monitor.as_ref().expect("a trial has a monitor"))
    }

    /// Lets the operators follow their files. Returns the end of the command if a signal arrives meanwhile.
    async fn reload(&mut self, files: &mut Files, signals: &mut Signals, trigger: Trigger) -> Option<End> {
        let operators = tokio::select! {
            biased;
            code = signals.ended() => return Some(self.ended_by(code)),
            reloaded = self.fleet.reload(trigger) => reloaded,
        };
        match operators {
            None => files.set_broken(),
            Some(operators) => {
                files.follow(&operators);
                // A new definition may be among them.
                self.objects.apply_changes(files.object_paths()).await;
            }
        }
        None
    }
}

/// Returns the end of a session that has not settled in time, with its pending work.
fn timed_out_end(monitor: &ActivityMonitor, operators: usize, timeout: &str) -> End {
    let pending = monitor.pending.all();
    let items = pending.iter().take(MAX_PENDING).map(ToString::to_string);
    let more = surplus(pending.len(), MAX_PENDING).map(|more| format!("{more} more"));
    let items: Vec<String> = items.chain(more).collect();
    let waiting = match items.as_slice() {
        [] if !monitor.is_ready(operators) => "the objects have not been listed yet".to_owned(),
        [] => "objects are still being processed".to_owned(),
        items => enumerated(items),
    };
    let hint = Some("raise `--timeout` if this is expected to take longer");
    End { code: FAILURE, why: Some(format!("not settled within {timeout}: {waiting}")), hint }
}

/// A caller of `--once` must not mistake an interruption for success.
fn interrupted_end(code: u8) -> End {
    End::new(code, Some("interrupted before everything has settled".to_owned()))
}

/// Returns the end of a session that has settled.
fn settled_end(monitor: &ActivityMonitor) -> End {
    let (failures, unserved) = (monitor.failures(), monitor.unserved());
    let mut reasons: Vec<String> = unserved.into_iter().map(lowercased).collect();
    if !failures.is_empty() {
        let items = failures.iter().take(MAX_FAILURES).map(|one| format!("'{}' of {}", one.handler, one.object));
        let more = surplus(failures.len(), MAX_FAILURES).map(|more| format!("{more} more"));
        let items: Vec<String> = items.chain(more).collect();
        reasons.push(format!("{} failed permanently: {}", counted(failures.len(), "handler"), enumerated(&items)));
    }
    reasons.extend(monitor.broken().iter().map(ToString::to_string));
    if reasons.is_empty() { End::new(SUCCESS, None) } else { End::new(FAILURE, Some(reasons.join("; "))) }
}

fn lowercased(sentence: String) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// Returns the access of operators to the embedded API server: login functions run, but do not choose another server.
fn access(kubeconfig: &Path) -> Access {
    let options = config::Options { kubeconfig: Some(kubeconfig.to_owned()), ..config::Options::default() };
    Access::of_process(options, ServerChoice::Default)
}

/// A received signal.
enum Received {
    /// It ends the command with this exit code.
    End(u8),
    /// The files are to be read again.
    Reload,
}

/// The signals of the command.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> Result<Self, String> {
        let listen = |kind| signal(kind).map_err(|problem| format!("cannot listen for signals: {problem}"));
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hangup: listen(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal.
    async fn next(&mut self) -> Received {
        tokio::select! {
            _ = self.interrupt.recv() => Received::End(INTERRUPTED),
            _ = self.terminate.recv() => Received::End(TERMINATED),
            _ = self.hangup.recv() => Received::Reload,
        }
    }

    /// Waits for a signal that ends the command, and returns its exit code.
    async fn ended(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}
