//! The manifests of a command: named as arguments, by an option, or by the environment.

use std::path::PathBuf;

use clap::Args;

use crate::manifest::{self, Diagnostic, Operator};

use super::{diagnostics, output};

/// The environment variable that names manifests.
const VARIABLE: &str = "KOPFD_CONFIG";

/// The manifests of a command.
#[derive(Debug, Default, Args)]
pub(super) struct Manifests {
    /// Manifests, or directories with manifests.
    #[arg(value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: Config,
}

/// The option that names manifests.
#[derive(Debug, Default, Args)]
pub(super) struct Config {
    /// A manifest, or a directory with manifests. May be repeated. [env: KOPFD_CONFIG, separated by commas]
    #[arg(long, short = 'c', value_name = "FILE|DIR", value_delimiter = ',')]
    config: Vec<PathBuf>,
}

impl Manifests {
    /// Returns the manifests. The environment is used only if the command line names none.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self.files.iter().chain(&self.config.config).cloned().collect();
        if named.is_empty() { from_environment() } else { named }
    }

    /// Returns the manifests of a command that needs at least one, or reports that they are missing.
    pub(super) fn required(&self, command: &str) -> Option<Vec<PathBuf>> {
        let paths = self.paths();
        if paths.is_empty() {
            output::print_error(&format!(
                "a manifest is needed: `kopfd {command} operator.yaml`, or KOPFD_CONFIG in the environment"
            ));
            return None;
        }
        Some(paths)
    }
}

impl From<Config> for Manifests {
    fn from(config: Config) -> Self {
        Self { files: Vec::new(), config }
    }
}

fn from_environment() -> Vec<PathBuf> {
    let value = std::env::var_os(VARIABLE).unwrap_or_default();
    let text = value.to_string_lossy();
    text.split(',').filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}

/// The kind of API server that the operators use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A cluster: its API server must be able to reach the webhooks.
    Cluster,
    /// The embedded API server, which can always reach the webhooks.
    Embedded,
}

/// Loads the operators, prints all diagnostics, and returns the operators if there are no errors.
pub(super) fn load(paths: &[PathBuf], target: Target) -> Option<Vec<Operator>> {
    let (operators, found) = check(paths, target);
    diagnostics::print(&found);
    operators
}

/// Loads the operators. Returns them if there are no errors, and all diagnostics.
pub(super) fn check(paths: &[PathBuf], target: Target) -> (Option<Vec<Operator>>, Vec<Diagnostic>) {
    let loaded = manifest::load(paths);
    let mut found = loaded.diagnostics;
    if target == Target::Cluster {
        found.extend(loaded.operators.iter().filter_map(|operator| operator.missing_server.clone()));
    }
    if !found.iter().any(Diagnostic::is_error) {
        found.extend(loaded.operators.iter().flat_map(Operator::refuse_unsupported));
    }
    let is_sound = !found.iter().any(Diagnostic::is_error);
    (is_sound.then_some(loaded.operators), found)
}
