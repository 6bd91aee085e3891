//! `kopfd dev`: an operator at work on the embedded API server, with an account of what it does, and reloaded when its files change.

mod files;
mod objects;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tracing::{error, info};

use crate::apiserver::api::latency::Pace;
use crate::apiserver::auth::access::{Authentication, MASTERS, User};
use crate::apiserver::http::kubeconfig::Kubeconfig;
use crate::apiserver::server::socket::Listening;
use crate::apiserver::storage::ids;
use crate::apiserver::{Api, Settings};
use crate::cluster::{Client, config};
use crate::kit::errors::chain;
use crate::kit::{Clock, Stop, Tasks, duration, surplus};
use crate::manifest::Operator;
use crate::reactor::operator::{self, ServeError, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::{Account, EventStream, Scope};
use crate::telemetry::{self, Format, Verbosity};

use super::apiserver::{Webhooks, export, write_kubeconfig};
use super::manifests::Manifests;
use super::run::tell_end;
use super::{DONE, ENDED_AT_ONCE, FAILED, MISUNDERSTOOD, TERMINATED, Target, complain, counted, enumerated, load};
use files::{Changed, Files};
use objects::Given;

/// How long the operators of an old revision may take to end.
const HANDOVER: Duration = Duration::from_secs(5);

/// Failures that are named in the last line.
const MOST_FAILURES: usize = 3;

/// Handlers that are named if they do not settle in time.
const MOST_PENDING: usize = 5;

/// A timeout that cannot be reached.
const FOREVER: Duration = Duration::from_hours(24 * 365);

/// Tries an operator on the embedded API server.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// Objects that are there from the beginning, and applied again when their files change: a file, or a directory. May be repeated.
    /// Manifests and scenarios in them are skipped; namespaces that are missing are created.
    #[arg(long, value_name = "FILE|DIR")]
    apply: Vec<PathBuf>,
    /// End when everything has settled: 0 if all is well, 1 if a handler has failed for good, a kind that is named is not served,
    /// or the timeout is over.
    #[arg(long)]
    once: bool,
    /// How long `--once` waits for everything to settle, such as 30s or 1h.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = timeout)]
    timeout: Timeout,
    /// The port of the API server; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Where the kubeconfig is written, readable by you only.
    #[arg(long, value_name = "FILE", default_value = "kopfd.kubeconfig")]
    kubeconfig_out: PathBuf,
    /// Overwrite that file also if it is something else than a kubeconfig of kopfd's.
    #[arg(long)]
    force: bool,
    /// Let the API server take as long as real ones do: to serve new definitions, collect garbage, and empty namespaces.
    #[arg(long)]
    realistic: bool,
    #[command(flatten)]
    webhooks: Webhooks,
    /// Tell why the engine does what it does, too.
    #[arg(long, short)]
    verbose: bool,
}

/// A time limit, as it was written.
#[derive(Debug, Clone)]
struct Timeout {
    text: String,
    limit: Duration,
}

fn timeout(text: &str) -> Result<Timeout, String> {
    let seconds = duration::parse(text).ok_or("expected a number with a unit, such as 30s, 5m or 1h")?;
    let limit = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    Ok(Timeout { text: text.to_owned(), limit })
}

/// Runs the command.
pub fn run(options: &Options) -> u8 {
    let Some(paths) = super::named(&options.manifests, "dev") else { return MISUNDERSTOOD };
    let Some(operators) = load(&paths, Target::Embedded) else { return FAILED };
    let clock = Clock::system();
    let verbosity = if options.verbose { Verbosity::Verbose } else { Verbosity::Normal };
    let has_colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    telemetry::start(
        telemetry::Options { format: Format::Account, verbosity, has_colours, ..telemetry::Options::default() },
        clock.clone(),
    );
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("kopfd").build() {
        Ok(runtime) => runtime,
        Err(problem) => {
            complain(&format!("cannot start the threads of the engine: {problem}"));
            return FAILED;
        }
    };
    runtime.block_on(serve(operators, options, paths, clock)).unwrap_or_else(|problem| {
        complain(&problem);
        FAILED
    })
}

async fn serve(operators: Vec<Operator>, options: &Options, paths: Vec<PathBuf>, clock: Clock) -> Result<u8, String> {
    let mut signals = Signals::listen()?;
    let mut files = Files::watch(&paths, &definitions(&operators), &options.apply);
    let stop = Stop::new();
    let mut server = Tasks::default();
    let (given, kubeconfig) = start_server(options, &clock, &files, &mut server, &stop).await?;
    let account = Arc::new(Account::default());
    let shared = Shared {
        clock,
        scope: Scope::Cluster,
        precedence: Precedence::default(),
        account: Some(account),
        events: EventStream::default(),
        has_change_log: true,
        seed: None,
    };
    let ended = match Generation::start(operators, options, &shared).await {
        Err(problem) => Err(problem),
        Ok(generation) => {
            let mut trial = Trial { options, paths, shared, given, generation, is_outdated: false };
            let ended = trial.follow(&mut files, &mut signals).await;
            trial.generation.end().await;
            ended
        }
    };
    stop.request("done");
    server.finish(HANDOVER).await;
    if let Err(problem) = kubeconfig.remove() {
        complain(&format!("cannot remove {}: {problem}", options.kubeconfig_out.display()));
    }
    let end = ended?;
    if let Some(why) = end.why {
        complain(&why);
    }
    Ok(end.code)
}

fn definitions(operators: &[Operator]) -> Vec<PathBuf> {
    operators.iter().flat_map(|operator| operator.crds.iter().cloned()).collect()
}

async fn start_server(
    options: &Options,
    clock: &Clock,
    files: &Files,
    tasks: &mut Tasks<()>,
    stop: &Stop,
) -> Result<(Given, Kubeconfig), String> {
    let token = ids::Ids::random().uid();
    let administrator = User::new("kopfd-admin", &[MASTERS, "system:authenticated"]);
    let authentication = Authentication::Tokens(BTreeMap::from([(token.clone(), administrator)]));
    let pace = if options.realistic { Pace::realistic() } else { Pace::default() };
    let api = Api::new(Settings { authentication, pace, webhooks: options.webhooks.caller(), ..Settings::default() }, clock.clone());
    let given = Given::begin(api.clone(), files.of_objects()).await?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let listening = Listening::open(address).await.map_err(|problem| chain(&problem))?;
    let kubeconfig = write_kubeconfig(&listening, &options.kubeconfig_out, &token, options.force)?;
    let mut stdout = anstream::stdout().lock();
    // Who does not read along does not need it.
    drop(writeln!(stdout, "{}", export(&options.kubeconfig_out)));
    drop(stdout.flush());
    drop(stdout);
    tasks.spawn("controllers", {
        let (api, stop) = (api.clone(), stop.clone());
        async move { api.attend(stop).await }
    });
    tasks.spawn("server", listening.serve(api, stop.clone()));
    Ok((given, kubeconfig))
}

/// Operators that are tried: what they are given, and what their files have become.
struct Trial<'a> {
    options: &'a Options,
    /// The manifests.
    paths: Vec<PathBuf>,
    shared: Shared,
    given: Given,
    generation: Generation,
    /// Whether the files of the operators have changed since they were loaded.
    is_outdated: bool,
}

/// How the command ends.
struct End {
    code: u8,
    why: Option<String>,
}

impl Trial<'_> {
    /// Follows the operators and their files until there is an end.
    async fn follow(&mut self, files: &mut Files, signals: &mut Signals) -> Result<End, String> {
        let is_once = self.options.once;
        let Timeout { text, limit } = &self.options.timeout;
        let deadline = Instant::now().checked_add(*limit).unwrap_or_else(|| Instant::now() + FOREVER);
        loop {
            let account = self.account();
            let operators = self.generation.count;
            let settled = async {
                account.ready(operators).await;
                account.settled().await;
            };
            tokio::select! {
                biased;
                code = signals.next() => return Ok(if is_once { interrupted(code) } else { End { code: DONE, why: None } }),
                Some(ended) = self.generation.tasks.next_ended() => {
                    if tell_end(&ended) && is_once {
                        return Ok(End { code: FAILED, why: Some(format!("the operator '{}' cannot run", ended.name)) });
                    }
                }
                () = settled, if is_once => return Ok(conclude(&account)),
                () = tokio::time::sleep_until(deadline), if is_once => return Ok(unsettled(&account, operators, text)),
                changed = files.changed() => self.renew(files, changed).await?,
            }
        }
    }

    fn account(&self) -> Arc<Account> {
        Arc::clone(self.shared.account.as_ref().expect("a trial has an account"))
    }

    /// Takes over what has changed in the files: first the objects, then the operators.
    async fn renew(&mut self, files: &mut Files, changed: Changed) -> Result<(), String> {
        self.is_outdated |= changed.of_operators;
        let loaded = load(&self.paths, Target::Embedded);
        match &loaded {
            None => error!(target: "kopfd", "The files have mistakes. The revision before them stays in service."),
            Some(operators) => files.follow(&definitions(operators)),
        }
        self.given.renew(files.of_objects()).await;
        if let Some(operators) = loaded.filter(|_| self.is_outdated) {
            info!(target: "kopfd", "The files have changed. The operator starts anew.");
            self.is_outdated = false;
            self.generation.end().await;
            self.account().begin_anew();
            self.generation = Generation::start(operators, self.options, &self.shared).await?;
        }
        Ok(())
    }
}

/// Returns the end of a trial that has not settled in time, with what it waits for.
fn unsettled(account: &Account, operators: usize, timeout: &str) -> End {
    let pending = account.pending.all();
    let told = pending.iter().take(MOST_PENDING).map(ToString::to_string);
    let more = surplus(pending.len(), MOST_PENDING).map(|more| format!("{more} more"));
    let told: Vec<String> = told.chain(more).collect();
    let waiting = match told.as_slice() {
        [] if !account.is_ready(operators) => "the objects have not been listed yet".to_owned(),
        [] => "objects are still being processed".to_owned(),
        told => enumerated(told),
    };
    let hint = "hint: raise `--timeout` if this takes longer on purpose";
    End { code: FAILED, why: Some(format!("not settled within {timeout}: {waiting}\n{hint}")) }
}

/// Whoever waits for the end of a trial must not take an interruption for one.
fn interrupted(code: u8) -> End {
    End { code, why: Some("interrupted before everything has settled".to_owned()) }
}

/// Returns the end of a trial in which nothing is left to do.
fn conclude(account: &Account) -> End {
    let (failures, unserved) = (account.failures(), account.unserved());
    let mut reasons: Vec<String> = unserved.into_iter().map(lowered).collect();
    if !failures.is_empty() {
        let told = failures.iter().take(MOST_FAILURES).map(|one| format!("'{}' of {}", one.handler, one.object));
        let more = surplus(failures.len(), MOST_FAILURES).map(|more| format!("{more} more"));
        let told: Vec<String> = told.chain(more).collect();
        reasons.push(format!("{} failed for good: {}", counted(failures.len(), "handler"), enumerated(&told)));
    }
    reasons.extend(account.broken().iter().map(ToString::to_string));
    if reasons.is_empty() { End { code: DONE, why: None } } else { End { code: FAILED, why: Some(reasons.join("; ")) } }
}

fn lowered(sentence: String) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}

/// The operators of one revision of the files.
struct Generation {
    tasks: Tasks<Result<(), ServeError>>,
    /// How many operators there are.
    count: usize,
    stop: Stop,
}

impl Generation {
    async fn start(operators: Vec<Operator>, options: &Options, shared: &Shared) -> Result<Self, String> {
        let (mut tasks, stop, count) = (Tasks::default(), Stop::new(), operators.len());
        let shared = Shared { precedence: Precedence::of(&operators), ..shared.clone() };
        for operator in operators {
            let (networking, watching) = operator::connection(&operator.settings);
            let places = config::Options { kubeconfig: Some(options.kubeconfig_out.clone()), context: None, networking, watching };
            let client = Client::connect(places, shared.clock.clone()).await.map_err(|problem| problem.chain())?;
            tasks.spawn(operator.name.clone(), operator::serve(operator, client, shared.clone(), stop.child()));
        }
        Ok(Self { tasks, count, stop })
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

    /// Returns the exit code of the next signal.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => ENDED_AT_ONCE,
            _ = self.terminate.recv() => TERMINATED,
        }
    }
}
