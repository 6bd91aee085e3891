//! The compared engines, and how each is started for one kind.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::harness::Cluster;
use super::support::process::Program;

/// An engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Engine {
    /// The bare kube-rs loop.
    Bare,
    /// The binary `kopfd`.
    Kopfd,
    /// Python kopf 1.44.6.
    Kopf,
    /// Another build of `kopfd`, instead of kopf.
    Other,
}

/// The variable with the path of another build.
pub(crate) const OTHER: &str = "KOPFD_BENCH_OTHER";

impl Engine {
    /// Returns a name that is valid in names of groups.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Kopfd => "kopfd",
            Self::Kopf => "kopf",
            Self::Other => "other",
        }
    }

    /// Starts the engine for the kind `things` of a group.
    pub(crate) fn start(self, cluster: &Cluster, group: &str, directory: &Path) -> Program {
        // kopfd watches its directory, where users have no logs.
        let log = directory.join(format!("{group}.log"));
        let directory = directory.join(group);
        fs::create_dir_all(&directory).expect("the directory of an operator can be made");
        let mut command = match self {
            Self::Bare => bare(cluster, group),
            Self::Kopfd => kopfd(&cluster.tools().kopfd, cluster, group, &directory, ""),
            Self::Other => {
                kopfd(Path::new(&std::env::var_os(OTHER).unwrap_or_default()), cluster, group, &directory, "")
            }
            Self::Kopf => kopf(cluster, group, &directory),
        };
        Program::start(&mut command, &log)
    }
}

fn bare(cluster: &Cluster, group: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a file"));
    command.arg(super::bare::RUN).arg(cluster.api_server().kubeconfig()).arg(group);
    command
}

/// Returns the command for a build of kopfd, with further options of the handler.
pub(crate) fn kopfd(program: &Path, cluster: &Cluster, group: &str, directory: &Path, options: &str) -> Command {
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: bench}}\nspec:\n  resources:\n    - resource: things.{group}\n      \
         script: bench.rhai\n      handlers:\n        - {{on: create, fn: create{options}}}\n"
    );
    write(&directory.join("operator.yaml"), &manifest);
    write(&directory.join("bench.rhai"), "fn create(spec) {\n    return #{ size: spec.size };\n}\n");
    let mut command = Command::new(program);
    command.arg("-A").arg("--config").arg(directory).env("KUBECONFIG", cluster.api_server().kubeconfig());
    command
}

/// Returns the command of kopf. Its Events are disabled: the other engines send none.
fn kopf(cluster: &Cluster, group: &str, directory: &Path) -> Command {
    let text = format!(
        "import kopf\n\n\n@kopf.on.startup()\ndef configure(settings, **_):\n    settings.posting.enabled = False\n\n\n\
         @kopf.on.create(\"things.{group}\", id=\"create\")\nasync def create(spec, **_):\n    return {{\"size\": spec[\"size\"]}}\n"
    );
    let file = directory.join("bench.py");
    write(&file, &text);
    let mut command = Command::new(&cluster.tools().kopf);
    command.args(["run", "--standalone", "-A"]).arg(file).env("KUBECONFIG", cluster.api_server().kubeconfig());
    command
}

pub(crate) fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
