//! Measures processes: their CPU time and their memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Returns the measured binary: that of `KOPFD_CLUSTER_BINARY`, or the one that was built with the benchmark.
pub(crate) fn kopfd() -> PathBuf {
    std::env::var_os("KOPFD_CLUSTER_BINARY").map_or_else(|| env!("CARGO_BIN_EXE_kopfd").into(), PathBuf::from)
}

/// A started program. It is killed when this is dropped.
pub(crate) struct Program(Child);

impl Program {
    /// Starts a program with its output in a file.
    pub(crate) fn start(command: &mut Command, log: &Path) -> Self {
        let log = fs::File::create(log).expect("the log can be written");
        let errors = log.try_clone().expect("the log can be written twice");
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        Self(child.unwrap_or_else(|error| panic!("cannot start {}: {error}", command.get_program().display())))
    }

    /// Returns the CPU time of the program, in user mode and in the kernel.
    pub(crate) fn cpu(&self) -> Duration {
        cpu(self.0.id())
    }

    /// Returns the program's resident memory in bytes, including files.
    pub(crate) fn resident(&self) -> u64 {
        resident(self.0.id())
    }

    /// Returns the number of the program's threads.
    #[allow(dead_code, reason = "not every benchmark counts them")]
    pub(crate) fn threads(&self) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.0.id())).expect("the program runs").count()
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Stops the program, and waits for its end.
    pub(crate) fn stop(&mut self) {
        let status = Command::new("kill").arg(self.0.id().to_string()).status();
        assert!(status.is_ok_and(|status| status.success()), "the program has ended too early");
        self.0.wait().expect("a child can be waited for");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A program that has ended cannot be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the CPU time of a process by its own clock: `/proc/PID/stat` counts hundredths of a second, which are a
/// tenth of what many measurements take.
#[expect(
    unsafe_code,
    reason = "foreign functions that write into a place of this stack; a process that is gone is an error of theirs"
)]
pub(crate) fn cpu(id: u32) -> Duration {
    let process = id.try_into().expect("ids of processes are positive");
    let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    // SAFETY: both pointers are to values of this function.
    let is_read = unsafe {
        libc::clock_getcpuclockid(process, &raw mut clock) == 0 && libc::clock_gettime(clock, &raw mut time) == 0
    };
    assert!(is_read, "process {id} has ended");
    Duration::new(
        time.tv_sec.try_into().expect("a process has no negative time"),
        time.tv_nsec.try_into().expect("nanoseconds are below a second"),
    )
}

/// Returns the resident memory of a process in bytes.
pub(crate) fn resident(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_else(|_| panic!("process {id} has ended"));
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a running process has memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("memory is a number") * 1024
}

/// Returns the ids of the child processes.
pub(crate) fn children() -> Vec<u32> {
    let threads = fs::read_dir("/proc/self/task").expect("a process has threads");
    let children = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children.flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>()).collect()
}
