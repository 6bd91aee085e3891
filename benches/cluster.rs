//! kopfd on a real API server, compared with a bare kube-rs loop and Python kopf.
//!
//! `benches/run` builds the requirements and starts this. All engines do the same work in turn: one creation handler
//! that returns a value; objects with a status subresource, so two patches for each object.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its figures")]

#[path = "cluster/background.rs"]
mod background;
#[path = "cluster/bare.rs"]
mod bare;
#[path = "cluster/engine.rs"]
mod engine;
#[path = "cluster/harness.rs"]
mod harness;
#[path = "cluster/idle.rs"]
mod idle;
#[path = "cluster/load.rs"]
mod load;
#[path = "cluster/speed.rs"]
mod speed;
mod support;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::Engine;
use harness::{Cluster, Controllers, Tools};
use support::ratios::Ratios;

fn main() -> ExitCode {
    kopfd::http::install_crypto_provider();
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [first, kubeconfig, group] = arguments.as_slice()
        && first == bare::RUN
    {
        bare::run(Path::new(kubeconfig), group);
        return ExitCode::SUCCESS;
    }
    let program = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let Some(kubernetes) = program("KOPFD_CLUSTER_KUBERNETES") else {
        println!("KOPFD_CLUSTER_KUBERNETES is not set; start this by benches/run");
        return ExitCode::FAILURE;
    };
    let kopf = program("KOPFD_CLUSTER_KOPF");
    let tools = Tools { kubernetes, kopfd: support::process::kopfd(), kopf: kopf.clone().unwrap_or_default() };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench");
    let cluster = Cluster::start(&directory.join("cluster"), &tools, Controllers::Absent);
    let mut ratios = Ratios::default();
    let is_chosen = |part: &str| arguments.is_empty() || arguments.iter().any(|argument| argument == part);
    if is_chosen("background") {
        background::measure(&cluster, kopf.is_some(), &directory, &mut ratios);
    }
    if is_chosen("speed") {
        let third = std::env::var_os(engine::OTHER).map(|_| Engine::Other).or(kopf.map(|_| Engine::Kopf));
        speed::measure(&cluster, third, &directory, &mut ratios);
    }
    if is_chosen("memory") {
        idle::measure(&cluster, &directory, &mut ratios);
    }
    ratios.finish()
}
