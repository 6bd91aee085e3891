//! From the save of a script to the first call of its new code, with many objects watched. All of them are handled once
//! more meanwhile.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::objects::State;
use crate::support::server::Generated;
use crate::support::table::{median, milliseconds, quantile, verdict};

const OBJECTS: usize = 10_000;

/// Saves.
const ROUNDS: usize = 9;

/// How long the files must be quiet before they are read.
const DEBOUNCE: f64 = 100.0;

/// Milliseconds to the first call, beyond that.
const GOAL: f64 = 100.0;

/// Time after the first call: all objects are handled once more.
const REST: Duration = Duration::from_secs(4);

/// Limit of the wait for a call.
const LIMIT: Duration = Duration::from_mins(1);

/// The condition is evaluated for each object.
const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: bench}
spec:
  resources:
    - resource: things.bench.kopfd.dev
      script: bench.rhai
      handlers: [{on: create, fn: create, labels: {app: chosen}}]
      timers: [{fn: beat, interval: 1h, when: 'name == \"thing-000000\"'}]
";

/// Returns a row of figures.
pub(crate) fn measure() -> Vec<Vec<String>> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let times = runtime.block_on(reloads());
    let (half, most) = (median(&times) - DEBOUNCE, quantile(&times, 1.0) - DEBOUNCE);
    vec![vec![
        format!("reload: save to first call, {OBJECTS} objects watched, after the quiet time of {DEBOUNCE:.0} ms"),
        format!("{half:.0} ms, at most {most:.0} ms"),
        format!("{GOAL:.0}"),
        verdict(half <= GOAL),
    ]]
}

/// Returns the milliseconds from each save to the first call of the new code.
async fn reloads() -> Vec<f64> {
    let directory = tempfile::tempdir().expect("a directory for the operator");
    save(directory.path(), 0);
    let manifest = crate::write(directory.path(), &[("operator.yaml", MANIFEST)]);
    let server = Generated::start(OBJECTS, State::Handled).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command.arg("--config").arg(&manifest).arg("--kubeconfig").arg(server.kubeconfig(directory.path()));
    let operator = Operator::start(&mut command);
    operator.first_call_of(0);
    server.watched().await;
    std::thread::sleep(REST);
    let mut times = Vec::new();
    for revision in 1..=ROUNDS {
        let saved_at = Instant::now();
        save(directory.path(), revision);
        times.push(milliseconds(operator.first_call_of(revision).duration_since(saved_at)));
        std::thread::sleep(REST);
    }
    times
}

fn save(directory: &Path, revision: usize) {
    let script = format!(
        "fn create(spec) {{ return #{{ size: spec.size }}; }}\nfn beat(logger) {{ logger.info(\"revision {revision} is called\"); }}\n"
    );
    std::fs::write(directory.join("bench.rhai"), script).expect("the script can be written");
}

/// A running operator. It is killed when this is dropped.
struct Operator {
    process: Child,
    /// The lines of its log, with the times of their arrival.
    lines: Receiver<(Instant, String)>,
}

impl Operator {
    fn start(command: &mut Command) -> Self {
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the operator starts");
        let log = BufReader::new(process.stderr.take().expect("the log is piped"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                // The benchmark may have ended.
                let _ = sender.send((Instant::now(), line));
            }
        });
        Self { process, lines }
    }

    fn first_call_of(&self, revision: usize) -> Instant {
        let text = format!("revision {revision} is called");
        loop {
            let (at, line) =
                self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("the log has no line with {text:?}"));
            if line.ends_with(&text) {
                return at;
            }
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // A program that has ended cannot be killed, and need not be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
