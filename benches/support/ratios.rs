//! The measured ratios: stored in `benches/ratios.json`, or compared with the stored ones.
//!
//! Times and rates depend on the machine and its load; the ratio of two programs measured in turn does so much less.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

/// Tolerated deviation from the stored ratio.
const TOLERANCE: f64 = 0.15;

/// The variable that compares ratios, without storing them.
const CHECK: &str = "KOPFD_BENCH_CHECK";

/// The variable for few objects and one round, to try the benchmark itself. Its results are neither stored nor
/// meaningful.
const QUICK: &str = "KOPFD_BENCH_QUICK";

/// Ratios by the names of their figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Ratios {
    /// For example times and memory.
    lower_is_better: BTreeMap<String, f64>,
    /// For example rates.
    higher_is_better: BTreeMap<String, f64>,
}

/// Tells whether this is a quick run.
pub(crate) fn is_quick() -> bool {
    std::env::var_os(QUICK).is_some()
}

/// Returns the number of rounds.
pub(crate) fn rounds() -> usize {
    let chosen = std::env::var("KOPFD_BENCH_ROUNDS").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or(if is_quick() { 1 } else { 3 })
}

/// Returns the number of objects, reduced in quick runs.
pub(crate) fn count(objects: usize) -> usize {
    if is_quick() { objects / 10 } else { objects }
}

impl Ratios {
    pub(crate) fn add_lower(&mut self, figure: impl Into<String>, ratio: f64) {
        self.lower_is_better.insert(figure.into(), round(ratio));
    }

    pub(crate) fn add_higher(&mut self, figure: impl Into<String>, ratio: f64) {
        self.higher_is_better.insert(figure.into(), round(ratio));
    }

    /// Stores the measured ratios and replaces those of the same figures, or compares them. The exit code is a failure
    /// if a ratio has become worse.
    pub(crate) fn finish(self) -> ExitCode {
        if std::env::var_os(CHECK).is_some() {
            return self.check(&Self::stored());
        }
        let path = if is_quick() { PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("ratios.json") } else { path() };
        let mut all = if is_quick() { Self::default() } else { Self::stored() };
        all.lower_is_better.extend(self.lower_is_better);
        all.higher_is_better.extend(self.higher_is_better);
        let text = serde_json::to_string_pretty(&all).expect("numbers can be written");
        fs::write(&path, text + "\n").unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        println!("\nThe ratios are in {}.", path.display());
        ExitCode::SUCCESS
    }

    fn stored() -> Self {
        let path = path();
        let Ok(text) = fs::read_to_string(&path) else { return Self::default() };
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn check(&self, stored: &Self) -> ExitCode {
        let lower = self
            .lower_is_better
            .iter()
            .map(|(figure, found)| (figure, *found, stored.lower_is_better.get(figure), -1.0));
        let higher = self
            .higher_is_better
            .iter()
            .map(|(figure, found)| (figure, *found, stored.higher_is_better.get(figure), 1.0));
        let verdicts: Vec<(String, Verdict)> = lower
            .chain(higher)
            .map(|(figure, found, stored, sign)| judged(figure, found, stored.copied(), sign))
            .collect();
        println!();
        for (line, _) in &verdicts {
            println!("{line}");
        }
        let failed = verdicts.iter().filter(|(_, verdict)| *verdict == Verdict::Failed).count();
        println!("\n{} ratios compared, {failed} failed", verdicts.len());
        if failed == 0 && !verdicts.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
}

/// Returns the line and the verdict for a figure. The sign is that of an improvement.
fn judged(figure: &str, found: f64, stored: Option<f64>, sign: f64) -> (String, Verdict) {
    let Some(stored) = stored else { return (format!("FAILED  {figure}: {found} × is not stored"), Verdict::Failed) };
    let change = found / stored - 1.0;
    let comparison = format!("{figure}: {found} × after {stored} × ({:+.0} %)", change * 100.0);
    if !change.is_finite() || change * sign < -TOLERANCE {
        return (format!("WORSE   {comparison}"), Verdict::Failed);
    }
    let word = if change * sign > TOLERANCE { "better" } else { "ok" };
    (format!("{word:<6}  {comparison}"), Verdict::Passed)
}

fn round(ratio: f64) -> f64 {
    (ratio * 100.0).round() / 100.0
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("benches/ratios.json")
}
