//! The embedded API server: its speed compared with a real one, its memory, its start, and an operator on it.
//!
//! `benches/run apiserver` builds the real one and starts this; without it (`cargo bench --bench apiserver`), its
//! columns are omitted.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its figures")]

#[path = "apiserver/embedded.rs"]
mod embedded;
#[path = "cluster/harness.rs"]
mod harness;
#[allow(dead_code, reason = "on a real server, patches are counted, too")]
#[path = "cluster/load.rs"]
mod load;
#[path = "apiserver/operator.rs"]
mod operator;
#[path = "apiserver/rates.rs"]
mod rates;
#[path = "apiserver/size.rs"]
mod size;
mod support;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use harness::{Cluster, Controllers, Tools};
use support::ratios::Ratios;

fn main() -> ExitCode {
    kopfd::http::install_crypto_provider();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let is_chosen = |part: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == part);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-apiserver");
    std::fs::create_dir_all(&directory).expect("the directory of the figures can be made");
    let runtime = Arc::new(
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime"),
    );
    let mut ratios = Ratios::default();
    if is_chosen("rates") {
        let real = std::env::var_os("KOPFD_CLUSTER_KUBERNETES").map(|kubernetes| {
            let tools = Tools {
                kubernetes: kubernetes.into(),
                kopfd: support::process::kopfd(),
                kopf: Path::new("").to_owned(),
            };
            Cluster::start(&directory.join("cluster"), &tools, Controllers::Absent)
        });
        rates::measure(real.as_ref(), &runtime, &directory, &mut ratios);
    }
    if is_chosen("size") {
        size::measure(&runtime, &directory);
    }
    if is_chosen("operator") {
        operator::measure(&runtime, &directory);
    }
    if ratios == Ratios::default() { ExitCode::SUCCESS } else { ratios.finish() }
}
