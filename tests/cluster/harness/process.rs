//! A child process with its output in a file, which is killed with its owner.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::wait::eventually;

/// A started program. It is killed when this is dropped.
pub(crate) struct Process {
    child: Mutex<Child>,
    log: PathBuf,
    title: String,
}

impl Process {
    /// Starts a program that appends both of its output streams to a file.
    pub(crate) fn start(title: &str, command: &mut Command, log: &Path) -> Self {
        let output: File = OpenOptions::new().create(true).append(true).open(log).expect("the log can be written");
        let errors = output.try_clone().expect("the log can be written twice");
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {title} ({}): {error}", command.get_program().display()));
        Self { child: Mutex::new(child), log: log.to_owned(), title: title.to_owned() }
    }

    /// Returns the exit status, if the program has ended.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.child().try_wait().expect("the state of a child can be asked for")
    }

    /// Returns the largest resident memory of the program so far, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child().id())).expect("the program runs");
        let peak = status
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak.expect("the kernel tells the peak memory") / 1024
    }

    /// Kills the program.
    pub(crate) fn kill(&self) {
        let mut child = self.child();
        // A program that has ended cannot be killed, and need not be.
        let _ = child.kill();
        child.wait().expect("a killed child ends");
    }

    /// Sends a signal by its name, such as `TERM`, `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child().id().to_string();
        let status =
            Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("the command `kill` is there");
        assert!(status.success(), "signal {name} did not reach {}", self.title);
    }

    /// Stops the program, and waits for its end.
    pub(crate) fn stop(&self, within: Duration) -> ExitStatus {
        self.signal("TERM");
        eventually(&format!("{} ends after SIGTERM", self.title), within, || self.ended())
    }

    /// Returns the output of the program.
    pub(crate) fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Fails the case if the program has ended, and shows the end of its log.
    pub(crate) fn expect_running(&self) {
        if let Some(status) = self.ended() {
            panic!("{} has ended ({status}); its last words:\n{}", self.title, self.output_tail());
        }
    }

    /// Returns the last lines of the log.
    pub(crate) fn output_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().expect("no thread panics while holding a child")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
