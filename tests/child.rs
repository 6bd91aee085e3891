//! Processes started by tests: killed when a test ends or panics, or after a time limit, which also ends every read of
//! their output.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time limit of any wait: the machine may be busy.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Time limit of a process: longer than all consecutive waits of a test.
pub(crate) const LIFETIME: Duration = Duration::from_mins(4);

pub(crate) struct Process {
    child: Arc<Mutex<Child>>,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    /// Ends the thread that kills the process after its lifetime.
    _ended: Sender<()>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_for(command, LIFETIME)
    }

    pub(crate) fn start_for(command: &mut Command, lifetime: Duration) -> Self {
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (ended, end) = channel();
        let (killed, name) = (Arc::clone(&child), format!("{command:?}"));
        thread::spawn(move || {
            if end.recv_timeout(lifetime) == Err(RecvTimeoutError::Timeout) {
                // The error for a process that has just ended can be ignored.
                let _ = killed.lock().kill();
                panic!("{name} is killed: it has run for {lifetime:?}");
            }
        });
        Self { child, stdin, stdout, stderr, _ended: ended }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.lock().id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.lock().try_wait().expect("a child can be waited for").is_none()
    }

    /// Returns the exit status, and fails if the process does not end within a limit.
    pub(crate) fn wait(&self, limit: Duration) -> ExitStatus {
        let began = Instant::now();
        while began.elapsed() < limit {
            if let Some(status) = self.child.lock().try_wait().expect("a child can be waited for") {
                return status;
            }
            thread::sleep(Duration::from_millis(2));
        }
        panic!("the process has not ended within {limit:?}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock();
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Runs a command to its end. Like `Command::output`, but with a time limit.
pub(crate) fn output(command: &mut Command) -> Output {
    collect(Process::start(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped())))
}

/// Runs a command with an input to its end.
pub(crate) fn output_with_input(command: &mut Command, input: &str) -> Output {
    let mut process = Process::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut pipe = process.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes()).expect("the command reads its input");
    drop(pipe);
    collect(process)
}

fn collect(mut process: Process) -> Output {
    let (mut stdout, mut stderr) = (process.stdout.take().expect("a pipe"), process.stderr.take().expect("a pipe"));
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        stderr.read_to_end(&mut text).map(|_| text)
    });
    let mut text = Vec::new();
    stdout.read_to_end(&mut text).expect("the output can be read");
    let stderr = errors.join().expect("nothing panics").expect("the errors can be read");
    Output { status: process.wait(LIMIT), stdout: text, stderr }
}

/// Ends this process if it is not dropped in time: a test without child processes may also wait forever.
pub(crate) struct Deadline {
    _met: Sender<()>,
}

impl Deadline {
    pub(crate) fn of_test() -> Self {
        let (met, end) = channel();
        let test = thread::current().name().unwrap_or_default().to_owned();
        thread::spawn(move || {
            if end.recv_timeout(LIFETIME) == Err(RecvTimeoutError::Timeout) {
                // Not by a macro, whose output the test harness captures.
                let _ = writeln!(std::io::stderr(), "{test} has not ended within {LIFETIME:?}");
                std::process::exit(101);
            }
        });
        Self { _met: met }
    }
}

fn exists(id: u32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}

#[test]
fn a_process_is_killed_when_its_test_panics() {
    let id = Arc::new(Mutex::new(0));
    let noted = Arc::clone(&id);
    let panicked = thread::spawn(move || {
        let process = Process::start(Command::new("sleep").arg("600"));
        *noted.lock() = process.id();
        assert!(exists(process.id()));
        panic!("as a test does that fails");
    });
    panicked.join().unwrap_err();
    assert!(!exists(*id.lock()));
}

#[test]
fn a_process_that_runs_for_too_long_is_killed_and_its_output_ends() {
    let mut command = Command::new("sleep");
    let mut process = Process::start_for(command.arg("600").stdout(Stdio::piped()), Duration::from_millis(50));
    let mut printed = String::new();
    process.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert!(printed.is_empty() && !process.wait(LIMIT).success());
}

/// Sends an HTTP request to a process over a connection of its own, and returns the status and the whole answer.
pub(crate) fn ask(address: &str, method: &str, path: &str) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.set_read_timeout(Some(LIMIT)).expect("the limit is not zero");
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("a short request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer ends, and is text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no answer of HTTP: {answer}")), answer)
}
