//! Measures processes: their CPU time and their memory.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The unit of times in `/proc/PID/stat`, which is fixed on Linux.
const TICK: Duration = Duration::from_millis(10);

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

/// Returns the CPU time of a process.
pub(crate) fn cpu(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_else(|_| panic!("process {id} has ended"));
    // The name in parentheses may have spaces.
    let (_, fields) = stat.rsplit_once(')').expect("the name stands in parentheses");
    let ticks: u32 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u32>().expect("times are numbers")).sum();
    TICK * ticks
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
