//! Starts programs on one thread that lives as long as the process: the kernel kills a program when the thread ends
//! that has started it.

use std::io;
use std::process::Stdio;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::group::Group;
use crate::script::outside::programs::ProgramRequest;

struct Job {
    command: Command,
    runtime: Handle,
    directory: String,
    reply: oneshot::Sender<io::Result<Group>>,
}

/// The thread, once it is needed.
static THREAD: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);

/// Starts a program in a directory, as the leader of a new group of processes.
///
/// *Cancel safety*: a program that was started for nothing is killed.
///
/// # Errors
/// Those of the system.
pub(super) async fn spawn(request: &ProgramRequest, directory: &str) -> io::Result<Group> {
    let command = command_of(request, directory);
    let (reply, started) = oneshot::channel();
    send(Job { command, runtime: Handle::current(), directory: directory.to_owned(), reply })?;
    started.await.unwrap_or_else(|_| Err(io::Error::other("the thread that starts programs has ended")))
}

fn command_of(request: &ProgramRequest, directory: &str) -> Command {
    let mut command = Command::new(&request.path);
    command.args(&request.arguments).current_dir(directory).process_group(0).kill_on_drop(true);
    // Programs keep their state and temporary files in these two.
    command.env_clear().env("HOME", directory).env("TMPDIR", directory).envs(&request.environment);
    let stdin = if request.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(target_os = "linux")]
    super::parent_death::kill_with_parent(&mut command);
    command
}

fn send(job: Job) -> io::Result<()> {
    let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
    if thread.is_none() {
        let (sender, jobs) = mpsc::channel();
        thread::Builder::new().name("programs".to_owned()).spawn(move || jobs.into_iter().for_each(start))?;
        *thread = Some(sender);
    }
    let sent = thread.as_ref().and_then(|jobs| jobs.send(job).ok());
    sent.ok_or_else(|| io::Error::other("the thread that starts programs has ended"))
}

fn start(job: Job) {
    let Job { mut command, runtime, directory, reply } = job;
    let _runtime = runtime.enter();
    let started = command.spawn().map(|leader| Group::of(leader, directory));
    // Without a receiver, the group is dropped, which kills it.
    drop(reply.send(started));
}
