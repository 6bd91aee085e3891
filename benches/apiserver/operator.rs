//! `kopfd dev`: the time until it is ready, and from a creation to its status.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::embedded::Embedded;
use super::load::{Load, Pace};
use super::support::process::kopfd;
use super::support::table::{median, milliseconds, print, quantile, row, verdict};

const GROUP: &str = "dev.bench.kopfd.dev";

const OBJECTS: usize = 1_000;

/// The time between two creations.
const PAUSE: Duration = Duration::from_millis(5);

const STARTS: usize = 7;

/// Measures, and prints a table.
pub(crate) fn measure(runtime: &Arc<Runtime>, directory: &Path) {
    let directory = directory.join("operator");
    std::fs::create_dir_all(&directory).expect("the directory of an operator can be made");
    write(&directory);
    let starts: Vec<f64> = (0..STARTS).map(|_| milliseconds(ready(runtime, &directory))).collect();
    let server = Embedded::start_with(command(&directory), runtime, &directory);
    let load = Load::new(&server.client, GROUP);
    load.make("beacon", 1, Pace::Burst, 0);
    load.wait();
    sleep(Duration::from_secs(1));
    let began = load.make("thing", OBJECTS, Pace::Steady(PAUSE), 0);
    let done = load.wait();
    let times: Vec<f64> = began.iter().map(|(name, began)| milliseconds(done[name].duration_since(*began))).collect();
    let (half, most, start) = (quantile(&times, 0.5), quantile(&times, 0.99), median(&starts));
    print(&[
        row(["kopfd dev", "figure", "goal", ""]),
        row(["start to the first handled object, ms", &format!("{start:.0}"), "300", &verdict(start <= 300.0)]),
        row(["1,000 creations seen to status, p50, ms", &format!("{half:.1}"), "", ""]),
        row(["1,000 creations seen to status, p99, ms", &format!("{most:.1}"), "20", &verdict(most <= 20.0)]),
    ]);
    println!();
}

/// Returns the time from the start to the end of `--once` with one object.
fn ready(runtime: &Arc<Runtime>, directory: &Path) -> Duration {
    let began = std::time::Instant::now();
    let mut command = command(directory);
    command.arg("--apply").arg(directory.join("thing.yaml"));
    let server = Embedded::start_with(command, runtime, directory);
    let path = format!("/apis/{GROUP}/v1/namespaces/default/things/first");
    while server.client.get(&path).is_none_or(|object| object["status"]["create"].is_null()) {
        sleep(Duration::from_micros(500));
    }
    began.elapsed()
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new(kopfd());
    command.arg("dev").arg("--config").arg(directory.join("operator.yaml"));
    command
}

fn write(directory: &Path) {
    let definition = super::harness::Kind::of_group(GROUP).definition().1;
    let files = [
        (
            "operator.yaml",
            format!(
                "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: bench}}\nspec:\n  crds: [crd.yaml]\n  resources:\n    - resource: \
                 things.{GROUP}\n      script: bench.rhai\n      handlers:\n        - {{on: create, fn: create}}\n"
            ),
        ),
        ("bench.rhai", "fn create(spec) {\n    return #{ size: spec.size };\n}\n".to_owned()),
        ("crd.yaml", format!("{definition:#}\n")),
        ("thing.yaml", format!("apiVersion: {GROUP}/v1\nkind: Thing\nmetadata: {{name: first}}\nspec: {{size: 3}}\n")),
    ];
    for (name, text) in files {
        std::fs::write(directory.join(name), text).expect("the files of an operator can be written");
    }
}
