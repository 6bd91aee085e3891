//! The running operators of `run` and `dev`: they follow their files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::join_all;
use tracing::{error, info};

use crate::kit::errors::chain;
use crate::kit::{Ended, Stop, Tasks};
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
    pub tasks: Tasks<Result<(), ServeError>>,
    running: BTreeMap<String, Running>,
    paths: Vec<PathBuf>,
    target: Target,
    shared: Shared,
    access: Box<dyn Fn() -> Access + Send + Sync + 'a>,
    stop: Stop,
    /// The mistakes that were told last.
    told: Option<String>,
}

/// One running operator.
struct Running {
    reloader: Reloader,
    stop: Stop,
}

/// Why the files are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trigger {
    /// They have changed.
    Change,
    /// A signal demands it: everything is told, even if it was told before.
    Signal,
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
        let shared = Shared { precedence: Precedence::of(&operators), ..shared.clone() };
        let (tasks, running) = (Tasks::default(), BTreeMap::new());
        let mut fleet = Self { tasks, running, paths, target, shared, access: Box::new(access), stop: stop.clone(), told: None };
        for operator in operators {
            fleet.spawn(operator);
        }
        fleet
    }

    /// Returns the number of operators.
    pub(super) fn len(&self) -> usize {
        self.running.len()
    }

    fn spawn(&mut self, operator: Operator) {
        let name = operator.name.clone();
        let (reloader, reloads) = reload::channel();
        let stop = self.stop.child();
        self.running.insert(name.clone(), Running { reloader, stop: stop.clone() });
        if self.target == Target::Cluster {
            info!(target: "kopfd", version = env!("CARGO_PKG_VERSION"), "Operator '{name}' starts.");
        }
        self.tasks.spawn(name, operator::serve(operator, (self.access)(), self.shared.clone(), reloads, stop));
    }

    /// Reads the files, and lets the operators follow them. Returns them if there are no errors, and whether an operator has failed
    /// meanwhile.
    pub(super) async fn reload(&mut self, trigger: Trigger) -> (Option<Vec<Operator>>, bool) {
        let (paths, target) = (self.paths.clone(), self.target);
        // The top level of scripts may take long.
        let loaded = tokio::task::spawn_blocking(move || manifests::check(&paths, target)).await;
        let Ok((operators, found)) = loaded else {
            error!(target: "kopfd::reload", "The files cannot be read because of an internal error. The running revisions stay.");
            return (None, false);
        };
        let Some(operators) = operators else {
            self.refuse(&found, trigger);
            return (None, false);
        };
        let (problems, has_failed) = self.follow(operators.clone(), trigger).await;
        if problems.is_empty() {
            self.tell(None, trigger, || {});
        } else {
            let text = problems.join("\n");
            self.tell(Some(text), trigger, || log_errors(&problems));
        }
        (Some(operators), has_failed)
    }

    /// Tells why the files do not take effect.
    fn refuse(&mut self, found: &[Diagnostic], trigger: Trigger) {
        for name in self.running.keys() {
            self.shared.endpoints.metrics.operator(name).load_failed();
        }
        let mistakes: Vec<String> = found.iter().filter(|one| one.is_error()).map(described).collect();
        let is_development = self.target == Target::Embedded;
        self.tell(Some(mistakes.join("\n")), trigger, || {
            if is_development {
                diagnostics::print(found);
            } else {
                log_errors(&mistakes);
            }
            error!(target: "kopfd::reload", "The files have errors. The running revisions stay in service.");
        });
    }

    /// Tells mistakes once, in the log and the health of the process.
    fn tell(&mut self, mistakes: Option<String>, trigger: Trigger, log: impl FnOnce()) {
        if mistakes.is_some() && (self.told != mistakes || trigger == Trigger::Signal) {
            log();
        } else if mistakes.is_none() && self.told.is_some() {
            info!(target: "kopfd::reload", "The files have no errors any more.");
        }
        let note = mistakes
            .as_ref()
            .map(|text| format!("the files have errors, and the running revisions stay in service: {}", text.replace('\n', "; ")));
        self.shared.endpoints.health.note(NOTE, note);
        self.told = mistakes;
    }

    /// Stops removed operators, reloads those that stay, and starts new ones. Returns the mistakes, and whether an operator has failed.
    async fn follow(&mut self, operators: Vec<Operator>, trigger: Trigger) -> (Vec<String>, bool) {
        let precedence = Precedence::of(&operators);
        self.shared.precedence = precedence.clone();
        let has_failed = self.end_removed(&operators).await;
        let (mut known, mut added) = (Vec::new(), Vec::new());
        for operator in operators {
            match self.running.get(&operator.name) {
                Some(running) => known.push((running.reloader.clone(), operator)),
                None => added.push(operator),
            }
        }
        let is_changed = !added.is_empty() || has_failed;
        for operator in added {
            self.spawn(operator);
        }
        let reloads = known.into_iter().map(|(reloader, operator)| {
            let (name, earlier) = (operator.name.clone(), precedence.before(&operator.name));
            async move { (name, reloader.reload(operator, earlier).await) }
        });
        let ends = join_all(reloads).await;
        let is_unchanged = !is_changed && ends.iter().all(|(_, end)| matches!(end, Ok(Reloaded::Unchanged)));
        if is_unchanged && trigger == Trigger::Signal {
            info!(target: "kopfd::reload", "The files have not changed. Nothing is reloaded.");
        }
        (ends.into_iter().flat_map(|(name, end)| mistakes(&name, end)).collect(), has_failed)
    }

    /// Stops operators whose manifests are gone, and waits for their end: another one may serve the same kinds.
    async fn end_removed(&mut self, operators: &[Operator]) -> bool {
        let is_there = |name: &str| operators.iter().any(|operator| operator.name == name);
        let removed: Vec<String> = self.running.keys().filter(|name| !is_there(name)).cloned().collect();
        for name in &removed {
            if let Some(running) = self.running.remove(name) {
                info!(target: "kopfd::reload", "The manifest of operator '{name}' is gone. The operator stops.");
                running.stop.request("its manifest is gone");
            }
        }
        let (mut left, mut has_failed) = (removed, false);
        while !left.is_empty()
            && let Some(ended) = self.tasks.next_ended().await
        {
            left.retain(|name| *name != ended.name);
            has_failed |= self.note_end(&ended);
        }
        has_failed
    }

    /// Logs the end of an operator. Returns whether it has failed.
    pub(super) fn note_end(&mut self, ended: &Ended<Result<(), ServeError>>) -> bool {
        self.running.remove(&ended.name);
        log_end(ended)
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
        // An operator that ends is told by its end.
        Ok(_) | Err(ReloadError::Ended) => Vec::new(),
        Err(ReloadError::Scripts(problems)) => problems.iter().map(script_problem).collect(),
        Err(failure) => vec![format!("Operator '{operator}' is not reloaded: {}", chain(&failure))],
    }
}

fn log_errors(lines: &[String]) {
    for line in lines {
        error!(target: "kopfd::reload", "{line}");
    }
}

/// Returns a diagnostic in one line.
fn described(diagnostic: &Diagnostic) -> String {
    let Diagnostic { file, line, column, message, hint, .. } = diagnostic;
    let hint = hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    let place = if *line == 0 { file.display().to_string() } else { format!("{}:{line}:{column}", file.display()) };
    format!("{place}: {message}{hint}")
}

/// Logs the end of an operator. Returns whether it has failed.
fn log_end(ended: &Ended<Result<(), ServeError>>) -> bool {
    let name = &ended.name;
    match &ended.result {
        Some(Ok(Ok(()))) => info!(target: "kopfd", "Operator '{name}' has stopped."),
        Some(Ok(Err(failure))) => {
            error!(target: "kopfd", "Operator '{name}' cannot continue: {}", chain(failure));
            if let ServeError::Scripts { problems, .. } = failure {
                for problem in problems {
                    error!(target: "kopfd", "{}", script_problem(problem));
                }
            }
        }
        Some(Err(panic)) => error!(target: "kopfd", "Operator '{name}' has failed because of an internal error: {panic}"),
        None => {}
    }
    !matches!(ended.result, Some(Ok(Ok(()))) | None)
}

fn script_problem(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map(|hint| format!(" (hint: {hint})")).unwrap_or_default();
    format!("{}:{}:{}: {}{hint}", problem.file.display(), problem.line, problem.column, problem.message)
}
