//! The running operators of `run` and `dev`: they follow their files. None of them waits for another one, except for
//! the end of removed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info};

use crate::engines::health::ReadinessGate;
use crate::kit::errors::chain;
use crate::kit::source::SourcePosition;
use crate::kit::{Ended, Stop, Tasks, tasks};
use crate::manifest::{Diagnostic, Operator};
use crate::reactor::operator::{self, Access, ServeError, Shared};
use crate::reactor::precedence::Precedence;
use crate::reactor::reload::{self, ReloadError, Reloaded, Reloader};
use crate::script::Problem;

use super::diagnostics;
use super::manifests::{self, Target};

/// The subject of the note about files in the health of the process.
const NOTE: &str = "files";

/// The running operators.
pub(super) struct Fleet<'a> {
    tasks: Tasks<Result<(), ServeError>>,
    running: BTreeMap<String, Running>,
    /// The operators that were stopped and have not ended: their manifests are gone, or they start anew with another
    /// revision.
    ending: BTreeMap<String, Option<Operator>>,
    /// The operators of the start of the process: it ends if one of them fails.
    first: BTreeSet<String>,
    /// The operators that were added later, and have failed.
    failed: BTreeSet<String>,
    /// Unready if no operator is left.
    idle: Option<ReadinessGate>,
    paths: Vec<PathBuf>,
    target: Target,
    shared: Shared,
    access: Box<dyn Fn() -> Access + Send + Sync + 'a>,
    stop: Stop,
    reloads: Tasks<(u64, String, Result<Reloaded, ReloadError>)>,
    round: Round,
    /// The mistakes that were logged last.
    told: BTreeSet<String>,
}

/// One running operator.
struct Running {
    reloader: Reloader,
    stop: Stop,
}

/// The reason why the files are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// They have changed.
    Change,
    /// A signal demands it: everything is logged, even if it was logged before.
    Signal,
}

/// An event in the life of the operators.
#[derive(Debug)]
pub(super) enum Step {
    /// An operator has ended.
    Ended {
        /// Its name.
        operator: String,
        /// Whether it has failed.
        has_failed: bool,
        /// Whether the process cannot go on without it.
        is_fatal: bool,
    },
    /// An operator follows its files, or cannot.
    Followed,
    /// The files are to be read again, since they could not take effect because of the cluster.
    Retry,
    /// No operator runs, and none will.
    Over,
}

/// The progress of the operators in following the files that were read last.
#[derive(Default)]
struct Round {
    number: u64,
    is_signalled: bool,
    /// The operators of the files, until those that were removed have ended: another one may serve the same kinds.
    waiting: Option<Vec<Operator>>,
    /// The operators that are being reloaded.
    pending: BTreeMap<String, Operator>,
    is_changed: bool,
    mistakes: BTreeSet<String>,
    retry_at: Option<Instant>,
}

impl Round {
    /// Tells whether all operators have followed.
    fn is_over(&self) -> bool {
        self.waiting.is_none() && self.pending.is_empty()
    }
}

impl<'a> Fleet<'a> {
    /// Starts operators, which were loaded from these files.
    pub(super) fn start(
        operators: Vec<Operator>,
        (paths, target): (Vec<PathBuf>, Target),
        shared: &Shared,
        access: impl Fn() -> Access + Send + Sync + 'a,
        stop: &Stop,
    ) -> Self {
        let mut fleet = Self {
            tasks: Tasks::default(),
            running: BTreeMap::new(),
            ending: BTreeMap::new(),
            first: operators.iter().map(|operator| operator.name.clone()).collect(),
            failed: BTreeSet::new(),
            idle: None,
            paths,
            target,
            shared: Shared { precedence: Precedence::of(&operators), ..shared.clone() },
            access: Box::new(access),
            stop: stop.clone(),
            reloads: Tasks::default(),
            round: Round::default(),
            told: BTreeSet::new(),
        };
        for operator in operators {
            fleet.spawn(operator);
        }
        fleet
    }

    /// Returns the number of operators.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    /// Returns the operators of the start of the process that are still declared.
    pub(super) fn first(&self) -> &BTreeSet<String> {
        &self.first
    }

    /// Tells whether operators have not followed the files yet.
    pub(super) fn is_following(&self) -> bool {
        self.round.waiting.is_some() || !self.round.pending.is_empty() || !self.ending.is_empty()
    }

    /// Tells whether no operator runs, and only a change of the files may start one.
    pub(super) fn is_over(&self) -> bool {
        self.tasks.is_empty() && (self.stop.is_requested() || self.failed.is_empty())
    }

    fn spawn(&mut self, operator: Operator) {
        let name = operator.name.clone();
        let (reloader, reloads) = reload::channel();
        let stop = self.stop.child();
        self.running.insert(name.clone(), Running { reloader, stop: stop.clone() });
        self.note_failure(&name, None);
        if self.target == Target::Cluster {
            info!(target: "kopfd", version = env!("CARGO_PKG_VERSION"), "Operator '{name}' starts.");
        }
        self.tasks.spawn(name, operator::serve(operator, (self.access)(), self.shared.clone(), reloads, stop));
    }

    /// Waits for the next event of the operators.
    ///
    /// *Cancel safety*: what happens is either returned or kept for the next call.
    pub(super) async fn next(&mut self) -> Step {
        if self.is_over() {
            return Step::Over;
        }
        let retry_at = self.round.retry_at;
        let retry = async {
            match retry_at {
                Some(moment) => tokio::time::sleep_until(moment).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = self.tasks.next_ended() => self.note_end(&ended),
            Some(ended) = self.reloads.next_ended() => {
                self.note_reload(ended);
                Step::Followed
            }
            () = self.stop.requested(), if self.tasks.is_empty() => Step::Over,
            () = retry => {
                self.round.retry_at = None;
                Step::Retry
            }
        }
    }

    /// Reads the files, and begins to let the operators follow them. Returns them if there are no errors.
    pub(super) async fn reload(&mut self, trigger: Trigger) -> Option<Vec<Operator>> {
        let (paths, target) = (self.paths.clone(), self.target);
        // The top level of scripts may take long.
        let loaded = tokio::task::spawn_blocking(move || manifests::check(&paths, target)).await;
        let Ok((operators, found)) = loaded else {
            error!(target: "kopfd::reload", "The files cannot be read because of an internal error. The running revisions stay.");
            return None;
        };
        let Some(operators) = operators else {
            self.refuse(&found, trigger);
            return None;
        };
        self.follow(operators.clone(), trigger);
        Some(operators)
    }

    /// Logs why the files do not take effect.
    fn refuse(&mut self, found: &[Diagnostic], trigger: Trigger) {
        for name in self.running.keys() {
            self.shared.endpoints.metrics.operator(name).load_failed();
        }
        let mistakes: BTreeSet<String> = found.iter().filter(|one| one.is_error()).map(described).collect();
        if self.told != mistakes || trigger == Trigger::Signal {
            if self.target == Target::Embedded {
                diagnostics::print(found);
            } else {
                log_errors(found.iter().filter(|one| one.is_error()).map(described));
            }
            error!(target: "kopfd::reload", "The files have errors. The running revisions stay in service.");
        }
        self.told = mistakes;
        self.note_mistakes();
        // The pending reports about the earlier files would be outdated.
        self.round = Round { number: self.round.number + 1, ..Round::default() };
    }

    /// Shows the mistakes in the health of the process.
    fn note_mistakes(&self) {
        let text = self.told.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        let note = (!text.is_empty())
            .then(|| format!("the files have errors, and the running revisions stay in service: {text}"));
        self.shared.endpoints.health.note(NOTE, note);
    }

    /// Stops removed operators. When they have ended, those that stay are reloaded, and new ones are started.
    fn follow(&mut self, operators: Vec<Operator>, trigger: Trigger) {
        self.shared.precedence = Precedence::of(&operators);
        let is_there = |name: &String| operators.iter().any(|operator| operator.name == *name);
        let removed: Vec<String> = self.running.keys().filter(|name| !is_there(name)).cloned().collect();
        self.first.retain(is_there);
        let gone: Vec<String> = self.failed.iter().filter(|name| !is_there(name)).cloned().collect();
        for name in &gone {
            self.note_failure(name, None);
        }
        // An operator that would start anew does so with the newest files.
        self.ending.values_mut().for_each(|next| *next = None);
        let number = self.round.number + 1;
        // A signal is answered, even if a change of the files ends its round.
        let is_signalled = trigger == Trigger::Signal || self.round.is_signalled && !self.round.is_over();
        self.round = Round {
            number,
            is_signalled,
            is_changed: !removed.is_empty(),
            waiting: Some(operators),
            ..Round::default()
        };
        for name in removed {
            info!(target: "kopfd::reload", "The manifest of operator '{name}' is gone. The operator stops.");
            self.end_one(&name, "its manifest is gone", None);
        }
        self.proceed();
    }

    /// Stops an operator, which may start anew after its end.
    fn end_one(&mut self, name: &str, reason: &str, next: Option<Operator>) {
        if let Some(running) = self.running.remove(name) {
            running.stop.request(reason);
            self.ending.insert(name.to_owned(), next);
        }
    }

    /// Reloads and starts operators, unless others have to end before.
    fn proceed(&mut self) {
        let may_proceed = self.ending.is_empty() && !self.stop.is_requested();
        let Some(operators) = self.round.waiting.take_if(|_| may_proceed) else { return };
        for operator in operators {
            let name = operator.name.clone();
            let Some(running) = self.running.get(&name) else {
                self.round.is_changed = true;
                self.spawn(operator);
                continue;
            };
            self.round.pending.insert(name.clone(), operator.clone());
            let (number, reloader, earlier) =
                (self.round.number, running.reloader.clone(), self.shared.precedence.before(&name));
            let reload = async move { (number, operator.name.clone(), reloader.reload(operator, earlier).await) };
            self.reloads.spawn(format!("reload of {name}"), reload);
        }
        self.conclude();
    }

    /// Takes note of how the reload of an operator has ended.
    fn note_reload(&mut self, ended: Ended<(u64, String, Result<Reloaded, ReloadError>)>) {
        let Some(Ok((number, name, end))) = ended.result else { return tasks::report_task_end(&ended) };
        if number != self.round.number {
            return;
        }
        let Some(operator) = self.round.pending.remove(&name) else { return };
        match end {
            Ok(Reloaded::Unchanged) => {}
            Err(ReloadError::Starting) => {
                info!(target: "kopfd::reload", "Operator '{name}' has not started yet. It starts anew with the changed files.");
                self.end_one(&name, "its files have changed", Some(operator));
                self.round.is_changed = true;
            }
            end => {
                self.round.is_changed = true;
                if matches!(end, Err(ReloadError::Index { .. })) {
                    self.round.retry_at = Some(Instant::now() + reload::RETRY_PAUSE);
                }
                let mistakes = mistakes(&name, end);
                log_errors(
                    mistakes.iter().filter(|line| self.round.is_signalled || !self.told.contains(*line)).cloned(),
                );
                self.round.mistakes.extend(mistakes);
            }
        }
        self.conclude();
    }

    /// Logs the end of the round, when all operators have followed.
    fn conclude(&mut self) {
        if !self.round.is_over() {
            self.told.extend(self.round.mistakes.iter().cloned());
            return self.note_mistakes();
        }
        if self.round.mistakes.is_empty() && !self.told.is_empty() {
            info!(target: "kopfd::reload", "The files have no errors any more.");
        }
        self.told.clone_from(&self.round.mistakes);
        self.note_mistakes();
        if !self.round.is_changed && self.round.is_signalled {
            info!(target: "kopfd::reload", "The files have not changed. Nothing is reloaded.");
        }
    }

    /// Takes note of the end of an operator.
    fn note_end(&mut self, ended: &Ended<Result<(), ServeError>>) -> Step {
        let operator = ended.name.clone();
        let failure = log_end(ended);
        let has_failed = failure.is_some();
        let next = self.ending.remove(&operator);
        // One that was stopped has done so because of the files.
        let is_wanted = next.is_none();
        let is_fatal = has_failed && is_wanted && self.first.contains(&operator);
        if is_wanted {
            self.running.remove(&operator);
            self.note_failure(&operator, failure);
        }
        if let Some(next) = next.flatten().filter(|_| !self.stop.is_requested()) {
            self.spawn(next);
        }
        self.proceed();
        Step::Ended { operator, has_failed, is_fatal }
    }

    /// Shows that an operator, which was added later, cannot run. It is started again with the next change of the
    /// files.
    fn note_failure(&mut self, operator: &str, failure: Option<String>) {
        let health = &self.shared.endpoints.health;
        if failure.is_some() {
            self.failed.insert(operator.to_owned());
        } else {
            self.failed.remove(operator);
        }
        health.note(
            &format!("operator {operator}"),
            failure.map(|text| format!("operator '{operator}' cannot run: {text}")),
        );
        let is_idle = self.running.is_empty() && !self.failed.is_empty();
        self.idle = is_idle.then(|| health.gate("no operator can run"));
    }

    /// Stops all operators, and waits for their end up to a time limit.
    pub(super) async fn end(&mut self, limit: Duration) {
        self.stop.request("the command ends");
        let ends = async {
            while let Some(ended) = self.tasks.next_ended().await {
                log_end(&ended);
            }
        };
        if tokio::time::timeout(limit, ends).await.is_err() {
            self.tasks.finish(Duration::ZERO).await;
        }
    }
}

/// Returns the mistakes of an operator that is not reloaded.
fn mistakes(operator: &str, end: Result<Reloaded, ReloadError>) -> Vec<String> {
    match end {
        // An operator that ends is reported by its end.
        Ok(_) | Err(ReloadError::Ended | ReloadError::Outdated | ReloadError::Starting) => Vec::new(),
        Err(ReloadError::Scripts(problems)) => problems.iter().map(script_problem).collect(),
        Err(failure) => vec![format!("Operator '{operator}' is not reloaded: {}", chain(&failure))],
    }
}

fn log_errors(lines: impl Iterator<Item = String>) {
    for line in lines {
        error!(target: "kopfd::reload", "{line}");
    }
}

/// Returns a diagnostic in one line.
fn described(diagnostic: &Diagnostic) -> String {
    one_line(&diagnostic.place, &diagnostic.message, diagnostic.hint.as_deref())
}

/// Logs the end of an operator. Returns why it has failed, if it has.
fn log_end(ended: &Ended<Result<(), ServeError>>) -> Option<String> {
    let name = &ended.name;
    match &ended.result {
        Some(Ok(Ok(()))) => {
            info!(target: "kopfd", "Operator '{name}' has stopped.");
            None
        }
        Some(Ok(Err(failure))) => {
            error!(target: "kopfd", "Operator '{name}' cannot continue: {}", chain(failure));
            if let ServeError::Scripts { problems, .. } = failure {
                for problem in problems {
                    error!(target: "kopfd", "{}", script_problem(problem));
                }
            }
            Some(chain(failure))
        }
        Some(Err(panic)) => {
            error!(target: "kopfd", "Operator '{name}' has failed because of an internal error: {panic}");
            Some(format!("an internal error: {panic}"))
        }
        None => None,
    }
}

fn script_problem(problem: &Problem) -> String {
    one_line(&problem.place, &problem.message, problem.hint.as_deref())
}

fn one_line(place: &SourcePosition, message: &str, hint: Option<&str>) -> String {
    let hint = hint.map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    format!("{place}: {message}{hint}")
}
