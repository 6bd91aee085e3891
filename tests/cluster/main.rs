//! End-to-end cases against a real API server: the binary `kopfd`, alone and together with Python kopf.
//!
//! `tests/cluster/run` builds the requirements and starts this. All cases share one cluster; each has its own namespace
//! and its own kinds, so they run in parallel. A case that disturbs an API server starts its own, on the same etcd or
//! on another one.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its progress")]

mod cases;
#[path = "../../apiserver/tests/differ/mod.rs"]
mod differ;
mod harness;
#[path = "../limits_operator.rs"]
mod limits_operator;

use harness::{Case, Cluster, Options, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match Options::read("cluster", std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            println!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let cases: Vec<Case> = cases::all().into_iter().filter(|case| options.selects(&case.title())).collect();
    if options.list {
        for case in &cases {
            println!("{}", case.title());
        }
        return ExitCode::SUCCESS;
    }
    if cases.is_empty() {
        println!("no case matches the filter");
        return ExitCode::from(2);
    }
    println!("starting etcd, the API server and the controllers in {}", options.directory.display());
    let cluster = Cluster::start(&options.directory.join("cluster"), &options.tools, harness::Controllers::Running);
    if run(&cases, &cluster, &options) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
