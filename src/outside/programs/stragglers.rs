//! Processes of a run that have left its group, as daemons do by `setsid`. They are recognised by the private directory
//! in their environment, which they inherit unless they replace it.

use rustix::process::Pid;

/// Limit of the searches among all processes: one may start others while it is being looked for.
#[cfg(target_os = "linux")]
const LOOKS: usize = 10;

/// Kills all processes that have the directory in their environment, and returns them.
#[cfg(target_os = "linux")]
pub(super) fn kill(directory: &str) -> Vec<Pid> {
    let mut killed = Vec::new();
    for _ in 0..LOOKS {
        let found: Vec<Pid> = processes().filter(|id| kill_if_of(directory, *id)).collect();
        if found.iter().all(|id| killed.contains(id)) {
            break;
        }
        killed.extend(found);
    }
    killed
}

/// Returns all processes.
#[cfg(target_os = "linux")]
fn processes() -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().and_then(Pid::from_raw))
}

/// Kills a process if it has the directory in its environment.
#[cfg(target_os = "linux")]
fn kill_if_of(directory: &str, id: Pid) -> bool {
    use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    // First the descriptor, so that the killed process is the checked one.
    let Ok(process) = pidfd_open(id, PidfdFlags::empty()) else { return false };
    let Ok(environment) = std::fs::read(format!("/proc/{id}/environ")) else { return false };
    let is_of_run = memchr::memmem::find(&environment, directory.as_bytes()).is_some();
    is_of_run && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

/// Other systems do not show the environment of processes.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_: &str) -> Vec<Pid> {
    Vec::new()
}
