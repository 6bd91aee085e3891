//! The embedded API server as a process: the binary, a socket with TLS, and its kubeconfig.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::runtime::Runtime;

use crate::harness::{Client, Process, TIMEOUT, eventually};

/// A running `kopfd apiserver`. It is killed when this is dropped.
pub(crate) struct Embedded {
    process: Process,
    program: PathBuf,
    directory: PathBuf,
    arguments: Vec<OsString>,
    runtime: Arc<Runtime>,
}

impl Embedded {
    /// Starts a server with its files in a directory, and waits until it answers.
    pub(crate) fn start(program: &Path, directory: &Path, runtime: &Arc<Runtime>) -> Self {
        Self::launch(program, directory, runtime, &[])
    }

    /// Starts a server with durable objects.
    pub(crate) fn start_with_data(program: &Path, directory: &Path, runtime: &Arc<Runtime>) -> Self {
        Self::launch(program, directory, runtime, &["--data".into(), directory.join("data").into_os_string()])
    }

    /// Starts a server whose watches end in all possible ways, one after the other, before they continue undisturbed.
    pub(crate) fn start_with_broken_watches(
        program: &Path,
        directory: &Path,
        runtime: &Arc<Runtime>,
        resource: &str,
    ) -> Self {
        let server = Self::launch(program, directory, runtime, &["--control".into()]);
        let drops = ["clean", "rst", "mid-line"].map(|how| json!({"watchDrop": {"afterMs": 400, "how": how}}));
        let ends = [
            json!({"watchExpire": {"how": "event"}}),
            json!({"watchExpire": {"how": "http"}}),
            json!({"watchError": {"code": 500}}),
        ];
        for action in drops.into_iter().chain(ends) {
            let rule = json!({"match": {"verb": "watch", "resource": resource}, "times": 1, "action": action});
            server.client().create("/_dev/faults", &rule);
        }
        server
    }

    fn launch(program: &Path, directory: &Path, runtime: &Arc<Runtime>, arguments: &[OsString]) -> Self {
        fs::create_dir_all(directory).expect("the directory of the server can be made");
        let process = spawn(program, directory, arguments, 0);
        let server = Self {
            process,
            program: program.to_owned(),
            directory: directory.to_owned(),
            arguments: arguments.to_vec(),
            runtime: Arc::clone(runtime),
        };
        server.wait_until_ready();
        server
    }

    /// Returns the number of fired faults.
    pub(crate) fn strikes(&self) -> usize {
        let log = self.client().get("/_dev/log").expect("a server with control has a log");
        log["firings"].as_array().map_or(0, Vec::len)
    }

    /// Kills or stops the server, and starts it again at the same address.
    pub(crate) fn restart(&mut self, is_crash: bool) {
        let port = self.port();
        if is_crash {
            self.process.kill();
        } else {
            assert!(self.process.stop(Duration::from_secs(10)).success(), "the server ends without an error");
        }
        self.process = spawn(&self.program, &self.directory, &self.arguments, port);
        self.wait_until_ready();
    }

    /// Fails the case if the server has ended.
    pub(crate) fn expect_running(&self) {
        self.process.expect_running();
    }

    /// Returns the path of the server's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Returns an administrator's client.
    pub(crate) fn client(&self) -> Client {
        let text = fs::read_to_string(self.kubeconfig()).expect("the server has written its kubeconfig");
        Client::new(Arc::clone(&self.runtime), &text)
    }

    fn wait_until_ready(&self) {
        // The kubeconfig is written when the socket is open; that of an earlier start is overwritten before the line is
        // printed.
        let ready = || self.process.log().lines().filter(|line| line.contains("listens on")).count();
        eventually("the embedded server listens", TIMEOUT, || {
            self.process.expect_running();
            (ready() > 0).then_some(())
        });
    }

    fn port(&self) -> u16 {
        let log = self.process.log();
        let line = log.lines().find(|line| line.contains("listens on")).expect("the server has told its address");
        let port = line.trim_end_matches('.').rsplit(':').next().and_then(|port| port.parse().ok());
        port.expect("the address ends with the port")
    }
}

fn spawn(program: &Path, directory: &Path, arguments: &[OsString], port: u16) -> Process {
    let log = directory.join("server.log");
    // A restart begins a new log, so that its line can be awaited.
    drop(fs::rename(&log, directory.join("server-before.log")));
    let mut command = Command::new(program);
    command
        .args(["apiserver", &format!("--port={port}")])
        .arg("--kubeconfig-out")
        .arg(directory.join("kubeconfig"))
        .args(arguments);
    Process::start("kopfd apiserver", &mut command, &log)
}
