//! The command line: commands, error messages and exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | success, also with warnings and hints; the operator was stopped on request |
//! | 1 | the input has errors, or the work failed |
//! | 2 | invalid command line |
//! | 130 | the process was ended at once by a second signal or by the exit timeout; `dev --once` was interrupted |
//! | 143 | `dev --once` was terminated |

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::outside;
use crate::telemetry;

use manifests::{Config, Manifests};

mod apiserver;
mod check;
mod cluster_options;
mod definitions;
mod dev;
mod diagnostics;
mod exit_code;
mod files;
mod fleet;
mod freeze;
mod init;
mod manifests;
mod memory;
mod output;
mod package;
mod peering;
mod rbac;
mod replicas;
mod run;
mod runtime;
mod status;
mod test;
mod uninstall;
mod variables;

pub use memory::Heap;

/// A Kubernetes operator engine: a YAML manifest and a few Rhai scripts, run with the semantics of kopf.
///
/// Without a command, kopfd runs the operators of the manifests of `--config`.
#[derive(Debug, Parser)]
#[command(name = "kopfd", version, max_term_width = 100, args_conflicts_with_subcommands = true, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    config: Config,
    #[command(flatten)]
    options: run::Options,
}

/// The first commands that a new user needs.
const EXAMPLES: &str = "\
Examples:
  kopfd init my-operator                          create a small operator
  kopfd dev operator.yaml --apply object.yaml     run it on the embedded API server
  kopfd run operator.yaml --namespace 'prod-*'    run it on the cluster of your kubeconfig";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operators of manifests until a signal arrives.
    Run(run::Command),
    /// Run operators on the embedded API server and show what they do.
    Dev(dev::Options),
    /// Show the state of running operators.
    Status(status::Options),
    /// Pause the operators of a peering for some time.
    Freeze(freeze::FreezeOptions),
    /// Let the operators of a peering go on after `freeze`.
    Resume(freeze::ResumeOptions),
    /// Create a small example operator.
    Init(init::Options),
    /// Run scenario tests on the embedded API server in virtual time.
    Test(test::Options),
    /// Check manifests and scripts, and report all errors at once.
    Check(check::Options),
    /// Print the service account, the roles and the bindings that operators need.
    Rbac(rbac::Options),
    /// Write the documents that bring operators into a cluster: for kubectl, kustomize or Helm.
    Package(package::Options),
    /// Take operators out of a cluster, and free the objects that they hold.
    Uninstall(uninstall::Options),
    /// Run the embedded API server alone, for kubectl and other clients.
    Apiserver(apiserver::Options),
}

/// Runs the command of this process.
pub fn main() -> ExitCode {
    let cli = parse();
    let code = match cli.command {
        None => run_without_command(&cli.config.into(), &cli.options),
        Some(Command::Run(command)) => run::run(&command.manifests, &command.options),
        Some(Command::Dev(options)) => dev::run(&options),
        Some(Command::Status(options)) => status::run(&options),
        Some(Command::Freeze(options)) => freeze::freeze(&options),
        Some(Command::Resume(options)) => freeze::resume(&options),
        Some(Command::Init(options)) => init::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Rbac(options)) => rbac::run(&options),
        Some(Command::Package(options)) => package::run(&options),
        Some(Command::Uninstall(options)) => uninstall::run(&options),
        Some(Command::Apiserver(options)) => apiserver::run(&options),
    };
    outside::end_all();
    telemetry::flush(telemetry::AT_END);
    ExitCode::from(code)
}

/// `kopfd operator.yaml` is `kopfd run operator.yaml`, unless that is the name of a command.
fn parse() -> Cli {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| is_manifest(first)) {
        arguments.insert(1, "run".into());
    }
    let mut command = variables::adapted(Cli::command());
    let parsed = command.try_get_matches_from_mut(arguments).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.unwrap_or_else(|error| error.format(&mut command).exit())
}

fn is_manifest(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    let is_command = Cli::command().get_subcommands().any(|command| command.get_name() == text) || text == "help";
    !is_command
        && !text.starts_with('-')
        && (text.ends_with(".yaml") || text.ends_with(".yml") || Path::new(argument).exists())
}

/// A user who only types `kopfd` wants to know what it can do.
fn run_without_command(manifests: &Manifests, options: &run::Options) -> u8 {
    if std::env::args_os().len() == 1 && manifests.paths().is_empty() {
        let problem = "without a command, kopfd runs operators, and needs `--config FILE|DIR`.";
        telemetry::write(&format!("error: {problem}\n\n{}\n", commands()));
        return exit_code::USAGE_ERROR;
    }
    run::run(manifests, options)
}

fn commands() -> String {
    let all = Cli::command();
    let lines = all.get_subcommands().filter(|command| command.get_name() != "help").map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<11}{about}\n", command.get_name())
    });
    format!("Commands:\n{}\nSee `kopfd --help` for more.", lines.collect::<String>())
}
