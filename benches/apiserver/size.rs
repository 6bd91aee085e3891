//! The start, the memory for each object, and the size of the binary.

use std::path::Path;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::embedded::Embedded;
use super::harness::Kind;
use super::support::objects::{SIZE, spec};
use super::support::table::{median, megabytes, milliseconds, print, row, verdict};

const STARTS: usize = 15;

const OBJECTS: usize = 10_000;

/// Time for the server to release memory.
const REST: Duration = Duration::from_secs(3);

/// Measures, and prints a table.
pub(crate) fn measure(runtime: &Arc<Runtime>, directory: &Path) {
    let starts: Vec<f64> = (0..STARTS).map(|_| milliseconds(Embedded::start(runtime, directory).started_in)).collect();
    let start = median(&starts);
    let (empty, each) = memory(runtime, directory);
    // The goal is that of the dynamically linked binary without the profile of operators.
    let binary = megabytes(std::fs::metadata(env!("CARGO_BIN_EXE_kopfd")).expect("the binary is there").len());
    let mut rows = vec![row(["embedded API server", "figure", "goal", ""])];
    let mut line = |title: &str, figure: String, goal: &str, is_reached: bool| {
        rows.push(row([title, &figure, goal, &verdict(is_reached)]));
    };
    line("start to the first answer, ms", format!("{start:.0}"), "50", start <= 50.0);
    line(&format!("memory for each of {OBJECTS} objects of 5 KiB, KiB"), format!("{each:.1}"), "8", each <= 8.0);
    line("binary without the profile of operators, MB", format!("{binary:.1}"), "30", binary <= 30.0);
    rows.push(row(["resident without objects, MB", &format!("{:.1}", megabytes(empty)), "", ""]));
    print(&rows);
    println!();
}

/// Returns the resident bytes of an empty server, and the KiB for each object.
fn memory(runtime: &Arc<Runtime>, directory: &Path) -> (u64, f64) {
    let server = Embedded::start(runtime, directory);
    let kind = Kind::of_group("size.bench.kopfd.dev");
    let (path, definition) = kind.definition();
    server.client.ensure(path, &definition);
    sleep(REST);
    let empty = server.program.resident();
    let (client, _) = server.client.parts();
    let collection = kind.collection("default");
    let make = |number: usize| {
        let object = json!({
            "apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": format!("thing-{number}")}, "spec": spec(SIZE - 500),
        });
        let request = http::Request::post(&collection).header("content-type", "application/json");
        client
            .request::<Value>(request.body(object.to_string().into_bytes()).expect("a request from well-formed parts"))
    };
    let all = stream::iter(0..OBJECTS).map(make).buffer_unordered(32).for_each(|answer| async move {
        answer.expect("the object is made");
    });
    runtime.block_on(all);
    sleep(REST);
    let each = server.program.resident().saturating_sub(empty) as f64 / OBJECTS as f64 / 1024.0;
    (empty, each)
}
