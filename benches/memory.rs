//! The memory of the binary `kopfd` with very many idle objects, on a generated API server.
//!
//! `cargo bench --bench memory`; benchmarks on a real API server are in `benches/cluster.rs`.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its figures")]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::objects::State;
use support::process::Program;
use support::server::Generated;
use support::table::{megabytes, print, row, verdict};

/// Goal of the memory of a process without objects, in MB.
const IDLE_GOAL: f64 = 15.0;

/// Goal of the memory of an idle object, in bytes.
const OBJECT_GOAL: f64 = 600.0;

/// Time between the last object and the measurement: workers end after five seconds, and their memory is released.
const REST: Duration = Duration::from_secs(9);

const COUNTS: [usize; 3] = [0, 20_000, 100_000];

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory for the operator");
    let manifest = write_operator(directory.path());
    let mut rows = vec![row(["objects of 5 KiB", "count", "resident MB", "bytes each", "goal", ""])];
    for (title, state) in [("matched by nothing", State::Unmatched), ("handled earlier", State::Handled)] {
        let mut idle = 0;
        for count in COUNTS {
            let resident = runtime.block_on(measure(count, state, &manifest, directory.path()));
            if count == 0 {
                idle = resident;
                let is_reached = megabytes(resident) <= IDLE_GOAL;
                rows.push(row([title, "0", &format!("{:.1}", megabytes(resident)), "", "15 MB", &verdict(is_reached)]));
                continue;
            }
            let each = resident.saturating_sub(idle) as f64 / count as f64;
            let figures = [count.to_string(), format!("{:.1}", megabytes(resident)), format!("{each:.0}")];
            rows.push(row([title, &figures[0], &figures[1], &figures[2], "600", &verdict(each <= OBJECT_GOAL)]));
        }
    }
    print(&rows);
}

/// Returns the resident memory of an idle operator that has received all objects.
async fn measure(count: usize, state: State, manifest: &Path, directory: &Path) -> u64 {
    let server = Generated::start(count, state).await;
    let log = directory.join("kopfd.log");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command.arg("--config").arg(manifest).arg("--kubeconfig").arg(server.kubeconfig(directory));
    let program = Program::start(&mut command, &log);
    server.watched().await;
    tokio::time::sleep(REST).await;
    assert_eq!(server.patches(), 0, "idle objects are left alone; see {}", log.display());
    program.resident()
}

fn write_operator(directory: &Path) -> PathBuf {
    let manifest = "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: bench}\nspec:\n  resources:\n    - resource: things.bench.kopfd.dev\n      \
                    script: bench.rhai\n      handlers:\n        - {on: create, fn: create, labels: {app: chosen}}\n";
    std::fs::write(directory.join("bench.rhai"), "fn create(spec) {\n    return #{ size: spec.size };\n}\n")
        .expect("the script can be written");
    let path = directory.join("operator.yaml");
    std::fs::write(&path, manifest).expect("the manifest can be written");
    path
}
