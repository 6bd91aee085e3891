//! The embedded API server as a process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use super::harness::Client;
use super::support::process::{Program, kopfd};

/// Time limit of a start.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Interval of checks for the kubeconfig.
const LOOK: Duration = Duration::from_micros(200);

/// A listening server.
pub(crate) struct Embedded {
    /// The process.
    pub(crate) program: Program,
    /// A client of it.
    pub(crate) client: Client,
    /// The time from the start of the process to its first answer.
    pub(crate) started_in: Duration,
}

impl Embedded {
    /// Starts `kopfd apiserver`, and waits for its first answer.
    pub(crate) fn start(runtime: &Arc<Runtime>, directory: &Path) -> Self {
        let mut command = Command::new(kopfd());
        command.arg("apiserver");
        Self::start_with(command, runtime, directory)
    }

    /// Starts a command that contains the server, and waits for the server's first answer.
    pub(crate) fn start_with(mut command: Command, runtime: &Arc<Runtime>, directory: &Path) -> Self {
        let kubeconfig = directory.join("kopfd.kubeconfig");
        // The file may not exist.
        let _ = std::fs::remove_file(&kubeconfig);
        command.arg("--kubeconfig-out").arg(&kubeconfig);
        let began = Instant::now();
        let program = Program::start(&mut command, &directory.join("kopfd.log"));
        let client = Client::new(Arc::clone(runtime), &written(&kubeconfig, began));
        while client.request("GET", "/version", "application/json", None).is_err() {
            assert!(began.elapsed() < TIMEOUT, "the server does not answer; see {}", directory.display());
            sleep(LOOK);
        }
        Self { program, client, started_in: began.elapsed() }
    }
}

/// Waits until a kubeconfig is completely written.
fn written(path: &PathBuf, began: Instant) -> String {
    loop {
        if let Some(text) =
            std::fs::read_to_string(path).ok().filter(|text| text.contains("token") && text.ends_with('\n'))
        {
            return text;
        }
        assert!(began.elapsed() < TIMEOUT, "there is no {}", path.display());
        sleep(LOOK);
    }
}
