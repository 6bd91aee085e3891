//! The group of processes of a run: the program and its descendants. It is killed and reaped as a whole.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpgid, waitpid};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};

use super::stragglers;

/// Limit of the wait for the end of killed processes, and the pause between two looks.
const ENDING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// The groups of all running programs, with their private directories.
static RUNNING: Mutex<BTreeMap<i32, String>> = Mutex::new(BTreeMap::new());

/// Kills all running programs and removes their directories, before the process ends without dropping its values.
pub fn end_all() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for (id, directory) in running {
        Pid::from_raw(id).into_iter().for_each(kill);
        stragglers::kill(&directory);
        // A process may write a last file meanwhile: the directory of a process that ends is no failure.
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// A group of processes. Dropping it kills all of them.
pub(super) struct Group {
    leader: Child,
    /// `None` after the leader was reaped: its number may belong to others.
    id: Option<Pid>,
    /// The private directory, by which processes are recognised that have left the group.
    directory: String,
    /// Such processes that were killed already.
    stragglers: Vec<Pid>,
}

impl Group {
    /// Returns the group of a process that has just been started as its leader.
    pub(super) fn of(leader: Child, directory: String) -> Self {
        let id = leader.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(id) = id {
            RUNNING.lock().unwrap_or_else(PoisonError::into_inner).insert(id.as_raw_nonzero().get(), directory.clone());
        }
        Self { leader, id, directory, stragglers: Vec::new() }
    }

    /// Returns the leader.
    pub(super) fn leader(&mut self) -> &mut Child {
        &mut self.leader
    }

    /// Waits until the leader has ended. It stays a zombie, so that its number still means this group.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) async fn leader_ended(&mut self) -> io::Result<()> {
        let Some(id) = self.id else { return self.leader.wait().await.map(drop) };
        // First the signal, so that an end after the look is noticed.
        let mut child_ended = signal(SignalKind::child())?;
        let only_look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(id), only_look)?.is_none() {
            child_ended.recv().await;
        }
        Ok(())
    }

    /// Kills all processes of the group.
    pub(super) fn kill(&self) {
        if let Some(id) = self.id {
            kill(id);
        }
    }

    /// Notes killed processes that have left the group, to reap them.
    pub(super) fn note(&mut self, stragglers: Vec<Pid>) {
        self.stragglers.extend(stragglers);
    }

    /// Kills all processes of the run, and waits for their ends. It blocks the thread, though not for long: nothing
    /// survives the signal.
    pub(super) fn end(mut self) {
        self.kill();
        let until = Instant::now() + ENDING;
        while matches!(self.leader.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(PAUSE);
        }
        self.note(stragglers::kill(&self.directory));
        // If this process is the first one of its container, it inherits the children of processes that have ended.
        if let Some(id) = self.forget() {
            while has_children(id) && Instant::now() < until {
                thread::sleep(PAUSE);
            }
        }
        for id in std::mem::take(&mut self.stragglers) {
            while is_child(id) && Instant::now() < until {
                thread::sleep(PAUSE);
            }
        }
    }

    fn forget(&mut self) -> Option<Pid> {
        let id = self.id.take()?;
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.as_raw_nonzero().get());
        Some(id)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        self.forget();
    }
}

fn kill(id: Pid) {
    // A group without processes is no failure.
    let _ = kill_process_group(id, Signal::KILL);
}

/// Reaps the processes of a group that are children of this process. Tells whether there are others.
fn has_children(id: Pid) -> bool {
    loop {
        match waitpgid(id, WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Reaps a killed process if it is a child of this process. Tells whether it is one, and has not ended yet.
fn is_child(id: Pid) -> bool {
    matches!(waitpid(Some(id), WaitOptions::NOHANG), Ok(None))
}
