//! Unmodified clients against the embedded API server: kubectl, the Python client, kopf, kube-rs, and Go's informers.
//!
//! `tests/clients/run` builds the requirements and starts this. Every case also runs with a real API server: commands
//! of kubectl must give the same output on both, and programs must pass on both, so that no case requires behaviour
//! that Kubernetes does not have. `differences.yaml` lists the allowed differences with reasons.

#![expect(clippy::print_stdout, reason = "this is a command of its own that prints its progress")]

mod cases;
mod context;
mod differences;
mod embedded;
mod excuse;
#[expect(dead_code, unused_imports, reason = "the suite of the operators uses all of it")]
#[path = "../cluster/harness/mod.rs"]
mod harness;
mod kubectl;
mod normal;
mod words;

use std::process::ExitCode;

use context::{THREADS, TestServers};
use harness::{Options, run_titled};

fn main() -> ExitCode {
    let options = match Options::read("clients", std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            println!("error: {message}");
            return ExitCode::from(2);
        }
    };
    let parts: Vec<cases::Part> = cases::all().into_iter().filter(|part| options.selects(&part.title())).collect();
    let titles: Vec<String> = parts.iter().map(cases::Part::title).collect();
    if options.list {
        for title in &titles {
            println!("{title}");
        }
        return ExitCode::SUCCESS;
    }
    if titles.is_empty() {
        println!("no case matches the filter");
        return ExitCode::from(2);
    }
    println!("starting both API servers in {}", options.directory.display());
    let servers = TestServers::start(&options);
    let passed = run_titled(&titles, options.threads.min(THREADS), |number| parts[number].run(number, &servers));
    let is_listed_in_vain = servers.print_differences(&titles);
    println!("{} commands of kubectl were given to both servers", servers.commands());
    if passed && !is_listed_in_vain { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
