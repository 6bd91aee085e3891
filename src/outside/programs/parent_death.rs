//! Makes the kernel kill a program when the process of the operator dies.
//!
//! Why the `unsafe` here is sound: between `fork` and `exec`, the closure only makes two system calls, which are safe
//! after a fork, and neither allocates nor takes a lock.

use std::io;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use tokio::process::Command;

/// Requests the signal that kills the program when the thread that starts it ends: that thread must live as long as the
/// process.
pub(super) fn kill_with_parent(command: &mut Command) {
    let parent = getpid();
    #[expect(unsafe_code, reason = "the signal must be set in the child, before the program replaces it")]
    // SAFETY: see the documentation of this file.
    unsafe {
        command.pre_exec(move || set_signal(parent));
    }
}

fn set_signal(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}
