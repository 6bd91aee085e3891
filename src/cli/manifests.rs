//! Which manifests a command is about: named directly, by an option, or by the environment.

use std::path::PathBuf;

use clap::Args;

/// The variable of the environment that names manifests.
const VARIABLE: &str = "KOPFD_CONFIG";

/// The manifests of a command.
#[derive(Debug, Default, Args)]
pub struct Manifests {
    /// Manifests, or directories with manifests.
    #[arg(value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    config: Config,
}

/// The option that names manifests.
#[derive(Debug, Default, Args)]
pub struct Config {
    /// A manifest, or a directory with manifests. May be repeated. [env: KOPFD_CONFIG, separated by commas]
    #[arg(long, short = 'c', value_name = "FILE|DIR", value_delimiter = ',')]
    config: Vec<PathBuf>,
}

impl Manifests {
    /// Returns the manifests; those of the environment count only if the command line names none.
    pub fn paths(&self) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self.files.iter().chain(&self.config.config).cloned().collect();
        if named.is_empty() { of_environment() } else { named }
    }
}

impl From<Config> for Manifests {
    fn from(config: Config) -> Self {
        Self { files: Vec::new(), config }
    }
}

fn of_environment() -> Vec<PathBuf> {
    let value = std::env::var_os(VARIABLE).unwrap_or_default();
    let text = value.to_string_lossy();
    text.split(',').filter(|path| !path.is_empty()).map(PathBuf::from).collect()
}
