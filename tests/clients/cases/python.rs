//! The official Python client, and its dynamic client. The programs are in `python/`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::cases::{Case, cases};
use crate::context::{CaseContext, Server};
use crate::harness::{Process, eventually};

pub(crate) const CASES: &[Case] =
    cases![Each: the_python_client_does_its_everyday_work, the_python_client_watches_and_elects_a_leader];

fn the_python_client_does_its_everyday_work(context: &CaseContext<'_>, server: &Server) {
    run(context, server, "everyday.py", 8);
}

fn the_python_client_watches_and_elects_a_leader(context: &CaseContext<'_>, server: &Server) {
    run(context, server, "watching.py", 5);
}

/// Runs a program, which must pass all of its parts.
fn run(context: &CaseContext<'_>, server: &Server, name: &str, parts: usize) {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/python").join(name);
    let mut command = Command::new(context.servers().python());
    command
        .arg(program)
        .arg(&context.namespace)
        .env("KUBECONFIG", &server.kubeconfig)
        .env("HOME", &server.home)
        .env("TMPDIR", &server.home);
    let process = Process::start(name, &mut command, &context.directory.join("python.log"));
    let status = eventually(&format!("{name} ends"), Duration::from_mins(2), || process.ended());
    assert!(status.success(), "{name} ends with {status}:\n{}", process.log());
    assert_eq!(process.log().lines().filter(|line| line.starts_with("done:")).count(), parts, "{}", process.log());
}
