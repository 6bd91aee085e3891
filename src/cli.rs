//! The command line: commands, their wording, and their exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | it is done; warnings and hints do not count. An operator was stopped on request |
//! | 1 | there are mistakes in what was given, or the work failed |
//! | 2 | the command was not understood |
//! | 130 | a second signal, or the limit of an exit, has ended the process at once; `dev --once` was interrupted |
//! | 143 | `dev --once` was terminated |

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::manifest::{self, Diagnostic, Operator};
use crate::telemetry;

use manifests::{Config, Manifests};

mod apiserver;
mod check;
mod dev;
mod diagnostics;
mod init;
mod manifests;
mod run;
mod test;

/// The work is done.
pub const DONE: u8 = 0;
/// There are mistakes in what was given, or the work failed.
pub const FAILED: u8 = 1;
/// The command was not understood.
pub const MISUNDERSTOOD: u8 = 2;
/// The process was ended at once.
pub const ENDED_AT_ONCE: u8 = 130;
/// The process was terminated before its work was done.
pub const TERMINATED: u8 = 143;

/// A Kubernetes operator engine: a YAML manifest and a few Rhai scripts, run with the semantics of kopf.
///
/// Without a command, the operators of the manifests of `--config` are run.
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

/// What people do first.
const EXAMPLES: &str = "\
Examples:
  kopfd init my-operator                          make a small operator
  kopfd dev operator.yaml --apply object.yaml     run it on the embedded API server
  kopfd run operator.yaml --namespace 'prod-*'    run it on the cluster of your kubeconfig";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operators of manifests until a signal comes.
    Run(run::Command),
    /// Try operators on the embedded API server, with an account of what they do.
    Dev(dev::Options),
    /// Make a small operator to begin with.
    Init(init::Options),
    /// Run scenarios: files that say what happens to an operator, and what is expected of it.
    Test(test::Options),
    /// Check manifests and their scripts, and tell all mistakes at once.
    Check(check::Options),
    /// Run the embedded API server alone, for kubectl and others to try things on.
    Apiserver(apiserver::Options),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = parse();
    let code = match cli.command {
        None => run::run(&cli.config.into(), &cli.options),
        Some(Command::Run(command)) => run::run(&command.manifests, &command.options),
        Some(Command::Dev(options)) => dev::run(&options),
        Some(Command::Init(options)) => init::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Apiserver(options)) => apiserver::run(&options),
    };
    telemetry::flush(telemetry::AT_END);
    ExitCode::from(code)
}

/// `kopfd operator.yaml` is `kopfd run operator.yaml`, unless that is the name of a command.
fn parse() -> Cli {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| is_manifest(first)) {
        arguments.insert(1, "run".into());
    }
    Cli::parse_from(arguments)
}

fn is_manifest(argument: &OsStr) -> bool {
    let text = argument.to_string_lossy();
    let is_command = Cli::command().get_subcommands().any(|command| command.get_name() == text) || text == "help";
    !is_command && !text.starts_with('-') && (text.ends_with(".yaml") || text.ends_with(".yml") || Path::new(argument).exists())
}

/// Returns the manifests of a command that needs some. Without any, it says what is missing.
fn named(manifests: &Manifests, command: &str) -> Option<Vec<PathBuf>> {
    let paths = manifests.paths();
    if !paths.is_empty() {
        return Some(paths);
    }
    if std::env::args_os().len() == 1 {
        complain(&format!("without a command, kopfd runs operators, and needs `--config FILE|DIR`.\n\n{}", commands()));
    } else {
        complain(&format!("a manifest is needed: `kopfd {command} operator.yaml`, or KOPFD_CONFIG in the environment"));
    }
    None
}

fn commands() -> String {
    let all = Cli::command();
    let lines = all.get_subcommands().filter(|command| command.get_name() != "help").map(|command| {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        format!("  {:<11}{about}\n", command.get_name())
    });
    format!("Commands:\n{}\nMore is told by `kopfd --help`.", lines.collect::<String>())
}

/// Returns a number with its noun.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a list as people write it: `a`, `a and b`, `a, b and c`.
fn enumerated(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Returns a text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Where operators are to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// A cluster, whose API server must reach the webhooks.
    Cluster,
    /// The embedded API server, which reaches them anyway.
    Embedded,
}

/// Returns the operators of manifests that can be run, or nothing after having told what is wrong with them.
fn load(paths: &[PathBuf], target: Target) -> Option<Vec<Operator>> {
    let loaded = manifest::load(paths);
    let mut found = loaded.diagnostics;
    if target == Target::Cluster {
        found.extend(loaded.operators.iter().filter_map(|operator| operator.missing_server.clone()));
    }
    if !found.iter().any(Diagnostic::is_error) {
        found.extend(loaded.operators.iter().flat_map(Operator::refuse_unsupported));
    }
    diagnostics::print(&found);
    (!found.iter().any(Diagnostic::is_error)).then_some(loaded.operators)
}

/// Tells a problem of the command itself.
fn complain(problem: &str) {
    telemetry::write(&format!("error: {problem}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_like_a_sentence() {
        let listed = |text: &str| enumerated(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!([listed("a"), listed("a b"), listed("a b c")], ["a", "a and b", "a, b and c"]);
    }

    #[test]
    fn a_path_with_blanks_is_one_word_of_a_shell() {
        assert_eq!([quoted("/a/b.c"), quoted("/a b"), quoted("it's")], ["/a/b.c", "'/a b'", r"'it'\''s'"]);
    }
}
