//! The command line: commands, their wording, and their exit codes.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | it is done; warnings and hints do not count |
//! | 1 | there are mistakes in what was given, or the work failed |
//! | 2 | the command was not understood |

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod check;
mod diagnostics;

/// The work is done.
pub const DONE: u8 = 0;
/// There are mistakes in what was given, or the work failed.
pub const FAILED: u8 = 1;

/// A Kubernetes operator engine: a YAML manifest and a few Rhai scripts, run with the semantics of kopf.
#[derive(Debug, Parser)]
#[command(name = "kopfd", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check manifests and their scripts, and tell all mistakes at once.
    Check(check::Options),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let code = match cli.command {
        Command::Check(options) => check::run(&options),
    };
    ExitCode::from(code)
}
