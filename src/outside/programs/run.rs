//! One run of a program, from its directory to the end of its last process.

use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::directory::Directory;
use super::group::Group;
use super::output::{End, Output, Pipes};
use super::{spawn, stragglers};
use crate::script::outside::files::{FileError, FileFailure};
use crate::script::outside::programs::{Finished, ProgramError, ProgramFailure, ProgramRequest};

/// How long the rest of the output is read after the program and its group have ended, before processes that have left
/// the group are looked for.
const FIRST_DRAIN: Duration = Duration::from_millis(200);

/// How long it is read after those were killed, too.
const LAST_DRAIN: Duration = Duration::from_secs(2);

/// The resources of a run. Dropping them ends it: its processes are killed, and its directory is removed.
struct Running {
    /// `None` only while it is being dropped.
    parts: Option<(Group, Directory)>,
    place: Option<OwnedSemaphorePermit>,
}

impl Running {
    fn group(&mut self) -> &mut Group {
        &mut self.parts.as_mut().expect("the parts are there until the end").0
    }

    /// Takes everything, and returns the blocking work that ends it. Before the directory is removed, files can be read
    /// in it.
    fn take<T: 'static>(
        &mut self,
        read: impl FnOnce(&Directory) -> T + Send + 'static,
    ) -> Option<Box<dyn FnOnce() -> T + Send>> {
        let (group, directory) = self.parts.take()?;
        let place = self.place.take();
        Some(Box::new(move || {
            group.end();
            let found = read(&directory);
            directory.remove();
            drop(place);
            found
        }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // At once: the threads for blocking work may be busy.
        if let Some((group, _)) = &self.parts {
            group.kill();
        }
        if let Some(end) = self.take(|_| ()) {
            match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(end)),
                Err(_) => end(),
            }
        }
    }
}

/// Runs a program in one of the places.
///
/// *Cancel safety*: dropping the future kills the program and its descendants.
///
/// # Errors
/// If it cannot be started, or exceeds its limits.
pub(super) async fn run(mut request: ProgramRequest, place: OwnedSemaphorePermit) -> Result<Finished, ProgramError> {
    let files = std::mem::take(&mut request.files);
    let created = blocking(move || Directory::create(&files)).await?;
    let directory =
        created.map_err(|error| failed(format!("the directory of {} cannot be made: {error}", request.name)))?;
    let path = directory.path();
    let started = spawn::spawn(&request, &path).await;
    let group = started.map_err(|error| failed(format!("{} cannot be started: {error}", request.path.display())))?;
    let mut running = Running { parts: Some((group, directory)), place: Some(place) };
    let (mut output, input) = (Output::default(), std::mem::take(&mut request.stdin));
    let too_late = |_| {
        let message =
            format!("{} has not ended within {} seconds, and is killed", request.name, request.time.as_secs_f64());
        ProgramError::new(ProgramFailure::Timeout, message)
    };
    let communicated = timeout(request.time, communicate(running.group(), &mut output, input, &request, &path)).await;
    let ended = communicated.map_err(too_late).flatten();
    let (patterns, left) = (if ended.is_ok() { request.outputs } else { Vec::new() }, request.output - output.len());
    let end =
        running.take(move |directory| directory.outputs(&patterns, left)).expect("the parts are there until the end");
    let found = blocking(end).await?;
    let ended =
        ended.and_then(|code| found.map(|files| (code, files)).map_err(|error| unreadable(&request.name, error)));
    let Output { stdout, stderr } = output;
    match ended {
        Ok((code, files)) => Ok(Finished { code, stdout, stderr, files }),
        Err(error) => Err(ProgramError { stdout, stderr, ..error }),
    }
}

/// Writes the input and reads the output, both at once, until the program has ended. Returns its exit code.
async fn communicate(
    group: &mut Group,
    output: &mut Output,
    input: Vec<u8>,
    request: &ProgramRequest,
    directory: &str,
) -> Result<i32, ProgramError> {
    let leader = group.leader();
    let stdin = leader.stdin.take();
    let mut pipes = Pipes { stdout: leader.stdout.take(), stderr: leader.stderr.take() };
    let (name, limit) = (request.name.clone(), request.output);
    let lost = |error: std::io::Error| {
        ProgramError::new(ProgramFailure::Failed, format!("{name} cannot be waited for: {error}"))
    };
    let judge = |end: std::io::Result<End>| match end {
        Ok(End::Closed) => Ok(()),
        Ok(End::Limit) => Err(too_much(&name, limit)),
        Err(error) => Err(lost(error)),
    };
    {
        let write = feed(stdin, input);
        let ended = group.leader_ended();
        tokio::pin!(write, ended);
        let (mut is_written, mut is_read) = (false, false);
        loop {
            tokio::select! {
                biased;
                end = output.read(&mut pipes, limit), if !is_read => {
                    judge(end)?;
                    is_read = true;
                }
                () = &mut write, if !is_written => is_written = true,
                ended = &mut ended => break ended.map_err(lost)?,
            }
        }
    }
    // Descendants of the program end with it, and cannot keep the pipes open.
    group.kill();
    let mut drained = timeout(FIRST_DRAIN, output.read(&mut pipes, limit)).await;
    if drained.is_err() {
        let directory = directory.to_owned();
        group.note(blocking(move || stragglers::kill(&directory)).await?);
        drained = timeout(LAST_DRAIN, output.read(&mut pipes, limit)).await;
    }
    if let Ok(end) = drained {
        judge(end)?;
    }
    let status = group.leader().wait().await.map_err(lost)?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    Ok(status.code().or(signal.map(|signal| -signal)).unwrap_or(-1))
}

/// Writes the standard input. A program may end without reading it.
async fn feed(stdin: Option<ChildStdin>, bytes: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(&bytes).await;
    }
}

fn unreadable(name: &str, error: FileError) -> ProgramError {
    let reason =
        if error.reason == FileFailure::TooLarge { ProgramFailure::TooMuchOutput } else { ProgramFailure::Failed };
    ProgramError::new(reason, format!("{name} has ended, but {}", error.message))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ProgramError> {
    spawn_blocking(work).await.map_err(|_| failed("the process of the operator ends".to_owned()))
}

fn failed(message: String) -> ProgramError {
    ProgramError::new(ProgramFailure::Failed, message)
}

fn too_much(name: &str, limit: usize) -> ProgramError {
    ProgramError::new(
        ProgramFailure::TooMuchOutput,
        format!("{name} has written more than {limit} bytes, and is killed"),
    )
}
