//! `kopfd check`: reports all errors of manifests and scripts.

mod resources;
mod secrets;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::manifest::{self, Loaded, Operator, Severity};

use super::manifests::Manifests;
use super::{diagnostics, exit_code};
use crate::kit::counted;

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Defaults to the current directory.
    #[command(flatten)]
    manifests: Manifests,

    /// The output format.
    #[arg(long, short, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// For people: each diagnostic with its source line.
    Text,
    /// For editors and pipelines: one JSON document with all diagnostics.
    Json,
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let mut paths = options.manifests.paths();
    if paths.is_empty() {
        paths.push(PathBuf::from("."));
    }
    let mut loaded = manifest::load(&paths);
    loaded.diagnostics.extend(loaded.operators.iter().filter_map(|operator| operator.missing_server.clone()));
    let unknown = resources::check(&loaded.operators);
    // Hints are not worth reading before the errors are fixed.
    loaded.diagnostics.extend(unknown.iter().filter(|one| one.severity == Severity::Warning).cloned());
    if !loaded.has_errors() {
        loaded.diagnostics.extend(unknown.into_iter().filter(|one| one.severity == Severity::Hint));
        loaded.diagnostics.extend(secrets::check(&loaded.operators));
        loaded.diagnostics.extend(loaded.operators.iter().flat_map(Operator::warn_of_unsupported));
    }
    let text = match options.output {
        Output::Text => format!("{}{}\n", diagnostics::render(&loaded.diagnostics), summary(&loaded)),
        Output::Json => diagnostics::document(&loaded.diagnostics),
    };
    let mut stdout = anstream::stdout().lock();
    // A closed standard output, as with `head`, is not an error.
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
    if loaded.has_errors() { exit_code::FAILURE } else { exit_code::SUCCESS }
}

fn summary(loaded: &Loaded) -> String {
    let count = |severity: Severity| loaded.diagnostics.iter().filter(|one| one.severity == severity).count();
    let counts = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Hint, "hint")];
    let parts: Vec<String> = counts
        .into_iter()
        .map(|(severity, word)| (count(severity), word))
        .filter(|(number, _)| *number > 0)
        .map(|(number, word)| counted(number, word))
        .collect();
    let mut seen = BTreeSet::new();
    let named = loaded.operators.iter().map(|operator| operator.name.as_str());
    let names: Vec<&str> = named.filter(|name| !name.is_empty() && seen.insert(*name)).collect();
    match (parts.is_empty(), names.is_empty()) {
        (true, _) => format!("no errors in {}", names.join(", ")),
        (false, true) => parts.join(", "),
        (false, false) => format!("{} in {}", parts.join(", "), names.join(", ")),
    }
}
