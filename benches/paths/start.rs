//! The start of an operator with 200 handlers: the check of its manifest and scripts, and the time to its first list.
//! And the start of an operator with an index up to its first handler, which waits for the whole index.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::objects::State;
use crate::support::process::Program;
use crate::support::server::Generated;
use crate::support::table::{median, milliseconds, verdict};

const HANDLERS: usize = 200;

const GOAL: f64 = 150.0;

const ROUNDS: usize = 15;

/// Indexed objects.
const INDEXED: usize = 10_000;

/// The bytes of an indexed object.
const INDEXED_SIZE: usize = 2 << 10;

/// Milliseconds to the first handler of an operator with an index.
const INDEXED_GOAL: f64 = 2_000.0;

const INDEXED_ROUNDS: usize = 5;

/// The patch of its creation shows that the handler was called.
const INDEXED_OPERATOR: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: bench}
spec:
  resources:
    - resource: things.bench.kopfd.dev
      script: bench.rhai
      handlers: [{on: create, fn: create}]
      indexes: [{fn: by_tier}]
";

const INDEXED_SCRIPT: &str =
    "fn by_tier(labels, name, spec) { return entry(labels.tier, #{ name: name, image: spec.image }); }
fn create(by_tier) { return by_tier[\"backend\"].len(); }
";

/// Returns rows of figures.
pub(crate) fn measure() -> Vec<Vec<String>> {
    let directory = tempfile::tempdir().expect("a directory for the operator");
    let manifest = crate::write(directory.path(), &[("operator.yaml", &manifest()), ("bench.rhai", &script())]);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let checks: Vec<f64> = (0..ROUNDS).map(|_| check(&manifest)).collect();
    let starts: Vec<f64> = (0..ROUNDS).map(|_| runtime.block_on(start(&manifest, directory.path()))).collect();
    let figure = |title: &str, values: &[f64]| {
        let value = median(values);
        vec![
            format!("{title} of {HANDLERS} handlers"),
            format!("{value:.0} ms"),
            format!("{GOAL:.0}"),
            verdict(value <= GOAL),
        ]
    };
    let indexed: Vec<f64> = (0..INDEXED_ROUNDS).map(|_| runtime.block_on(indexed())).collect();
    let value = median(&indexed);
    let indexed = vec![
        format!("`kopfd run` up to the first handler, {INDEXED} objects of 2 KiB indexed"),
        format!("{value:.0} ms"),
        format!("{INDEXED_GOAL:.0}"),
        verdict(value <= INDEXED_GOAL),
    ];
    vec![figure("`kopfd check`", &checks), figure("`kopfd run` up to the first list", &starts), indexed]
}

async fn indexed() -> f64 {
    let directory = tempfile::tempdir().expect("a directory for the operator");
    let manifest =
        crate::write(directory.path(), &[("operator.yaml", INDEXED_OPERATOR), ("bench.rhai", INDEXED_SCRIPT)]);
    let server = Generated::sized(INDEXED, State::New, INDEXED_SIZE).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command.arg("--config").arg(&manifest).arg("--kubeconfig").arg(server.kubeconfig(directory.path()));
    let began = Instant::now();
    let _program = Program::start(&mut command, &directory.path().join("kopfd.log"));
    milliseconds(server.patched_at().await.duration_since(began))
}

fn check(manifest: &Path) -> f64 {
    let began = Instant::now();
    let status = Command::new(env!("CARGO_BIN_EXE_kopfd"))
        .arg("check")
        .arg("--config")
        .arg(manifest)
        .stdout(Stdio::null())
        .status();
    assert!(status.is_ok_and(|status| status.success()), "the manifest has no mistakes");
    milliseconds(began.elapsed())
}

async fn start(manifest: &Path, directory: &Path) -> f64 {
    let server = Generated::start(0, State::New).await;
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command.arg("--config").arg(manifest).arg("--kubeconfig").arg(server.kubeconfig(directory));
    let began = Instant::now();
    let _program = Program::start(&mut command, &directory.join("kopfd.log"));
    milliseconds(server.listed_at().await.duration_since(began))
}

fn manifest() -> String {
    let mut text = "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: bench}\nspec:\n  resources:\n    - resource: things.bench.kopfd.dev\n      \
                    script: bench.rhai\n      handlers:\n"
        .to_owned();
    for number in 0..HANDLERS {
        let on = ["create", "update", "delete", "resume"][number % 4];
        let line = format!(
            "        - {{on: {on}, id: handler-{number}, fn: handle_{number}, labels: {{part: p{number}}}, retries: 5, timeout: 60s}}"
        );
        writeln!(text, "{line}").expect("texts can be written to");
    }
    text
}

fn script() -> String {
    let mut text = String::new();
    for number in 0..HANDLERS {
        let function = format!(
            "fn handle_{number}(spec, name, patch, logger, retry) {{
    let size = spec.size ?? {number};
    if retry > 3 && size > 100 {{
        throw permanent(`${{name}} is too large: ${{size}}`);
    }}
    for part in spec.parts ?? [] {{
        if part.name == \"part-{number}\" {{
            logger.info(`${{name}} has the part ${{part.name}}`);
            patch.status.part = part.name;
        }}
    }}
    return #{{ size: size, number: {number} }};
}}

"
        );
        text += &function;
    }
    text
}
