//! The command line: commands, their wording, and their exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | it is done; warnings and hints do not count. An operator was stopped on request |
//! | 1 | there are mistakes in what was given, or the work failed |
//! | 2 | the command was not understood |
//! | 130 | a second signal, or the limit of an exit, has ended the process at once |

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    let cli = Cli::parse();
    let code = match cli.command {
        None => run::run(&cli.run),
        Some(Command::Run(options)) => run::run(&options),
        Some(Command::Dev(options)) => dev::run(&options),
        Some(Command::Init(options)) => init::run(&options),
        Some(Command::Test(options)) => test::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Apiserver(options)) => apiserver::run(&options),
    };
    ExitCode::from(code)
}

/// Returns a number with its noun.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Tells a problem of the command itself.
fn complain(problem: &str) {
    let mut stderr = anstream::stderr().lock();
    // There is nobody left to tell that the stream for telling is broken.
    drop(writeln!(stderr, "error: {problem}"));
}
