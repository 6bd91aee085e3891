//! A running operator: the binary under test, or Python kopf with the same handlers.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use super::cluster::Tools;
use super::process::Process;
use super::wait::{TIMEOUT, eventually};

/// Which engine runs the handlers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The binary under test.
    Kopfd,
    /// Python kopf 1.44.6.
    Kopf,
}

impl Engine {
    /// Returns the engine under test.
    ///
    /// With `KOPFD_CLUSTER_ENGINE=kopf` it is Python kopf: cases that then fail expect behaviour that kopf does not
    /// have.
    pub(crate) fn under_test() -> Self {
        match std::env::var("KOPFD_CLUSTER_ENGINE").as_deref() {
            Ok("kopf") => Self::Kopf,
            _ => Self::Kopfd,
        }
    }
}

/// The option of operators that listen for probes, at any free port.
pub(crate) const LIVENESS: &str = "--liveness=http://127.0.0.1:0/healthz";

/// How an operator is started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    /// The engine.
    pub(crate) engine: Engine,
    /// The directory with `operator.yaml`, or the Python file.
    pub(crate) source: PathBuf,
    /// The access to the cluster.
    pub(crate) kubeconfig: PathBuf,
    /// Names or patterns of namespaces; empty means the whole cluster.
    pub(crate) namespaces: Vec<String>,
    /// Further options of the command.
    pub(crate) options: Vec<String>,
    /// Further environment variables.
    pub(crate) variables: Vec<(String, String)>,
    /// The log file.
    pub(crate) log: PathBuf,
    /// Whether its account has exactly the rights that are derived for it.
    pub(crate) has_derived_rights: bool,
}

impl Launch {
    /// Tells whether the operator follows a peering.
    pub(crate) fn has_peers(&self) -> bool {
        self.options
            .iter()
            .any(|option| ["--peering", "--priority", "--dev"].iter().any(|known| option.starts_with(known)))
    }
}

/// A started operator. It is killed when this is dropped.
pub(crate) struct Operator {
    process: Process,
    engine: Engine,
    /// The length of the log at its start: the operators of a case share the log.
    log_before: usize,
}

impl Operator {
    /// Starts an operator without waiting.
    pub(crate) fn start(tools: &Tools, launch: &Launch) -> Self {
        let mut command = match launch.engine {
            Engine::Kopfd => kopfd(&tools.kopfd, &launch.source),
            Engine::Kopf => kopf(&tools.kopf, &launch.source),
        };
        // Cases about peers install the definitions of peerings, which the others must not notice.
        if !launch.has_peers() {
            command.arg("--standalone");
        }
        if launch.namespaces.is_empty() {
            command.arg("-A");
        }
        for namespace in &launch.namespaces {
            command.args(["-n", namespace]);
        }
        command.args(&launch.options);
        // A developer's settings must not affect the cases.
        command.env_clear();
        for kept in ["PATH", "HOME", "LANG", "RUST_BACKTRACE", "LD_LIBRARY_PATH"] {
            if let Some(value) = std::env::var_os(kept) {
                command.env(kept, value);
            }
        }
        command.env("KUBECONFIG", &launch.kubeconfig);
        command.envs(launch.variables.iter().cloned());
        let title = match launch.engine {
            Engine::Kopfd => "kopfd",
            Engine::Kopf => "kopf",
        };
        let log_before = std::fs::read(&launch.log).map_or(0, |log| String::from_utf8_lossy(&log).len());
        Self { process: Process::start(title, &mut command, &launch.log), engine: launch.engine, log_before }
    }

    /// Kills the operator.
    pub(crate) fn kill(&self) {
        self.process.kill();
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Stops the operator, and waits for its end.
    pub(crate) fn stop(&self) -> ExitStatus {
        self.process.stop(Duration::from_secs(30))
    }

    /// Returns the log of all operators that share it.
    pub(crate) fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the largest resident memory of the operator so far, in MiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.process.peak_memory()
    }

    /// Returns the exit status, if the operator has ended by itself.
    pub(crate) fn ended(&self) -> Option<ExitStatus> {
        self.process.ended()
    }

    /// Waits until an operator with the option `LIVENESS` listens, and returns its address.
    pub(crate) fn endpoints(&self) -> String {
        eventually("the operator tells its address", TIMEOUT, || {
            self.expect_running();
            let log = self.log();
            let own = log.get(self.log_before..).unwrap_or_default();
            let told = own.lines().find_map(|line| line.split_once("Probes are answered at ")?.1.split_once('('));
            told.map(|(_, rest)| rest.split(')').next().unwrap_or_default().to_owned())
        })
    }

    /// Fails the case if the operator has ended by itself.
    pub(crate) fn expect_running(&self) {
        self.process.expect_running();
    }

    /// Returns the engine.
    pub(crate) fn engine(&self) -> Engine {
        self.engine
    }
}

fn kopfd(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("--config").arg(directory);
    command
}

fn kopf(program: &Path, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["run", "--log-format=full"]).arg(file);
    command
}
