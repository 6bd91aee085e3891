//! The options of commands that change a cluster, and do not serve it.

use std::path::PathBuf;

use clap::Args;

use crate::cluster::config;

use super::run::LoggingOptions;

/// The cluster and the logging.
#[derive(Debug, Args)]
pub(super) struct ClusterOptions {
    /// The kubeconfig file.
    #[arg(long, env = "KOPFD_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, env = "KOPFD_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Options of logging.
    #[command(flatten)]
    pub logging: LoggingOptions,
}

impl ClusterOptions {
    /// Returns the access to the cluster.
    pub(super) fn access(&self) -> config::Options {
        config::Options {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..config::Options::default()
        }
    }
}
