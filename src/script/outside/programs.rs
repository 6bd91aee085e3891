//! Programs: what `allow.exec` admits, and the interface that runs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;

use super::files::FilePattern;
use super::glob;

/// The time limit of a program, if the manifest has none.
pub const DEFAULT_TIME: Duration = Duration::from_mins(1);

/// The limit of the bytes of a program's output, if the manifest has none.
pub const DEFAULT_OUTPUT: u64 = 1 << 20;

/// A program that scripts may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedProgram {
    /// The absolute path of its file.
    pub path: PathBuf,
    /// The patterns of its arguments, by position. Without any, it has no arguments.
    pub args: Vec<String>,
    /// The time limit of one run.
    pub time: Duration,
    /// The limit of the bytes that one run may give back: its output, its errors, and its files.
    pub output: u64,
}

impl AllowedProgram {
    /// Checks the arguments of a run.
    ///
    /// # Errors
    /// The reason why the arguments are not allowed.
    pub fn admit(&self, arguments: &[String]) -> Result<(), String> {
        let arguments: Vec<Option<&str>> = arguments.iter().map(|argument| Some(argument.as_str())).collect();
        refusal(&self.args, &arguments).map_or(Ok(()), |refusal| Err(refusal.message))
    }
}

/// The reason why patterns do not admit arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The index of the argument; `None` if one is missing.
    pub index: Option<usize>,
    /// The text. It has no argument in it: they may be secret.
    pub message: String,
}

/// Compares arguments with patterns; an unknown argument matches. Each pattern stands for one argument, and the last
/// one for any further ones, too; if the last one is `*`, it also stands for none. Without patterns there are no
/// arguments.
pub fn refusal(patterns: &[String], arguments: &[Option<&str>]) -> Option<Refusal> {
    let Some(last) = patterns.last() else {
        return (!arguments.is_empty())
            .then(|| Refusal { index: Some(0), message: "the program may have no arguments".to_owned() });
    };
    let least = if last == "*" { patterns.len() - 1 } else { patterns.len() };
    if arguments.len() < least {
        return Some(Refusal {
            index: None,
            message: format!("there must be at least {least} arguments, not {}", arguments.len()),
        });
    }
    let pattern_of = |index: usize| patterns.get(index).unwrap_or(last);
    let is_wrong =
        |index: &usize| arguments[*index].is_some_and(|argument| !glob::matches(pattern_of(*index), argument));
    let index = (0..arguments.len()).find(is_wrong)?;
    Some(Refusal {
        index: Some(index),
        message: format!("the argument number {} must match `{}`", index + 1, pattern_of(index)),
    })
}

/// Runs programs. The caller has checked that the manifest allows them.
pub trait Programs: Send + Sync {
    /// Runs a program to its end.
    ///
    /// *Cancel safety*: if the future is dropped, the program is killed with all processes of its group.
    fn run(&self, request: ProgramRequest) -> BoxFuture<'_, Result<Finished, ProgramError>>;
}

/// One run of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramRequest {
    /// The name in the manifest.
    pub name: String,
    /// The absolute path of its file.
    pub path: PathBuf,
    /// The arguments, without the name of the program.
    pub arguments: Vec<String>,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// The contents of files in its directory, by relative path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The files in its directory that are given back.
    pub outputs: Vec<FilePattern>,
    /// The time limit.
    pub time: Duration,
    /// The limit of the bytes that are given back.
    pub output: usize,
}

/// The end of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code; a negative number is the signal that has ended it, as in Python.
    pub code: i32,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The standard error.
    pub stderr: Vec<u8>,
    /// The requested files, by relative path.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The reason why a program has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProgramError {
    /// The cause.
    pub reason: ProgramFailure,
    /// The text.
    pub message: String,
    /// The beginning of its standard output.
    pub stdout: Vec<u8>,
    /// The beginning of its standard error.
    pub stderr: Vec<u8>,
}

impl ProgramError {
    /// Returns the error of a program without output.
    pub fn new(reason: ProgramFailure, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), stdout: Vec::new(), stderr: Vec::new() }
    }
}

/// The causes of failed runs, as scripts see them in the property `reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramFailure {
    /// It could not be started, or its files could not be written or read.
    Failed,
    /// Its time was over.
    Timeout,
    /// It has written more than it may.
    TooMuchOutput,
    /// No stub of the scenario answers.
    NoStub,
}

impl ProgramFailure {
    /// Returns the name that scripts see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "Failed",
            Self::Timeout => "Timeout",
            Self::TooMuchOutput => "TooMuchOutput",
            Self::NoStub => "NoStub",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(patterns: &[&str], arguments: &[&str]) -> Result<(), String> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let program =
            AllowedProgram { path: "/bin/x".into(), args: owned(patterns), time: DEFAULT_TIME, output: DEFAULT_OUTPUT };
        program.admit(&owned(arguments))
    }

    #[test]
    fn arguments_are_admitted_by_position() {
        let helm = ["upgrade", "--install", "*"];
        assert_eq!(admit(&helm, &["upgrade", "--install", "shop", "./chart", "--wait"]), Ok(()));
        assert_eq!(admit(&helm, &["upgrade", "--install"]), Ok(()));
        assert_eq!(admit(&helm, &["upgrade"]), Err("there must be at least 2 arguments, not 1".to_owned()));
        assert_eq!(admit(&helm, &["uninstall", "shop"]), Err("the argument number 1 must match `upgrade`".to_owned()));
        assert_eq!(
            admit(&helm, &["upgrade", "shop", "--install"]),
            Err("the argument number 2 must match `--install`".to_owned())
        );
    }

    #[test]
    fn the_last_pattern_repeats() {
        assert_eq!(admit(&["get", "*.yaml"], &["get", "a.yaml", "b.yaml"]), Ok(()));
        assert_eq!(
            admit(&["get", "*.yaml"], &["get", "a.yaml", "b"]),
            Err("the argument number 3 must match `*.yaml`".to_owned())
        );
        assert!(admit(&["get", "*.yaml"], &["get"]).is_err());
        assert_eq!(admit(&["*"], &[]), Ok(()));
    }

    #[test]
    fn without_patterns_there_are_no_arguments() {
        assert_eq!(admit(&[], &[]), Ok(()));
        assert_eq!(admit(&[], &[""]), Err("the program may have no arguments".to_owned()));
    }
}
