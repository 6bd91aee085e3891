//! kubectl with both servers: the same command for each, with outputs that must be equal.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::context::{CaseContext, Server, compare};
use crate::harness::{Process, TIMEOUT, child, eventually};
use crate::normal;
use crate::words::words;

/// Numbers the logs of running commands.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// The result of a command on the embedded server; the real one gave the same, unless a difference is listed.
pub(crate) struct Answer<'s, 'w> {
    context: &'s CaseContext<'w>,
    command: String,
    /// The standard output.
    pub(crate) stdout: String,
    /// The error output.
    pub(crate) stderr: String,
    code: Option<i32>,
}

/// A running command on both servers.
pub(crate) struct Running<'s, 'w> {
    context: &'s CaseContext<'w>,
    command: String,
    processes: [Process; 2],
}

impl Answer<'_, '_> {
    /// Checks that a text was printed.
    pub(crate) fn expect_output(self, text: &str) -> Self {
        let is_so = self.stdout.contains(text);
        self.check(is_so, &format!("does not print {text:?}"))
    }

    /// Checks that exactly these lines were printed, up to spaces.
    pub(crate) fn expect_lines(self, lines: &[&str]) -> Self {
        let printed = normal::text(&self.stdout);
        let is_so = printed.lines().map(str::trim).eq(lines.iter().copied());
        self.check(is_so, &format!("does not print {lines:?}"))
    }

    /// Checks that a text was not printed.
    pub(crate) fn expect_absent(self, text: &str) -> Self {
        let is_so = !self.stdout.contains(text);
        self.check(is_so, &format!("prints {text:?}"))
    }

    /// Checks that a text is in the error output.
    pub(crate) fn expect_stderr(self, text: &str) -> Self {
        let is_so = self.stderr.contains(text);
        self.check(is_so, &format!("does not complain {text:?}"))
    }

    fn check(self, is_so: bool, problem: &str) -> Self {
        if !is_so {
            let Self { context, command, stdout, stderr, .. } = &self;
            context.mismatch(format!("kubectl {command} {problem}, but:\n{stdout}{stderr}"));
        }
        self
    }
}

impl<'w> CaseContext<'w> {
    /// Runs a command that succeeds.
    pub(crate) fn kubectl(&self, command: &str) -> Answer<'_, 'w> {
        let answer = self.run(command, None);
        let is_so = answer.code == Some(0);
        answer.check(is_so, "fails")
    }

    /// Runs a command that succeeds, with a standard input.
    pub(crate) fn kubectl_with(&self, command: &str, input: &str) -> Answer<'_, 'w> {
        let answer = self.run(command, Some(input));
        let is_so = answer.code == Some(0);
        answer.check(is_so, "fails")
    }

    /// Runs a command that fails.
    pub(crate) fn kubectl_fails(&self, command: &str) -> Answer<'_, 'w> {
        let answer = self.run(command, None);
        let is_so = answer.code.is_some_and(|code| code != 0);
        answer.check(is_so, "does not fail")
    }

    /// Starts a command that keeps running.
    pub(crate) fn start_kubectl(&self, command: &str) -> Running<'_, 'w> {
        self.servers().count();
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let processes = self.servers().servers().each_ref().map(|server| {
            let log = self.directory.join(format!("kubectl-{number}-{}.log", server.title));
            Process::start(
                "kubectl",
                &mut self.prepared(Command::new(&self.servers().tools().kubernetes), server, command),
                &log,
            )
        });
        Running { context: self, command: command.to_owned(), processes }
    }

    fn run(&self, command: &str, input: Option<&str>) -> Answer<'_, 'w> {
        self.servers().count();
        let [embedded, real] = self.servers().servers();
        let [mut ours, mut theirs] = [embedded, real].map(|server| self.command(server, command));
        let (ours, theirs) = std::thread::scope(|scope| {
            let other = scope.spawn(|| output(&mut theirs, input));
            (output(&mut ours, input), other.join().expect("kubectl can be waited for"))
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let [ours, theirs] =
            [ours, theirs].map(|output| (text(&output.stdout), text(&output.stderr), output.status.code()));
        let shown = |(stdout, stderr, code): &(String, String, Option<i32>)| {
            let stdout = normal::output(stdout);
            normal::text(&format!("exit {}\n{stdout}\n-- errors\n{stderr}", code.unwrap_or(-1)))
        };
        self.judge(command, &shown(&ours), &shown(&theirs));
        Answer { context: self, command: command.to_owned(), stdout: ours.0, stderr: ours.1, code: ours.2 }
    }

    fn judge(&self, command: &str, ours: &str, theirs: &str) {
        if ours == theirs {
            return;
        }
        let excuse = self.servers().excuse(&self.title, command);
        if !excuse.is_some_and(|excuse| excuse.covers(ours, theirs)) {
            self.mismatch(format!("kubectl {command}\n{}", compare(ours, theirs)));
        }
        if let Some(pattern) = excuse.and_then(|excuse| excuse.unused(ours, theirs)) {
            self.mismatch(format!(
                "kubectl {command}: {pattern:?} is listed as missing, but both servers have it, or none"
            ));
        }
    }

    /// Returns a command with a time limit: one that waits in vain must not block the suite.
    fn command(&self, server: &Server, line: &str) -> Command {
        let mut command = Command::new("timeout");
        // In the foreground, it stays in the process group of the suite, which is killed at the end.
        command.args(["--foreground", "--kill-after=1", "60"]).arg(&self.servers().tools().kubernetes);
        self.prepared(command, server, line)
    }

    fn prepared(&self, mut command: Command, server: &Server, line: &str) -> Command {
        command
            .arg("kubectl")
            .arg(format!("--namespace={}", self.namespace))
            .args(words(line))
            .current_dir(&self.directory)
            // A developer's settings must not affect the cases.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &server.home)
            .env("KUBECONFIG", &server.kubeconfig)
            .env("KUBE_EDITOR", format!("sed -i -f {}", self.directory.join("editor.sed").display()));
        command
    }
}

impl Running<'_, '_> {
    /// Waits until both have printed a text.
    pub(crate) fn until(&self, text: &str) {
        for process in &self.processes {
            eventually(&format!("kubectl {} writes {text:?}", self.command), TIMEOUT / 2, || {
                process.log().contains(text).then_some(()).or_else(|| {
                    process.expect_running();
                    None
                })
            });
        }
    }

    /// Tells whether both have printed a text.
    pub(crate) fn seen(&self, text: &str) -> bool {
        self.logs().iter().all(|log| log.contains(text))
    }

    /// Returns both outputs, that of the embedded server first.
    pub(crate) fn logs(&self) -> [String; 2] {
        self.processes.each_ref().map(Process::log)
    }

    /// Waits until both have succeeded, compares their outputs, and returns that of the embedded server.
    pub(crate) fn finish(self) -> String {
        for process in &self.processes {
            let status = eventually(&format!("kubectl {} ends", self.command), TIMEOUT / 2, || process.ended());
            assert!(status.success(), "kubectl {} ends with {status}:\n{}", self.command, process.log());
        }
        self.judge()
    }

    /// Ends both, compares their outputs, and returns that of the embedded server.
    pub(crate) fn end(self) -> String {
        // Lets both receive simultaneous events.
        std::thread::sleep(Duration::from_millis(300));
        self.processes.iter().for_each(Process::kill);
        self.judge()
    }

    fn judge(&self) -> String {
        let [ours, theirs] = self.logs();
        self.context.judge(&self.command, &normal::text(&ours), &normal::text(&theirs));
        ours
    }
}

fn output(command: &mut Command, input: Option<&str>) -> Output {
    match input {
        Some(input) => child::output_with_input(command, input),
        None => child::output(command),
    }
}
