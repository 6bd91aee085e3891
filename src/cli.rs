//! The command line: commands, their wording, and their exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | it is done; warnings and hints do not count. An operator was stopped on request |
//! | 1 | there are mistakes in what was given, or the work failed |
//! | 2 | the command was not understood |
//! | 130 | a second signal, or the limit of an exit, has ended the process at once; `dev --once` was interrupted |
//! | 143 | `dev --once` was terminated |

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::manifest::{self, Diagnostic, Operator};
use crate::telemetry;

mod apiserver;
mod check;
mod dev;
mod diagnostics;
mod init;
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
/// Without a command, the operators of the given manifests are run.
#[derive(Debug, Parser)]
#[command(name = "kopfd", version, max_term_width = 100, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: run::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the operators of manifests until a signal comes.
    Run(run::Options),
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
        None => run::run(&cli.run),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Dev(options)) => dev::run(&options),
        Some(Command::Init(options)) => init::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Apiserver(options)) => apiserver::run(&options),
    };
    telemetry::flush(telemetry::AT_END);
    ExitCode::from(code)
}

/// Without a manifest there is nothing to run, and whoever asks for nothing may look for another command.
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        let is_bare = std::env::args_os().len() == 1 && error.kind() == ErrorKind::MissingRequiredArgument;
        if is_bare {
            complain(&format!("without a command, kopfd runs operators, and needs `--config FILE|DIR`.\n\n{}", commands()));
            std::process::exit(i32::from(MISUNDERSTOOD));
        }
        error.exit()
    })
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

/// Returns the operators of manifests that can be run, or nothing after having told what is wrong with them.
fn load(paths: &[PathBuf]) -> Option<Vec<Operator>> {
    let loaded = manifest::load(paths);
    let mut found = loaded.diagnostics;
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
