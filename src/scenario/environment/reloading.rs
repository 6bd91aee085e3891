//! Reloads changed files of the operators.

use std::sync::Arc;

use crate::kit::errors::chain;
use crate::manifest::Operator;
use crate::reactor::precedence::Precedence;
use crate::reactor::reload::{RETRY_PAUSE, ReloadError, Reloaded, Reloader};

use super::super::revised_files::{FileChanges, RevisedFiles};
use super::{Environment, rights};

impl Environment {
    /// Changes files of the operators, and reloads them. In disturbed runs, that happens at a random moment.
    ///
    /// # Errors
    /// If the files have errors and should have none, or the other way round.
    pub(crate) async fn reload(&self, changes: &FileChanges, is_refused: bool) -> Result<(), String> {
        if let Some(chaos) = &self.chaos {
            tokio::time::sleep(chaos.downtime()).await;
        }
        let loaded = self.change_files(changes)?;
        let operators = match (loaded, is_refused) {
            (Ok(operators), _) => operators,
            (Err(text), true) => {
                self.record(format!("the files have errors: {text}"));
                return Ok(());
            }
            (Err(text), false) => return Err(text),
        };
        let names = |operators: &[Operator]| operators.iter().map(|operator| operator.name.clone()).collect::<Vec<_>>();
        if names(&operators) != names(&self.operators()) {
            return Err("a reload in a scenario cannot add, remove or rename operators".to_owned());
        }
        self.invariants.files_changed(&operators);
        *self.operators.lock() = Arc::new(operators.clone());
        self.grant(&operators).await?;
        // A killed operator starts with the new files.
        let reloaders = self.run.lock().await.as_ref().map(|run| run.reloaders.clone()).unwrap_or_default();
        let precedence = Precedence::of(&operators);
        let mut has_refused = false;
        for (operator, (name, reloader)) in operators.into_iter().zip(reloaders) {
            let is_repeated = self.chaos.is_some() && !is_refused;
            match reload_one(&reloader, &operator, precedence.before(&name), is_repeated).await {
                Ok(Reloaded::Unchanged) | Err(ReloadError::Ended) => {}
                Ok(Reloaded::Changed(_)) => self.record(format!("operator {name} is reloaded")),
                Ok(Reloaded::OnTrial(_)) => {
                    self.record(format!("operator {name} tries the new revision on a share of the objects"));
                }
                Err(ReloadError::Starting) => return self.start_anew().await,
                Err(failure) if is_refused => {
                    has_refused = true;
                    self.record(format!("operator {name} is not reloaded: {}", chain(&failure)));
                }
                Err(failure) => return Err(format!("operator {name} is not reloaded: {}", chain(&failure))),
            }
        }
        // A disturbed operator may have been killed meanwhile.
        if is_refused && !has_refused && self.chaos.is_none() {
            return Err("the files have taken effect, but should be refused".to_owned());
        }
        Ok(())
    }

    /// Operators that have not started yet start anew with changed files.
    async fn start_anew(&self) -> Result<(), String> {
        let _guard = self.lock_transition().await;
        self.record("the operator is still starting, and starts anew with the changed files".to_owned());
        if let Some(run) = self.run.lock().await.take() {
            self.end(run).await;
        }
        self.start().await
    }

    /// Grants the operators the derived rights, if they have only these.
    pub(super) async fn grant(&self, operators: &[Operator]) -> Result<(), String> {
        if self.scenario.has_derived_rights {
            rights::grant(&self.api, operators, &self.scenario).await
        } else {
            Ok(())
        }
    }

    /// Changes files. The inner result has the operators, or their first mistake.
    fn change_files(&self, changes: &FileChanges) -> Result<Result<Vec<Operator>, String>, String> {
        let mut files = self.files.lock();
        if files.is_none() {
            *files = Some(RevisedFiles::copy(&self.scenario.operators)?);
        }
        Ok(files.as_ref().map_or_else(|| Ok(Vec::new()), |files| files.change(changes)))
    }
}

/// Reloads an operator. Disturbances may prevent that its indexes are filled: as in a process, that is tried again.
async fn reload_one(
    reloader: &Reloader,
    operator: &Operator,
    earlier: Precedence,
    is_repeated: bool,
) -> Result<Reloaded, ReloadError> {
    loop {
        let reloaded = reloader.reload(operator.clone(), earlier.clone()).await;
        if !is_repeated || !matches!(reloaded, Err(ReloadError::Index { .. })) {
            return reloaded;
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}
