//! The contents of reports of scenarios, in any form.

use std::sync::Arc;

use crate::scenario::{Outcome, Scenario};

use super::super::output::quoted;

/// The content of a report.
pub(super) struct Report<'a> {
    pub outcomes: &'a [Outcome],
    /// The first seed, for the command that repeats a run.
    pub seed: u64,
    /// Number of seeds of each scenario.
    pub seeds: Option<u64>,
    /// Whether timelines of passed scenarios are shown.
    pub is_verbose: bool,
}

/// The seeds with which a scenario failed.
pub(super) struct FailedSeeds<'a> {
    pub scenario: &'a Arc<Scenario>,
    pub seeds: Vec<u64>,
    /// Number of seeds that were skipped because enough had failed.
    pub not_run: u64,
}

impl Report<'_> {
    /// Returns the scenarios that failed with some seeds.
    pub(super) fn failed_seeds(&self) -> Vec<FailedSeeds<'_>> {
        let Some(wanted) = self.seeds else { return Vec::new() };
        let mut found: Vec<FailedSeeds<'_>> = Vec::new();
        for outcome in self.outcomes {
            let (scenario, Some(seed)) = (&outcome.job.scenario, outcome.job.seed) else { continue };
            if !found.last().is_some_and(|last| Arc::ptr_eq(last.scenario, scenario)) {
                found.push(FailedSeeds { scenario, seeds: Vec::new(), not_run: wanted });
            }
            let Some(last) = found.last_mut() else { continue };
            last.not_run -= 1;
            last.seeds.extend((!outcome.failures.is_empty()).then_some(seed));
        }
        found.retain(|failed| !failed.seeds.is_empty());
        found
    }
}

/// Returns the command that repeats a run.
pub(super) fn rerun_command(outcome: &Outcome, report: &Report<'_>) -> String {
    let scenario = &outcome.job.scenario;
    let path = quoted(&scenario.file().display().to_string());
    let name = quoted(&scenario.name);
    match outcome.job.seed {
        Some(seed) => format!("kopfd test {path} --filter {name} --seeds 1 --seed {seed}"),
        None if report.seed != 0 => format!("kopfd test {path} --filter {name} --seed {}", report.seed),
        None => format!("kopfd test {path} --filter {name}"),
    }
}
